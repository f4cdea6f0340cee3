"""Exact coefficients of half-explicit Runge–Kutta methods."""

from __future__ import annotations

import dataclasses
import functools
from fractions import Fraction

import numpy as np

from polhode.checks import short_repr
from polhode.integrators.tableaus.half_explicit_conditions import Conditions, Number, Surd

Exact = tuple[Number, ...]


@dataclasses.dataclass(frozen=True)
class HalfExplicitTableau:
    r"""A half-explicit Runge–Kutta method of s stages and s̄ - s further ones that only serve the multipliers.

    - `rows`: rows 2, …, s̄ + 1 of the coefficients; row i holds a_i1, …, a_i,i-1. Row s + 1 holds the weights b.
    - `stages`: s.
    - `d`: weights of the multipliers, $\lambda_{n+1} = \sum_i d_i\Lambda_i$, length s̄.
    - `order`, `multiplier_order`: orders of q and v, and of λ.
    - `b_hat`, `order_hat`: embedded weights and their order. The last stage that they use is solved once more with
      b_hat in place of its next row, so that the embedded velocity satisfies the constraint, too.

    Numbers are rationals or `Surd`s; tableaus of equal numbers are equal. When a tableau is made, shape and conditions
    up to order 3 are checked; `verify` checks all of them exactly, which takes up to a second for order 5.

    Raises ValueError for a tableau that is not what it claims to be.
    """

    name: str
    rows: tuple[Exact, ...]
    stages: int
    d: Exact
    order: int
    multiplier_order: int
    b_hat: Exact | None = None
    order_hat: int | None = None

    def __post_init__(self) -> None:
        if [len(row) for row in self.rows] != list(range(1, len(self.d) + 1)) or not 1 <= self.stages <= len(self.d):
            raise ValueError(
                f"tableau {self.name}: rows must have lengths 1, 2, …, len(d) = {len(self.d)}, and stages = "
                f"{self.stages} be at most len(d)"
            )
        if any(row[-1] == 0 for row in self.rows[1:]):
            raise ValueError(
                f"tableau {self.name}: a_(i+1,i) must not be zero from i = 2 on; stage i could not satisfy the "
                "constraint at the next one"
            )
        self._check(self.conditions(np.float64), 3)

    @property
    def all_stages(self) -> int:
        """s̄."""
        return len(self.d)

    @functools.cached_property
    def A(self) -> np.ndarray:
        """Coefficients as numbers, shape (s̄ + 1, s̄)."""
        A = np.zeros((self.all_stages + 1, self.all_stages))
        for i, row in enumerate(self.rows, start=1):
            A[i, : len(row)] = [float(x) for x in row]
        return A

    @functools.cached_property
    def c(self) -> np.ndarray:
        """Nodes, shape (s̄ + 1,)."""
        return np.array([0.0, *(float(sum(row)) for row in self.rows)])

    @property
    def first_same_as_last(self) -> bool:
        """Whether the new multiplier is that of stage s + 1, whose acceleration then opens the next step."""
        return all(x == int(i == self.stages + 1) for i, x in enumerate(self.d, start=1))

    def conditions(self, number: type | None = None) -> Conditions:
        """Order conditions, exact, or in numbers of type `number`."""
        convert = (lambda x: x) if number is None else lambda x: number(float(x))
        rows = [(), *([convert(x) for x in row] for row in self.rows)]
        return Conditions(rows, rows[self.stages], [convert(x) for x in self.d])

    def embedded_conditions(self) -> Conditions:
        """Exact order conditions of the embedded method, with the stage that is solved again."""
        if self.b_hat is None:
            raise ValueError(f"tableau {self.name} has no embedded weights")
        k = len(self.b_hat)
        rows = [(), *self.rows[: k - 1], self.b_hat]
        return Conditions(rows, self.b_hat, [0] * (k - 1) + [1])

    def verify(self) -> None:
        """Check every order condition exactly; raises ValueError naming the first order that fails."""
        self._check(self.conditions(), self.order)
        if self.b_hat is not None and self.order_hat is not None:
            order = self.embedded_conditions().y_order(self.order_hat)
            if order < self.order_hat:
                raise ValueError(f"tableau {self.name}: b_hat has order {order}, not {self.order_hat}")

    def _check(self, conditions: Conditions, up_to: int) -> None:
        claims = min(self.order, up_to), min(self.multiplier_order, up_to)
        orders = conditions.y_order(claims[0]), conditions.z_order(claims[1])
        if orders != claims:
            raise ValueError(
                f"tableau {self.name}: claims orders {self.order} of q and v and {self.multiplier_order} of λ, but "
                f"conditions hold up to {orders[0]} and {orders[1]} only"
            )
        if abs(float(conditions.contraction())) >= 1:
            raise ValueError(f"tableau {self.name}: errors of the multiplier grow from step to step, |R| ≥ 1")


