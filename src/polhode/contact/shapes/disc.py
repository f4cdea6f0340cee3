"""Discs."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.shapes.shape import AbstractConvex, Face
from polhode.contact.vectors import UP, ring_directions, unit_or

_EAST: Any = np.array([1.0, 0.0, 0.0])


@final
class Disc(AbstractConvex):
    """A disc without thickness about `position`, across its own z.

    **Arguments:**

    - `radius`: greater than zero.
    """

    radius: Any

    def _check(self) -> None:
        self.radius = checks.positive("radius", self.radius, (), "of a disc")

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return self.radius

    @property
    def inner_radius(self) -> Float[Array, ""]:
        return jnp.zeros_like(self.radius)

    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"]:
        return self.radius * unit_or(jnp.stack((direction[0], direction[1], jnp.zeros_like(direction[0]))), _EAST)

    def face(self, direction: Float[Array, "3"], across: Float[Array, "3"]) -> Face:
        up = jnp.where(direction[2] < 0, -1.0, 1.0)
        corners = self.radius * ring_directions(up, across)
        return Face(corners, up * UP, direction[2] ** 2 > 0.5, jnp.arange(8))
