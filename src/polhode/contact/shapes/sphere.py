"""Spheres."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.shapes.shape import AbstractConvex, Face
from polhode.contact.vectors import UP, unit_or


@final
class Sphere(AbstractConvex):
    """A sphere about `position`.

    **Arguments:**

    - `radius`: greater than zero.
    """

    radius: Any

    def _check(self) -> None:
        self.radius = checks.positive("radius", self.radius, (), "of a sphere")

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return self.radius

    @property
    def section_radius(self) -> Float[Array, ""]:
        return self.radius

    @property
    def inner_radius(self) -> Float[Array, ""]:
        return self.radius

    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"]:
        return self.radius * unit_or(direction, UP)

    def face(self, direction: Float[Array, "3"], across: Float[Array, "3"]) -> Face:
        del across
        return Face(self.support(direction)[None], direction, jnp.array(False), jnp.zeros(1, int))

    def _volume_properties(self) -> tuple[Array, Array, Array]:
        volume = 4 / 3 * np.pi * self.radius**3
        return volume, jnp.zeros(3), 0.4 * volume * self.radius**2 * jnp.eye(3)
