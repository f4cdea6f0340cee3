"""Solutions with matrices of about unit size that need no pivots: unrolled for few unknowns, by loops for more."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.compiler.primitives.elimination import eliminate as eliminate_in_loops
from polhode.linalg.dense import lu_factor, lu_solve

UNROLLED = 24
"""Unknowns up to which elimination is unrolled: machine code for eight contacts is compiled in 1.4 s."""

Vector = Float[Array, " n"]


def eliminate(a: Float[Array, "n n"]) -> tuple[Callable[[Vector], Vector], Float[Array, ""]]:
    """The function that solves a system with this matrix, and the smallest pivot."""
    n = len(a)
    if n <= UNROLLED:
        lu = lu_factor(a)
        return lambda b: lu_solve(lu, b), jnp.min(jnp.abs(jnp.diag(lu)), initial=jnp.inf)
    # Loops begin with the last unknown, and here pivots are to begin with the first.
    factors = eliminate_in_loops(_factorise, a[::-1, ::-1], tuple(tuple(range(k)) for k in range(n)))
    return lambda b: _substitute(factors, b[::-1])[::-1], 1 / jnp.max(jnp.abs(jnp.diag(factors)))


def _factorise(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """From the last unknown on: reciprocal pivots, their rows on the left, and columns times reciprocals above."""
    index = jnp.arange(len(a))

    def exchange(a: Array, k: Array) -> tuple[Array, None]:
        reciprocal, earlier = 1.0 / a[k, k], index < k
        column = jnp.where(earlier, a[:, k] * reciprocal, 0.0)
        after = a - column[:, None] * jnp.where(earlier, a[k], 0.0)
        here = jnp.where(index == k, reciprocal, jnp.where(earlier, column, a[:, k]))
        return jnp.where(index == k, here[:, None], after), None

    return jax.lax.scan(exchange, a, index, reverse=True)[0]


@jax.jit
def _substitute(factors: Float[Array, "n n"], b: Vector) -> Vector:
    """The solution with such factors."""
    x: list[Array] = []
    for k in reversed(range(len(factors))):
        x.insert(0, b[k])
        b = b[:k] - factors[:k, k] * b[k]
    b = jnp.stack(x)
    for k in range(len(factors)):
        x[k] = b[0] * factors[k, k]
        b = b[1:] - factors[k + 1 :, k] * x[k]
    return jnp.stack(x)
