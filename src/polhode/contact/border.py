"""Saddle-point systems bordered by the rows of contacts; rows of open contacts vanish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import Blocks, Indices, Matrix, to_dense
from polhode.linalg.compliant import refinement
from polhode.linalg.dense import lu_factor, lu_solve
from polhode.linalg.kkt import AbstractKKT

_COMPLIANCE = 1e-12
"""Compliance of a contact in units of its own Q A⁻¹Pᵀ, so that contacts that depend on each other share their force."""


class _Factors(NamedTuple):
    """Factors of the system without contacts, its solutions for their columns, their rows, and the Schur complement."""

    inner: Any
    columns: tuple[Float[Array, "k n"], Float[Array, "k m"]]
    rows: Float[Array, "k n"]
    schur: Float[Array, "k k"]


class ContactKKT(AbstractKKT):
    """Block elimination: the system without contacts, then the Schur complement of their rows, which come last.

    Rows that vanish belong to open contacts: their multipliers are zero.

    **Arguments:**

    - `inner`: the solver of the system without contacts. - `count`: their number k.
    """

    inner: AbstractKKT
    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def __init__(self, inner: AbstractKKT, count: int) -> None:
        self.inner, self.count = inner, count
        self.n, self.m = inner.n, inner.m + count

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> _Factors:
        first = self.inner.m
        (P, beside), (Q, below) = self._parts(P), self._parts(Q)
        inner = self.inner.factor(A, P, Q, None if E is None else E[:first])
        none = jnp.zeros(first)
        columns = jax.vmap(lambda column: self.inner.solve(inner, column, none))(beside)
        schur = below @ columns[0].T
        own = jnp.diagonal(schur)
        compliance = jnp.where(own != 0, _COMPLIANCE * own, 1.0) if self.count > 1 else jnp.where(own != 0, 0.0, 1.0)
        return _Factors(inner, columns, below, lu_factor(schur + jnp.diag(jax.lax.stop_gradient(compliance))))

    def solve(
        self, factors: _Factors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        first = self.inner.m
        x, multipliers = self.inner.solve(factors.inner, r, s[:first])
        forces = lu_solve(factors.schur, factors.rows @ x - s[first:])
        motions, shares = factors.columns
        return x - forces @ motions, jnp.concatenate((multipliers - forces @ shares, forces))

    def direct(self, A: Matrix, P: Matrix, Q: Matrix) -> Callable[[Array, Array], tuple[Array, Array]]:
        return refinement(self, self.factor(A, P, Q), A, P, Q)

    def _parts(self, P: Matrix) -> tuple[Matrix, Float[Array, "k n"]]:
        """The blocks of all other rows, and the rows of contacts."""
        first = self.inner.m
        others = tuple(group for group in P if np.max(group.rows.numbers, initial=-1) < first)
        own = tuple(group for group in P if np.max(group.rows.numbers, initial=-1) >= first)
        blocks = tuple(Blocks(g.values, Indices(g.rows.numbers - first), g.cols) for g in own)
        return others, to_dense(blocks, (self.count, self.n))
