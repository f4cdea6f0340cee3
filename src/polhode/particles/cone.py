"""A cone with a hole at its tip, as a wall of particles: funnels, and floors with a hole."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.particles.walls import AbstractSmoothWall, direction
from polhode.spaces.component_arrays import Vectors, add_scaled, dot, scale, subtract


class Cone(AbstractSmoothWall):
    """A cone that widens along its axis, with a round hole in place of its tip; its contacts need a `ContactLaw`.

    Spheres touch the sheet from both sides, and its rim in the hole; it has no end where it is wide. A sphere whose
    centre passes through the sheet while it touches that ends the run with `lost_particles`.

    ```python
    funnel = Cone(0.02, np.pi / 6)
    floor = Cone(0.02, np.pi / 2)
    ```

    **Arguments:**

    - `hole`: radius of the hole, 0 for a tip; spheres that are larger touch its rim at one point only.
    - `half_angle`: between the axis and the sheet, up to π/2, a plane.
    - `point`: centre of the hole. - `axis`: direction in which the cone widens, any length.
    """

    hole: Float[Array, ""]
    half_angle: Float[Array, ""]
    point: Float[Array, "3"]
    axis: Float[Array, "3"]

    def __init__(self, hole: Any, half_angle: Any, point: Any = (0.0, 0.0, 0.0), axis: Any = (0.0, 0.0, 1.0)) -> None:
        self.hole = checks.not_negative("hole", hole, (), "radius of the hole")
        self.half_angle = checks.positive("half_angle", half_angle, (), "between the axis and the sheet")
        if checks.is_concrete(half_angle) and not float(half_angle) <= np.pi / 2:
            raise ValueError(
                f"`half_angle` must be at most π/2 (between the axis and the sheet), got {short_repr(half_angle)}. "
                "Turn `axis` round for a cone that widens the other way."
            )
        self.point = checks.array("point", point, (3,), "centre of the hole")
        self.axis = direction("axis", axis)

    @property
    def needs_law(self) -> bool:
        return True

    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        radial, outward, height = self._cylindrical(x)
        sine, cosine = self._slope(x)
        # The sheet is a ray in the half plane through the axis and the point.
        along = jnp.maximum(radial * sine + height * cosine, 0.0)
        across, up = radial - along * sine, height - along * cosine
        square = across * across + up * up
        off = square > 0
        distance = jnp.sqrt(jnp.where(off, square, 1.0))
        part = jnp.where(off, 1 / distance, 0.0)
        normal = add_scaled(scale(part * across, outward), part * up, tuple(self.axis.astype(x[0].dtype)))
        return [(jnp.where(off, distance, 0.0), normal)]

    def passages(self, x0: Vectors, x: Vectors, distances: list[Array], radius: Array) -> Array:
        before, now = self._side(x0), self._side(x)
        return (before * now < 0) & (distances[0] < radius)

    def _side(self, x: Vectors) -> Array:
        """1 above the sheet, -1 below, 0 where the rim is closest."""
        radial, _, height = self._cylindrical(x)
        sine, cosine = self._slope(x)
        beside = radial * sine + height * cosine > 0
        return jnp.where(beside, jnp.sign(height * sine - radial * cosine), 0.0)

    def _cylindrical(self, x: Vectors) -> tuple[Array, Vectors, Array]:
        """Distance from the axis less the radius of the hole, the unit vector away from the axis, and the height."""
        kind = x[0].dtype
        axis = tuple(self.axis.astype(kind))
        d = subtract(x, tuple(self.point.astype(kind)))
        height = dot(d, axis)
        away = add_scaled(d, -height, axis)
        square = dot(away, away)
        off = square > 0
        length = jnp.sqrt(jnp.where(off, square, 1.0))
        outward = scale(jnp.where(off, 1 / length, 0.0), away)
        return jnp.where(off, length, 0.0) - self.hole.astype(kind), outward, height

    def _slope(self, x: Vectors) -> tuple[Array, Array]:
        angle = self.half_angle.astype(x[0].dtype)
        return jnp.sin(angle), jnp.cos(angle)
