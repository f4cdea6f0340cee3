"""Search for near edges by sorted cells, at linear cost."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

_FARTHEST = 2**20
"""Cells in one direction: three such numbers fit into 63 bits."""

STRETCHES = 9
"""Rows of three cells around one."""


class Stretches(NamedTuple):
    """Where the neighbours of each point are among all points in the order of their cells.

    - `order`: numbers of the points, sorted. - `first`, `last`: for each point nine stretches of that order, `last`
      not included.
    """

    order: Int[Array, " n"]
    first: Int[Array, "n 9"]
    last: Int[Array, "n 9"]


def neighbour_stretches(x: Float[Array, "n 3"], cell: Array) -> Stretches:
    """All points within the size of a cell of each point, and some more; each stretch is three cells in a row.

    Cells that are farther apart than a million of them count as one, which costs time, but loses no neighbour.
    """
    numbers = jnp.floor((x - jnp.min(x, axis=0)) / cell)
    ix, iy, iz = jnp.clip(numbers, 0, _FARTHEST - 1).astype(jnp.int64).T
    # An empty cell at each end, so that the last of a row isn't next to the first of another.
    nx, ny = jnp.max(ix) + 3, jnp.max(iy) + 3
    keys = (iz * ny + iy) * nx + ix
    order = jnp.argsort(keys).astype(jnp.int32)
    ordered = keys[order]
    rows = jnp.arange(STRETCHES)
    begin = keys[:, None] + (rows // 3 - 1) * ny * nx + (rows % 3 - 1) * nx - 1
    first = jnp.searchsorted(ordered, begin.reshape(-1), side="left").reshape(begin.shape)
    last = jnp.searchsorted(ordered, begin.reshape(-1) + 2, side="right").reshape(begin.shape)
    return Stretches(order, first.astype(jnp.int32), last.astype(jnp.int32))
