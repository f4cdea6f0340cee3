"""Order conditions of half-explicit Runge–Kutta methods for index-2 equations, in exact arithmetic."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

Number = Any
"""A `Fraction`, a `Surd` or a float; int where it is zero or one."""


@dataclasses.dataclass(frozen=True)
class Surd:
    """The number a + b√3 with rational a and b."""

    a: Fraction
    b: Fraction

    def __add__(self, other: Number) -> Surd:
        x = _surd(other)
        return Surd(self.a + x.a, self.b + x.b)

    def __mul__(self, other: Number) -> Surd:
        x = _surd(other)
        return Surd(self.a * x.a + 3 * self.b * x.b, self.a * x.b + self.b * x.a)

    def __truediv__(self, other: Number) -> Surd:
        x = _surd(other)
        norm = x.a * x.a - 3 * x.b * x.b
        return self * Surd(x.a / norm, -x.b / norm)

    def __rtruediv__(self, other: Number) -> Surd:
        return _surd(other) / self

    def __neg__(self) -> Surd:
        return Surd(-self.a, -self.b)

    def __sub__(self, other: Number) -> Surd:
        return self + -_surd(other)

    def __rsub__(self, other: Number) -> Surd:
        return _surd(other) - self

    def __eq__(self, other: object) -> bool:
        x = _surd(other)
        return self.a == x.a and self.b == x.b

    def __hash__(self) -> int:
        return hash((self.a, self.b) if self.b else self.a)

    def __float__(self) -> float:
        return float(self.a) + float(self.b) * math.sqrt(3)

    __radd__ = __add__
    __rmul__ = __mul__


def _surd(x: Any) -> Surd:
    return x if isinstance(x, Surd) else Surd(Fraction(x), Fraction(0))


Tree = tuple
"""A tree with a meagre root is (meagre children, fat children), one with a fat root the tuple of its meagre children.
Children are sorted."""

ROOT: Tree = ((), ())


@functools.cache
def meagre_trees(order: int) -> tuple[Tree, ...]:
    """All trees of derivatives of y with `order` ≥ 1."""
    fat_only = fat_trees(order - 1) if order > 1 else ()
    return _branch_trees(order) + tuple(((), (u,)) for u in fat_only)


@functools.cache
def fat_trees(order: int) -> tuple[Tree, ...]:
    """All trees of derivatives of the multiplier with `order` ≥ 1."""
    trees: set[Tree] = set()
    for sizes in _partitions(order + 1):
        # A single branch is left out where g_y f = 0 or g_y f_z (g_y f_z)⁻¹ = 1 reduces it.
        if sizes == (order + 1,):
            trees.update((t,) for t in _branch_trees(order + 1) if t != ROOT)
        else:
            trees.update(tuple(sorted(c)) for c in itertools.product(*map(meagre_trees, sizes)))
    return tuple(sorted(trees))


@functools.cache
def _branch_trees(order: int) -> tuple[Tree, ...]:
    """Trees of derivatives of y without those whose root has a fat child only."""
    trees = set()
    for sizes in _partitions(order - 1):
        single = len(sizes) == 1
        kinds = [[(0, t) for t in meagre_trees(k)] + [(1, u) for u in (() if single else fat_trees(k))] for k in sizes]
        for children in itertools.product(*kinds):
            trees.add(tuple(tuple(sorted(tree for kind, tree in children if kind == k)) for k in (0, 1)))
    return tuple(sorted(trees))


@functools.cache
def _partitions(n: int, largest: int | None = None) -> tuple[tuple[int, ...], ...]:
    if n == 0:
        return ((),)
    top = n if largest is None else min(n, largest)
    return tuple((k, *rest) for k in range(top, 0, -1) for rest in _partitions(n - k, k))


def meagre_order(tree: Tree) -> int:
    """Number of meagre vertices less that of fat ones, of a tree with a meagre root."""
    return 1 + sum(map(meagre_order, tree[0])) + sum(map(fat_order, tree[1]))


def fat_order(tree: Tree) -> int:
    """The same of a tree with a fat root."""
    return sum(map(meagre_order, tree)) - 1


@functools.cache
def meagre_density(tree: Tree) -> Fraction:
    """γ, with 1/γ the weight that the exact solution has."""
    branches = math.prod(map(meagre_density, tree[0])) * math.prod(map(fat_density, tree[1]))
    return Fraction(meagre_order(tree) * branches)


@functools.cache
def fat_density(tree: Tree) -> Fraction:
    """γ of a tree with a fat root."""
    return Fraction(math.prod(map(meagre_density, tree))) / (fat_order(tree) + 1)


class Conditions:
    r"""Elementary weights of one method, cached.

    For $y' = f(y, z),\ 0 = g(y)$ with invertible $g_y f_z$, and the scheme $Z_1 = z_n$, $g(Y_{i+1}) = 0$ for
    i = 2, …, s̄:

    $$\Phi_i([t\ldots u\ldots]_y) = \prod_t \sum_j a_{ij}\Phi_j(t)\,\prod_u \Phi_i(u), \qquad
    \sum_{j\ge 2} a_{i+1,j}\Phi_j([t\ldots]_z) = \prod_t \sum_j a_{i+1,j}\Phi_j(t), \quad \Phi_1([t\ldots]_z) = 0.$$

    y has order p if $\sum_j b_j\Phi_j(t) = 1/\gamma(t)$ for all trees with ρ(t) ≤ p, and z has order p (local error
    O(h^p)) if $\sum_i d_i = 1$ and $\sum_i d_i\Phi_i(u) = 1/\gamma(u)$ for all with ρ(u) ≤ p - 1.

    **Arguments:**

    - `rows`: rows 1, …, s̄ + 1 of the coefficients; row i holds a_i1, …, a_i,i-1.
    - `b`: weights of y, `d`: weights of z.

    ??? cite "Reference"
        E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, section VII.5 (trees and elementary
        differentials of index-2 equations).
    """

    def __init__(self, rows: Sequence[Sequence[Number]], b: Sequence[Number], d: Sequence[Number]) -> None:
        self.rows = rows
        self.b = b
        self.d = d
        self._sums: dict[Tree, list[Number]] = {}
        self._fat: dict[Tree, list[Number]] = {}

    def broken_in_y(self, order: int) -> Iterator[Tree]:
        """Trees of the given order whose condition on b does not hold."""
        for tree in meagre_trees(order):
            if not _equal(_dot(self.b, self._meagre(tree, len(self.b))), 1 / meagre_density(tree)):
                yield tree

    def broken_in_z(self, order: int) -> Iterator[Tree]:
        """Trees of the given order ≥ 1 whose condition on d does not hold."""
        for tree in fat_trees(order):
            if not _equal(_dot(self.d, self.fat(tree)), 1 / fat_density(tree)):
                yield tree

    def y_order(self, up_to: int) -> int:
        """The order of y, at most `up_to`."""
        return _first(lambda p: any(self.broken_in_y(p)), up_to + 1) - 1

    def z_order(self, up_to: int) -> int:
        """The order of z, at most `up_to`."""
        if not _equal(sum(self.d), 1):
            return 0
        return _first(lambda p: any(self.broken_in_z(p)), up_to)

    def contraction(self) -> Number:
        """R, the derivative of the new multiplier with respect to the old one as h → 0; |R| < 1 for convergence."""
        first = [row[0] for row in self.rows[2:]]
        return self.d[0] - _dot(self.d[1:], self._solve(first))

    def fat(self, tree: Tree) -> list[Number]:
        """Φ_i of a tree with a fat root, i = 1, …, s̄."""
        if tree not in self._fat:
            sums = [self._sum(t) for t in tree]
            product = [math.prod(column) for column in zip(*sums, strict=True)]
            self._fat[tree] = [0, *self._solve(product[2:])]
        return self._fat[tree]

    def _meagre(self, tree: Tree, stages: int) -> list[Number]:
        """Φ_i of a tree with a meagre root, for the first stages."""
        factors = [self._sum(t) for t in tree[0]] + [self.fat(u) for u in tree[1]]
        return [math.prod(factor[i] for factor in factors) for i in range(stages)]

    def _sum(self, tree: Tree) -> list[Number]:
        """Σ_j a_ij Φ_j of a tree with a meagre root, i = 1, …, s̄ + 1."""
        if tree not in self._sums:
            weights = self._meagre(tree, len(self.rows) - 1)
            self._sums[tree] = [_dot(row, weights) for row in self.rows]
        return self._sums[tree]

    def _solve(self, right: Sequence[Number]) -> list[Number]:
        """x_2, …, x_s̄ from Σ_{2≤j≤i} a_{i+1,j} x_j = right_i."""
        x: list[Number] = []
        for row, value in zip(self.rows[2:], right, strict=True):
            x.append((value - _dot(row[1:], x)) / row[-1])
        return x


def _dot(weights: Sequence[Number], values: Sequence[Number]) -> Number:
    return sum(w * x for w, x in zip(weights, values, strict=False) if w != 0)


def _equal(x: Number, y: Number) -> bool:
    return abs(x - y) < 1e-12 if isinstance(x, float) else x == y


def _first(fails: Any, end: int) -> int:
    return next((p for p in range(1, end) if fails(p)), end)
