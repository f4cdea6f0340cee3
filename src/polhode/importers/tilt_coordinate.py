"""Angle of the middle one of three hinges as a relative coordinate."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.spaces.base import cross


class Tilt(AbstractRelativeCoordinate):
    """Middle angle of three hinges with perpendicular neighbours, ±asin(R₀a·R₁c), in (-π/2, π/2).

    At the ends of its range two axes are parallel, as in the mechanism.

    **Arguments:**

    - `a`, `c`: axes of the first and the third hinge, in the frames of the first and the second body.
    - `sign`: of the triple product of the three axes.
    """

    a: Float[Array, "3"]
    c: Float[Array, "3"]
    sign: Float[Array, ""]

    def difference(self, poses: Poses, target: Any) -> Float[Array, ""]:
        return self.sign * jnp.arcsin((poses[0].R @ self.a) @ (poses[1].R @ self.c)) - target

    def rate(self, poses: Poses, twists: Twists) -> Float[Array, ""]:
        return self._gradient(poses) @ (poses[1].R @ twists[1].omega - poses[0].R @ twists[0].omega)

    def wrenches(self, poses: Poses, strength: Any) -> tuple[Wrench, Wrench]:
        torque = strength * self._gradient(poses)
        none = jnp.zeros(3)
        return Wrench(-(poses[0].R.T @ torque), none), Wrench(poses[1].R.T @ torque, none)

    def _gradient(self, poses: Poses) -> Float[Array, "3"]:
        """Derivative along rotations of the second body in the inertial frame: the middle axis."""
        a, c = poses[0].R @ self.a, poses[1].R @ self.c
        sine = a @ c
        return self.sign * cross(c, a) / jnp.sqrt(1 - sine**2)
