"""Heightfields."""

from __future__ import annotations

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.shapes.shape import AbstractShape, Pose
from polhode.contact.shapes.triangles import grid_faces


@final
class Heightfield(AbstractShape):
    """A ground given by heights over a rectangular grid about `position`, solid below.

    Each cell is two triangles, divided from its corner with the lowest x and y to the one with the highest.

    **Arguments:**

    - `heights`: along its own z, in rows along x and columns along y; at least 2 × 2.
    - `size`: lengths of the grid along x and y, greater than zero.
    - `reach`: how many cells beyond the middle of a body are looked at; bodies on it may not be larger.
    """

    heights: Any
    size: Any
    reach: int = eqx.field(static=True, default=2)

    def _check(self) -> None:
        checks.count("reach", self.reach, "cells around a body", most=100)
        meaning = "heights over a grid, rows along x"
        shape = checks.shape("heights", self.heights, meaning)
        if len(shape) != 2 or min(shape) < 2:
            raise ValueError(f"`heights` must be a grid of at least 2 × 2 numbers ({meaning}), got shape {shape}.")
        self.heights = checks.array("heights", self.heights, shape, meaning)
        self.size = checks.positive("size", self.size, (2,), "lengths of the grid along x and y")

    @property
    def cell(self) -> Float[Array, "2"]:
        """Lengths of a cell along x and y."""
        rows, columns = self.heights.shape
        return self.size / jnp.array([rows - 1, columns - 1])

    @property
    def corners(self) -> Float[Array, "f 3 3"]:
        """Corners of all triangles."""
        rows, columns = self.heights.shape
        x, y = (
            jnp.linspace(-0.5, 0.5, count) * length for count, length in zip((rows, columns), self.size, strict=True)
        )
        vertices = jnp.stack((*jnp.meshgrid(x, y, indexing="ij"), self.heights), axis=2).reshape(-1, 3)
        return vertices[grid_faces(rows - 1, columns - 1)[0]]

    def bounds(self, pose: Pose) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        x, R = self.pose_in(pose)
        low, high = jnp.min(self.heights), jnp.max(self.heights)
        middle = x + 0.5 * (low + high) * R[:, 2]
        reach = jnp.abs(R) @ (0.5 * jnp.stack((self.size[0], self.size[1], high - low)))
        return middle - reach, middle + reach

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return jnp.sqrt(jnp.sum((0.5 * self.size) ** 2) + jnp.max(self.heights**2))
