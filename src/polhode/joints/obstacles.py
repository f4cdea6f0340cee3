"""Shortest ways around circles, spheres and cylinders."""

from __future__ import annotations

import abc

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.modules import Module
from polhode.spaces.base import cross, norm


class AbstractObstacle(Module):
    """A surface fixed to a body, around which a string goes where a straight line would pass through it.

    A string with a `side`, a point of the body, goes around on that side.
    """

    @abc.abstractmethod
    def length(self, a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, ""]:
        """The length of the string from a to b, in the frame of the body."""


class Sphere(AbstractObstacle):
    """A sphere.

    **Arguments:**

    - `centre`: in the frame of the body, shape (3,). - `radius`.
    - `side`: a point in that frame, shape (3,); None for the shortest way.
    """

    centre: Float[Array, "3"]
    radius: Float[Array, ""]
    side: Float[Array, "3"] | None

    def length(self, a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, ""]:
        a, b = a - self.centre, b - self.centre
        far = norm(a)
        along = jnp.where(far > 0, a / jnp.where(far > 0, far, 1.0), np.array([1.0, 0.0, 0.0]))
        across = norm(cross(along, b))
        plane = jnp.stack((far, jnp.zeros(()))), jnp.stack((along @ b, across))
        if self.side is None:
            return length_around(*plane, self.radius, None)
        side = self.side - self.centre
        upwards = (b - (along @ b) * along) / jnp.where(across > 0, across, 1.0)
        return length_around(*plane, self.radius, jnp.stack((along @ side, upwards @ side)))


class Cylinder(AbstractObstacle):
    """A cylinder without ends.

    **Arguments:**

    - `frame`: rows are directions in the frame of the body, the last one the axis, shape (3, 3).
    - `centre`: a point of the axis, shape (3,). - `radius`. - `side`: as for `Sphere`.
    """

    frame: Float[Array, "3 3"]
    centre: Float[Array, "3"]
    radius: Float[Array, ""]
    side: Float[Array, "3"] | None

    def length(self, a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, ""]:
        a, b = self.frame @ (a - self.centre), self.frame @ (b - self.centre)
        side = None if self.side is None else (self.frame @ (self.side - self.centre))[:2]
        # Unrolled, the way is straight: it rises evenly.
        return norm(jnp.stack((length_around(a[:2], b[:2], self.radius, side), b[2] - a[2])))


@jax.jit
def length_around(
    a: Float[Array, "2"], b: Float[Array, "2"], radius: Float[Array, ""], side: Float[Array, "2"] | None
) -> Float[Array, ""]:
    """The length of a string in a plane from a to b around a circle about the origin.

    It is straight if an end is inside, or if the straight line passes the circle. With a `side` it doesn't cross the
    ray from the origin that is opposite to that. Its derivatives along a and b are unit tangents, continuous where it
    begins to touch. It jumps where an end goes over that ray; without a side it has a kink where both ways are as long.
    """
    outside = (a @ a > radius**2) & (b @ b > radius**2)
    straight = norm(b - a)
    # Numbers of a way that is not taken have to be finite as well.
    a, b = jnp.where(outside, a, 2 * radius * _AHEAD), jnp.where(outside, b, 2 * radius * _AHEAD)
    legs = jnp.sqrt(a @ a - radius**2), jnp.sqrt(b @ b - radius**2)
    turn = _angle(a, b)
    if side is not None:
        # The same up to full turns.
        turn += 2 * np.pi * jnp.round((_angle(side, b) - _angle(side, a) - turn) / (2 * np.pi))
    arc = jnp.abs(turn) - jnp.arctan2(legs[0], radius) - jnp.arctan2(legs[1], radius)
    return jnp.where(outside & (arc > 0), legs[0] + radius * arc + legs[1], straight)


_AHEAD = np.array([1.0, 0.0])


def _angle(a: Float[Array, "2"], b: Float[Array, "2"]) -> Float[Array, ""]:
    return jnp.arctan2(a[0] * b[1] - a[1] * b[0], a @ b)
