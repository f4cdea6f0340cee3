"""Bodies without rotation: mass points and single linear coordinates."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.formulations.base import AbstractFormulation
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench
from polhode.spaces.base import Point, Vector
from polhode.spaces.linear import Rn


class MassPoint(AbstractFormulation):
    """The first `size` Cartesian coordinates of a point: 3 for a mass point, 1 for a single linear coordinate.

    - `energetic`: whether its motion has kinetic energy, unlike that of an integral.
    """

    size: int = eqx.field(static=True, default=3)
    energetic: bool = eqx.field(static=True, default=True)

    @property
    def space(self) -> Rn:
        return Rn(self.size)

    @property
    def rotates(self) -> bool:
        return False

    @property
    def twist_is_fixed(self) -> bool:
        return True

    @property
    def moves_with_twist(self) -> bool:
        return True

    def pose(self, q: Point) -> Pose:
        return Pose(self._fill(q), jnp.eye(3))

    def twist(self, q: Point, v: Vector) -> Twist:
        return Twist(jnp.zeros(3), self._fill(v))

    def from_pose(self, pose: Pose) -> Point:
        return pose.x[: self.size]

    def from_twist(self, q: Point, twist: Twist) -> Vector:
        return twist.u[: self.size]

    def jacobian(self, q: Point) -> Float[Array, "6 size"]:
        return jnp.eye(6)[:, 3 : 3 + self.size]

    def bias(self, q: Point, v: Vector) -> None:
        return None

    def mass(self, q: Point, mass: Array, inertia: Float[Array, "3 3"]) -> Float[Array, "size size"]:
        return mass * jnp.eye(self.size)

    def force(self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]) -> Vector:
        return wrench.force[: self.size]

    def stiffness(self, *_: Any) -> None:
        return None

    def damping(self, *_: Any) -> None:
        return None

    def _fill(self, x: Vector) -> Float[Array, "3"]:
        return jnp.concatenate((x, jnp.zeros(3 - self.size)))
