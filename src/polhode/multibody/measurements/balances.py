"""Balances of momenta and energy: those of the bodies of a system, and the loads that change them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.numpy.eager import eager_numpy
from polhode.linalg.known_places import take
from polhode.modules import Module
from polhode.multibody.mechanism.groups import ForceGroup, JointGroup, Motion
from polhode.multibody.mechanism.near_forces import AbstractNearForces
from polhode.multibody.mechanism.poses import Wrench, rates
from polhode.multibody.mechanism.reactions import reaction_of
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State

_CANCEL_TOLERANCE = 1e-9
"""Sum of the reactions of a joint, relative to the largest, below which they cancel."""


class Balance(Module):
    """Momenta of free bodies, external loads on them, and the power of loads without a potential.

    Bodies are free if no joint or contact connects them, directly or through others, to the ground. Gravity is
    left out: it has no moment about the centre of mass.

    - `free`: rows of these bodies. - `outer`: numbers of the groups of forces that may be external to them.
    - `nonconservative`: numbers of the groups of forces without a potential.
    - `near`: whether forces between what comes near may be external to them.
    - `works`: whether there is power of loads without a potential, drives included.
    """

    system: MultibodySystem
    free: tuple[int, ...] = eqx.field(static=True)
    outer: tuple[int, ...] = eqx.field(static=True)
    nonconservative: tuple[int, ...] = eqx.field(static=True)
    near: bool = eqx.field(static=True, default=False)

    @property
    def works(self) -> bool:
        coordinates = self.system.coordinates
        if not (coordinates.conservative or coordinates.has_own_loads):
            # The power of damping in flexible bodies isn't computed.
            return False
        return (
            bool(self.nonconservative or self._lossy_forces)
            or not coordinates.conservative
            or self.system.mechanism.driven
        )

    @property
    def brief_impulse(self) -> bool:
        """Whether external loads may act within a few steps only."""
        return self.near or any(self.system.mechanism.forces[k].elements.brief for k in self.outer)

    @property
    def brief_work(self) -> bool:
        """Whether loads without a potential may act within a few steps only."""
        own = self.system.coordinates.brief or bool(self._lossy_forces)
        return own or any(self.system.mechanism.forces[k].elements.brief for k in self.nonconservative)

    @property
    def _lossy_forces(self) -> tuple[AbstractNearForces, ...]:
        """Forces between what comes near that have damping or friction."""
        return tuple(forces for forces in self.system.mechanism.near_forces if not forces.conservative)

    def __call__(self, t: Array, q: Point, v: Vector) -> dict[str, Array]:
        if self.system.counts:
            return dataclasses.replace(self, system=self.system.near(q))._evaluate(t, q, v)
        return self._evaluate(t, q, v)

    def _evaluate(self, t: Array, q: Point, v: Vector) -> dict[str, Array]:
        motion = self.system.motion(q, v)
        values: dict[str, Array] = {}
        if self.free:
            values |= self._momenta(q, v, motion)
        if self.outer or self.near:
            values |= self._resultant(t, motion)
        if self.works:
            values["power"] = self._power(t, q, v, motion)
        return values

    def _momenta(self, q: Point, v: Vector, motion: Motion) -> dict[str, Array]:
        """Momenta, the angular one about the centre of mass.

        `linear_size`, `angular_size`: the largest of one body, relative to that centre. `linear_scale`,
        `angular_scale`: sums of magnitudes, for round-off.
        """
        coordinates, rows = self.system.coordinates, np.array(self.free)
        assert motion.twists is not None
        mass, J = take(coordinates.masses, rows), take(coordinates.inertias, rows)
        x, R, omega, u = (take(x, rows) for x in (*motion.poses, *motion.twists))
        whole = jnp.sum(mass)
        centre, mean = mass @ x / whole, mass @ u / whole
        spins = jnp.einsum("nij,njk,nk->ni", R, J, omega)
        about_centre = spins + mass[:, None] * jnp.cross(x - centre, u - mean)
        inner = coordinates.spin_of_deforming(q, v)
        angular = jnp.sum(about_centre, axis=0) + (0.0 if inner is None else inner)
        speeds, arms = jnp.linalg.norm(u, axis=1), jnp.linalg.norm(x - centre, axis=1)
        return {
            "linear": whole * mean,
            "angular": angular,
            "linear_size": jnp.max(mass * jnp.linalg.norm(u - mean, axis=1)),
            "angular_size": jnp.maximum(jnp.max(jnp.linalg.norm(about_centre, axis=1)), jnp.linalg.norm(angular)),
            "linear_scale": mass @ speeds,
            "angular_scale": mass @ (arms * speeds) + jnp.sum(jnp.linalg.norm(spins, axis=1)),
            "weight": whole * self.system.mechanism.gravity,
        }

    def _resultant(self, t: Array, motion: Motion) -> dict[str, Array]:
        """Resultant external force on the free bodies, and moment about their centre of mass."""
        mechanism, rows = self.system.mechanism, np.array(self.free)
        loads = mechanism.loads(t, motion, [mechanism.forces[k] for k in self.outer])
        for forces in mechanism.near_forces if self.near else ():
            loads = jax.tree.map(jnp.add, loads, forces.loads(motion))
        mass, x = take(self.system.coordinates.masses, rows), take(motion.poses.x, rows)
        # Nodes on flexible bodies carry loads too.
        loaded_rows = np.array(self.free_nodes)
        centre = mass @ x / jnp.sum(mass)
        moments = jnp.einsum("nij,nj->ni", take(motion.poses.R, loaded_rows), take(loads.torque, loaded_rows))
        arms, force = take(motion.poses.x, loaded_rows) - centre, take(loads.force, loaded_rows)
        return {
            "force": jnp.sum(force, axis=0),
            "moment": jnp.sum(moments + jnp.cross(arms, force), axis=0),
        }

    @property
    def free_nodes(self) -> tuple[int, ...]:
        """The free bodies and the nodes on them."""
        free = set(self.free)
        nodes = {b for a, b in self.system.coordinates.connected_rows if a in free}
        return tuple(sorted(free | (nodes if self.system.coordinates.local else set())))

    def _power(self, t: Array, q: Point, v: Vector, motion: Motion) -> Float[Array, ""]:
        """Power into the mechanism, except the rate of potentials."""
        system, forces = self.system, self.system.mechanism.forces
        total = sum((self._power_of(forces[k], t, motion) for k in self.nonconservative), start=jnp.zeros(()))
        for near in self._lossy_forces:
            total = total + self._power_of_near(near, motion)
        if not system.coordinates.conservative:
            total = total + system.coordinates.power(t, q, v)
        if system.mechanism.driven:
            _, multipliers = system.accelerations(t, q, v)
            for group in system.mechanism.joints:
                if group.elements.driven:
                    reaction = reaction_of(group, multipliers)
                    total = total + self._power_on_nodes(reaction, reaction.wrenches(t, motion), motion)
        return total

    def _power_of(self, group: ForceGroup, t: Array, motion: Motion) -> Float[Array, ""]:
        assert motion.twists is not None
        power = self._power_on_nodes(group, group.wrenches(t, motion), motion)
        pose_rates = jax.vmap(lambda pose, twist: rates((pose,), (twist,))[0])(motion.poses, motion.twists)
        potential = lambda t, poses: group.potential(t, Motion(poses, motion.twists))  # noqa: E731
        return power + jax.jvp(potential, (t, motion.poses), (jnp.ones_like(t), pose_rates))[1]

    def _power_of_near(self, forces: AbstractNearForces, motion: Motion) -> Float[Array, ""]:
        assert motion.twists is not None
        loads, (omega, u) = forces.loads(motion), (x[:-1] for x in motion.twists)
        pose_rates = jax.vmap(lambda pose, twist: rates((pose,), (twist,))[0])(motion.poses, motion.twists)
        potential = lambda poses: forces.potential(Motion(poses, motion.twists))  # noqa: E731
        stored = jax.jvp(potential, (motion.poses,), (pose_rates,))[1]
        return jnp.sum(loads.torque * omega) + jnp.sum(loads.force * u) + stored

    def _power_on_nodes(self, group: ForceGroup, wrenches: tuple[Wrench, ...], motion: Motion) -> Float[Array, ""]:
        """Power of loads on nodes; that on integrals, which have no energy, is left out."""
        assert motion.twists is not None
        energetic = np.append(self.system.coordinates.energetic, 0.0)
        total = jnp.zeros(())
        for slot, wrench in zip(group.slots, wrenches, strict=True):
            rows = slot.nodes.numbers
            omega, u = (take(x, rows) for x in motion.twists)
            powers = jnp.sum(wrench.torque * omega, axis=1) + jnp.sum(wrench.force * u, axis=1)
            total = total + energetic[rows] @ powers
        return total


@eager_numpy()
def balance(system: MultibodySystem, states: list[tuple[Any, State]]) -> Balance:
    """The balance of a system. Whether joints act as external loads is tested in some states, with their times."""
    free, groups = _free_rows(system, states), system.mechanism.forces
    has_mass = np.asarray(system.coordinates.masses) > 0
    inside = np.isin(np.arange(len(has_mass)), free)
    outer = tuple(k for k, group in enumerate(groups) if free and _is_outer(group, inside, has_mass))
    nonconservative = tuple(k for k, group in enumerate(groups) if not group.elements.conservative)
    near = [rows for forces in system.mechanism.near_forces for rows in forces.node_rows]
    return Balance(system, free, outer, nonconservative, bool(free) and not set(near) <= set(np.asarray(free).tolist()))


def _free_rows(system: MultibodySystem, states: list[tuple[Any, State]]) -> tuple[int, ...]:
    """Rows of the bodies that no chain of joints and contacts connects to the ground."""
    masses = np.asarray(system.coordinates.masses)
    pairs = list(system.coordinates.connected_rows)
    pairs += [tuple(-1 if row == len(masses) else row for row in two) for two in system.connected_by_contacts]
    others = [group for group in system.mechanism.joints if not group.relative]
    internal = [group for group in system.mechanism.joints if group.relative]
    for group in internal:
        pairs += _pairs(group, internal=True)
    # Bodies that are connected to the ground in any case need no test, which takes a moment.
    fixed_rows = _connected_rows(
        pairs + [pair for group in others for pair in _pairs(group, not _touches_ground(group))], -1
    )
    for group in others:
        to_ground = (
            _touches_ground(group) or _node_rows(group) <= fixed_rows or not _reactions_cancel(system, group, states)
        )
        pairs += _pairs(group, internal=not to_ground)
    fixed_rows = _connected_rows(pairs, -1)
    free = [row for row in range(len(masses)) if masses[row] > 0 and row not in fixed_rows]
    if system.coordinates.has_deformable_bodies and len(free) < np.count_nonzero(masses > 0):
        # Angular momenta of deformable bodies are defined for all of them together.
        return ()
    return tuple(free)


def _connected_rows(pairs: list[tuple[int, int]], start: int) -> set[int]:
    """All rows connected with a row."""
    beside: dict[int, list[int]] = {}
    for a, b in pairs:
        beside.setdefault(a, []).append(b)
        beside.setdefault(b, []).append(a)
    rows, rest = {start}, [start]
    while rest:
        more = set(beside.get(rest.pop(), ())) - rows
        rows |= more
        rest += more
    return rows


def _is_outer(group: ForceGroup, free: np.ndarray, weighs: np.ndarray) -> bool:
    """Whether the loads of a group on free bodies may have a nonzero resultant."""
    if not group.inner:
        return True
    ends = [(free[slot.nodes.numbers], weighs[slot.nodes.numbers]) for slot in group.slots]
    inside, real = (np.stack(parts) for parts in zip(*ends, strict=True))
    return bool(np.any(np.any(inside & real, axis=0) & np.any(~inside & real, axis=0)))


def _touches_ground(group: JointGroup) -> bool:
    """Whether a group connects bodies to the ground, or constrains single ones."""
    return len(group.slots) < 2 or any(slot.group is None for slot in group.slots)


def _node_rows(group: JointGroup) -> set[int]:
    return {int(row) for slot in group.slots for row in slot.nodes.numbers}


def _pairs(group: JointGroup, internal: bool) -> Iterator[tuple[int, int]]:
    """Pairs of rows that the elements of a group connect, or rows with the ground, -1, unless `internal`."""
    for nodes in zip(*(slot.nodes.numbers for slot in group.slots), strict=True):
        rows = [-1 if slot.group is None else int(row) for slot, row in zip(group.slots, nodes, strict=True)]
        yield from ((rows[0] if internal else -1, row) for row in rows)


def _reactions_cancel(system: MultibodySystem, group: JointGroup, states: list[tuple[Any, State]]) -> bool:
    """Whether the reactions of a group on its bodies cancel, so that total momenta are unchanged."""
    has_mass = np.asarray(system.coordinates.masses) > 0
    for t, (q, v) in states:
        sums, most = _sum_reactions(group, has_mass, jnp.asarray(t), system.motion(q, v))
        if not np.max(np.abs(sums), initial=0.0) <= _CANCEL_TOLERANCE * float(most):
            return False
    return True


def _sum_reactions(group: JointGroup, weighs: np.ndarray, t: Any, motion: Motion) -> tuple[Array, Array]:
    """Sums of forces and moments of unit multipliers over the bodies of each element, and the largest part."""
    total, most = jnp.zeros(()), jnp.zeros(())
    for slot, gradient in zip(group.slots, group.gradients(t, motion), strict=True):
        rows = slot.nodes.numbers
        x, R, real = motion.poses.x[rows], motion.poses.R[rows], jnp.asarray(weighs)[rows]
        force = gradient[..., 3:] * real[:, None, None]
        moment = jnp.einsum("nij,nkj->nki", R, gradient[..., :3]) * real[:, None, None]
        whole = jnp.concatenate((force, moment + jnp.cross(x[:, None], force)), axis=-1)
        total, most = total + whole, jnp.maximum(most, jnp.max(jnp.abs(whole)))
    return total, most
