"""Pairs of shapes that may touch soon: a list that holds until a shape has moved by half of its margin."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.contact.sparse.shape_table import Boxes, ShapeTable

_FINE = 2**40
"""Places along an axis between which shapes are sorted."""


class Candidates(NamedTuple):
    """Lists of pairs.

    - `first`, `second`: numbers of shapes within their kinds, an array for each kind of pair; `counts`: how many.
    - `boxes`: around the shapes when the lists were made. - `margin`: of the lists.
    - `order`: places of the bodies along the axis along which they are spread most, the ground's last.
    - `is_complete`: whether there was room for all pairs.
    """

    first: tuple[Int[Array, " r"], ...]
    second: tuple[Int[Array, " r"], ...]
    counts: tuple[Int[Array, ""], ...]
    boxes: Boxes
    margin: Float[Array, ""]
    order: Int[Array, " b"]
    is_complete: Bool[Array, ""]

    @classmethod
    def none(cls, table: ShapeTable, bodies: int) -> Candidates:
        """Lists that hold for nothing, before the first search."""
        arrays = tuple(jnp.zeros(kind.room, jnp.int32) for kind in table.pair_kinds)
        counts = tuple(jnp.zeros((), jnp.int64) for _ in table.pair_kinds)
        nowhere = jnp.zeros((table.count, 3))
        order = jnp.arange(bodies, dtype=jnp.int64)
        return cls(arrays, arrays, counts, Boxes(nowhere, nowhere), -jnp.ones(()), order, jnp.asarray(True))

    def holds(self, boxes: Boxes, reach: Array) -> Array:
        """Whether lists have all pairs nearer than `reach`."""
        bounded = jnp.isfinite(boxes.lower)
        moved = jnp.maximum(jnp.abs(boxes.lower - self.boxes.lower), jnp.abs(boxes.upper - self.boxes.upper))
        return 2 * jnp.max(jnp.where(bounded, moved, 0.0)) + reach <= self.margin


class _Pairs(NamedTuple):
    """Pairs so far, as numbers of shapes; `count` may exceed the room for them."""

    first: Int[Array, " r"]
    second: Int[Array, " r"]
    count: Int[Array, ""]

    def append(self, present: Array, first: Array, second: Array) -> _Pairs:
        """The same with those that are present."""

        def place(_: None, count: Array, present: Array) -> tuple[Array, Array]:
            return count + jnp.where(present, 1, 0), count

        count, places = scan_rows(place, None, self.count, present)
        places = jnp.where(present, places, len(self.first))
        put = lambda into, values: into.at[places].set(values, mode="drop")  # noqa: E731
        return _Pairs(put(self.first, first), put(self.second, second), count)


def search(table: ShapeTable, poses: Any, boxes: Boxes, margin: Array) -> Candidates:
    """All pairs of boxes that come within a margin, and that some rule lets touch.

    Shapes are sorted along the axis along which they are spread most, and compared with those that begin before they
    end; planes and large shapes with all.
    """
    still = np.asarray(table.still, int)
    movers = np.setdiff1d(np.arange(table.count), still)
    room = sum(kind.room for kind in table.pair_kinds)
    none = jnp.zeros(room, jnp.int32)
    pairs = _Pairs(none, none, jnp.zeros((), jnp.int64))
    everything = jnp.arange(table.count, dtype=jnp.int32)
    for number in still.tolist():
        here = jnp.full(table.count, number, jnp.int32)
        if number in table.planes:
            near = table.depth_of_planes(poses, number) <= 2 * margin
        else:
            near = _meet(boxes, here, everything, margin)
        allowed = (table.rules[number] >= 0) & near & ~(jnp.isin(everything, still) & (everything < number))
        pairs = pairs.append(allowed, here, everything)
    axis = jnp.argmax(jnp.max(boxes.lower[movers], axis=0) - jnp.min(boxes.lower[movers], axis=0))
    along = boxes.lower[movers][:, axis]
    span = jnp.max(along) - jnp.min(along)
    keys = jnp.floor((along - jnp.min(along)) / jnp.where(span > 0, span, 1.0) * _FINE).astype(jnp.int64)
    sequence = jnp.argsort(keys)
    sequence = jnp.asarray(movers, jnp.int32)[sequence]
    pairs = _sweep(table, boxes, margin, sequence, axis, pairs)
    return _by_kinds(table, pairs, boxes, margin, _places(table, sequence, len(poses.x)))


def _meet(boxes: Boxes, first: Array, second: Array, margin: Array) -> Array:
    """Whether boxes come within a margin."""
    one = boxes.lower[first] <= boxes.upper[second] + margin
    return jnp.all(one & (boxes.lower[second] <= boxes.upper[first] + margin), axis=1)


def _sweep(table: ShapeTable, boxes: Boxes, margin: Array, sequence: Array, axis: Array, pairs: _Pairs) -> _Pairs:
    """Pairs of sorted shapes, by their distance in the sequence as long as any overlap along the axis."""
    n = len(sequence)
    begins, ends = boxes.lower[sequence][:, axis], boxes.upper[sequence][:, axis] + margin
    places = jnp.arange(n)

    def more(loop: tuple[Array, Array, _Pairs]) -> Array:
        distance, some, _ = loop
        return some & (distance < n)

    def advance(loop: tuple[Array, Array, _Pairs]) -> tuple[Array, Array, _Pairs]:
        distance, _, pairs = loop
        other = jnp.minimum(places + distance, n - 1)
        overlaps = (places + distance < n) & (begins[other] <= ends)
        first, second = sequence, sequence[other]
        allowed = table.rules[first, second] >= 0
        near = overlaps & allowed & _meet(boxes, first, second, margin)
        return distance + 1, jnp.any(overlaps), pairs.append(near, first, second)

    return jax.lax.while_loop(more, advance, (jnp.ones((), int), jnp.asarray(True), pairs))[2]


def _places(table: ShapeTable, sequence: Array, bodies: int) -> Int[Array, " b"]:
    """Places of bodies in the sequence of their first shapes, the ground's last."""
    nodes = jnp.asarray(table.all_nodes)[sequence]
    late = jnp.full(bodies, table.count + bodies, jnp.int64)
    first = late.at[nodes].min(jnp.arange(len(sequence), dtype=jnp.int64))
    ranks = jnp.zeros(bodies, jnp.int64).at[jnp.argsort(first)].set(jnp.arange(bodies, dtype=jnp.int64))
    return ranks.at[bodies - 1].set(bodies)


