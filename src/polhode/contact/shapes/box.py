"""Boxes."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.shapes.shape import AbstractConvex
from polhode.contact.vectors import norm


@final
class Box(AbstractConvex):
    """A box about `position` with edges along its own axes.

    **Arguments:**

    - `size`: its three edge lengths, greater than zero.
    """

    size: Any

    def _check(self) -> None:
        self.size = checks.positive("size", self.size, (3,), "edge lengths of a box")

    @property
    def half(self) -> Float[Array, "3"]:
        """Half of the edge lengths."""
        return 0.5 * self.size

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return norm(self.half)

    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"]:
        return jnp.where(direction < 0, -self.half, self.half)

    def _volume_properties(self) -> tuple[Array, Array, Array]:
        volume = self.size[0] * self.size[1] * self.size[2]
        squares = self.size**2
        return volume, jnp.zeros(3), volume / 12 * jnp.diag(jnp.sum(squares) - squares)
