"""Solutions with matrices of about unit size that need no pivots: unrolled for few unknowns, by a loop for more."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.linalg.dense import lu_factor, lu_solve

UNROLLED = 24
"""Unknowns up to which elimination is unrolled: machine code for eight contacts is compiled in 1.4 s."""

Vector = Float[Array, " n"]


def eliminate(a: Float[Array, "n n"]) -> tuple[Callable[[Vector], Vector], Float[Array, ""]]:
    """The function that solves a system with this matrix, and the smallest pivot."""
    if len(a) <= UNROLLED:
        lu = lu_factor(a)
        return lambda b: lu_solve(lu, b), jnp.min(jnp.abs(jnp.diag(lu)), initial=jnp.inf)
    inverse, smallest = _invert(a)
    return lambda b: inverse @ b, smallest


def _invert(a: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
    """The inverse by Gauss and Jordan: each pivot changes the whole matrix by one dyadic product.

    In a loop over elements that is as fast as triangular factors are, and solutions with it take a third of the time.
    """
    index = jnp.arange(len(a))

    def exchange(loop: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], None]:
        a, smallest = loop
        pivot, here = a[k, k], index == k
        row = jnp.where(here, 1.0 + 1.0 / pivot, a[k] / pivot)
        column = jnp.where(here, pivot - 1.0, a[:, k])
        return (a - column[:, None] * row, jnp.minimum(smallest, jnp.abs(pivot))), None

    return jax.lax.scan(exchange, (a, jnp.asarray(jnp.inf)), index)[0]