def _by_kinds(table: ShapeTable, pairs: _Pairs, boxes: Boxes, margin: Array, order: Array) -> Candidates:
    """Pairs split by kinds, each with the shape of its first kind first."""
    kinds, starts = jnp.asarray(table.kind_of()), table.starts
    listed = jnp.arange(len(pairs.first)) < pairs.count
    of_first, of_second = kinds[pairs.first], kinds[pairs.second]
    is_complete = pairs.count <= len(pairs.first)
    firsts, seconds, counts = [], [], []
    for kind in table.pair_kinds:
        straight = (of_first == kind.first) & (of_second == kind.second)
        swapped = (of_first == kind.second) & (of_second == kind.first) & ~straight
        if kind.first == kind.second:
            # The order in which shapes are sorted changes, that of their numbers doesn't.
            swapped = straight & (pairs.first > pairs.second)
        mine = listed & (straight | swapped)
        low = jnp.where(swapped, pairs.second, pairs.first) - starts[kind.first]
        high = jnp.where(swapped, pairs.first, pairs.second) - starts[kind.second]
        none = jnp.zeros(kind.room, jnp.int32)
        own = _Pairs(none, none, jnp.zeros((), jnp.int64)).append(mine, low, high)
        firsts.append(own.first)
        seconds.append(own.second)
        counts.append(jnp.minimum(own.count, kind.room))
        is_complete = is_complete & (own.count <= kind.room)
    return Candidates(tuple(firsts), tuple(seconds), tuple(counts), boxes, margin, order, is_complete)
