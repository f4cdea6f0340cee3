"""Shapes of many bodies by kinds, and which of them touch by which rule."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode.compiler.primitives.row_loop import map_rows
from polhode.contact.distances import APART, ContactPoints, contact_points, slots
from polhode.contact.shapes import AbstractShape, Plane
from polhode.linalg.blocks import Indices
from polhode.linalg.known_places import take

_CHUNK = 16
"""Pairs whose points are computed together: after the last one that there is, the rest of them are for nothing."""


class Boxes(NamedTuple):
    """Lowest and highest coordinates of shapes, infinite for planes."""

    lower: Float[Array, "s 3"]
    upper: Float[Array, "s 3"]


class PairKind(NamedTuple):
    """Two kinds of shapes with a distance, by their numbers, and the room for pairs of them in a list."""

    first: int
    second: int
    room: int


class ShapeTable(eqx.Module):
    """Shapes in the order of their kinds.

    - `kinds`: stacked shapes. - `nodes`: rows of a motion that carry them, kind by kind.
    - `radius`: of a ball about each shape; infinite for planes.
    - `rules`: number of the rule of two shapes, -1 for none; shape (s, s).
    - `pair_kinds`: those that rules let touch. - `still`: numbers of shapes that are compared with all others.
    """

    kinds: tuple[AbstractShape, ...]
    nodes: tuple[Indices, ...] = eqx.field(static=True)
    radius: Float[Array, " s"]
    rules: Int[Array, "s s"]
    pair_kinds: tuple[PairKind, ...] = eqx.field(static=True)
    still: tuple[int, ...] = eqx.field(static=True)

    @property
    def starts(self) -> list[int]:
        """The number of the first shape of each kind."""
        counts = [len(nodes.numbers) for nodes in self.nodes]
        return [0, *np.cumsum(counts).tolist()]

    @property
    def count(self) -> int:
        """The number of shapes."""
        return self.starts[-1]

    @property
    def all_nodes(self) -> np.ndarray:
        """The row of a motion of each shape."""
        return np.concatenate([nodes.numbers for nodes in self.nodes])

    @property
    def planes(self) -> set[int]:
        """Numbers of planes."""
        starts = self.starts
        ranges = [range(*starts[k : k + 2]) for k, shapes in enumerate(self.kinds) if isinstance(shapes, Plane)]
        return {number for numbers in ranges for number in numbers}

    def kind_of(self) -> np.ndarray:
        """The kind of each shape."""
        return np.repeat(np.arange(len(self.kinds)), np.diff(self.starts))

    def boxes(self, poses: Any) -> Boxes:
        """Boxes around all shapes."""
        lower, upper = [], []
        for shapes, nodes in zip(self.kinds, self.nodes, strict=True):
            pose = take(poses.x, nodes.numbers), take(poses.R, nodes.numbers)
            if isinstance(shapes, Plane):
                ends = (jnp.full((len(nodes.numbers), 3), -jnp.inf), jnp.full((len(nodes.numbers), 3), jnp.inf))
            else:
                ends = map_rows(lambda _, shape, pose: shape.bounds(pose), None, shapes, pose)
            lower.append(ends[0])
            upper.append(ends[1])
        return Boxes(jnp.concatenate(lower), jnp.concatenate(upper))

    def depth_of_planes(self, poses: Any, number: int) -> Float[Array, " s"]:
        """Distances of all shapes from the plane with a number, by their balls."""
        kind = int(self.kind_of()[number])
        plane = jax.tree.map(lambda x: x[number - self.starts[kind]], self.kinds[kind])
        node = int(self.all_nodes[number])
        x, R = plane.pose_in((poses.x[node], poses.R[node]))
        centres = jnp.concatenate(
            [
                take(poses.x, nodes.numbers)
                + jnp.sum(take(poses.R, nodes.numbers) * shapes.position[:, None, :], axis=2)
                for shapes, nodes in zip(self.kinds, self.nodes, strict=True)
            ]
        )
        return jnp.sum((centres - x) * R[:, 2], axis=1) - self.radius

    def points(self, kind: PairKind, first: Array, second: Array, count: Array, poses: Any) -> ContactPoints:
        """Points of the first `count` pairs of a list, numbers within their kinds; shape (room · slots, …)."""
        one, other = self.kinds[kind.first], self.kinds[kind.second]
        nodes = [jnp.asarray(self.nodes[k].numbers) for k in (kind.first, kind.second)]
        each = slots(one, other)
        room = len(first)

        def of_chunk(start: Array) -> ContactPoints:
            rows = []
            for shapes, numbers, row in ((one, first, nodes[0]), (other, second, nodes[1])):
                chosen = jax.lax.dynamic_slice(numbers, (start,), (_CHUNK,))
                at = row[chosen]
                rows += [jax.tree.map(lambda x, chosen=chosen: x[chosen], shapes), (poses.x[at], poses.R[at])]
            return map_rows(lambda _, *row: contact_points(*row), None, *rows)

        shapes_of = jax.eval_shape(of_chunk, jnp.zeros((), int))
        empty = jax.tree.map(lambda x: jnp.zeros((room, *x.shape[1:]), x.dtype), shapes_of)
        empty = empty._replace(gap=jnp.full((room, each), APART))

        def advance(loop: tuple[Array, ContactPoints]) -> tuple[Array, ContactPoints]:
            start, points = loop
            here = of_chunk(start)
            points = jax.tree.map(
                lambda all_, new: jax.lax.dynamic_update_slice(all_, new, (start, *(0,) * (new.ndim - 1))), points, here
            )
            return start + _CHUNK, points

        start = jnp.zeros((), count.dtype)
        _, points = jax.lax.while_loop(lambda loop: loop[0] < count, advance, (start, empty))
        present = (jnp.arange(room) < count)[:, None]
        points = points._replace(gap=jnp.where(present, points.gap, APART))
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), points)


def round_up(room: int) -> int:
    """The next multiple of the size of chunks."""
    return -(-room // _CHUNK) * _CHUNK
