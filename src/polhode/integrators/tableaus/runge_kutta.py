"""Coefficients of explicit Runge–Kutta methods; every tableau checks its order when it is made."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Hashable, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Tableau:
    """An explicit Runge–Kutta method, optionally with an embedded solution and a continuous extension.

    Tableaus of equal numbers are equal.

    - `A`: strictly lower triangular (s, s); `b`: weights (s,); c = A·1.
    - `order`: classical order, checked against all order conditions.
    - `b_hat`, `order_hat`: embedded weights and their order.
    - `dense`, `order_dense`: polynomial weights b_i(σ) = Σ_k dense[i, k] σ^(k+1) of a continuous extension.
    """

    name: str
    A: np.ndarray
    b: np.ndarray
    order: int
    b_hat: np.ndarray | None = None
    order_hat: int | None = None
    dense: np.ndarray | None = None
    order_dense: int | None = None

    def __post_init__(self) -> None:
        if self.A.shape != (self.stages, self.stages) or np.triu(self.A).any():
            raise ValueError(f"tableau {self.name}: A must be strictly lower triangular of shape (s, s), s = len(b)")
        self._check("b", self.b, self.order)
        if self.b_hat is not None and self.order_hat is not None:
            self._check("b_hat", self.b_hat, self.order_hat)
        if self.dense is not None and not np.allclose(self.dense.sum(axis=1), self.b, rtol=0, atol=1e-14):
            raise ValueError(f"tableau {self.name}: dense output does not end at b")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tableau) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Hashable, ...]:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return tuple((x.shape, x.dtype.str, x.tobytes()) if isinstance(x, np.ndarray) else x for x in values)

    @property
    def stages(self) -> int:
        """Number of stages s."""
        return len(self.b)

    @property
    def c(self) -> np.ndarray:
        """Nodes."""
        return self.A.sum(axis=1)

    @property
    def first_same_as_last(self) -> bool:
        """Whether the last stage is evaluated at the new point."""
        return bool(np.array_equal(self.A[-1], self.b)) and self.stages > 1

    def _check(self, what: str, weights: np.ndarray, order: int) -> None:
        for tree in (t for p in range(1, order + 1) for t in _trees(p)):
            defect = float(weights @ _elementary_weight(tree, self.A)) - 1.0 / _density(tree)
            if abs(defect) > 1e-13:
                raise ValueError(f"tableau {self.name}: {what} misses an order-{_size(tree)} condition by {defect:.1e}")


# A rooted tree is the sorted tuple of its root's subtrees.
Tree = tuple


@functools.cache
def _trees(order: int) -> tuple[Tree, ...]:
    """All rooted trees with `order` nodes."""
    if order == 1:
        return ((),)
    trees = set()
    for sizes in _partitions(order - 1, order - 1):
        for children in itertools.product(*(_trees(s) for s in sizes)):
            trees.add(tuple(sorted(children)))
    return tuple(sorted(trees))


def _partitions(n: int, largest: int) -> Sequence[tuple[int, ...]]:
    if n == 0:
        return [()]
    return [(k, *rest) for k in range(min(n, largest), 0, -1) for rest in _partitions(n - k, k)]


def _size(tree: Tree) -> int:
    return 1 + sum(_size(t) for t in tree)


def _density(tree: Tree) -> int:
    return _size(tree) * int(np.prod([_density(t) for t in tree], dtype=int))


def _elementary_weight(tree: Tree, A: np.ndarray) -> np.ndarray:
    """The vector whose product with b is the elementary weight."""
    weight = np.ones(len(A))
    for child in tree:
        weight = weight * (A @ _elementary_weight(child, A))
    return weight


def _lower(*rows: Sequence[float]) -> np.ndarray:
    A = np.zeros((len(rows) + 1, len(rows) + 1))
    for i, row in enumerate(rows, start=1):
        A[i, : len(row)] = row
    return A


EULER = Tableau("Euler", np.zeros((1, 1)), np.array([1.0]), order=1)

MIDPOINT = Tableau("explicit midpoint", _lower([1 / 2]), np.array([0.0, 1.0]), order=2)

HEUN = Tableau("Heun", _lower([1.0]), np.array([1 / 2, 1 / 2]), order=2)

KUTTA3 = Tableau("Kutta 3", _lower([1 / 2], [-1.0, 2.0]), np.array([1 / 6, 2 / 3, 1 / 6]), order=3)

RK4 = Tableau("Runge–Kutta 4", _lower([1 / 2], [0, 1 / 2], [0, 0, 1.0]), np.array([1, 2, 2, 1]) / 6, order=4)

# Bogacki & Shampine (1989); the pair of ODE23.
BOGACKI_SHAMPINE = Tableau(
    "Bogacki–Shampine 3(2)",
    _lower([1 / 2], [0, 3 / 4], [2 / 9, 1 / 3, 4 / 9]),
    np.array([2 / 9, 1 / 3, 4 / 9, 0]),
    order=3,
    b_hat=np.array([7 / 24, 1 / 4, 1 / 3, 1 / 8]),
    order_hat=2,
)

# Dormand & Prince (1980); continuous extension of order 4 by Shampine (1986).
DORMAND_PRINCE = Tableau(
    "Dormand–Prince 5(4)",
    _lower(
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ),
    np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0]),
    order=5,
    b_hat=np.array([5179 / 57600, 0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40]),
    order_hat=4,
    dense=np.array(
        [
            [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
            [0, 0, 0, 0],
            [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
            [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
            [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
            [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
            [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
        ]
    ),
    order_dense=4,
)

# Butcher (1964): seven stages, order 6.
BUTCHER6 = Tableau(
    "Butcher 6",
    _lower(
        [1 / 3],
        [0, 2 / 3],
        [1 / 12, 1 / 3, -1 / 12],
        [-1 / 16, 9 / 8, -3 / 16, -3 / 8],
        [0, 9 / 8, -3 / 8, -3 / 4, 1 / 2],
        [9 / 44, -9 / 11, 63 / 44, 18 / 11, 0, -16 / 11],
    ),
    np.array([11, 0, 81, 81, -32, -32, 11]) / 120,
    order=6,
)


def without_pair(tableau: Tableau) -> Tableau:
    """The same method without its embedded solution, for constant steps."""
    return dataclasses.replace(tableau, b_hat=None, order_hat=None)
