"""Dense solution of saddle-point systems: fused into the compiled step, or by LAPACK."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.linalg.blocks import Matrix, to_dense
from polhode.linalg.kkt import AbstractKKT

Factors = tuple[Float[Array, "n n"], Float[Array, "n m"], Float[Array, "m n"], Float[Array, "m m"]]


class DenseKKT(AbstractKKT):
    r"""Eliminates x first, then solves with the Schur complement $Q A^{-1} P^T + E$.

    Neither part needs pivoting while A is positive definite up to perturbations and the constraints are independent,
    which is what `assemble` checks. For up to about 30 unknowns.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> Factors:
        lu = lu_factor(to_dense(A, (self.n, self.n)))
        q = to_dense(Q, (self.m, self.n))
        w = lu_solve(lu, to_dense(P, (self.m, self.n)).T)
        return lu, w, q, lu_factor(q @ w if E is None else q @ w + jnp.diag(E))

    def solve(
        self, factors: Factors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        lu, w, q, schur = factors
        x = lu_solve(lu, r)
        if self.m == 0:
            return x, s
        multipliers = lu_solve(schur, q @ x - s)
        return x - w @ multipliers, multipliers


class LapackKKT(AbstractKKT):
    """Solves the whole dense matrix with LAPACK, with pivoting: for systems without structure above 30 unknowns."""

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> tuple[Array, Array]:
        n, m = self.n, self.m
        upper = jnp.concatenate((to_dense(A, (n, n)), to_dense(P, (m, n)).T), axis=1)
        corner = jnp.zeros((m, m)) if E is None else -jnp.diag(E)
        lower = jnp.concatenate((to_dense(Q, (m, n)), corner), axis=1)
        return jax.scipy.linalg.lu_factor(jnp.concatenate((upper, lower)))

    def solve(
        self, factors: tuple[Array, Array], r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        solution = jax.scipy.linalg.lu_solve(factors, jnp.concatenate((r, s)))
        return solution[: self.n], solution[self.n :]


def lu_factor(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Triangular factors in one array: unit lower below the diagonal, upper on and above it; no pivoting."""
    n = a.shape[0]
    for k in range(n - 1):
        factor = a[k + 1 :, k] / a[k, k]
        rest = a[k + 1 :, k + 1 :] - factor[:, None] * a[k, k + 1 :]
        a = a.at[k + 1 :, k].set(factor).at[k + 1 :, k + 1 :].set(rest)
    return a


def lu_solve(lu: Float[Array, "n n"], b: Array) -> Array:
    """Solution of a factored system for one or several right-hand sides, shape (n,) or (n, k)."""
    n = lu.shape[0]
    x: list[Array] = []
    for i in range(n):
        x.append(b[i] - sum((lu[i, j] * x[j] for j in range(i)), start=jnp.zeros_like(b[i])))
    for i in reversed(range(n)):
        x[i] = (x[i] - sum((lu[i, j] * x[j] for j in range(i + 1, n)), start=jnp.zeros_like(b[i]))) / lu[i, i]
    return jnp.stack(x) if n else b
