"""Contacts between shapes that bodies carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.contact.distances import APART, ContactPoints, contact_points, has_search, match, slots
from polhode.contact.shapes import AbstractShape, Plane
from polhode.contact.shapes.shape import AbstractConvex, Pose
from polhode.linalg.blocks import Indices
from polhode.linalg.known_places import take
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical.contact_set import (
    AbstractContactSet,
    ContactKinematics,
    ContactLaw,
    ContactsAhead,
    PresentContacts,
    pick,
)

_NEAR = 1e-3
"""Distance of spheres around shapes, in parts of their radii, from which on their shapes certainly don't touch."""


_contact_points = jax.jit(contact_points)
"""Traced once for all evaluations of a step, which share their code."""


class ShapePair(NamedTuple):
    """The two ends of a contact: names of bodies, of their shapes and of the rule, and its number among the points."""

    first: str
    second: str
    first_shape: str | None
    second_shape: str | None
    rule: str | None
    point: int

    def __str__(self) -> str:
        """The bodies, with the names of shapes where they have any."""
        ends = (self.first, self.first_shape), (self.second, self.second_shape)
        return " and ".join(f"`{body}`" if shape is None else f"`{body}` ({shape})" for body, shape in ends)


class Ranking(NamedTuple):
    """The contacts nearest to touching so far, in ascending order of the gaps that they come to.

    - `number`: which ones; where there are fewer, one that no contact has. - `ahead`: gaps that they come to.
    - `left_out`: the smallest gap of all others.
    """

    number: Int[Array, " c"]
    points: ContactPoints
    ahead: Float[Array, " c"]
    left_out: Float[Array, ""]

    @classmethod
    def empty(cls, room: int, count: int) -> Ranking:
        """Before the first of so many contacts."""
        axes = jnp.broadcast_to(jnp.eye(3), (room, 3, 3))
        points = ContactPoints(
            jnp.full(room, APART), jnp.zeros((room, 3)), axes[:, 2], axes[:, 0], jnp.zeros(room, jnp.int32)
        )
        return cls(jnp.full(room, count, np.int64), points, points.gap, jnp.asarray(APART))

    def insert(self, number: Array, points: ContactPoints, ahead: Array) -> Ranking:
        """The same with another contact at its place, which moves the later ones on."""
        chosen, rows = (number, points, ahead), []
        for slot in range(len(self.number)):
            own = jax.tree.map(lambda x, slot=slot: x[slot], (self.number, self.points, self.ahead))
            nearer = chosen[2] < own[2]
            rows.append(jax.tree.map(lambda a, b, nearer=nearer: jnp.where(nearer, a, b), chosen, own))
            chosen = jax.tree.map(lambda a, b, nearer=nearer: jnp.where(nearer, b, a), chosen, own)
        numbers, nearest, ways = jax.tree.map(lambda *x: jnp.stack(x), *rows)
        return Ranking(numbers, nearest, ways, jnp.minimum(self.left_out, chosen[1].gap))


class Selection(NamedTuple):
    """Some contacts: their numbers, points, and the smallest gaps of their pairs; `APART` where there is none."""

    number: Int[Array, " c"]
    points: ContactPoints
    nearest: Float[Array, " c"]


