"""Planes."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.shapes.shape import AbstractConvex, AbstractShape, Pose
from polhode.contact.vectors import norm, turn_from_z

_ALONG = 1 - 1e-15
"""Component from which a normal is along an axis."""


@final
class Plane(AbstractShape):
    """An infinite plane, solid on the side away from its normal.

    **Arguments:**

    - `point`: one of its points; shape (3,).
    - `normal`: to the free side, not zero, of any length; shape (3,).
    """

    point: Any = (0.0, 0.0, 0.0)
    normal: Any = (0.0, 0.0, 1.0)

    def _check(self) -> None:
        self.point = checks.array("point", self.point, (3,), "on the plane")
        normal = checks.array("normal", self.normal, (3,), "to the free side of the plane")
        if checks.is_concrete(normal) and not np.any(np.asarray(normal)):
            raise ValueError("`normal` must not be zero (direction to the free side of the plane), got [0, 0, 0].")
        self.normal = normal / norm(normal)

    def pose_in(self, pose: Pose) -> Pose:
        """The pose of a frame with its origin at `point` and z along `normal`."""
        x, R = pose
        own = R @ self.rotation
        return x + R @ self.position + own @ self.point, own @ turn_from_z(self.normal)

    def height_of(self, shape: AbstractConvex, own: Pose, other: Pose) -> Float[Array, ""]:
        """How far the lowest point of a convex shape is above the plane; `own`, `other`: the poses of their bodies."""
        (x, R), (y, S) = self.pose_in(own), shape.pose_in(other)
        normal = R[:, 2]
        return normal @ (y - x + S @ shape.support(-normal @ S))

    def bounds(self, pose: Pose) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        x, R = self.pose_in(pose)
        normal = R[:, 2]
        return jnp.where(normal < -_ALONG, x, -jnp.inf), jnp.where(normal > _ALONG, x, jnp.inf)

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return jnp.asarray(np.inf)

    @property
    def section_radius(self) -> Float[Array, ""]:
        return jnp.asarray(np.inf)
