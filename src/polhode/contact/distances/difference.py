"""The difference of two convex shapes in space, by its points that are farthest along directions."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.contact.shapes.shape import AbstractConvex, Pose
from polhode.contact.vectors import Vector


class Farthest(NamedTuple):
    """The point of the difference B - A that is farthest along a direction, and the points of A and B that it is of."""

    v: Float[Array, "3"]
    a: Float[Array, "3"]
    b: Float[Array, "3"]


class Difference(NamedTuple):
    """B - A = {b - a}. Two shapes overlap where it holds the origin."""

    first: AbstractConvex
    pose: Pose
    second: AbstractConvex
    other: Pose

    @property
    def size(self) -> Array:
        """A length of both shapes."""
        return self.first.bounding_radius + self.second.bounding_radius

    @property
    def round_off(self) -> Array:
        """Errors of distances by round-off."""
        places = jnp.stack((self.pose[0], self.other[0]))
        return 4 * jnp.finfo(float).eps * (self.size + jnp.max(jnp.abs(places)))

    def hold(self) -> Difference:
        """The difference with derivatives by sizes alone."""
        return self._replace(pose=jax.lax.stop_gradient(self.pose), other=jax.lax.stop_gradient(self.other))

    def move(self, shift: Vector) -> Difference:
        """The difference with the second shape moved."""
        return self._replace(other=(self.other[0] + shift, self.other[1]))

    def farthest(self, direction: Vector) -> Farthest:
        (x, R), (y, S) = self.pose, self.other
        a = x + R @ self.first.support(-(R.T @ direction))
        b = y + S @ self.second.support(S.T @ direction)
        return Farthest(b - a, a, b)

    def separation(self, normal: Vector) -> Array:
        """How far the shapes are apart along a direction from the first to the second: a bound of their distance."""
        return normal @ self.farthest(-normal).v

    def inner(self) -> Vector:
        """A point inside, which lies on no axis or diagonal of usual shapes."""
        (x, R), (y, S) = self.pose, self.other
        centre = y + S @ self.second.centre - x - R @ self.first.centre
        reach = self.first.inner_radius + self.second.inner_radius
        return centre + 1e-3 * reach * (R @ jnp.array([0.627, 0.341, 0.7]))