def _exact(*rows: str) -> tuple[Exact, ...]:
    return tuple(tuple(Fraction(x) for x in row.split()) for row in rows)


def _last(stages: int) -> Exact:
    """Weights that take the last of `stages` multipliers."""
    return tuple(Fraction(int(k == stages)) for k in range(1, stages + 1))


def _numbers(row: str) -> Exact:
    return _exact(row)[0]


def _surds(*parts: tuple[str, str]) -> Exact:
    return tuple(Surd(Fraction(a), Fraction(b)) for a, b in parts)


# Half-explicit Euler in the scheme: a_21 = 0, so that stage 2 repeats the start and only fixes the multiplier.
EULER = HalfExplicitTableau("half-explicit Euler", _exact("0", "0 1"), 2, _numbers("0 1"), 1, 1)

# Multipliers of order p - 1: coefficients of the authors of the Lie group method, as their published code has them
# (D. Tumiotto, lie_group_integration_methods, heavy_top and crmS3R3 configurations), with c_6 of order 4 exact.
_HEUN = ("1", "1/2 1/2")
_THIRD = ("1/2", "2/9 4/9", "1/4 0 3/4")
_FOURTH = ("1", "3/8 1/8", "-1/2 -1/2 2", "1/6 0 2/3 1/6")
_DORMAND_PRINCE = (
    "1/5",
    "3/40 9/40",
    "44/45 -56/15 32/9",
    "19372/6561 -25360/2187 64448/6561 -212/729",
    "9017/3168 -355/33 46732/5247 49/176 -5103/18656",
    "35/384 0 500/1113 125/192 -2187/6784 11/84",
)
_DORMAND_PRINCE_HAT = _numbers("5179/57600 0 7571/16695 393/640 -92097/339200 187/2100 1/40")

HEUN = HalfExplicitTableau("half-explicit Heun", _exact(*_HEUN), 2, _numbers("1/2 1/2"), 2, 1)

MIDPOINT = HalfExplicitTableau("half-explicit midpoint", _exact("1/2", "0 1"), 2, _numbers("0 1"), 2, 1)

THIRD = HalfExplicitTableau("half-explicit of order 3", _exact(*_THIRD), 3, _numbers("0 -2 3"), 3, 2)

FOURTH = HalfExplicitTableau(
    "half-explicit of order 4",
    (
        *_exact(*_FOURTH),
        _surds(("1/6", "-1/108"), ("0", "0"), ("1/3", "-4/27"), ("0", "-7/108"), ("0", "1/18")),
    ),
    4,
    _last(5),
    4,
    3,
)

FIFTH = HalfExplicitTableau(
    "half-explicit Dormand–Prince",
    _exact(
        *_DORMAND_PRINCE,
        "-18611506045861/19738176307200 59332529/14479296 -2509441598627/893904224850 2763523204159/3289696051200 "
        "-41262869588913/116235927142400 46310205821/287848404480 -3280/75413",
    ),
    6,
    _last(7),
    5,
    4,
    _DORMAND_PRINCE_HAT,
    4,
)

