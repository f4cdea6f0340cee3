"""Poses and twists of bodies by their names, and loads that are multiples of others."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.groups import Motion
from polhode.multibody.poses import Pose, Poses, Twist, Twists, Wrench
from polhode.multibody.system import MultibodySystem


class NodesByName(NamedTuple):
    """Poses and twists of bodies by name."""

    system: MultibodySystem
    motion: Motion

    def row(self, name: str) -> int:
        """Its number; the ground comes last."""
        return -1 if name == "ground" else self.system.names.index(name)

    def pose(self, name: str) -> Pose:
        """Of one body."""
        row = self.row(name)
        return Pose(self.motion.poses.x[row], self.motion.poses.R[row])

    def poses(self, names: tuple[str, ...]) -> Poses:
        """Of several bodies."""
        return tuple(map(self.pose, names))

    def twists(self, names: tuple[str, ...]) -> Twists:
        """Of several bodies."""
        twists = self.motion.twists
        assert twists is not None
        return tuple(Twist(twists.omega[row], twists.u[row]) for row in map(self.row, names))


def share(loads: tuple[Wrench, ...], unit: tuple[Wrench, ...]) -> Float[Array, ""]:
    """The strength of loads that are a multiple of those of unit strength."""
    pairs = list(zip(map(_flat, loads), map(_flat, unit), strict=True))
    size = sum((u @ u for _, u in pairs), start=jnp.zeros(()))
    return sum((w @ u for w, u in pairs), start=jnp.zeros(())) / jnp.where(size > 0, size, 1.0)


def _flat(wrench: Wrench) -> Float[Array, "6"]:
    return jnp.concatenate((wrench.torque, wrench.force))


def stacked(values: list[Any], *size: int) -> Array:
    """Values side by side, of the given size where there are none."""
    return jnp.stack(values) if values else jnp.zeros((0, *size))
