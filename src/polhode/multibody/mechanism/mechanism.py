"""Joints and forces between nodes, written in poses and twists."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.checks import is_concrete
from polhode.linalg.blocks import Indices
from polhode.linalg.known_places import add_entries, take
from polhode.modules import Module
from polhode.multibody.mechanism.groups import ForceGroup, JointGroup, Motion
from polhode.multibody.mechanism.near_forces import AbstractNearForces
from polhode.multibody.mechanism.poses import Wrench
from polhode.result_codes import Result


class Mechanism(Module):
    """Joints, forces and gravity on the nodes of a model, independent of the coordinates of its bodies.

    - `joints`, `forces`: groups of elements of one kind.
    - `gravity`: acceleration in the inertial frame.
    - `near_forces`: between parts that come near each other.
    """

    joints: tuple[JointGroup, ...]
    forces: tuple[ForceGroup, ...]
    gravity: Float[Array, "3"]
    near_forces: tuple[AbstractNearForces, ...] = ()

    # --- properties of the elements ---------------------------------------------------------------------------------

    @property
    def nonholonomic(self) -> np.ndarray:
        """Numbers of the constraints on velocities alone, in ascending order."""
        numbers = [group.rows.numbers[:, list(group.nonholonomic)].reshape(-1) for group in self.joints]
        return np.sort(np.concatenate((np.zeros(0, int), *numbers)))

    @property
    def driven(self) -> bool:
        """Whether some joint depends on time and so does work."""
        return any(group.elements.driven for group in self.joints)

    @property
    def conservative(self) -> bool:
        """Whether energy is kept: all forces have potentials and no joint is driven."""
        elastic = all(group.elements.conservative for group in self.forces) and not self.driven
        return elastic and all(forces.conservative for forces in self.near_forces)

    @property
    def has_stiff_forces(self) -> bool:
        """Whether some forces are of kinds that are often stiff."""
        return bool(self.near_forces) or any(group.elements.waves for group in self.forces)

    @property
    def acts_inside(self) -> bool:
        """Whether neither gravity nor external forces act; False for traced numbers inside JAX transformations."""
        weightless = is_concrete(self.gravity) and not np.any(np.asarray(self.gravity))
        alone = all(slot.group is not None for group in self.forces for slot in group.slots)
        alone = alone and all(forces.inner for forces in self.near_forces)
        return weightless and alone and all(group.relative for group in self.forces)

    @property
    def isolated(self) -> bool:
        """Whether joints impose no external constraints either; False for joints that don't declare it."""
        return self.acts_inside and all(group.relative for group in self.joints)

    def near(self, turns: Float[Array, " k"]) -> Mechanism:
        """The mechanism with the counted angles as references of its angles."""
        joints, forces = (tuple(group.near(turns) for group in groups) for groups in (self.joints, self.forces))
        return dataclasses.replace(self, joints=joints, forces=forces)

    @property
    def reads_turns(self) -> bool:
        """Whether elements depend on counted angles."""
        return any(group.turns for group in (*self.joints, *self.forces))

    def half_turn_result(self, change: Float[Array, " k"], others: Sequence[Array] = ()) -> Array | None:
        """`half_turn_passed`, int32, if an angle of an element has turned by more than half a turn, otherwise 0.

        `change` is that of all counted angles in a step, `others` whether further ones turn too far. None where
        elements depend on none.
        """
        far = jnp.abs(change) > jnp.pi
        flags = [*others, *(take(far, of.numbers) for group in self.joints for of in group.turns)]
        for group in self.forces:
            reads = group.elements.reads_angles if group.turns else False
            flags += [take(far, of.numbers) & reads for of in group.turns]
        if not flags:
            return None
        return jnp.where(jnp.any(jnp.concatenate(flags)), int(Result.half_turn_passed), 0).astype(jnp.int32)

    def stiffest(self) -> Mechanism:
        """The mechanism with the largest derivatives that its loads have in a run, for limits of the step."""
        forces = tuple(dataclasses.replace(each, elements=each.elements.stiffest()) for each in self.forces)
        near = tuple(group for each in self.near_forces for group in each.stiffest)
        return dataclasses.replace(self, forces=forces + near, near_forces=())

    # --- loads and residuals ----------------------------------------------------------------------------------------

    @property
    def has_onsets(self) -> bool:
        """Whether loads come into force within a short way, as those of stops."""
        return any(group.elements.has_onset for group in self.forces)

    def onset_rate(self, motion: Motion, sense: Array) -> Float[Array, ""]:
        """The reciprocal of how long a step may be so that it resolves these onsets; 0 where none is ahead."""
        rates = [group.onset_rate(motion, sense) for group in self.forces if group.elements.has_onset]
        return jnp.max(jnp.stack(rates)) if rates else jnp.zeros(())

    def potential(self, t: Array, motion: Motion) -> Float[Array, ""]:
        """Potential energy of the elements, without gravity, which acts on the masses of bodies."""
        near = sum((forces.potential(motion) for forces in self.near_forces), start=jnp.zeros(()))
        return sum((group.potential(t, motion) for group in self.forces), start=near)

    def residuals(self, t: Array, motion: Motion) -> list[tuple[Indices, Array]]:
        """Residuals of the joints with the numbers of their rows."""
        return [(group.rows, group.residuals(t, motion)) for group in self.joints]

    def rates(self, t: Array, motion: Motion) -> list[tuple[Indices, Array]]:
        """Their time derivatives, and nonholonomic components."""
        return [(group.rows, group.rates(t, motion)) for group in self.joints]

    def loads(
        self,
        t: Array,
        motion: Motion,
        groups: Sequence[ForceGroup] | None = None,
        force: Float[Array, "nodes 3"] | None = None,
    ) -> Wrench:
        """Sums of the loads of the elements, or of some `groups`, and of a given `force`, on each node."""
        count = motion.poses.x.shape[0] - 1
        torque, force = jnp.zeros((count, 3)), jnp.zeros((count, 3)) if force is None else force
        for group in self.forces if groups is None else groups:
            for slot, wrench in zip(group.slots, group.wrenches(t, motion), strict=True):
                if slot.group is not None:
                    torque = add_entries(torque, wrench.torque, slot.nodes.numbers)
                    force = add_entries(force, wrench.force, slot.nodes.numbers)
        for forces in self.near_forces if groups is None else ():
            near = forces.loads(motion)
            torque, force = torque + near.torque, force + near.force
        return Wrench(torque, force)
