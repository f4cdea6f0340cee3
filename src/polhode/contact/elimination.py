"""Triangular factors without libraries: unrolled for few unknowns, by loops for more."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.linalg.dense import lu_factor, lu_solve

UNROLLED = 24
"""Unknowns up to which elimination is unrolled."""


def factor(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Unit lower factor below the diagonal, upper one on and above it; no pivoting."""
    n = a.shape[0]
    if n <= UNROLLED:
        return lu_factor(a)
    index = jnp.arange(n)

    def eliminate(a: Array, k: Array) -> tuple[Array, None]:
        row, column = a[k], a[:, k]
        below = index > k
        multiples = jnp.where(below, column / row[k], 0.0)
        a = a - multiples[:, None] * jnp.where(below, row, 0.0)
        return jnp.where(below[:, None] & (index == k), multiples[:, None], a), None

    return jax.lax.scan(eliminate, a, index)[0]


def solve_factored(lu: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """The solution of a factored system."""
    n = lu.shape[0]
    if n <= UNROLLED:
        return lu_solve(lu, b)
    index = jnp.arange(n)

    def forward(x: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        k, of_row = row
        value = jnp.sum(jnp.where(index < k, of_row * x, 0.0))
        return jnp.where(index == k, x - value, x), None

    def backward(x: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        k, of_row = row
        value = jnp.sum(jnp.where(index > k, of_row * x, 0.0))
        pivot = jnp.sum(jnp.where(index == k, of_row, 0.0))
        return jnp.where(index == k, (x - value) / pivot, x), None

    x = jax.lax.scan(forward, b, (index, lu))[0]
    return jax.lax.scan(backward, x, (index, lu), reverse=True)[0]
