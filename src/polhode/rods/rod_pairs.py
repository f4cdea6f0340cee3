"""Compliant contact between edges of rods, of different rods or of one, found by a search in each evaluation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from polhode.compiler.primitives.row_loop import map_rows
from polhode.linalg.blocks import Indices
from polhode.linalg.known_places import add_entries, set_entries, take
from polhode.multibody.mechanism.groups import ForceGroup, Motion
from polhode.multibody.mechanism.near_forces import AbstractNearForces, NearParts
from polhode.multibody.mechanism.poses import Pose, Wrench
from polhode.rods.cells import STRETCHES, neighbour_stretches
from polhode.rods.centre_line import CentreLine, NodeLoads, Velocities, node_weights
from polhode.rods.contact_law import LineLaw
from polhode.rods.contact_patch import STATIONS, Span, contact_span, negative_span, square_like
from polhode.spaces.base import hat

Vector3 = Float[Array, "3"]
Scalar = Float[Array, ""]

_BULGE = 4 / 27
"""The largest distance of a cubic from its chord, over the difference of a tangent and the chord."""

_STEPS, _FEW_STEPS = 3, 2
"""Steps of Newton's method to nearest points: where forces act, and to find where that is."""

_TIE = 1e-300
"""A point exactly beside a node belongs to the edge that begins there."""


class EdgeTable(eqx.Module):
    """Numbers of edges that stay the same as they move, stacked.

    - `first`, `second`: numbers of their nodes. - `length`, `radius`: without stress, and for contact.
    - `start`, `stop`: places along their rod; `turn`: length of a closed rod, infinite of an open one.
    - `rod`: its number. - `opens`, `closes`: whether the edge begins or ends its rod.
    - `touches`: whether two rods may touch, shape (rods, rods).
    """

    first: Indices = eqx.field(static=True)
    second: Indices = eqx.field(static=True)
    length: Float[Array, " e"]
    radius: Float[Array, " e"]
    start: Float[Array, " e"]
    stop: Float[Array, " e"]
    turn: Float[Array, " e"]
    rod: Int[Array, " e"]
    opens: Bool[Array, " e"]
    closes: Bool[Array, " e"]
    touches: Bool[Array, "rods rods"]


class MovingEdge(NamedTuple):
    """An edge in a state, or all of them stacked; `velocities` None where they don't count."""

    number: Int[Array, ""]
    line: CentreLine
    velocities: Velocities | None
    middle: Vector3
    reach: Scalar
    length: Scalar
    radius: Scalar
    start: Scalar
    stop: Scalar
    turn: Scalar
    rod: Int[Array, ""]
    opens: Bool[Array, ""]
    closes: Bool[Array, ""]


class Touch(NamedTuple):
    """A point of contact of the first edge of a pair with the second.

    - `weight`: the length that belongs to it. - `gap`, `normal`: from the second edge to the first.
    - `places`: along both edges. - `arms`: from their centre lines to the point. - `relative`: velocity of the first.
    """

    weight: Scalar
    gap: Scalar
    normal: Vector3
    places: tuple[Scalar, Scalar]
    arms: tuple[Vector3, Vector3]
    relative: Vector3


