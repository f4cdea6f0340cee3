"""Contacts between the shapes of many free bodies, of pairs in lists that are renewed as bodies move."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.contact.broad_phase import find_pairs
from polhode.contact.distances import APART, ContactPoints, slots
from polhode.contact.shape_contacts import PairGroup, ShapeContacts, ShapePair, frames_of
from polhode.contact.sparse.candidates import Candidates, search
from polhode.contact.sparse.contact_numbers import POINTS, number, pairs_of_numbers
from polhode.contact.sparse.free_bodies import ContactRows, FreeBodies, Spatial
from polhode.contact.sparse.shape_table import Boxes, ShapeTable
from polhode.contact.sparse.small_inverses import invert, matmul
from polhode.linalg.blocks import Indices
from polhode.linalg.known_places import take
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical.contact_set import AbstractContactSet, ContactKinematics, ContactLaw

_FEATURES = 1 << 32

_NO_SLOTS = (
    "The contacts of so many free bodies are in lists, which runs of `moreau` alone take; other methods, events on "
    "contacts, equilibria and linearisation need fixed slots. Take `moreau`, or fewer bodies."
)
_RINGS = 2
"""How far an impact reaches within a step: from body to body."""

_SKIN = 0.1
"""Part of the mean radius of bodies by which lists reach farther than a step."""

_NEAR = 1e-3
"""Gap, relative to the mean radius, up to which points are always taken into account."""


class NearPoints(NamedTuple):
    """Points of shapes that may touch within a step.

    - `number`: of the contact, see `contact_numbers`; -1 in empty slots.
    - `present`: which slots are in use. - `shapes`: numbers of both shapes. - `overflows`: whether there were more.
    - `place`: among the points of all listed pairs.
    """

    number: Int[Array, " c"]
    present: Bool[Array, " c"]
    points: ContactPoints
    shapes: tuple[Int[Array, " c"], Int[Array, " c"]]
    overflows: Bool[Array, ""]
    place: Int[Array, " c"]

    @property
    def labels(self) -> Int[Array, " c"]:
        """Equal in two steps for contacts of the same features of the same shapes; -1 in empty slots."""
        pair = self.number // POINTS
        return jnp.where(self.present, pair * _FEATURES + self.points.feature, -1)


class ListedContacts(AbstractContactSet):
    """Contacts between the shapes of many free bodies.

    - `table`: the shapes. - `law`: numbers of each rule.
    - `shape_names`: names of the body and of the shape, for each shape; `rule_names`: of rules.
    - `room`: how many points may touch at a time.
    """

    table: ShapeTable
    law: ContactLaw
    shape_names: tuple[tuple[str, str | None], ...] = eqx.field(static=True)
    rule_names: tuple[str | None, ...] = eqx.field(static=True)
    room: int = eqx.field(static=True)

    @property
    def count(self) -> int:
        return self.room

    @property
    def capacity(self) -> int:
        return self.room

    @property
    def is_listed(self) -> bool:
        return True

    @property
    def size(self) -> Float[Array, ""]:
        """The mean radius of bounded shapes."""
        bounded = jnp.isfinite(self.table.radius)
        return jnp.sum(jnp.where(bounded, self.table.radius, 0.0)) / jnp.sum(jnp.where(bounded, 1.0, 0.0))

    @property
    def connected_rows(self) -> set[tuple[int, int]]:
        """Pairs of rows of a motion that contacts connect, as far as it takes to connect all that may touch."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import minimum_spanning_tree

        first, second = np.nonzero(np.asarray(self.table.rules) >= 0)
        nodes = self.table.all_nodes
        count = int(nodes.max()) + 1
        tree = minimum_spanning_tree(coo_array((np.ones(len(first)), (nodes[first], nodes[second])), (count, count)))
        return set(zip(*(x.tolist() for x in tree.nonzero()), strict=True))

    def search(self, poses: Any, boxes: Boxes, reach: Array) -> Candidates:
        """Lists for steps that look as far as `reach`."""
        return search(self.table, poses, boxes, 1.25 * reach + _SKIN * self.size)

    def renew(self, lists: Candidates, poses: Any, reach: Array) -> Candidates:
        """The lists, or others where they don't hold any more."""
        boxes = self.table.boxes(poses)
        return jax.lax.cond(lists.holds(boxes, reach), lambda: lists, lambda: self.search(poses, boxes, reach))

    def near_points(self, lists: Candidates, motion: Any, h: Array, gravity: Array) -> NearPoints:
        """Points that may close within a step: by their gaps, their velocities, and those of impacts next to them."""
        points, shapes = self._listed_points(lists, motion.poses)
        nodes = jnp.asarray(self.table.all_nodes)
        first, second = nodes[shapes[0]], nodes[shapes[1]]
        usable = points.gap < 0.5 * APART
        u = [_velocity(motion, node, points.point) for node in (first, second)]
        speed = jnp.sqrt(jnp.sum((u[1] - u[0]) ** 2, axis=1)) + 2 * h * gravity
        near = _NEAR * self.size
        bodies = jnp.zeros(len(motion.poses.x))
        bound = jnp.where(usable & (points.gap <= h * speed + near), speed, 0.0)
        for _ in range(_RINGS):
            bodies = bodies.at[first].max(bound).at[second].max(bound).at[-1].set(0.0)
            hit = jnp.maximum(bodies[first], bodies[second])
            fast = jnp.maximum(speed, hit)
            bound = jnp.where(usable & (points.gap <= h * fast + near), fast, 0.0)
        chosen, count = _compact(bound > 0, self.room)
        present = jnp.arange(self.room) < count
        pick = lambda x: x[chosen]  # noqa: E731
        shapes = tuple(map(pick, shapes))
        points = jax.tree.map(pick, points)
        points = points._replace(gap=jnp.where(present, points.gap, APART))
        slot = self._slot_numbers()[chosen]
        numbers = number(shapes[0].astype(jnp.int64), shapes[1], slot, self.table.count)
        return NearPoints(jnp.where(present, numbers, -1), present, points, shapes, count > self.room, chosen)

    def turn(self, near: NearPoints, rows: ContactRows, lists: Candidates, motion: Any, ahead: Any) -> Array:
        """Changes of relative velocities and spins until the end of a step, by the turning of bodies and surfaces.

        Half of those between two motions with the same velocities, in the middle of a step and ahead by a step; zero
        where shapes touch at other features there.
        """
        points, _ = self._listed_points(lists, ahead.poses)
        there = near._replace(points=jax.tree.map(lambda x: x[near.place], points))
        same = near.present & (there.points.feature == near.points.feature) & (there.points.gap < 0.5 * APART)
        before, after = (
            part.slips(Spatial(_angular(at), at.twists.u))
            for part, at in ((rows, motion), (self.rows_of(there, ahead.poses), ahead))
        )
        return jnp.where(same[:, None], 0.5 * (after - before), 0.0)

    def _listed_points(self, lists: Candidates, poses: Any) -> tuple[ContactPoints, tuple[Array, Array]]:
        """Points of all pairs in the lists, and the numbers of their shapes."""
        parts, firsts, seconds = [], [], []
        for kind, first, second, count in zip(
            self.table.pair_kinds, lists.first, lists.second, lists.counts, strict=True
        ):
            parts.append(self.table.points(kind, first, second, count, poses))
            each = slots(self.table.kinds[kind.first], self.table.kinds[kind.second])
            firsts.append(jnp.repeat(first, each) + self.table.starts[kind.first])
            seconds.append(jnp.repeat(second, each) + self.table.starts[kind.second])
        points = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
        return points, (jnp.concatenate(firsts), jnp.concatenate(seconds))

    def _slot_numbers(self) -> Array:
        """The number of each listed point within its pair."""
        each = [(slots(self.table.kinds[k.first], self.table.kinds[k.second]), k.room) for k in self.table.pair_kinds]
        return jnp.asarray(np.concatenate([np.tile(np.arange(n), room) for n, room in each]))

    def law_of(self, near: NearPoints) -> ContactLaw:
        """Numbers of the law of each point."""
        rule = jnp.maximum(self.table.rules[near.shapes[0], near.shapes[1]], 0)
        return jax.tree.map(lambda x: x[rule], self.law)

    def rows_of(self, near: NearPoints, poses: Any) -> ContactRows:
        """Rows of relative velocities of points, by velocities in space."""
        nodes = jnp.asarray(self.table.all_nodes)
        first, second = (nodes[shape] for shape in near.shapes)
        arms = near.points.point - poses.x[first], near.points.point - poses.x[second]
        return ContactRows.at(first, second, frames_of(near.points), arms, self.law.rows)

    def select(self, pairs: np.ndarray) -> ShapeContacts:
        """The contacts of some pairs alone as fixed slots; pairs of numbers of shapes, that of the first kind first."""
        kinds, starts = self.table.kind_of(), self.table.starts
        groups, labels, rules = [], [], []
        for kind in self.table.pair_kinds:
            mine = pairs[(kinds[pairs[:, 0]] == kind.first) & (kinds[pairs[:, 1]] == kind.second)]
            if not len(mine):
                continue
            ends = []
            for column, which in enumerate((kind.first, kind.second)):
                numbers = mine[:, column] - starts[which]
                shape = jax.tree.map(lambda x, k=numbers: jnp.asarray(np.asarray(x)[k]), self.table.kinds[which])
                ends.append((shape, Indices(self.table.nodes[which].numbers[numbers])))
            group = PairGroup(ends[0][0], ends[1][0], ends[0][1], ends[1][1])
            groups.append(group)
            for one, other in mine.tolist():
                rule = int(np.asarray(self.table.rules)[one, other])
                (first, its), (second, others) = self.shape_names[one], self.shape_names[other]
                labels += [
                    ShapePair(first, second, its, others, self.rule_names[rule], point) for point in range(group.slots)
                ]
                rules += [rule] * group.slots
        law = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[np.array(rules, int)]), self.law)
        return ShapeContacts(
            groups=tuple(groups), law=law, surface_velocity=None, pairs=tuple(labels), room=len(labels)
        )

    def of_numbers(self, numbers: np.ndarray) -> ShapeContacts:
        """The contacts with these numbers, and others of the same pairs, as fixed slots."""
        return self.select(pairs_of_numbers(numbers, self.table.kind_of()))

    def near(self, poses: Any, margin: float) -> ShapeContacts | None:
        """The contacts of shapes whose boxes come within a margin, as fixed slots; None without any. On the host."""
        boxes = self.table.boxes(poses)
        pairs = find_pairs(np.asarray(boxes.lower), np.asarray(boxes.upper), margin).pairs
        rules = np.asarray(self.table.rules)
        pairs = pairs[rules[pairs[:, 0], pairs[:, 1]] >= 0]
        return self.select(pairs) if len(pairs) else None

    # --- bodies ----------------------------------------------------------------------------------------------------

    def bodies(self, system: Any, q: Point) -> FreeBodies:
        """Masses and inertias of the bodies in a position."""
        R = system.motion(q).poses.R[:-1]
        inverse = invert(system.coordinates.inertias)
        turned = matmul(matmul(R, inverse), jnp.swapaxes(R, 1, 2))
        inertia = jnp.concatenate((turned, jnp.zeros((1, 3, 3))))
        return FreeBodies(jnp.concatenate((1 / system.coordinates.masses, jnp.zeros(1))), inertia)

    def spatial(self, system: Any, q: Point, v: Vector) -> Spatial:
        """Velocities in space from those of the system."""
        motion = system.motion(q, v)
        return Spatial(_angular(motion), motion.twists.u)

    def velocities(self, system: Any, q: Point, spatial: Spatial) -> Vector:
        """Velocities of the system from those in space."""
        R = system.motion(q).poses.R
        omega = jnp.sum(jnp.swapaxes(R, 1, 2) * spatial.angular[:, None, :], axis=2)
        return system.coordinates.velocities(q, omega, spatial.linear)

    def reach(self, motion: Any, h: Array, gravity: Array) -> Array:
        """How far shapes may be apart that touch within a step."""
        nodes = self.table.all_nodes
        w = take(jnp.sqrt(jnp.sum(motion.twists.omega**2, axis=1)), nodes)
        arms = jnp.concatenate([jnp.sqrt(jnp.sum(shapes.position**2, axis=1)) for shapes in self.table.kinds])
        bounded = jnp.isfinite(self.table.radius)
        turns = w * (arms + jnp.where(bounded, self.table.radius, 0.0))
        u = motion.twists.u
        mean = jnp.sum(u, axis=0) / max(len(u) - 1, 1)
        fastest = lambda u: jnp.max(take(jnp.sqrt(jnp.sum(u**2, axis=1)), nodes) + turns)  # noqa: E731
        apart = jnp.concatenate((u[:-1] - mean, jnp.zeros((1, 3))))
        return h * jnp.maximum(fastest(u), 2 * fastest(apart)) + 2 * h**2 * gravity + _NEAR * self.size

    def gaps(self, system: Any, t: Array, q: Point) -> Float[Array, " k"]:
        raise ValueError(_NO_SLOTS)

    def kinematics(self, system: Any, t: Array, q: Point) -> ContactKinematics:
        raise ValueError(_NO_SLOTS)


def _angular(motion: Any) -> Float[Array, "b 3"]:
    """Angular velocities of bodies in space."""
    return jnp.sum(motion.poses.R * motion.twists.omega[:, None, :], axis=2)


def _velocity(motion: Any, nodes: Array, point: Float[Array, "k 3"]) -> Float[Array, "k 3"]:
    """Velocities of points of bodies."""
    return motion.twists.u[nodes] + jnp.cross(_angular(motion)[nodes], point - motion.poses.x[nodes])


def _compact(present: Bool[Array, " n"], room: int) -> tuple[Int[Array, " room"], Int[Array, ""]]:
    """Places of the first `room` that are present, and how many there are."""

    def place(_: None, count: Array, present: Array) -> tuple[Array, Array]:
        return count + jnp.where(present, 1, 0), count

    count, places = scan_rows(place, None, jnp.zeros((), jnp.int64), present)
    places = jnp.where(present, places, room)
    numbers = jnp.arange(len(present), dtype=jnp.int64)
    return jnp.zeros(room, jnp.int64).at[places].set(numbers, mode="drop"), count
