"""Neighbour search by sorted cells, at a cost linear in the number of particles."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from polhode.result_codes import Result
from polhode.spaces.component_arrays import Vectors, dot, subtract

_FARTHEST = 2**20
"""Cells in one direction: three such numbers fit into 63 bits."""


class Neighbours(NamedTuple):
    """Lists that stay complete until some particle has moved by half of the skin against the mean of all.

    - `members`: numbers of the neighbours, shape (capacity, n), padded with the particle itself.
    - `at`: positions for which the lists were built. - `longest`: length of the longest list.
    """

    members: Int[Array, "capacity n"]
    at: Vectors
    longest: Array


def search(
    x: Vectors, reach: Array, cell: Any, partners: Array | None, capacity: int, mine: Array | None = None
) -> tuple[Neighbours, Array]:
    """All pairs closer than the sum of their `reach`, shape (n,), but for `partners`; and a `Result` code.

    `cell`: twice the largest reach. Particles are sorted by cells of that size, so that neighbours lie in nine
    stretches of three cells; the loop is as long as the fullest of these. `mine`: numbers of the particles whose
    neighbours and `partners` these are; None for all.
    """
    x = tuple(jax.lax.stop_gradient(a) for a in x)
    n = x[0].shape[0]
    me = jnp.arange(n, dtype=jnp.int32) if mine is None else mine
    of_mine = lambda a: a if mine is None else a[mine]  # noqa: E731
    here, my_reach = tuple(of_mine(a) for a in x), of_mine(reach)
    row = jnp.arange(len(me), dtype=jnp.int32)
    numbers = tuple(jnp.floor((a - jnp.min(a)) / cell) for a in x)
    is_lost = jnp.max(jnp.stack([jnp.max(a) for a in numbers])) >= _FARTHEST
    ix, iy, iz = (jnp.clip(a, 0, _FARTHEST - 1).astype(jnp.int64) for a in numbers)
    # Rows have an empty cell at each end, so that the last of one isn't next to the first of another.
    nx, ny = jnp.max(ix) + 3, jnp.max(iy) + 3
    key = (iz * ny + iy) * nx + ix
    order = jnp.argsort(key).astype(jnp.int32)
    sorted_keys, my_key = key[order], of_mine(key)

    def stretch(k: Array, lists: tuple[Array, Array]) -> tuple[Array, Array]:
        begin = my_key + ((k // 3 - 1) * ny + k % 3 - 1) * nx - 1
        start = jnp.searchsorted(sorted_keys, begin, side="left").astype(jnp.int32)
        stop = jnp.searchsorted(sorted_keys, begin + 2, side="right").astype(jnp.int32)

        def one(s: Array, lists: tuple[Array, Array]) -> tuple[Array, Array]:
            members, count = lists
            j = order[jnp.minimum(start + s, n - 1)]
            d = subtract(here, tuple(a[j] for a in x))
            near = (start + s < stop) & (j != me) & (dot(d, d) < (my_reach + reach[j]) ** 2)
            if partners is not None:
                near = near & jnp.all(partners != j, axis=0)
            place = jnp.where(near, jnp.minimum(count, capacity), capacity)
            return members.at[place, row].set(j, mode="drop", unique_indices=True), count + near

        return jax.lax.fori_loop(0, jnp.max(stop - start), one, lists)

    empty = jnp.broadcast_to(me, (capacity, len(me))), jnp.zeros(len(me), jnp.int32)
    members, count = jax.lax.fori_loop(0, 9, stretch, empty)
    longest = jnp.max(count)
    code = jnp.where(longest > capacity, int(Result.too_many_neighbours), 0)
    return Neighbours(members, here, longest), jnp.where(is_lost, int(Result.lost_particles), code).astype(jnp.int32)


def stale(lists: Neighbours, x: Vectors, skin: Any) -> Array:
    """Whether a particle has moved relative to the mean by over half of the skin since the lists were built."""
    d = subtract(x, lists.at)
    d = subtract(d, tuple(jnp.mean(a) for a in d))
    farthest = jnp.max(dot(d, d))
    # Positions that are not finite end the run; they would all fall into one cell.
    return jnp.isfinite(farthest) & (farthest > (0.5 * skin) ** 2)
