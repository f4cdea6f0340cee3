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


class Period(NamedTuple):
    """Lengths after which space repeats along the axes, any number along those that are open."""

    lengths: Vectors
    repeats: tuple[bool, bool, bool]

    def nearest(self, d: Vectors) -> Vectors:
        """The shortest of the vectors to all images of a point."""
        each = zip(d, self.lengths, self.repeats, strict=True)
        return tuple(a - L * jnp.round(a / L) if repeats else a for a, L, repeats in each)

    def wrap(self, x: Vectors) -> Vectors:
        """The images of points from 0 to the length."""
        each = zip(x, self.lengths, self.repeats, strict=True)
        return tuple(a - L * jnp.floor(a / L) if repeats else a for a, L, repeats in each)


class Neighbours(NamedTuple):
    """Lists that stay complete until some particle has moved by half of the skin against the mean of all.

    - `members`: numbers of the neighbours, shape (capacity, n), padded with the particle itself.
    - `at`: positions for which the lists were built. - `longest`: length of the longest list.
    """

    members: Int[Array, "capacity n"]
    at: Vectors
    longest: Array


def search(
    x: Vectors,
    reach: Array,
    cell: Any,
    partners: Array | None,
    capacity: int,
    mine: Array | None = None,
    period: Period | None = None,
    active: Array | None = None,
    groups: Array | None = None,
) -> tuple[Neighbours, Array]:
    """All pairs closer than the sum of their `reach`, shape (n,), but for `partners`; and a `Result` code.

    `cell`: twice the largest reach. Particles are sorted by cells of that size, so that neighbours lie in nine
    stretches of three cells; the loop is as long as the fullest of these. With a `period`, which has to be twice the
    size of a cell or more, cells fill it without a rest, and the stretches are 27 cells. `mine`: numbers of the
    particles whose neighbours and `partners` these are; None for all. `active`: which particles have neighbours at all;
    None for all. `groups`: a number for each particle; those with the same one are no neighbours.
    """
    x = tuple(jax.lax.stop_gradient(a) for a in x)
    n = x[0].shape[0]
    me = jnp.arange(n, dtype=jnp.int32) if mine is None else mine
    of_mine = lambda a: a if mine is None else a[mine]  # noqa: E731
    here, my_reach = tuple(of_mine(a) for a in x), of_mine(reach)
    row = jnp.arange(len(me), dtype=jnp.int32)
    # Others are in the cell of one that is active, and behind all in the order.
    within = x if active is None else tuple(jnp.where(active, a, a[jnp.argmax(active)]) for a in x)
    grid = _Rows(within, cell) if period is None else _Tiles(within, cell, period)
    key = grid.key if active is None else jnp.where(active, grid.key, jnp.iinfo(grid.key.dtype).max)
    order = jnp.argsort(key).astype(jnp.int32)
    sorted_keys, my_cells = key[order], jax.tree.map(of_mine, grid.cells)
    apart = (lambda d: d) if period is None else period.nearest

    def stretch(k: Array, lists: tuple[Array, Array]) -> tuple[Array, Array]:
        first, last = grid.stretch(my_cells, k)
        start = jnp.searchsorted(sorted_keys, first, side="left").astype(jnp.int32)
        stop = jnp.searchsorted(sorted_keys, last, side="right").astype(jnp.int32)

        def one(s: Array, lists: tuple[Array, Array]) -> tuple[Array, Array]:
            members, count = lists
            j = order[jnp.minimum(start + s, n - 1)]
            d = apart(subtract(here, tuple(a[j] for a in x)))
            near = (start + s < stop) & (j != me) & (dot(d, d) < (my_reach + reach[j]) ** 2)
            if active is not None:
                near = near & of_mine(active) & active[j]
            if groups is not None:
                near = near & (of_mine(groups) != groups[j])
            if partners is not None:
                near = near & jnp.all(partners != j, axis=0)
            place = jnp.where(near, jnp.minimum(count, capacity), capacity)
            return members.at[place, row].set(j, mode="drop", unique_indices=True), count + near

        return jax.lax.fori_loop(0, jnp.max(stop - start), one, lists)

    empty = jnp.broadcast_to(me, (capacity, len(me))), jnp.zeros(len(me), jnp.int32)
    members, count = jax.lax.fori_loop(0, grid.stretches, stretch, empty)
    longest = jnp.max(count)
    code = jnp.where(longest > capacity, int(Result.too_many_neighbours), 0)
    return Neighbours(members, here, longest), jnp.where(grid.is_lost, int(Result.lost_particles), code).astype(
        jnp.int32
    )


