"""Saddle-point systems whose constraints may lose rank for an instant: loops in dead centres and change points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.linalg.blocks import Matrix, apply, apply_transposed, diagonal
from polhode.linalg.kkt import AbstractKKT

COMPLIANCE = 1e-12
"""Compliance of a constraint in units of its own Q A⁻¹Pᵀ. Directions in which the loop yields less than that are not
constrained, in a mechanism of size 1 at positions within about 1e-6 of a singular one; round-off in eliminations,
about 1e-15, stays far below."""
REFINEMENTS = 2
"""Steps of iterative refinement in direct solutions."""


class CompliantKKT(AbstractKKT):
    r"""Gives every constraint a tiny compliance, so that the matrix is regular in every position.

    Where constraints depend on each other, the multipliers of least norm (each in its own unit) come out instead of
    infinite ones. Newton's method needs no more than that: its residuals are exact, and it converges by a factor of
    `COMPLIANCE` over the smallest eigenvalue of $QA^{-1}P^T$ in an iteration. For direct solutions `direct` removes
    the compliance by `REFINEMENTS` steps of iterative refinement, which leave an error of the third power of that
    factor: it is about 1e-4 where light bodies drive inertias that are 1e8 times theirs.

    **Arguments:**

    - `inner`: solver of the compliant system.
    """

    inner: AbstractKKT
    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def __init__(self, inner: AbstractKKT) -> None:
        self.inner, self.n, self.m = inner, inner.n, inner.m

    def over(self, other: AbstractKKT) -> AbstractKKT:
        return CompliantKKT(other)

    def compliance(self, A: Matrix, P: Matrix) -> Float[Array, " m"]:
        """The diagonal of E."""
        A, P = jax.lax.stop_gradient((A, P))
        sizes = jnp.abs(diagonal(A, self.n))
        largest = jnp.max(sizes, initial=0.0)
        least = jnp.where(largest > 0, largest, 1.0)
        squares = tuple(eqx.tree_at(lambda g: g.values, group, group.values**2) for group in P)
        schur_diagonal = apply(squares, 1 / jnp.where(sizes > 0, sizes, least), self.m)
        return COMPLIANCE * jnp.where(schur_diagonal > 0, schur_diagonal, 1 / least)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> Any:
        own = self.compliance(A, P)
        return self.inner.factor(A, P, Q, own if E is None else own + E)

    def factor_symmetric(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> Any:
        own = self.compliance(A, P)
        return self.inner.factor_symmetric(A, P, Q, own if E is None else own + E)

    def solve(
        self, factors: Any, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        return self.inner.solve(factors, r, s)

    def direct(self, A: Matrix, P: Matrix, Q: Matrix) -> Callable[[Array, Array], tuple[Array, Array]]:
        return refinement(self, self.factor_symmetric(A, P, Q), A, P, Q)


def refinement(
    solver: AbstractKKT, factors: Any, A: Matrix, P: Matrix, Q: Matrix
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """From r and s to x and λ for E = 0, with factors of a compliant matrix and `REFINEMENTS`."""

    def solve(r: Array, s: Array) -> tuple[Array, Array]:
        x, multipliers = solver.solve(factors, r, s)
        for _ in range(REFINEMENTS):
            residual = r - apply(A, x, solver.n) - apply_transposed(P, multipliers, solver.n)
            dx, change = solver.solve(factors, residual, s - apply(Q, x, solver.m))
            x, multipliers = x + dx, multipliers + change
        return x, multipliers

    return solve
