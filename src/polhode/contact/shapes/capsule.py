"""Capsules."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.shapes.shape import AbstractConvex, Face
from polhode.contact.vectors import UP, unit_or


@final
class Capsule(AbstractConvex):
    """A cylinder along its own z with a half sphere at either end, about `position`.

    **Arguments:**

    - `radius`: of cylinder and spheres, greater than zero.
    - `length`: between the centres of the spheres, greater than zero; the whole capsule is `length + 2 radius` long.
    """

    radius: Any
    length: Any

    def _check(self) -> None:
        self.radius = checks.positive("radius", self.radius, (), "of a capsule")
        self.length = checks.positive("length", self.length, (), "between the centres of a capsule's ends")

    @property
    def half(self) -> Float[Array, ""]:
        """Half of the length."""
        return 0.5 * self.length

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return self.half + self.radius

    @property
    def section_radius(self) -> Float[Array, ""]:
        return self.radius

    @property
    def inner_radius(self) -> Float[Array, ""]:
        return self.radius

    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"]:
        end = jnp.where(direction[2] < 0, -self.half, self.half)
        return self.radius * unit_or(direction, UP) + end * UP

    def face(self, direction: Float[Array, "3"], across: Float[Array, "3"]) -> Face:
        del across
        side, end = self.radius * direction, self.half * UP
        return Face(jnp.stack((side + end, side - end)), direction, jnp.array(False), jnp.arange(2))

    def _volume_properties(self) -> tuple[Array, Array, Array]:
        r, length = self.radius, self.length
        rod, ball = np.pi * r**2 * length, 4 / 3 * np.pi * r**3
        along = (0.5 * rod + 0.4 * ball) * r**2
        across = rod * (r**2 / 4 + length**2 / 12) + ball * (0.4 * r**2 + length**2 / 4 + 3 / 8 * length * r)
        return rod + ball, jnp.zeros(3), jnp.diag(jnp.stack((across, across, along)))