class _Rows:
    """Cells in rows of open space; a row has an empty cell at each end, so that the last of one isn't next to the first
    of another."""

    stretches = 9

    def __init__(self, x: Vectors, cell: Any) -> None:
        numbers = tuple(jnp.floor((a - jnp.min(a)) / cell) for a in x)
        self.is_lost = jnp.max(jnp.stack([jnp.max(a) for a in numbers])) >= _FARTHEST
        ix, iy, iz = (jnp.clip(a, 0, _FARTHEST - 1).astype(jnp.int64) for a in numbers)
        self.nx, self.ny = jnp.max(ix) + 3, jnp.max(iy) + 3
        self.key = self.cells = (iz * self.ny + iy) * self.nx + ix

    def stretch(self, cells: Any, k: Array) -> tuple[Array, Array]:
        """Keys of the first and last cell of stretch k around these cells."""
        begin = cells + ((k // 3 - 1) * self.ny + k % 3 - 1) * self.nx - 1
        return begin, begin + 2


class _Tiles:
    """Cells that fill a period; along axes with less than three of them each is a neighbour once."""

    stretches = 27

    def __init__(self, x: Vectors, cell: Any, period: Period) -> None:
        self.repeats, lost = period.repeats, jnp.zeros((), bool)
        numbers, counts = [], []
        for a, L, repeats in zip(period.wrap(x), period.lengths, period.repeats, strict=True):
            count = jnp.clip(jnp.floor(L / cell), 1, _FARTHEST)
            number = jnp.floor(a / (L / count) if repeats else (a - jnp.min(a)) / cell)
            lost = lost | (jnp.max(number) >= _FARTHEST)
            number = jnp.clip(number, 0, (count if repeats else _FARTHEST) - 1).astype(jnp.int64)
            numbers.append(number)
            counts.append(count.astype(jnp.int64) if repeats else jnp.max(number) + 1)
        self.is_lost, self.counts, self.cells = lost, counts, tuple(numbers)
        self.key = self._key(self.cells)

    def _key(self, cells: Any) -> Array:
        ix, iy, iz = cells
        return (iz * self.counts[1] + iy) * self.counts[0] + ix

    def stretch(self, cells: Any, k: Array) -> tuple[Array, Array]:
        """Keys of cell k around these cells, first and last of none if there is none."""
        there, around = jnp.ones(cells[0].shape, bool), []
        for number, count, repeats, shift in zip(
            cells, self.counts, self.repeats, (k % 3 - 1, k // 3 % 3 - 1, k // 9 - 1), strict=True
        ):
            i = number + shift
            if repeats:
                there = there & ((shift == 0) | (count > 2) | ((count == 2) & (shift > 0)))
                i = jnp.where(i < 0, i + count, jnp.where(i >= count, i - count, i))
            else:
                there = there & (i >= 0) & (i < count)
            around.append(i)
        key = self._key(around)
        return jnp.where(there, key, -1), jnp.where(there, key, -2)


def stale(lists: Neighbours, x: Vectors, skin: Any, active: Array | None = None) -> Array:
    """Whether a particle has moved relative to the mean by over half of the skin since the lists were built; of those
    that are `active`."""
    d = subtract(x, lists.at)
    d = d if active is None else tuple(jnp.where(active, a, 0.0) for a in d)
    d = subtract(d, tuple(jnp.mean(a) for a in d))
    square = dot(d, d)
    farthest = jnp.max(square if active is None else jnp.where(active, square, 0.0))
    # Positions that are not finite end the run; they would all fall into one cell.
    return jnp.isfinite(farthest) & (farthest > (0.5 * skin) ** 2)
