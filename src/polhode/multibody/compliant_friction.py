"""Exact friction of compliant contacts: forces along the surfaces, bounded by the elastic forces that press."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.contact.distances import APART
from polhode.multibody.mechanism.elements import Grips
from polhode.multibody.mechanism.groups import ForceGroup, Motion
from polhode.multibody.mechanism.poses import Wrench
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical.contact_set import AbstractContactSet, ContactKinematics, ContactLaw


class GripName(NamedTuple):
    """Names of a contact with friction and of both sides.

    - `contact`: name of the contact in results. - `first`, `second`: names of both sides; forces are on the second.
    """

    contact: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"`{self.first}` and `{self.second}`"


class CompliantFriction(AbstractContactSet):
    """Friction |f| ≤ μN at the points where compliant contacts press with N, which sticks.

    Each is a contact without a gap, with an empty row in the place of the normal one: N is a force of the system.

    - `groups`: the elements of these contacts. - `coefficients`: the larger coefficient of each point; `law` has both
      in parts of it.
    """

    groups: tuple[ForceGroup, ...]
    law: ContactLaw
    coefficients: Float[Array, " k"]
    names: tuple[GripName, ...] = eqx.field(static=True)

    @property
    def count(self) -> int:
        return len(self.names)

    def name(self, number: int) -> str:
        return str(self.names[number])

    @property
    def connected_rows(self) -> set[tuple[int, int]]:
        """Pairs of rows of a motion between which they act."""
        pairs = set()
        for group in self.groups:
            ends = [slot.nodes.numbers.tolist() for slot in group.slots]
            for k, one in enumerate(ends):
                for other in ends[k + 1 :]:
                    pairs |= set(zip(one, other, strict=True))
        return pairs

    def gaps(self, system: Any, t: Array, q: Point) -> Float[Array, " k"]:
        del system, t, q
        return jnp.full(self.count, APART)

    def grips(self, motion: Motion) -> Grips:
        """All points, one after the other."""
        return _join(self._grips(motion))

    def kinematics(self, system: Any, t: Array, q: Point) -> ContactKinematics:
        grips = self._grips(system.motion(q))
        rates = lambda v: self._rates(system.motion(q, v), grips)  # noqa: E731
        zero = jnp.zeros(system.n)
        differentiate = jax.jacfwd if system.n <= 2 * self.count else jax.jacrev
        along, drift = differentiate(rates)(zero), rates(zero)
        rows = jnp.concatenate((jnp.zeros_like(along[:, :1]), along), axis=1)
        drift = jnp.concatenate((jnp.zeros_like(drift[:, :1]), drift), axis=1)
        feature = jnp.zeros(self.count, jnp.int32)
        bounds = self.coefficients * _join(grips).push
        return ContactKinematics(self.gaps(system, t, q), rows, drift, feature, (), bounds)

    def slips(self, system: Any, t: Array, q: Point, v: Vector) -> Float[Array, "k rows"]:
        del t
        motion = system.motion(q, v)
        along = self._rates(motion, self._grips(motion))
        return jnp.concatenate((jnp.zeros_like(along[:, :1]), along), axis=1)

    def wrenches(self, motion: Motion, forces: Float[Array, "k rows"]) -> Wrench:
        """Loads of friction on all nodes but the ground."""
        torque, force = jnp.zeros_like(motion.poses.x), jnp.zeros_like(motion.poses.x)
        first = 0
        for group, grips in zip(self.groups, self._grips(motion), strict=True):
            count = grips.push.size
            parts = forces[first : first + count, 1:3].reshape(*grips.push.shape, 2)
            along = jnp.einsum("esi,esij->esj", parts, grips.tangents)
            loads = jax.vmap(lambda e, p, g, f: e.grip_wrenches(p, g, f))(
                group.elements, motion.at(group.slots), grips, along
            )
            for slot, load in zip(group.slots, loads, strict=True):
                torque = torque.at[slot.nodes.numbers].add(load.torque)
                force = force.at[slot.nodes.numbers].add(load.force)
            first += count
        return Wrench(torque[:-1], force[:-1])

    def _grips(self, motion: Motion) -> list[Grips]:
        """Of each group, with an axis for its elements and one for the points of each."""
        return [jax.vmap(lambda e, p: e.grips(p))(group.elements, motion.at(group.slots)) for group in self.groups]

    def _rates(self, motion: Motion, grips: list[Grips]) -> Float[Array, "k 2"]:
        parts = [
            jax.vmap(lambda e, p, w, g: e.grip_slips(p, w, g))(
                group.elements, motion.at(group.slots), motion.twists_at(group.slots), own
            )
            for group, own in zip(self.groups, grips, strict=True)
        ]
        return jnp.concatenate([part.reshape(-1, 2) for part in parts])


def _join(parts: list[Grips]) -> Grips:
    flat = [jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), part) for part in parts]
    return jax.tree.map(lambda *x: jnp.concatenate(x), *flat)
