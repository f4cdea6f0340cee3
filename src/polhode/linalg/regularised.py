"""Saddle-point systems whose A is singular without some of the constraints, such as Euler parameters without norm."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import Blocks, Matrix, Places, accumulate, apply_transposed
from polhode.linalg.kkt import AbstractKKT, Factors


class RegularisedFactors(NamedTuple):
    """Factors of the regularised matrix, and σ Pᵀ of the rows that were added."""

    inner: Factors
    added: Matrix


class RegularisedKKT(AbstractKKT):
    r"""Adds $\sigma P_c^T Q_c$ to A and $\sigma P_c^T s_c$ to r for some constraints c: the augmented Lagrangian.

    As $Q_c x = s_c$, the solution stays what it is, but A may be singular on the velocities that c forbids: four Euler
    parameters have a mass matrix of rank three without their normalisation. σ makes the addition as large as A is on
    average over the velocities concerned.

    **Arguments:**

    - `inner`: solver for the sparsity with `added_blocks` included in A.
    - `rows`: numbers of the constraints c; each must be within one block of P.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    inner: AbstractKKT
    rows: Places = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix) -> RegularisedFactors:
        chosen_p, chosen_q = chosen_rows(P, self.rows), chosen_rows(Q, self.rows)
        if [(g.rows, g.cols) for g in chosen_p] != [(g.rows, g.cols) for g in chosen_q]:
            raise ValueError(
                "P and Q must have their regularised rows in the same blocks; build both in the same order."
            )
        diagonal = accumulate(self.n, [_diagonal(g) for g in A])
        scaled = [_scaled(p, q, diagonal) for p, q in zip(chosen_p, chosen_q, strict=True)]
        more = [Blocks(p.values.mT @ q.values, q.cols, q.cols) for p, q in zip(scaled, chosen_q, strict=True)]
        return RegularisedFactors(self.inner.factor((*A, *more), P, Q), tuple(scaled))

    def solve(
        self, factors: RegularisedFactors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        return self.inner.solve(factors.inner, r + apply_transposed(factors.added, s, self.n), s)


def chosen_rows(P: Matrix, rows: Places) -> Matrix:
    """The blocks of P that hold `rows`, with zeros in all their other rows."""
    wanted = rows.numbers.reshape(-1)
    found, count = [], np.zeros(0, np.int64)
    for g in P:
        inside = np.isin(g.rows.numbers, wanted)
        blocks = np.flatnonzero(inside.any(axis=1))
        if blocks.size:
            values = jnp.where(inside[blocks][:, :, None], g.values[blocks], 0.0)
            found.append(Blocks(values, Places(g.rows.numbers[blocks]), Places(g.cols.numbers[blocks])))
            count = np.concatenate((count, g.rows.numbers[inside]))
    missing, spread = np.setdiff1d(wanted, count), np.unique(count).size < count.size
    if missing.size or spread:
        raise ValueError(
            f"Constraint rows {wanted.tolist()} can't be regularised: "
            + ("some are in several blocks." if spread else f"rows {missing.tolist()} are in no block of P.")
            + " Name rows that one element delivers as a whole, such as the normalisation of Euler parameters."
        )
    return tuple(found)


def added_blocks(P: Matrix, rows: Places) -> Matrix:
    """Blocks at the places that regularisation adds to A; their values are of no meaning."""
    return tuple(Blocks(g.values.mT @ g.values, g.cols, g.cols) for g in chosen_rows(P, rows))


def _diagonal(g: Blocks) -> tuple[Places, Array]:
    """The rows of the blocks, and the part of each that is on the diagonal of A."""
    on_diagonal = g.rows.numbers[:, :, None] == g.cols.numbers[:, None, :]
    return g.rows, jnp.sum(jnp.where(on_diagonal, g.values, 0.0), axis=2)


def _scaled(p: Blocks, q: Blocks, diagonal: Float[Array, " n"]) -> Blocks:
    """σ P_c, block by block."""
    size = jnp.sum(jnp.abs(diagonal[p.cols.numbers]), axis=1) / p.cols.numbers.shape[1]
    square = jnp.sum(jnp.abs(p.values * q.values), axis=(1, 2))
    # The solution does not depend on σ.
    sigma = jax.lax.stop_gradient(size / square)
    return Blocks(sigma[:, None, None] * p.values, p.rows, p.cols)
