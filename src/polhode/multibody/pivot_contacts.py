"""Dry friction against the relative rotation of two bodies in any direction, as contacts."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.contact.distances import APART
from polhode.linalg.known_places import take
from polhode.multibody.mechanism.groups import Motion, Slot
from polhode.multibody.mechanism.user_functions import Function
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical.contact_set import AbstractContactSet, ContactKinematics, ContactLaw


class PivotName(NamedTuple):
    """Names of friction in a joint: of the joint in messages, and of the part of the model."""

    joint: str
    part: str


class PivotContacts(AbstractContactSet):
    """Torques τ between pairs of bodies, |τ| ≤ F, against their relative angular velocities, in the inertial frame.

    Each is a contact without a gap, with an empty row in the place of the normal one.

    - `slots`: nodes of the first and of the second bodies. - `bounds`: F, functions of time.
    """

    law: ContactLaw
    slots: tuple[Slot, Slot]
    bounds: tuple[Function, ...]
    names: tuple[PivotName, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, slots: tuple[Slot, Slot], bounds: tuple[Function, ...], names: tuple[PivotName, ...]) -> PivotContacts:
        """Friction between the nodes of two slots."""
        none = jnp.zeros(len(names))
        return cls(ContactLaw(jnp.ones((len(names), 3)), none, none, bounces=False), slots, bounds, names)

    @property
    def count(self) -> int:
        return len(self.names)

    def name(self, number: int) -> str:
        return self.names[number].joint

    @property
    def connected_rows(self) -> set[tuple[int, int]]:
        """Pairs of rows of a motion between which they act."""
        first, second = (slot.nodes.numbers.tolist() for slot in self.slots)
        return {*zip(first, second, strict=True)}

    def hold(self, t: Array) -> Float[Array, " k"]:
        """The largest torques; no number where one is negative."""
        bounds = jnp.stack([jnp.asarray(bound(t), float) for bound in self.bounds])
        return jnp.where(bounds >= 0, bounds, jnp.nan)

    @property
    def are_angles(self) -> Bool[np.ndarray, " k"]:
        return np.ones(self.count, bool)

    def gaps(self, system: Any, t: Array, q: Point) -> Float[Array, " k"]:
        del system, t, q
        return jnp.full(self.count, APART)

    def kinematics(self, system: Any, t: Array, q: Point) -> ContactKinematics:
        hold = self.hold(t)
        turns = jax.jacfwd(lambda v: self._rates(system, q, v))(jnp.zeros(system.n))
        # Comparisons in the laws would take a friction that is no number for none.
        turns = jnp.where(jnp.isnan(hold)[:, None, None], jnp.nan, turns)
        rows = jnp.concatenate((jnp.zeros_like(turns[:, :1]), turns), axis=1)
        feature = jnp.zeros(self.count, jnp.int32)
        return ContactKinematics(self.gaps(system, t, q), rows, jnp.zeros(rows.shape[:2]), feature, (), hold)

    def torques(self, motion: Motion, forces: Float[Array, "k rows"]) -> Float[Array, "nodes 3"]:
        """Torques on all nodes but the ground, in their frames."""
        sums = jnp.zeros_like(motion.poses.x)
        for slot, sign in zip(self.slots, (-1.0, 1.0), strict=True):
            R = take(motion.poses.R, slot.nodes.numbers)
            sums = sums.at[slot.nodes.numbers].add(sign * jnp.einsum("kji,kj->ki", R, forces[:, 1:4]))
        return sums[:-1]

    def _rates(self, system: Any, q: Point, v: Vector) -> Float[Array, "k 3"]:
        """Angular velocities of the second bodies relative to the first."""
        motion = system.motion(q, v)
        first, second = (
            jnp.einsum("kij,kj->ki", pose.R, twist.omega)
            for pose, twist in zip(motion.at(self.slots), motion.twists_at(self.slots), strict=True)
        )
        return second - first