class PairGroup(eqx.Module):
    """Pairs of shapes of two kinds.

    - `first`, `second`: their shapes, stacked. - `nodes`: rows of a motion that carry them, shapes (pairs,).
    - `reach`: sums of the radii of spheres around both, without that of a plane; None where no spheres bound them.
    """

    first: AbstractShape
    second: AbstractShape
    first_nodes: Indices = eqx.field(static=True)
    second_nodes: Indices = eqx.field(static=True)
    reach: Float[Array, " pairs"] | None = None

    @classmethod
    def of(cls, first: AbstractShape, second: AbstractShape, first_nodes: Indices, second_nodes: Indices) -> PairGroup:
        """Such pairs, with their reach."""
        ends = [shape for shape in (first, second) if not isinstance(shape, Plane)]
        if not all(isinstance(shape, AbstractConvex) for shape in ends):
            return cls(first, second, first_nodes, second_nodes)
        radii = [jax.vmap(lambda shape: shape.bounding_radius)(shape) for shape in ends]
        return cls(first, second, first_nodes, second_nodes, jax.lax.stop_gradient(sum(radii[1:], radii[0])))

    @property
    def size(self) -> Float[Array, " pairs"]:
        """Sums of the radii of spheres around both; infinite where none bounds one of them."""
        return self.reach if self._are_bodies and self.reach is not None else self._endless

    @property
    def thickness(self) -> Float[Array, " pairs"]:
        """Sums of the radii of spheres inside both; infinite where one has none."""
        if not self._are_bodies:
            return self._endless
        first, second = (jax.vmap(lambda shape: shape.inner_radius)(shape) for shape in (self.first, self.second))
        return jax.lax.stop_gradient(first + second)

    @property
    def radii(self) -> Float[Array, "2 pairs"]:
        """Radii of spheres around the shapes of both kinds; infinite where none bounds them."""
        radii = [jax.vmap(lambda shape: shape.bounding_radius)(shape) for shape in (self.first, self.second)]
        return jax.lax.stop_gradient(jnp.stack(radii))

    @property
    def _are_bodies(self) -> bool:
        return all(
            isinstance(shape, AbstractConvex) and not isinstance(shape, Plane) for shape in (self.first, self.second)
        )

    @property
    def _endless(self) -> Float[Array, " pairs"]:
        return jnp.full(len(self.first_nodes.numbers), jnp.inf)

    @property
    def slots(self) -> int:
        """Points of each pair."""
        return slots(self.first, self.second)

    @property
    def count(self) -> int:
        """Points of all pairs."""
        return len(self.first_nodes.numbers) * self.slots

    def rank(self, poses: Any, ways: tuple[Array, Array], first: int, ranking: Ranking) -> Ranking:
        """The ranking with the points of all pairs, in one loop; `first`: number of the first of them.

        - `ways`: of all nodes, how far they move and turn on.

        Of pairs whose spheres come no nearer than the last contact of the ranking no points are computed.
        """

        def visit(_: None, ranking: Ranking, pair: Any) -> tuple[Ranking, None]:
            (number, reach, *ends), (one, other) = pair

            def insert(ranking: Ranking) -> Ranking:
                points = contact_points(*ends)
                closes = _way_at(points.point, ends[3], other) - _way_at(points.point, ends[1], one)
                closes = jnp.minimum(jnp.sum(points.normal * closes, axis=1), 0.0)
                ahead = points.gap + jnp.where(points.gap < APART, closes, 0.0)
                for slot in range(self.slots):
                    here = jax.tree.map(lambda x, slot=slot: x[slot], (points, ahead))
                    ranking = ranking.insert(number + slot, *here)
                return ranking

            if reach is None:
                return insert(ranking), None
            apart = _distance_of_spheres(reach, *ends)
            near = apart - _farthest_way(reach, ends, one, other) < jnp.maximum(ranking.ahead[-1], _NEAR * reach)
            skip = lambda ranking: ranking._replace(left_out=jnp.minimum(ranking.left_out, apart))  # noqa: E731
            return jax.lax.cond(near, insert, skip, ranking), None

        nodes = self.first_nodes.numbers, self.second_nodes.numbers
        pairs = [jax.tree.map(lambda x, own=own: take(x, own), ways) for own in nodes]
        return scan_rows(visit, None, ranking, (self._ends(poses, first), pairs))[0]

    def look_up(self, poses: Any, first: int, features: Int[Array, " c"], selection: Selection) -> Selection:
        """Some contacts, with the points of those that are of these pairs, in one loop.

        - `features`: of the contacts, which have their points also where these have come to other slots of the pair.
        """

        def visit(_: None, selection: Selection, pair: Any) -> tuple[Selection, None]:
            number, _, *ends = pair
            here = (selection.number >= number) & (selection.number < number + self.slots)

            def look(selection: Selection) -> Selection:
                points = contact_points(*ends)
                old: Any = selection.points
                nearest = jnp.where(here, jnp.min(points.gap), selection.nearest)
                own = self._own_slots(selection.number - number, features, points)
                for slot in range(self.slots):
                    chosen = here & (own == slot)
                    new = jax.tree.map(lambda x, slot=slot: x[slot], points)
                    taken = chosen, chosen[:, None]
                    old = jax.tree.map(lambda a, b, taken=taken: jnp.where(taken[b.ndim - 1], a, b), new, old)
                return selection._replace(points=old, nearest=nearest)

            return jax.lax.cond(jnp.any(here), look, lambda selection: selection, selection), None

        return scan_rows(visit, None, selection, self._ends(poses, first))[0]

    def _own_slots(self, slot: Int[Array, " c"], features: Int[Array, " c"], points: ContactPoints) -> Int[Array, " c"]:
        """Where contacts of a pair with these features are among its points; new features are in their old slots."""
        if self.slots == 1:
            return slot
        same = (features[:, None] == points.feature) & (points.gap < APART)
        stays = jnp.any(same & (slot[:, None] == np.arange(self.slots)), axis=1)
        return jnp.where(stays | ~jnp.any(same, axis=1), slot, jnp.argmax(same, axis=1))

    def _ends(self, poses: Any, first: int) -> Any:
        """Of each pair the number of its first point, the reach, and both shapes with the poses of their bodies."""
        numbers = first + self.slots * np.arange(len(self.first_nodes.numbers))
        ends = [
            (take(poses.x, nodes.numbers), take(poses.R, nodes.numbers))
            for nodes in (self.first_nodes, self.second_nodes)
        ]
        return jnp.asarray(numbers), self.reach, self.first, ends[0], self.second, ends[1]

    def points(self, poses: Any) -> ContactPoints:
        """The points of all pairs, one after the other."""
        first, second = (
            (take(poses.x, nodes.numbers), take(poses.R, nodes.numbers))
            for nodes in (self.first_nodes, self.second_nodes)
        )
        ends = self.first, first, self.second, second
        if not has_search(self.first, self.second):
            return _flatten(jax.vmap(_contact_points)(*ends))
        # Row by row, so that searches are left out where nothing is near.
        visit = lambda _, carry, pair: (carry, contact_points(*pair))  # noqa: E731
        return _flatten(scan_rows(visit, None, jnp.zeros(()), ends)[1])


