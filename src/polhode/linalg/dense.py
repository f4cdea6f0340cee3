"""Dense solution of saddle-point systems: fused into the compiled step, or by LAPACK."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.compiler.primitives.backend_query import lapack_or
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
        if self.m == 0:
            return lu, jnp.zeros((self.n, 0)), jnp.zeros((0, self.n)), jnp.zeros((0, 0))
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
    """Solves the whole dense matrix with LAPACK, with pivoting: for systems without structure above 60 unknowns."""

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> tuple[Array, Array]:
        return jax.scipy.linalg.lu_factor(saddle_matrix(self.n, self.m, A, P, Q, E))

    def solve(
        self, factors: tuple[Array, Array], r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        solution = jax.scipy.linalg.lu_solve(factors, jnp.concatenate((r, s)))
        return solution[: self.n], solution[self.n :]


class DefiniteKKT(AbstractKKT):
    """Solves the whole dense matrix of `DenseKKT` for 31 to 60 unknowns: by LAPACK, or without it and without pivoting.

    Machine code can't call LAPACK; XLA takes twenty times as long to compile the other way, and ten times to run it.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> tuple[Array, Array]:
        matrix = saddle_matrix(self.n, self.m, A, P, Q, E)
        like = matrix, jnp.arange(len(matrix), dtype=jnp.int32)
        return lapack_or(
            jax.scipy.linalg.lu_factor, lambda a: (lu_factor(a), jnp.arange(len(a), dtype=jnp.int32)), like, matrix
        )

    def solve(
        self, factors: tuple[Array, Array], r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        b = jnp.concatenate((r, s))
        solution = lapack_or(
            lambda lu, pivots, b: jax.scipy.linalg.lu_solve((lu, pivots), b), lambda lu, _, b: lu_solve(lu, b), b,
            *factors, b,
        )  # fmt: skip
        return solution[: self.n], solution[self.n :]


class PivotingKKT(AbstractKKT):
    """Solves the whole dense matrix with pivoting, for few unknowns: by LAPACK, or without it in the step.

    Without it, each row with a larger entry than the pivot's is exchanged with it, one after the other. Factors are
    those of the permuted rows, and the exchanges that were made.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def factor(
        self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None
    ) -> tuple[Array, Bool[Array, " exchanges"]]:
        matrix = saddle_matrix(self.n, self.m, A, P, Q, E)
        like = matrix, jnp.zeros(len(_pairs(len(matrix))), bool)
        return lapack_or(_factor_by_lapack, _factor_with_pivots, like, matrix)

    def solve(
        self, factors: tuple[Array, Bool[Array, " exchanges"]], r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        b = jnp.concatenate((r, s))
        solution = lapack_or(_solve_by_lapack, _solve_with_pivots, b, *factors, b)
        return solution[: self.n], solution[self.n :]


def saddle_matrix(
    n: int, m: int, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None
) -> Float[Array, "n_plus_m n_plus_m"]:
    """The matrix of a saddle-point system in one array."""
    upper = jnp.concatenate((to_dense(A, (n, n)), to_dense(P, (m, n)).T), axis=1)
    corner = jnp.zeros((m, m)) if E is None else -jnp.diag(E)
    return jnp.concatenate((upper, jnp.concatenate((to_dense(Q, (m, n)), corner), axis=1)))


def _pairs(n: int) -> list[tuple[int, int]]:
    return [(k, i) for k in range(n - 1) for i in range(k + 1, n)]


def _factor_with_pivots(a: Float[Array, "n n"]) -> tuple[Array, Bool[Array, " exchanges"]]:
    rows, exchanges = list(a), []
    for k, i in _pairs(len(rows)):
        larger = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
        rows[k], rows[i] = _exchange(larger, rows[k], rows[i])
        exchanges.append(larger)
        if i == len(rows) - 1:
            rows[k + 1 :] = [_eliminate_row(row, rows[k], k) for row in rows[k + 1 :]]
    return jnp.stack(rows), jnp.stack(exchanges) if exchanges else jnp.zeros(0, bool)


def _solve_with_pivots(lu: Float[Array, "n n"], exchanges: Bool[Array, " exchanges"], b: Float[Array, " n"]) -> Array:
    rows = list(b)
    for place, (k, i) in enumerate(_pairs(len(rows))):
        rows[k], rows[i] = _exchange(exchanges[place], rows[k], rows[i])
    return lu_solve(lu, jnp.stack(rows))


def _factor_by_lapack(a: Float[Array, "n n"]) -> tuple[Array, Bool[Array, " exchanges"]]:
    lu, pivots = jax.scipy.linalg.lu_factor(a)
    first, second = np.triu_indices(len(a), 1)
    return lu, pivots[first] == second


def _solve_by_lapack(lu: Float[Array, "n n"], exchanges: Bool[Array, " exchanges"], b: Float[Array, " n"]) -> Array:
    first, second = np.triu_indices(len(b), 1)
    pivots = (
        jnp.arange(len(b), dtype=jnp.int32).at[first].add(jnp.where(exchanges, second - first, 0).astype(jnp.int32))
    )
    return jax.scipy.linalg.lu_solve((lu, pivots), b)


def _exchange(condition: Array, a: Array, b: Array) -> tuple[Array, Array]:
    return jnp.where(condition, b, a), jnp.where(condition, a, b)


def _eliminate_row(row: Float[Array, " n"], pivot: Float[Array, " n"], k: int) -> Float[Array, " n"]:
    """The row less a multiple of the pivot's; the factor is stored at place k."""
    factor = row[k] / pivot[k]
    return jnp.concatenate((row[:k], factor[None], row[k + 1 :] - factor * pivot[k + 1 :]))


@jax.jit
def lu_factor(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Triangular factors in one array: unit lower below the diagonal, upper on and above it; no pivoting."""
    n, tops, sides = a.shape[0], [], []
    for _ in range(n - 1):
        tops.append(a[:1])
        sides.append(a[1:, :1] / a[:1, :1])
        a = a[1:, 1:] - sides[-1] * a[:1, 1:]
    for top, side in zip(reversed(tops), reversed(sides), strict=True):
        a = jnp.concatenate((top, jnp.concatenate((side, a), axis=1)))
    return a


@jax.jit
def lu_solve(lu: Float[Array, "n n"], b: Array) -> Array:
    """Solution of a factored system for one or several right-hand sides, shape (n,) or (n, k)."""
    n, columns, x = lu.shape[0], lu.T, []
    if n == 0:
        return b
    beside = (None,) * (b.ndim - 1)
    for k in range(n):
        x.append(b[0])
        b = b[1:] - columns[k, k + 1 :, *beside] * x[k]
    b = jnp.stack(x)
    for k in reversed(range(n)):
        x[k] = b[k] / columns[k, k]
        b = b[:k] - columns[k, :k, *beside] * x[k]
    return jnp.stack(x)