class RodPairs(AbstractNearForces):
    r"""Edges that push each other by a law per length, with the potential $\int\phi(\delta)\,ds$ along one of them.

    Of each pair of edges it is the first in order along which the depth in the other is summed, where the nearest
    point of that lies on it: beyond, the next edge goes on. So forces change smoothly where contacts move along rods.
    Crossed rods have a depth that is a parabola, and a force that grows as its power p + ½; parallel ones have the law
    itself. Edges of one rod don't touch where there is less than half of a circle, π radii, of it between them.

    **Arguments:**

    - `table`: the edges. - `law`: per length of the first rod.
    - `rows`: of the nodes in a motion; the ground's where they are clamped, at `clamps`.
    - `parts`: edges by kinds of nodes. - `stiffest`: each pressed by others. - `rods`: names of the rods.
    """

    table: EdgeTable
    law: LineLaw
    rows: Indices = eqx.field(static=True)
    clamped: Indices = eqx.field(static=True)
    clamps: Pose
    parts: tuple[NearParts, ...]
    stiffest: tuple[ForceGroup, ...]
    rods: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def conservative(self) -> bool:
        return self.law.elastic

    @property
    def inner(self) -> bool:
        return not self.clamped.numbers.size

    @property
    def node_rows(self) -> list[int]:
        return self.rows.numbers.tolist()

    @property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the first and the second node of each edge in a motion."""
        rows = self.rows.numbers
        return rows[self.table.first.numbers], rows[self.table.second.numbers]

    def edge_forces(self, motion: Motion) -> Float[Array, "e 3"]:
        """The resultant of the contacts of each edge."""
        loads = self._edge_loads(motion)
        return loads.first + loads.second

    def _edge_loads(self, motion: Motion) -> NodeLoads:
        """Loads on both nodes of each edge, stacked."""

        def own(pair: _Pair, touch: Touch) -> NodeLoads:
            return pair.own_loads(touch, touch.weight * self.law.force(touch.gap, touch.normal, touch.relative))

        return self._sum(motion, own, NodeLoads(*(jnp.zeros(3),) * 4))

    def loads(self, motion: Motion) -> Wrench:
        sums = self._edge_loads(motion)
        count, (first, second) = motion.poses.x.shape[0], self._ends
        none = jnp.zeros((count, 3))
        force = add_entries(add_entries(none, sums.first, first), sums.second, second)
        moment = add_entries(add_entries(none, sums.first_moment, first), sums.second_moment, second)
        torque = jnp.einsum("nji,nj->ni", motion.poses.R, moment)
        return Wrench(torque[:-1], force[:-1])

    def potential(self, motion: Motion) -> Scalar:
        def energy(pair: _Pair, touch: Touch) -> Scalar:
            del pair
            return touch.weight * self.law.energy(touch.gap)

        # Each pair is met from both of its edges.
        return 0.5 * jnp.sum(self._sum(Motion(motion.poses), energy, jnp.zeros(())))

    def tangents(self, motion: Motion, along_velocities: bool) -> Float[Array, "e 4 6 6"]:
        law = self.law.damping_tangent if along_velocities else self.law.stiffness_tangent

        def own(pair: _Pair, touch: Touch) -> Array:
            matrix = touch.weight * law(touch.gap, touch.normal, touch.relative)
            maps = pair.own_maps(touch)
            return jnp.stack([a.T @ (matrix @ b) for a in maps for b in maps])

        blocks = self._sum(motion, own, jnp.zeros((4, 6, 6)))
        R = [take(motion.poses.R, rows) for rows in self._ends]
        pairs = itertools.product(range(2), repeat=2)
        return jnp.stack([_in_body_frames(R[i], blocks[:, 2 * i + j], R[j]) for i, j in pairs], axis=1)

    def _sum(self, motion: Motion, of: Callable[[_Pair, Touch], Any], zero: Any) -> Any:
        """Sums over all points of contact of each edge of what they contribute to it, stacked."""
        edges = self._edges(motion)
        cell = 2 * jnp.max(edges.reach)
        order, first, last = neighbour_stretches(jax.lax.stop_gradient(edges.middle), jax.lax.stop_gradient(cell))
        tables = edges, order, self.table.touches

        def of_edge(tables: Any, here: MovingEdge, first: Array, last: Array) -> Any:
            edges, order, touches = tables

            def meet(s: Array, total: Any) -> Any:
                there = jax.tree.map(lambda x: x[order[s]], edges)
                near = touches[here.rod, there.rod] & _may_touch(here, there)
                return jax.lax.cond(near, lambda x: _with_pair(x, here, there, of), lambda x: x, total)

            def of_stretch(k: Array, total: Any) -> Any:
                return jax.lax.fori_loop(first[k], last[k], meet, total)

            return jax.lax.fori_loop(0, STRETCHES, of_stretch, zero)

        return map_rows(of_edge, tables, edges, first, last)

    def _edges(self, motion: Motion) -> MovingEdge:
        """All edges in a state."""
        table, (first, second) = self.table, (x.numbers for x in (self.table.first, self.table.second))
        poses = Pose(take(motion.poses.x, self.rows.numbers), take(motion.poses.R, self.rows.numbers))
        if self.clamped.numbers.size:
            places = self.clamped.numbers
            poses = Pose(*(set_entries(x, y, places) for x, y in zip(poses, self.clamps, strict=True)))
        axes = poses.R[:, :, 2]
        x0, x1 = take(poses.x, first), take(poses.x, second)
        a0, a1 = (table.length[:, None] * take(axes, n) for n in (first, second))
        velocities = None
        if motion.twists is not None and not self.law.elastic:
            u, omega = (take(x, self.rows.numbers) for x in (motion.twists.u, motion.twists.omega))
            spin = jnp.einsum("nij,nj->ni", poses.R, omega)
            if self.clamped.numbers.size:
                still = jnp.zeros((len(self.clamped.numbers), 3))
                u, spin = (set_entries(x, still, self.clamped.numbers) for x in (u, spin))
            velocities = Velocities(*(take(x, n) for x in (u, spin) for n in (first, second)))
        chord = x1 - x0
        size = lambda x: jnp.sqrt(jnp.sum(x * x, axis=1))  # noqa: E731
        reach = 0.5 * size(chord) + _BULGE * (size(a0 - chord) + size(a1 - chord)) + table.radius
        return MovingEdge(
            jnp.arange(len(first), dtype=jnp.int32), CentreLine(x0, x1, a0, a1), velocities, 0.5 * (x0 + x1), reach,
            table.length, table.radius, table.start, table.stop, table.turn, table.rod, table.opens, table.closes,
        )  # fmt: skip


def _may_touch(here: MovingEdge, there: MovingEdge) -> Array:
    """Whether two edges are others, near enough, and not neighbours along one rod."""
    d = there.middle - here.middle
    near = d @ d < (here.reach + there.reach) ** 2
    between = jnp.maximum(there.start - here.stop, here.start - there.stop)
    around = here.turn - (jnp.maximum(there.stop, here.stop) - jnp.minimum(there.start, here.start))
    apart = (here.rod != there.rod) | (jnp.minimum(between, around) >= np.pi * here.radius)
    return near & apart & (here.number != there.number)


class _Pair(NamedTuple):
    """A pair of edges, the one along which is summed first; `is_first`: whether the first is the one of interest."""

    first: MovingEdge
    second: MovingEdge
    is_first: Array

    def span(self) -> Span:
        """The part of the first edge that is in contact with the second."""
        first, second = self.first, self.second
        curvature = 1 / (first.radius + second.radius)
        span = contact_span(lambda s: square_like(self.at(s, _FEW_STEPS)[0], curvature))
        points = jax.vmap(first.line.point)(STATIONS)
        before = (points - second.line.first) @ second.line.first_axis
        after = (points - second.line.second) @ second.line.second_axis
        whole = jnp.full(3, -1.0)
        begin = negative_span(jax.lax.stop_gradient(jnp.where(second.opens, whole, -before - _TIE)))
        end = negative_span(jax.lax.stop_gradient(jnp.where(second.closes, whole, after)))
        return span.within(begin).within(end)

    def at(self, s: Scalar, steps: int = _STEPS) -> tuple[Scalar, Vector3, Scalar]:
        """Gap and normal of a place of the first edge, and the place of the second next to it."""
        first, second = self.first, self.second
        point = first.line.point(s)
        t = second.line.nearest(point, steps)
        t = jnp.where(second.opens, jnp.maximum(t, 0.0), t)
        t = jnp.where(second.closes, jnp.minimum(t, 1.0), t)
        # The gap doesn't depend on t where it is least, but its normal does.
        d = point - second.line.point(t)
        square = d @ d
        distance = jnp.sqrt(jnp.where(square > 0, square, 1.0))
        return jnp.where(square > 0, distance, 0.0) - first.radius - second.radius, d / distance, t

    def touch(self, s: Scalar, weight: Scalar) -> Touch:
        """The contact at a place of the first edge."""
        gap, normal, t = self.at(s)
        arms = -(self.first.radius + 0.5 * gap) * normal, (self.second.radius + 0.5 * gap) * normal
        relative = jnp.zeros(3)
        if self.first.velocities is not None and self.second.velocities is not None:
            relative = self.first.line.velocity(self.first.velocities, s, arms[0]) - self.second.line.velocity(
                self.second.velocities, t, arms[1]
            )
        return Touch(self.first.length * weight, gap, normal, (s, t), arms, relative)

    def own_loads(self, touch: Touch, force: Vector3) -> NodeLoads:
        """Loads on the edge of interest of a force on the first."""
        line, s, arm, sign = self._own(touch)
        return line.loads(s, arm, sign * force)

    def own_maps(self, touch: Touch) -> tuple[Array, Array]:
        """Velocities of its point by spin and velocity of each of its nodes, in the inertial frame, (3, 6) each."""
        line, s, arm, _ = self._own(touch)
        h = node_weights(s)
        first = jnp.concatenate((-hat(h[2] * line.first_axis + (1 - s) * arm), h[0] * jnp.eye(3)), axis=1)
        second = jnp.concatenate((-hat(h[3] * line.second_axis + s * arm), h[1] * jnp.eye(3)), axis=1)
        return first, second

    def _own(self, touch: Touch) -> tuple[CentreLine, Scalar, Vector3, Array]:
        one, other = (self.first.line, touch.places[0], touch.arms[0]), (self.second.line, *_last(touch))
        line, s, arm = jax.tree.map(lambda a, b: jnp.where(self.is_first, a, b), one, other)
        return line, s, arm, jnp.where(self.is_first, 1.0, -1.0)


def _last(touch: Touch) -> tuple[Scalar, Vector3]:
    return touch.places[1], touch.arms[1]


def _with_pair(total: Any, here: MovingEdge, there: MovingEdge, of: Callable[[_Pair, Touch], Any]) -> Any:
    """`total` with what the points of contact of two edges contribute to the edge `here`."""
    ahead = here.number < there.number
    first, second = (jax.tree.map(lambda a, b, x=x: jnp.where(x, a, b), here, there) for x in (ahead, ~ahead))
    pair = _Pair(first, second, ahead)
    span = pair.span()

    def add(total: Any) -> Any:
        places, weights = span.patch
        each = jax.vmap(lambda s, weight: of(pair, pair.touch(s, weight)))(places, weights)
        return jax.tree.map(lambda x, parts: x + jnp.sum(parts, axis=0), total, each)

    return jax.lax.cond(span.last > span.first, add, lambda total: total, total)


def _in_body_frames(R: Array, blocks: Array, S: Array) -> Array:
    """Blocks of vectors in the inertial frame as blocks of those in body frames."""
    parts = blocks.reshape(-1, 2, 3, 2, 3)
    return jnp.einsum("nji,najbk,nkl->naibl", R, parts, S).reshape(-1, 6, 6)