class ShapeContacts(AbstractContactSet):
    """Contacts between the shapes of bodies, in a fixed number of points for each pair of shapes.

    - `groups`: pairs by kinds; contacts are numbered group by group, pair by pair.
    - `surface_velocity`: of the surface of the first body against this body, in its frame, as of a belt; shape (k, 3).
      Its part along the normal doesn't count: surfaces move along themselves.
    - `pairs`: the bodies of each contact, and the number of its point. - `room`: how many may touch at a time.
    """

    groups: tuple[PairGroup, ...]
    law: ContactLaw
    surface_velocity: Float[Array, "k 3"] | None
    pairs: tuple[ShapePair, ...] = eqx.field(static=True)
    room: int = eqx.field(static=True)

    @property
    def count(self) -> int:
        return len(self.pairs)

    @property
    def capacity(self) -> int:
        return self.room

    def name(self, number: int) -> str:
        return str(self.pairs[number])

    @property
    def first_nodes(self) -> np.ndarray:
        """Rows of a motion that carry the first shape of each contact."""
        return np.concatenate([np.repeat(group.first_nodes.numbers, group.slots) for group in self.groups])

    @property
    def second_nodes(self) -> np.ndarray:
        """Rows of a motion that carry the second shape of each contact."""
        return np.concatenate([np.repeat(group.second_nodes.numbers, group.slots) for group in self.groups])

    @property
    def pair_numbers(self) -> np.ndarray:
        numbers, first = [], 0
        for group in self.groups:
            pairs = len(group.first_nodes.numbers)
            numbers.append(np.repeat(first + np.arange(pairs), group.slots))
            first += pairs
        return np.concatenate(numbers)

    @property
    def connected_rows(self) -> set[tuple[int, int]]:
        """Pairs of rows of a motion between which contacts act; the ground has the last one."""
        return set(zip(self.first_nodes.tolist(), self.second_nodes.tolist(), strict=True))

    def points(self, motion: Any) -> ContactPoints:
        """Gaps, points and directions of all contacts in a motion."""
        parts = [group.points(motion.poses) for group in self.groups]
        return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)

    def gaps(self, system: Any, t: Array, q: Point) -> Float[Array, " k"]:
        del t
        return self.points(system.motion(q)).gap

    def kinematics(self, system: Any, t: Array, q: Point) -> ContactKinematics:
        del t
        points = self.points(system.motion(q))
        rows, drift = self._rows(system, q, points)
        return ContactKinematics(points.gap, rows, drift, points.feature, points)

    def slips(self, system: Any, t: Array, q: Point, v: Vector) -> Float[Array, "k rows"]:
        del t
        return self.velocities(self.points(system.motion(q)), system.motion(q, v))

    def present(self, system: Any, t: Array, q: Point, way: Vector | None = None) -> PresentContacts:
        if self.room == self.count:
            return super().present(system, t, q)
        number, chosen, left_out = self._nearest(system.motion(q, jnp.zeros(system.n) if way is None else way))
        return PresentContacts(self.of_points(number, chosen, system, q), self.law.of(number), number, left_out)

    def again(self, system: Any, t: Array, q: Point, present: PresentContacts) -> ContactKinematics:
        if present.number is None:
            return self.kinematics(system, t, q)
        return self.of_points(present.number, self._look_up(system, q, present).points, system, q)

    def ahead(self, system: Any, t: Array, q: Point, v: Vector, present: PresentContacts) -> ContactsAhead:
        del t
        there, motion = self._look_up(system, q, present), system.motion(q, v)
        same = there.points.feature == present.kinematics.feature
        slips = self.velocities(there.points, motion, present.number)
        return ContactsAhead(there.points.gap, slips, same, there.nearest)

    @property
    def sizes(self) -> Float[Array, " k"]:
        return jnp.concatenate([jnp.repeat(group.size, group.slots) for group in self.groups])

    @property
    def thicknesses(self) -> Float[Array, " k"]:
        return jnp.concatenate([jnp.repeat(group.thickness, group.slots) for group in self.groups])

    @property
    def gap_units(self) -> Float[Array, " k"]:
        return jnp.concatenate([jnp.repeat(jnp.min(group.radii, axis=0), group.slots) for group in self.groups])

    @property
    def radius(self) -> Float[Array, ""]:
        radii = jnp.concatenate([group.radii.reshape(-1) for group in self.groups])
        return jnp.max(jnp.where(jnp.isfinite(radii), radii, 0.0), initial=0.0)

    def _look_up(self, system: Any, q: Point, present: PresentContacts) -> Selection:
        """The same contacts of features of shapes in another position."""
        number = jnp.arange(self.count) if present.number is None else present.number
        none, poses = Ranking.empty(len(number), self.count).points, system.motion(q).poses
        selection, first = Selection(number, none, none.gap), 0
        for group in self.groups:
            selection = group.look_up(poses, first, present.kinematics.feature, selection)
            first += group.count
        return selection

    def of_points(self, number: Int[Array, " c"], chosen: ContactPoints, system: Any, q: Point) -> ContactKinematics:
        """Contacts of these numbers, whose points in a position are known."""
        frames = frames_of(chosen)
        spins, slips = self._relative(number, chosen.point, system, q)
        rows = jnp.einsum("kij,kjn->kin", frames, slips)
        drift = jnp.zeros((len(number), self.law.rows))
        if self.law.rows == 6:
            rows = jnp.concatenate((rows, jnp.einsum("kij,kjn->kin", frames, spins)), axis=1)
        if self.surface_velocity is not None:
            drift = drift.at[:, 1:3].set(-_along_tangents(frames, self._surface(number, system, q)))
        return ContactKinematics(chosen.gap, rows, drift, chosen.feature)

    def _nearest(self, motion: Any) -> tuple[Int[Array, " c"], ContactPoints, Array]:
        """The contacts that come nearest by a motion, in order: numbers, points, and the smallest other gap."""
        poses, twists = motion.poses, motion.twists
        ways = jax.lax.stop_gradient((twists.u, jnp.einsum("kij,kj->ki", poses.R, twists.omega)))
        ranking = Ranking.empty(self.room, self.count)
        first = 0
        for group in self.groups:
            ranking = group.rank(poses, ways, first, ranking)
            first += group.count
        return ranking.number, ranking.points, ranking.left_out

    def _relative(
        self, number: Int[Array, " c"], point: Float[Array, "c 3"], system: Any, q: Point
    ) -> tuple[Float[Array, "c 3 n"], Float[Array, "c 3 n"]]:
        """Derivatives of relative spins and velocities of contacts, by velocities of the system."""

        def at_origin(v: Vector) -> tuple[Array, Array]:
            """Angular velocities of all nodes, and velocities of their points in the origin."""
            motion = system.motion(q, v)
            w = jnp.einsum("kij,kj->ki", motion.poses.R, motion.twists.omega)
            return w, motion.twists.u + jnp.cross(motion.poses.x, w)

        w, u = jax.jacfwd(at_origin)(jnp.zeros(system.n))
        carriers = system.coordinates.carriers
        if carriers is not None:
            return self._along_screws(number, point, carriers, w, u)
        spins, slips = jnp.zeros((len(number), 3, system.n)), jnp.zeros((len(number), 3, system.n))
        for nodes, sign in ((self.second_nodes, 1.0), (self.first_nodes, -1.0)):
            own = self._pick_nodes(number, nodes)
            for node in np.unique(nodes[nodes < len(w) - 1]).tolist():
                here = jnp.where(own == node, sign, 0.0)[:, None, None]
                across = jnp.cross(w[node][None], point[:, :, None], axisa=1, axisb=1, axisc=1)
                spins, slips = spins + here * w[node], slips + here * (u[node] + across)
        return spins, slips

    def _along_screws(
        self,
        number: Int[Array, " c"],
        point: Float[Array, "c 3"],
        carriers: Sequence[np.ndarray],
        w: Float[Array, "nodes 3 n"],
        u: Float[Array, "nodes 3 n"],
    ) -> tuple[Float[Array, "c 3 n"], Float[Array, "c 3 n"]]:
        """The same where a velocity moves all its nodes as one body, so that it has one screw for them all."""
        n = w.shape[2]
        moves = np.zeros((len(w), n))
        for node, own in enumerate(carriers):
            moves[node, own] = 1.0
        signs = np.concatenate((moves[self.second_nodes] - moves[self.first_nodes], np.zeros((1, n))))
        one, each = np.argmax(moves, axis=0), np.arange(n)
        here = pick(number, jnp.asarray(signs))[:, None]
        w, u = w[one, :, each].T, u[one, :, each].T
        across = jnp.cross(w[None], point[:, :, None], axisa=1, axisb=1, axisc=1)
        return here * w, here * (u + across)

    def _surface(self, number: Int[Array, " c"], system: Any, q: Point) -> Float[Array, "c 3"]:
        """Velocities of the surfaces of first bodies in the inertial frame."""
        assert self.surface_velocity is not None
        R, own = system.motion(q).poses.R, self._pick_nodes(number, self.first_nodes)
        turns = jnp.sum(jnp.where((own[:, None] == np.arange(len(R)))[:, :, None, None], R, 0.0), axis=1)
        return jnp.einsum("kij,kj->ki", turns, pick(number, self.surface_velocity))

    def _pick_nodes(self, number: Int[Array, " c"], nodes: np.ndarray) -> Int[Array, " c"]:
        """The nodes of contacts of these numbers; -1 for slots that are empty."""
        return jnp.where(number < self.count, pick(number, jnp.asarray(nodes)), -1)

    def columns(
        self, system: Any, q: Point, here: ContactKinematics, there: ContactKinematics
    ) -> Float[Array, "k rows n"]:
        """Contacts that are new there have the same places and directions in space."""
        parts, first = [], 0
        for group in self.groups:
            part, shape = slice(first, first + group.count), (-1, group.slots)
            first += group.count
            pairs = [_split(points, part, shape) for points in (here.places, there.places)]
            parts.append(_flatten(jax.vmap(match)(*pairs)))
        return self._rows(system, q, jax.tree.map(lambda *x: jnp.concatenate(x), *parts))[0]

    def _rows(
        self, system: Any, q: Point, points: ContactPoints
    ) -> tuple[Float[Array, "k rows n"], Float[Array, "k rows"]]:
        """Relative velocities at points: their derivatives, and what they are at rest."""
        velocities = lambda v: self.velocities(points, system.motion(q, v))  # noqa: E731
        zero, rows = jnp.zeros(system.n), self.count * self.law.rows
        differentiate = jax.jacfwd if system.n <= rows else jax.jacrev
        return differentiate(velocities)(zero), velocities(zero)

    def velocities(
        self, points: ContactPoints, motion: Any, number: Int[Array, " k"] | None = None
    ) -> Float[Array, "k rows"]:
        """Relative velocities of the contacts, and their spins, along normal and tangents.

        - `number`: of the contacts, None for all in their order.
        """
        frames = frames_of(points)
        (u1, w1), (u2, w2) = (
            _velocity_at(points.point, _carriers(motion, k, number)) for k in (self.first_nodes, self.second_nodes)
        )
        slips = jnp.einsum("kij,kj->ki", frames, u2 - u1)
        if self.surface_velocity is not None:
            R = take(motion.poses.R, self.first_nodes)
            surface = jnp.einsum("kij,kj->ki", R, self.surface_velocity)
            surface = surface if number is None else pick(number, surface)
            slips = slips.at[:, 1:].add(-_along_tangents(frames, surface))
        if self.law.rows == 3:
            return slips
        return jnp.concatenate((slips, jnp.einsum("kij,kj->ki", frames, w2 - w1)), axis=1)


