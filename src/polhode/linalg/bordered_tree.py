"""Trees of bodies with a few additional constraints, which close loops or couple branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import Blocks, Indices, Matrix, to_dense
from polhode.linalg.dense import lu_factor, lu_solve
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.ordering import Pattern
from polhode.linalg.tree import TreeKKT
from polhode.linalg.tree_structure import bodies_of, constraints_of, coupled_bodies


class Border(NamedTuple):
    """The constraints of a tree and those beside it, each in ascending order."""

    inner: Indices
    outer: Indices

    @property
    def count(self) -> int:
        """Number of constraints beside the tree."""
        return self.outer.numbers.size

    def within(self, P: Pattern) -> Pattern:
        """The pattern of the tree's constraints, with their own numbering."""
        groups = [(rows, cols, self._elements(rows, self.inner)) for rows, cols in P]
        return tuple((self._own(r, e, self.inner), Indices(c.numbers[e])) for r, c, e in groups if e.size)

    def parts(self, P: Matrix) -> tuple[Matrix, Matrix]:
        """The blocks of the tree's constraints and the others, each with their own numbering."""
        return self._part(P, self.inner), self._part(P, self.outer)

    def _part(self, P: Matrix, constraints: Indices) -> Matrix:
        groups = [(g, self._elements(g.rows, constraints)) for g in P]
        return tuple(
            Blocks(g.values[e], self._own(g.rows, e, constraints), Indices(g.cols.numbers[e]))
            for g, e in groups
            if e.size
        )

    @staticmethod
    def _elements(rows: Indices, constraints: Indices) -> np.ndarray:
        return np.flatnonzero(np.isin(rows.numbers[:, 0], constraints.numbers))

    @staticmethod
    def _own(rows: Indices, elements: np.ndarray, constraints: Indices) -> Indices:
        return Indices(np.searchsorted(constraints.numbers[0], rows.numbers[elements]))


def border(A: Pattern, P: Pattern, n: int, m: int) -> Border | None:
    """The constraints of a spanning tree and the others, the ground counted as a body; None if A couples loops.

    Of joints that close a loop, the one with the fewest constraints is taken out.
    """
    body = bodies_of(A, P, n)
    if body is None:
        return None
    ground = int(body.max()) + 1
    components, edges = _Sets(ground + 1), set[tuple[int, int]]()
    for i, j in sorted({(min(i, j), max(i, j)) for i, j in coupled_bodies(A, body) if i != j}):
        if not components.join(i, j):
            return None
        edges.add((i, j))
    elements = [
        (row, np.unique(body[columns]))
        for rows, cols in constraints_of(P)
        for row, columns in zip(rows, cols, strict=True)
    ]
    outer: list[int] = []
    for row, ends in sorted(elements, key=lambda element: -len(element[0])):
        pair = (int(ends[0]), int(ends[-1]) if len(ends) > 1 else ground)
        if len(ends) > 2 or (pair not in edges and not components.join(*pair)):
            outer += row.tolist()
        else:
            edges.add(pair)
    inside = np.setdiff1d(np.arange(m), outer)
    return Border(Indices(inside[None]), Indices(np.sort(np.array(outer, np.int64))[None]))


class _Sets:
    """Disjoint sets of bodies that are connected."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def join(self, i: int, j: int) -> bool:
        """Connects two bodies; False if they were connected before."""
        i, j = self._root(i), self._root(j)
        self._parent[i] = j
        return i != j

    def _root(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = i = self._parent[self._parent[i]]
        return i


class BorderedFactors(NamedTuple):
    """Factors of the tree; solutions for columns of the border; rows of the border; factors of the Schur complement."""

    tree: Any
    columns: tuple[Float[Array, "k n"], Float[Array, "k inner"]]
    rows: Float[Array, "k n"]
    schur: Float[Array, "k k"]


class BorderedKKT(AbstractKKT):
    r"""Solves with the tree K first, then with the Schur complement $C K^{-1} B^T + E$ of the border's k constraints.

    That is definite while all constraints are independent, so that nothing needs pivoting. It takes k + 1 solutions
    with the tree for each factorisation, O(k) for each body, and O(k³).

    **Arguments:**

    - `tree`: solver of the tree, with its own constraints.
    - `border`: the constraints outside the tree.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    tree: TreeKKT
    border: Border = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> BorderedFactors:
        (P, beside), (Q, below) = self.border.parts(P), self.border.parts(Q)
        own, others = (None, None) if E is None else self._split(E)
        tree = self.tree.factor(A, P, Q, own)
        shape = self.border.count, self.n
        solve_column = jax.vmap(lambda column: self.tree.solve(tree, column, jnp.zeros(self.tree.m)))
        columns, rows = solve_column(to_dense(beside, shape)), to_dense(below, shape)
        schur = rows @ columns[0].T
        return BorderedFactors(tree, columns, rows, lu_factor(schur if others is None else schur + jnp.diag(others)))

    def solve(
        self, factors: BorderedFactors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        own, others = self._split(s)
        x, inner = self.tree.solve(factors.tree, r, own)
        outer = lu_solve(factors.schur, factors.rows @ x - others)
        X, M = factors.columns
        return x - outer @ X, self._join(inner - outer @ M, outer)

    def _split(self, s: Float[Array, " m"]) -> Sequence[Array]:
        return [s[places.numbers[0]] for places in self.border]

    def _join(self, inner: Array, outer: Array) -> Float[Array, " m"]:
        order = np.argsort(np.concatenate([places.numbers[0] for places in self.border]))
        return jnp.concatenate((inner, outer))[order]
