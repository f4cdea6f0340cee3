"""Static condensation: a large sparse part is eliminated first, then the few unknowns beside it are solved densely."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import Blocks, Indices, Matrix, dense_block, to_dense
from polhode.linalg.dense import saddle_matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.ordering import Pattern


class Partition(NamedTuple):
    """Unknowns of a sparse part and the others.

    - `first`: number of the first velocity of the others, which come last.
    - `inner`, `outer`: constraints on the sparse part alone, and the others, both in ascending order.
    - `coupled`: velocities of the others that A couples with the sparse part.
    """

    first: int
    inner: Indices
    outer: Indices
    coupled: Indices

    @classmethod
    def of(cls, A: Pattern, P: Pattern, first: int, m: int) -> Partition:
        """The partition of matrices of a sparsity."""
        outer = np.unique(
            np.concatenate([np.zeros(0, int), *(r.numbers.reshape(-1) for r, c in P if _is_last(c, first))])
        )
        across = [(r if _is_last(r, first) else c) for r, c in A if _is_last(r, first) != _is_last(c, first)]
        coupled = np.unique(np.concatenate([np.zeros(0, int), *(numbers.numbers.reshape(-1) for numbers in across)]))
        inner = np.setdiff1d(np.arange(m), outer)
        return cls(first, *(Indices(numbers[None]) for numbers in (inner, outer, coupled)))

    def inner_pattern(self, A: Pattern, P: Pattern) -> tuple[Pattern, Pattern]:
        """The patterns of the sparse part."""
        own_A = tuple((r, c) for r, c in A if not (_is_last(r, self.first) or _is_last(c, self.first)))
        own_P = tuple((_among(r, self.inner), c) for r, c in P if not self._is_outer(r))
        return own_A, own_P

    def blocks(self, A: Matrix, rows: bool, columns: bool) -> Matrix:
        """The blocks of A with rows and columns of the others (True) or of the sparse part, each with own numbers."""
        own = lambda numbers, last: Indices(numbers.numbers - self.first) if last else numbers  # noqa: E731
        return tuple(
            Blocks(g.values, own(g.rows, rows), own(g.cols, columns))
            for g in A
            if (_is_last(g.rows, self.first), _is_last(g.cols, self.first)) == (rows, columns)
        )

    def constraint_blocks(self, P: Matrix, outer: bool, last: bool) -> Matrix:
        """The blocks of inner or outer constraints with velocities of the others or of the sparse part."""
        among, shift = (self.outer if outer else self.inner), self.first * last
        return tuple(
            Blocks(g.values, _among(g.rows, among), Indices(g.cols.numbers - shift))
            for g in P
            if (self._is_outer(g.rows), _is_last(g.cols, self.first)) == (outer, last)
        )

    def _is_outer(self, rows: Indices) -> bool:
        return bool(np.isin(rows.numbers, self.outer.numbers).any())


def _is_last(columns: Indices, first: int) -> bool:
    """Whether blocks are of velocities of the others; blocks never mix both."""
    return columns.numbers.size > 0 and int(columns.numbers.max()) >= first


def _among(rows: Indices, constraints: Indices) -> Indices:
    return Indices(np.searchsorted(constraints.numbers[0], rows.numbers))


class CondensedFactors(NamedTuple):
    """Factors of the sparse part; its solutions for the columns beside it; the rows below it; factors of the rest."""

    inner: Any
    columns: tuple[Float[Array, "k n"], Float[Array, "k m"]]
    rows: Float[Array, "k n"]
    outer: Any


class CondensedKKT(AbstractKKT):
    r"""With the sparse part K, the coupling U, L and the rest D: solves with K, then with $D - LK^{-1}U$.

    A factorisation takes a solution with K for each constraint that the rest shares with it, and for each velocity
    of the rest that forces couple with it. K has constraints on itself alone, so that it is regular wherever the whole
    is; the rest is small and dense.

    **Arguments:**

    - `inner`: solver of K. - `outer`: solver of the rest, all unknowns taken as velocities.
    - `partition`: of the unknowns.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    inner: AbstractKKT
    outer: AbstractKKT
    partition: Partition = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> CondensedFactors:
        part = self.partition
        own, rest = (None, None) if E is None else (E[part.inner.numbers[0]], E[part.outer.numbers[0]])
        P_in, Q_in = (part.constraint_blocks(matrix, outer=False, last=False) for matrix in (P, Q))
        factors = self.inner.factor(part.blocks(A, rows=False, columns=False), P_in, Q_in, own)
        solve_column = jax.vmap(lambda column: self.inner.solve(factors, column, jnp.zeros(self.inner.m)))
        columns = solve_column(self._across(part.blocks(A, rows=False, columns=True), P, transposed=True))
        rows = self._across(part.blocks(A, rows=True, columns=False), Q, transposed=False)
        D, at = self._rest(A, P, Q, rest), self._couplings
        reduced = D.at[at[:, None], at].add(-rows @ columns[0].T)
        return CondensedFactors(factors, columns, rows, self.outer.factor(dense_block(reduced), (), ()))

    def solve(
        self, factors: CondensedFactors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        part, at = self.partition, self._couplings
        x, inner = self.inner.solve(factors.inner, r[: part.first], s[part.inner.numbers[0]])
        beside = jnp.concatenate((r[part.first :], s[part.outer.numbers[0]]))
        y, _ = self.outer.solve(factors.outer, beside.at[at].add(-factors.rows @ x), jnp.zeros(0))
        X, M = factors.columns
        multipliers = jnp.concatenate((inner - y[at] @ M, y[self.n - part.first :]))
        order = np.argsort(np.concatenate((part.inner.numbers[0], part.outer.numbers[0])))
        return jnp.concatenate((x - y[at] @ X, y[: self.n - part.first])), multipliers[order]

    @property
    def _couplings(self) -> np.ndarray:
        """Numbers, among the unknowns of the rest, of those that meet the sparse part."""
        part = self.partition
        last = self.n - part.first
        return np.concatenate((part.coupled.numbers[0] - part.first, last + np.arange(part.outer.numbers.size)))

    def _across(self, blocks: Matrix, P: Matrix, transposed: bool) -> Float[Array, "k first"]:
        """Rows of the coupling with the sparse part: of coupled velocities, then of outer constraints."""
        part = self.partition
        last = self.n - part.first
        forces = to_dense(blocks, (part.first, last)).T if transposed else to_dense(blocks, (last, part.first))
        constraints = to_dense(part.constraint_blocks(P, outer=True, last=False), (part.outer.numbers.size, part.first))
        return jnp.concatenate((forces[part.coupled.numbers[0] - part.first], constraints))

    def _rest(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " outer"] | None) -> Float[Array, "rest rest"]:
        part = self.partition
        P_out, Q_out = (part.constraint_blocks(matrix, outer=True, last=True) for matrix in (P, Q))
        inner = part.blocks(A, rows=True, columns=True)
        return saddle_matrix(self.n - part.first, part.outer.numbers.size, inner, P_out, Q_out, E)
