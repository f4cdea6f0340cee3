"""Inverses of many small matrices, without pivots."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def invert(blocks: Float[Array, "k n n"]) -> Float[Array, "k n n"]:
    """The inverse of each matrix by the method of Gauss and Jordan; pivots must not vanish."""
    n = blocks.shape[-1]
    rows = [[blocks[..., i, j] for j in range(n)] for i in range(n)]
    for p in range(n):
        pivot = 1 / rows[p][p]
        rows[p] = [pivot if j == p else rows[p][j] * pivot for j in range(n)]
        for i in range(n):
            if i != p:
                factor = rows[i][p]
                rows[i] = [-factor * pivot if j == p else rows[i][j] - factor * rows[p][j] for j in range(n)]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def multiply(blocks: Float[Array, "k n m"], vectors: Float[Array, "k m"]) -> Float[Array, "k n"]:
    """Products of matrices with vectors."""
    return jnp.sum(blocks * vectors[:, None, :], axis=2)


def matmul(a: Float[Array, "k n m"], b: Float[Array, "k m l"]) -> Float[Array, "k n l"]:
    """Products of matrices."""
    return jnp.sum(a[:, :, :, None] * b[:, None, :, :], axis=2)
