"""Poses and twists of bodies by name, and strengths of loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.known_places import take
from polhode.multibody.mechanism.groups import Motion
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists, Wrench
from polhode.multibody.system import MultibodySystem


class NodesByName:
    """Cached poses and twists of bodies by name."""

    def __init__(self, system: MultibodySystem, motion: Motion) -> None:
        self.system, self.motion = system, motion
        self._poses: dict[str, Pose] = {}
        self._twists: dict[str, Twist] = {}

    def row(self, name: str) -> int:
        """Row of a body; the ground comes last."""
        return len(self.system.names) if name == "ground" else self.system.names.index(name)

    def pose(self, name: str) -> Pose:
        """Of one body."""
        if name not in self._poses:
            row = self.row(name)
            self._poses[name] = Pose(self.motion.poses.x[row], self.motion.poses.R[row])
        return self._poses[name]

    def poses(self, names: tuple[str, ...]) -> Poses:
        """Of several bodies."""
        return tuple(map(self.pose, names))

    def twist(self, name: str) -> Twist:
        """Of one body."""
        twists = self.motion.twists
        assert twists is not None
        if name not in self._twists:
            row = self.row(name)
            self._twists[name] = Twist(twists.omega[row], twists.u[row])
        return self._twists[name]

    def twists(self, names: tuple[str, ...]) -> Twists:
        """Of several bodies."""
        return tuple(map(self.twist, names))

    def batch(self, names: Sequence[tuple[str, ...]]) -> tuple[Any, ...]:
        """Poses, and twists if any, of equally many bodies of several parts, stacked along the parts."""
        rows = np.array([[self.row(name) for name in each] for each in names])
        parts = (part for part in (self.motion.poses, self.motion.twists) if part is not None)
        return tuple(tuple(jax.tree.map(lambda a, k=k: take(a, k), part) for k in rows.T) for part in parts)


@jax.jit
def load_strength(loads: tuple[Wrench, ...], unit: tuple[Wrench, ...]) -> Float[Array, ""]:
    """The factor of loads that are a multiple of unit loads."""
    pairs = list(zip(map(_flat, loads), map(_flat, unit), strict=True))
    size = sum((u @ u for _, u in pairs), start=jnp.zeros(()))
    return sum((w @ u for w, u in pairs), start=jnp.zeros(())) / jnp.where(size > 0, size, 1.0)


def _flat(wrench: Wrench) -> Float[Array, "6"]:
    return jnp.concatenate((wrench.torque, wrench.force))


def stack_or_empty(values: list[Any], *size: int) -> Array:
    """Stacked values; an empty array of the given size for none."""
    return jnp.stack(values) if values else jnp.zeros((0, *size))