def _distance_of_spheres(reach: Array, first: AbstractShape, pose: Pose, second: AbstractShape, other: Pose) -> Array:
    """A length that no gap of two shapes is below, unless it is negative, from spheres around them."""
    (x, R), (y, S) = first.pose_in(pose), second.pose_in(other)
    if isinstance(first, Plane):
        return jax.lax.stop_gradient((y - x) @ R[:, 2] - reach)
    if isinstance(second, Plane):
        return jax.lax.stop_gradient((x - y) @ S[:, 2] - reach)
    away = jax.lax.stop_gradient(y - x)
    return jnp.sqrt(away @ away) - reach


def _way_at(point: Float[Array, "s 3"], pose: Pose, way: tuple[Array, Array]) -> Float[Array, "s 3"]:
    """How far points of a body at some places move on, by the way and the turn of its frame."""
    return way[0] + jnp.cross(way[1], point - pose[0])


def _farthest_way(reach: Array, ends: Any, one: tuple[Array, Array], other: tuple[Array, Array]) -> Array:
    """A length that no gap of two shapes closes beyond: the way of their centres and what their turning adds to it."""
    first, pose, second, its_pose = ends
    (x, _), (y, _) = first.pose_in(pose), second.pose_in(its_pose)
    # A plane stands still.
    centre = jnp.zeros(3) if isinstance(first, Plane) else _way_at(x, pose, one)
    its_centre = jnp.zeros(3) if isinstance(second, Plane) else _way_at(y, its_pose, other)
    turns = sum(jnp.sqrt(way[1] @ way[1]) for way in (one, other))
    between = its_centre - centre
    return jax.lax.stop_gradient(jnp.sqrt(between @ between) + turns * reach)


