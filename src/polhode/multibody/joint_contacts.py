"""Rigid stops and dry friction along joint coordinates, as contacts."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.contact.distances import APART
from polhode.contact.vectors import root
from polhode.linalg.blocks import Indices
from polhode.linalg.known_places import take
from polhode.multibody.coordinates.tree.joint_forces import CoordinateIndex
from polhode.multibody.mechanism.angles import near
from polhode.multibody.mechanism.coordinate_forces import AbstractRelativeCoordinate
from polhode.multibody.mechanism.groups import Motion, Slot
from polhode.multibody.mechanism.poses import Wrench
from polhode.multibody.mechanism.reactions import reaction_of
from polhode.multibody.mechanism.user_functions import Function
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical.contact_set import (
    AbstractContactSet,
    ContactKinematics,
    ContactLaw,
    ContactsAhead,
    PresentContacts,
    pick,
)

NO_STOP = 2 * APART
"""Limit of a coordinate that has none."""


class JointContactName(NamedTuple):
    """Names of a contact along a coordinate, for messages and results.

    - `along`: of the joint and the coordinate. - `parts`: of stops and friction in the model.
    - `terms`: joint, coordinate and ratio of each term of the coordinate. - `is_angle`: whether it is an angle.
    """

    along: str
    parts: tuple[str, ...]
    terms: tuple[tuple[str, str, float], ...]
    is_angle: bool


class TreeSums(eqx.Module):
    """Linear combinations of coordinates of a tree.

    - `ratios`: of all terms, at `places` of the tree; `owners`: numbers of the combinations of which they are terms.
    - `zeros`: the combinations where the coordinates are zero.
    """

    ratios: Float[Array, " terms"]
    zeros: Float[Array, " k"]
    places: tuple[CoordinateIndex, ...] = eqx.field(static=True)
    owners: tuple[int, ...] = eqx.field(static=True)

    @property
    def count(self) -> int:
        return len(self.zeros)

    def values(self, coordinates: Any, q: Point) -> Float[Array, " k"]:
        """The combinations in a position of a system in these coordinates."""
        place, _ = coordinates.in_joint_tree(q, jnp.zeros(coordinates.n))
        return self.zeros + self._sums(coordinates.joint_tree.values_at(place, self.places))

    def rates(self, coordinates: Any, q: Point, v: Vector) -> Float[Array, " k"]:
        """Their time derivatives."""
        _, along = coordinates.in_joint_tree(q, v)
        return self._sums(take(along, np.array([place.velocity for place in self.places])))

    def _sums(self, terms: Float[Array, " terms"]) -> Float[Array, " k"]:
        weighted = self.ratios * terms
        return (
            weighted
            if self.owners == (*range(self.count),)
            else jnp.zeros(self.count).at[np.array(self.owners)].add(weighted)
        )


class CoordinateGroup(eqx.Module):
    """Relative coordinates of one kind between nodes.

    - `turns`: numbers of the counted angles, shape (coordinates,), for each that a coordinate reads.
    """

    coordinates: AbstractRelativeCoordinate
    slots: tuple[Slot, ...]
    turns: tuple[Indices, ...] = eqx.field(static=True, default=())

    @property
    def count(self) -> int:
        return len(self.slots[0].nodes.numbers)

    def values(self, motion: Motion, turns: Float[Array, " a"]) -> Float[Array, " k"]:
        """Their values near counted angles."""
        coordinates = near(self.coordinates, [take(turns, of.numbers) for of in self.turns])
        return jax.vmap(lambda one, poses: one.value(poses))(coordinates, motion.at(self.slots))

    def rates(self, motion: Motion) -> Float[Array, " k"]:
        """Their time derivatives."""
        nodes = motion.at(self.slots), motion.twists_at(self.slots)
        return jax.vmap(lambda one, poses, twists: one.rate(poses, twists))(self.coordinates, *nodes)

    def wrenches(self, motion: Motion, forces: Float[Array, " k"]) -> tuple[Wrench, ...]:
        """Loads of forces along them on the nodes of each slot."""
        return jax.vmap(lambda one, poses, f: one.wrenches(poses, f))(self.coordinates, motion.at(self.slots), forces)


class Bearings(eqx.Module):
    """Friction that grows with the forces of joints, by `factors` of these; of contacts with the numbers `contacts`.

    - `joints`: names of the joints in the model.
    """

    factors: Float[Array, " b"]
    contacts: tuple[int, ...] = eqx.field(static=True)
    joints: tuple[str, ...] = eqx.field(static=True)

    def bounds(
        self, system: Any, t: Array, q: Point, multipliers: Float[Array, " m"], count: int
    ) -> Float[Array, " k"]:
        """The bounds of all `count` contacts, zero for those without bearings."""
        motion, sums = system.motion(q), jnp.zeros(count)
        for group in system.mechanism.joints:
            names = [system.labels[rows[0]] for rows in group.rows.numbers]
            if len(group.slots) != 2 or not set(names) & set(self.joints):
                continue
            forces = reaction_of(group, multipliers).wrenches(t, motion)[1].force
            for factor, contact, joint in zip(self.factors, self.contacts, self.joints, strict=True):
                if joint in names:
                    sums = sums.at[contact].add(factor * root(jnp.sum(forces[names.index(joint)] ** 2)))
        return sums


class JointContacts(AbstractContactSet):
    """Contacts along coordinates s: in the place of the gap the way to the nearer limit, and dry friction against ṡ.

    - `sums`, `groups`: coordinates of a tree, which come first, None without any, and others between nodes.
    - `limits`: lower and upper, shape (k, 2). - `friction`: constant part of the largest friction forces, shape (k,).
    - `brakes`: further parts as functions of time, of the contacts with the numbers `brake_numbers`.
    - `with_friction`: numbers of those that have friction, which act in every step. - `stop_room`: how many of the
      others, those nearest to their stops, a step takes into account. - `bearings`: friction that grows with loads.
    """

    sums: TreeSums | None
    groups: tuple[CoordinateGroup, ...]
    law: ContactLaw
    limits: Float[Array, "k 2"]
    friction: Float[Array, " k"]
    brakes: tuple[Function, ...]
    brake_numbers: tuple[int, ...] = eqx.field(static=True)
    names: tuple[JointContactName, ...] = eqx.field(static=True)
    with_friction: tuple[int, ...] = eqx.field(static=True)
    stop_room: int = eqx.field(static=True)
    bearings: Bearings | None = None

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def capacity(self) -> int:
        return min(len(self.with_friction) + self.stop_room, self.count)

    @property
    def first_of_groups(self) -> int:
        """The number of the first contact of `groups`."""
        return 0 if self.sums is None else self.sums.count

    def name(self, number: int) -> str:
        return self.names[number].along

    @property
    def connected_rows(self) -> set[tuple[int, int]]:
        """Pairs of rows of a motion between which they act; those along a tree act inside of it."""
        pairs = set()
        for group in self.groups:
            ends = [slot.nodes.numbers.tolist() for slot in group.slots]
            step = 2 if group.coordinates.pairwise else 1
            for k in range(0, len(ends) - 1, step):
                pairs |= set(zip(ends[k], ends[k + 1], strict=True))
        return pairs

    def hold(self, t: Array) -> Float[Array, " k"]:
        """The largest friction forces; no number where a brake is negative."""
        hold = self.friction
        for number, brake in zip(self.brake_numbers, self.brakes, strict=True):
            force = jnp.asarray(brake(t), float)
            force = jnp.where(force >= 0, force, jnp.nan)
            hold = hold + jnp.where(np.arange(self.count) == number, force, 0.0)
        return hold

    @property
    def reads_joint_forces(self) -> bool:
        return self.bearings is not None

    def loaded_hold(
        self, system: Any, t: Array, q: Point, at: ContactKinematics, multipliers: Float[Array, " m"]
    ) -> Float[Array, " c"] | None:
        if self.bearings is None or at.hold is None:
            return at.hold
        bounds = self.bearings.bounds(system, t, q, multipliers, self.count)
        *_, number = at.places
        return at.hold + bounds[number]

    def coordinates(self, system: Any, q: Point) -> Float[Array, " k"]:
        """The coordinates, turns included."""
        parts = [jnp.zeros(0)]
        if self.sums is not None:
            parts.append(self.sums.values(system.coordinates, q))
        if self.groups:
            motion, turns = system.motion(q), system.turns(q)
            parts += [group.values(motion, turns) for group in self.groups]
        return jnp.concatenate(parts)

    def rates(self, system: Any, q: Point, v: Vector) -> Float[Array, " k"]:
        """Their time derivatives, linear in v."""
        parts = [jnp.zeros(0)]
        if self.sums is not None:
            parts.append(self.sums.rates(system.coordinates, q, v))
        if self.groups:
            motion = system.motion(q, v)
            parts += [group.rates(motion) for group in self.groups]
        return jnp.concatenate(parts)

    def gaps(self, system: Any, t: Array, q: Point) -> Float[Array, " k"]:
        del t
        return self._ways(system, q)[0]

    def kinematics(self, system: Any, t: Array, q: Point) -> ContactKinematics:
        return self._kinematics(system, t, q, *self._ways(system, q))

    def _kinematics(
        self, system: Any, t: Array, q: Point, gap: Float[Array, " k"], is_lower: Bool[Array, " k"]
    ) -> ContactKinematics:
        differentiate = jax.jacfwd if system.n <= self.count else jax.jacrev
        along, hold = differentiate(lambda v: self.rates(system, q, v))(jnp.zeros(system.n)), self.hold(t)
        if self.brakes:
            # Comparisons in the laws would take a friction that is no number for none.
            along = jnp.where(jnp.isnan(hold)[:, None], jnp.nan, along)
        # Stops alone act where they press only.
        hold = jnp.where(np.isin(np.arange(self.count), self.with_friction), hold, -1.0)
        rows = jnp.stack((_normals(along, gap, is_lower), along), axis=1)
        feature = jnp.where(is_lower, 0, 1).astype(jnp.int32)
        places = gap, is_lower, along, jnp.arange(self.count)
        return ContactKinematics(gap, rows, jnp.zeros((self.count, 2)), feature, places, hold)

    def present(self, system: Any, t: Array, q: Point, way: Vector | None = None) -> PresentContacts:
        if self.capacity == self.count:
            return super().present(system, t, q)
        gap, is_lower = self._ways(system, q)
        stops = np.setdiff1d(np.arange(self.count), self.with_friction)
        ahead = gap
        if way is not None:
            closes = jnp.where(is_lower, 1.0, -1.0) * self.rates(system, q, way)
            ahead = gap + jnp.where(gap < APART, jnp.minimum(closes, 0.0), 0.0)
        ways, ahead = gap[stops], ahead[stops]
        before = (ahead < ahead[:, None]) | ((ahead == ahead[:, None]) & (stops < stops[:, None]))
        rank = jnp.sum(before, axis=1)
        nearest = jnp.sum(jnp.where(rank == np.arange(self.stop_room)[:, None], stops, 0), axis=1)
        number = jnp.concatenate((jnp.asarray(self.with_friction, nearest.dtype), nearest))
        left_out = jnp.min(jnp.where(rank >= self.stop_room, ways, jnp.inf))
        at = self._kinematics(system, t, q, gap, is_lower)
        return PresentContacts(pick(number, at), self.law.of(number), number, left_out)

    def again(self, system: Any, t: Array, q: Point, present: PresentContacts) -> ContactKinematics:
        at = self.kinematics(system, t, q)
        return at if present.number is None else pick(present.number, at)

    def ahead(self, system: Any, t: Array, q: Point, v: Vector, present: PresentContacts) -> ContactsAhead:
        del t
        every = self.coordinates(system, q), self.rates(system, q, v), self.limits
        s, rates, limits = every if present.number is None else pick(present.number, every)
        is_lower = present.kinematics.places[1]
        # The way to the same stops as before.
        way = jnp.where(is_lower, s - limits[:, 0], limits[:, 1] - s)
        gap = jnp.minimum(way, APART)
        slips = jnp.stack((_normals(rates[:, None], gap, is_lower)[:, 0], rates), axis=1)
        return ContactsAhead(gap, slips, jnp.ones(gap.shape, bool), gap)

    def columns(
        self, system: Any, q: Point, here: ContactKinematics, there: ContactKinematics
    ) -> Float[Array, "k rows n"]:
        del system, q
        gap, is_lower, *_ = there.places
        along = here.places[2]
        return jnp.stack((_normals(along, gap, is_lower), along), axis=1)

    @property
    def gap_units(self) -> Float[Array, " k"]:
        # Of displacements the way between both stops, or that to the only one.
        way, has_stop = self.limits[:, 1] - self.limits[:, 0], jnp.abs(self.limits) < 0.5 * APART
        only = jnp.max(jnp.where(has_stop, jnp.abs(self.limits), 0.0), axis=1)
        way = jnp.where(jnp.all(has_stop, axis=1), way, only)
        return jnp.where(self.are_angles, 1.0, jnp.where(way > 0, way, jnp.inf))

    @property
    def radius(self) -> Float[Array, ""]:
        ways = jnp.where(self.are_angles | ~jnp.isfinite(self.gap_units), 0.0, self.gap_units)
        return jnp.max(ways, initial=0.0)

    @property
    def are_angles(self) -> Bool[np.ndarray, " k"]:
        return np.array([name.is_angle for name in self.names], bool)

    def efforts(self, system: Any, q: Point, forces: Float[Array, "k rows"]) -> Float[Array, " k"]:
        """Forces along the coordinates, of stops and friction, from those of the contacts."""
        _, signs = self.nearer_stops(system, q)
        return forces[:, 1] + signs * forces[:, 0]

    def nearer_stops(self, system: Any, q: Point) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Ways to the nearer stops, infinite without any, and the signs along the coordinates of their forces."""
        gap, is_lower = self._ways(system, q)
        return jnp.where(gap < 0.5 * APART, gap, jnp.inf), jnp.where(is_lower, 1.0, -1.0)

    def half_turn_flags(self, far: Bool[Array, " a"]) -> list[Bool[Array, " n"]]:
        """Whether angles that stops read are among those that turn `far`."""
        first, flags = self.first_of_groups, []
        for group in self.groups:
            stops = jnp.min(jnp.abs(self.limits[first : first + group.count]), axis=1) < 0.5 * APART
            flags += [take(far, of.numbers) & stops for of in group.turns]
            first += group.count
        return flags

    def _ways(self, system: Any, q: Point) -> tuple[Float[Array, " k"], Bool[Array, " k"]]:
        """Ways to the nearer limits, and whether these are the lower ones."""
        s = self.coordinates(system, q)
        below, above = s - self.limits[:, 0], self.limits[:, 1] - s
        return jnp.minimum(jnp.minimum(below, above), APART), below <= above


def _normals(along: Float[Array, "k n"], gap: Float[Array, " k"], is_lower: Bool[Array, " k"]) -> Float[Array, "k n"]:
    """Rows of the rates of gaps, zero without a stop."""
    sign = jnp.where(gap < 0.5 * APART, jnp.where(is_lower, 1.0, -1.0), 0.0)
    return sign[:, None] * along


def joint_wrenches(
    contacts: JointContacts, motion: Motion, efforts: Float[Array, " k"]
) -> tuple[Float[Array, "nodes 3"], Float[Array, "nodes 3"]]:
    """Torques and forces on all nodes but the ground of forces along coordinates that are none of a tree."""
    torque, force = jnp.zeros_like(motion.poses.x), jnp.zeros_like(motion.poses.x)
    first = contacts.first_of_groups
    for group in contacts.groups:
        loads = group.wrenches(motion, efforts[first : first + group.count])
        for slot, load in zip(group.slots, loads, strict=True):
            torque = torque.at[slot.nodes.numbers].add(load.torque)
            force = force.at[slot.nodes.numbers].add(load.force)
        first += group.count
    return torque[:-1], force[:-1]
