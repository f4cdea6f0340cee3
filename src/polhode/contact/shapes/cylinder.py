"""Cylinders."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.shapes.shape import AbstractConvex, Face
from polhode.contact.vectors import UP, ring_directions, root, unit_or

_EAST: Any = np.array([1.0, 0.0, 0.0])
_ENDS: Any = np.repeat([1.0, -1.0], 4)


@final
class Cylinder(AbstractConvex):
    """A cylinder along its own z, about `position`.

    **Arguments:**

    - `radius`, `length`: greater than zero.
    """

    radius: Any
    length: Any

    def _check(self) -> None:
        self.radius = checks.positive("radius", self.radius, (), "of a cylinder")
        self.length = checks.positive("length", self.length, (), "of a cylinder along its axis")

    @property
    def half(self) -> Float[Array, ""]:
        """Half of the length."""
        return 0.5 * self.length

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return root(self.half**2 + self.radius**2)

    @property
    def section_radius(self) -> Float[Array, ""]:
        return self.radius

    @property
    def inner_radius(self) -> Float[Array, ""]:
        return jnp.minimum(self.radius, self.half)

    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"]:
        rim = self.radius * unit_or(jnp.stack((direction[0], direction[1], jnp.zeros_like(direction[0]))), _EAST)
        return jnp.stack((rim[0], rim[1], jnp.where(direction[2] < 0, -self.half, self.half)))

    def face(self, direction: Float[Array, "3"], across: Float[Array, "3"]) -> Face:
        caps = direction[2] ** 2 > 0.5
        up = jnp.where(direction[2] < 0, -1.0, 1.0)
        ring = self.radius * ring_directions(up, across)
        side = jnp.stack((direction[0], direction[1], jnp.zeros_like(up)))
        line = self.radius * unit_or(side, _EAST) + self.half * UP * _ENDS[:, None]
        corners = jnp.where(caps, ring + self.half * up * UP, line)
        # There and back along a line is the same edge.
        number = jnp.where(caps, jnp.arange(8), 8 + jnp.arange(8) // 4)
        return Face(corners, jnp.where(caps, up * UP, direction), caps, number)

    def _volume_properties(self) -> tuple[Array, Array, Array]:
        r, length = self.radius, self.length
        volume = np.pi * r**2 * length
        across = volume * (r**2 / 4 + length**2 / 12)
        return volume, jnp.zeros(3), jnp.diag(jnp.stack((across, across, 0.5 * volume * r**2)))