def _split(points: ContactPoints, part: slice, shape: tuple[int, int]) -> ContactPoints:
    """The points of one group, pair by pair."""
    return jax.tree.map(lambda x: x[part].reshape(*shape, *x.shape[1:]), points)


def _flatten(points: ContactPoints) -> ContactPoints:
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), points)


def frames_of(points: ContactPoints) -> Float[Array, "k 3 3"]:
    """Normal and both tangents of each contact, as rows."""
    second = jnp.cross(points.normal, points.tangent)
    return jnp.stack((points.normal, points.tangent, second), axis=1)


def _along_tangents(frames: Float[Array, "k 3 3"], vectors: Float[Array, "k 3"]) -> Float[Array, "k 2"]:
    return jnp.einsum("kij,kj->ki", frames[:, 1:], vectors)


class _Carriers(NamedTuple):
    """The bodies of contacts: places of their frames, velocities of these and angular velocities in space."""

    x: Float[Array, "k 3"]
    u: Float[Array, "k 3"]
    w: Float[Array, "k 3"]


def _carriers(motion: Any, nodes: np.ndarray, number: Int[Array, " k"] | None) -> _Carriers:
    """The bodies that carry one side of the contacts of these numbers, or of all."""
    take_rows = lambda a: take(a, nodes)  # noqa: E731
    if number is not None:
        # There are fewer bodies than contacts.
        own = pick(number, jnp.asarray(nodes))
        take_rows = lambda a: jnp.take(a, own, axis=0, mode="clip")  # noqa: E731
    R, omega = take_rows(motion.poses.R), take_rows(motion.twists.omega)
    return _Carriers(take_rows(motion.poses.x), take_rows(motion.twists.u), jnp.einsum("kij,kj->ki", R, omega))


def _velocity_at(point: Float[Array, "k 3"], body: _Carriers) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
    """Velocity of the body's point at a place, and its angular velocity, both in the inertial frame."""
    return body.u + jnp.cross(body.w, point - body.x), body.w
