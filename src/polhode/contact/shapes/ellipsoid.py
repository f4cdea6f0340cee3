"""Ellipsoids."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.shapes.shape import AbstractConvex, Face
from polhode.contact.vectors import UP, unit_or


@final
class Ellipsoid(AbstractConvex):
    """An ellipsoid about `position`.

    **Arguments:**

    - `semi_axes`: along its own x, y and z, greater than zero; shape (3,).
    """

    semi_axes: Any

    def _check(self) -> None:
        self.semi_axes = checks.positive("semi_axes", self.semi_axes, (3,), "half lengths of an ellipsoid")

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return jnp.max(self.semi_axes)

    @property
    def inner_radius(self) -> Float[Array, ""]:
        return jnp.min(self.semi_axes)

    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"]:
        return self.semi_axes * unit_or(self.semi_axes * direction, UP)

    def face(self, direction: Float[Array, "3"], across: Float[Array, "3"]) -> Face:
        del across
        return Face(self.support(direction)[None], direction, jnp.array(False), jnp.zeros(1, int))

    def _volume_properties(self) -> tuple[Array, Array, Array]:
        squares = self.semi_axes**2
        volume = 4 / 3 * np.pi * jnp.prod(self.semi_axes)
        return volume, jnp.zeros(3), 0.2 * volume * jnp.diag(jnp.sum(squares) - squares)