# Multipliers of order p: the same rows 1, …, s + 1, continued by rows and weights d that satisfy the conditions on z,
# with R = 0. The free parameters were chosen by a coarse scan for small coefficients.
HEUN_EXTENDED = HalfExplicitTableau(
    "half-explicit Heun, multipliers of order 2", _exact(*_HEUN, "3/8 3/8 -1/4"), 2, _last(3), 2, 2
)

THIRD_EXTENDED = HalfExplicitTableau(
    "half-explicit of order 3, multipliers of order 3", _exact(*_THIRD, "3/16 3/4 -9/16 1/8"), 3, _last(4), 3, 3
)

FOURTH_EXTENDED = HalfExplicitTableau(
    "half-explicit of order 4, multipliers of order 4",
    _exact(
        *_FOURTH,
        "1/6 0 5/48 0 -1/48",
        "1/24 0 5/12 0 5/24 1/3",
        "67/192 3/16 -11/96 0 89/576 17/72 -1/16",
    ),
    4,
    _last(7),
    4,
    4,
)

FIFTH_EXTENDED = HalfExplicitTableau(
    "half-explicit Dormand–Prince, multipliers of order 5",
    _exact(
        *_DORMAND_PRINCE,
        "262198651/3271680000 0 230680087/474138000 38071651/109056000 775109007/19266560000 -37215299/238560000 1/10",
        "29657/384000 0 1976/3975 9691/38400 -41553/6784000 -847/12000 0 1/4",
        "28908260258971/219770867174400 -48790/497583 805596858608/2274971867235 -1871760211349/7325695572480 "
        "-1299789533371/5325951513600 835263742753/2289279866400 -4480000/13434741 25917605/47104524 -22610/165861",
    ),
    6,
    _last(9),
    5,
    5,
    _DORMAND_PRINCE_HAT,
    4,
)


_FAMILIES = {
    "authors": (EULER, HEUN, THIRD, FOURTH, FIFTH),
    "multiplier-order-p": (EULER, HEUN_EXTENDED, THIRD_EXTENDED, FOURTH_EXTENDED, FIFTH_EXTENDED),
}
_VARIANTS = {"heun": HEUN, "midpoint": MIDPOINT}


def without_pair(tableau: HalfExplicitTableau) -> HalfExplicitTableau:
    """The same method without its embedded solution, for constant steps."""
    return _constant_step(tableau) if tableau.b_hat is not None else tableau


@functools.cache
def _constant_step(tableau: HalfExplicitTableau) -> HalfExplicitTableau:
    # Cached, because compiled programs identify tableaus by object.
    return dataclasses.replace(tableau, b_hat=None, order_hat=None)


def select_tableau(order: int, family: str, variant: str | None = None, pair: bool = False) -> HalfExplicitTableau:
    """The tableau of an order 1 to 5 of a family.

    **Arguments:**

    - `family`: "authors" (multipliers of order p - 1) or "multiplier-order-p"; they share order 1.
    - `variant`: "heun" or "midpoint", the authors' choices of order 2.
    - `pair`: with the embedded solution, if there is one.

    Raises ValueError for unknown families and variants.
    """
    if family not in _FAMILIES:
        raise ValueError(f"`family` must be one of {', '.join(map(repr, _FAMILIES))}, got {short_repr(family)}.")
    tableau = _FAMILIES[family][order - 1]
    if variant is not None:
        if variant not in _VARIANTS or order != 2 or family != "authors":
            raise ValueError(
                f"`variant` must be 'heun' or 'midpoint' and is for order 2 of family 'authors', got {variant!r} for "
                f"order {order} of {short_repr(family)}."
            )
        tableau = _VARIANTS[variant]
    return tableau if pair else without_pair(tableau)
