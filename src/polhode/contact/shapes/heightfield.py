"""Heightfields."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.shapes.shape import AbstractShape


@final
class Heightfield(AbstractShape):
    """A ground given by heights over a rectangular grid about `position`, solid below.

    Each cell is two triangles, divided from its corner with the lowest x and y to the one with the highest.

    **Arguments:**

    - `heights`: along its own z, in rows along x and columns along y; at least 2 × 2.
    - `size`: lengths of the grid along x and y, greater than zero.
    """

    heights: Any
    size: Any

    def _check(self) -> None:
        meaning = "heights over a grid, rows along x"
        shape = checks.shape("heights", self.heights, meaning)
        if len(shape) != 2 or min(shape) < 2:
            raise ValueError(f"`heights` must be a grid of at least 2 × 2 numbers ({meaning}), got shape {shape}.")
        self.heights = checks.array("heights", self.heights, shape, meaning)
        self.size = checks.positive("size", self.size, (2,), "lengths of the grid along x and y")

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return jnp.sqrt(jnp.sum((0.5 * self.size) ** 2) + jnp.max(self.heights**2))
