"""Saddle-point systems of which the inverse of the large part is a function: Schur complement of the constraints."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.linalg.blocks import Matrix, dense_block, to_dense
from polhode.linalg.compliant import COMPLIANCE, REFINEMENTS
from polhode.linalg.solver_choice import fused_solver


def bordered_solver(
    inverse: Callable[[Array], Array], P: Matrix, Q: Matrix, n: int, m: int
) -> Callable[[Array, Array], tuple[Array, Array]]:
    r"""From r and s to x and λ with $Ax + P^T\lambda = r$ and $Qx = s$: A⁻¹ once for each constraint and each r.

    Constraints that lose rank for an instant have the multipliers of least norm, as with `CompliantKKT`.

    - `inverse`: A⁻¹ of a vector (n,). - `P`, `Q`: m×n.
    """
    if not m:
        return lambda r, s: (inverse(r), s)
    rows, solver = to_dense(Q, (m, n)), fused_solver(m, 0)
    border = jax.vmap(inverse)(to_dense(P, (m, n)))
    schur = rows @ border.T
    factors = solver.factor(dense_block(schur + COMPLIANCE * jnp.diag(jnp.diag(schur))), (), ())

    def solve(r: Array, s: Array) -> tuple[Array, Array]:
        x, multipliers = inverse(r), jnp.zeros(m)
        excess = rows @ x - s
        for _ in range(1 + REFINEMENTS):
            change, _ = solver.solve(factors, excess - schur @ multipliers, jnp.zeros(0))
            multipliers = multipliers + change
        return x - multipliers @ border, multipliers

    return solve
