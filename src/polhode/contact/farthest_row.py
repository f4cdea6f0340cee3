"""The row of many that is farthest along a direction."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from polhode.compiler.primitives.row_loop import scan_rows

FEW = 24
"""Rows up to which a program is written out rather than a loop."""


def farthest_row(rows: Float[Array, "n k"], direction: Float[Array, " k"]) -> Int[Array, ""]:
    """The number of the first row with the largest product with a direction. Without derivatives."""
    rows, direction = jax.lax.stop_gradient((rows, direction))
    if len(rows) <= FEW:
        return jnp.argmax(rows @ direction)

    def visit(direction: Any, best: tuple[Array, Array], row: tuple[Array, Array]) -> tuple[Any, tuple[()]]:
        height = row[0] @ direction
        higher = height > best[0]
        return (jnp.where(higher, height, best[0]), jnp.where(higher, row[1], best[1])), ()

    start = (jnp.asarray(-jnp.inf), jnp.asarray(0))
    return scan_rows(visit, direction, start, (rows, jnp.arange(len(rows))))[0][1]
