"""Boxes."""

from __future__ import annotations

from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode import checks
from polhode.contact.shapes.shape import AbstractConvex, Face
from polhode.contact.vectors import largest, norm

_AROUND: Any = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])


@final
class Box(AbstractConvex):
    """A box about `position` with edges along its own axes.

    **Arguments:**

    - `size`: its three edge lengths, greater than zero.
    """

    is_round: ClassVar[bool] = False

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

    @property
    def inner_radius(self) -> Float[Array, ""]:
        return 0.5 * jnp.min(self.size)

    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"]:
        return jnp.where(direction < 0, -self.half, self.half)

    def face(self, direction: Float[Array, "3"], across: Float[Array, "3"]) -> Face:
        del across
        signs, numbers = corners_towards(direction)
        normal = 0.25 * jnp.sum(signs, axis=0)
        return Face(signs * self.half, normal, jnp.array(True), numbers)

    def _volume_properties(self) -> tuple[Array, Array, Array]:
        volume = self.size[0] * self.size[1] * self.size[2]
        squares = self.size**2
        return volume, jnp.zeros(3), volume / 12 * jnp.diag(jnp.sum(squares) - squares)


def corners_towards(direction: Float[Array, "3"]) -> tuple[Float[Array, "4 3"], Int[Array, " 4"]]:
    """Signs of the corners of the face of a box that lies most along a direction, in turn, and their numbers 0 to 7."""
    chosen = largest(jax.lax.stop_gradient(jnp.abs(direction)))
    side = jnp.where(direction < 0, -1.0, 1.0)
    signs = jnp.stack(
        [
            jnp.where(chosen[0], jnp.stack((side[0], u, v)), 0.0)
            + jnp.where(chosen[1], jnp.stack((v, side[1], u)), 0.0)
            + jnp.where(chosen[2], jnp.stack((u, v, side[2])), 0.0)
            for u, v in jnp.asarray(_AROUND)
        ]
    )
    return signs, jnp.sum(jnp.where(signs > 0, jnp.array([1, 2, 4]), 0), axis=1)
