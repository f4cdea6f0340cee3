"""Two spheres that may touch, or a sphere and a wall, seen from one of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from polhode.spaces.component_arrays import Vectors, add_scaled, cross, dot, scale, subtract


class Ends(NamedTuple):
    """Velocities, or displacements, of two centres and their spins.

    - `apart`: velocity of the centre here relative to the one there; of walls, relative to their surface.
    - `here`, `there`: angular velocities.
    """

    apart: Vectors
    here: Vectors
    there: Vectors


class Touch(NamedTuple):
    """Geometry and motion of pairs that touch, for laws of contact; arrays with an element for each pair.

    - `normal`: unit, from there to here. - `overlap`: of the surfaces, negative if they are apart; `before`: the same
      at the start of the step. - `radius`, `mass`: R₁R₂/(R₁+R₂) and m₁m₂/(m₁+m₂).
    - `tilt`: change of the normal in the step; `middle`: the normal in its middle.
    - `twist`: turn of both about the normal in the step.
    - `slide`: displacement of the surfaces against each other in the step, tangential. - `turn`: rotation vector of
      here relative to there in the step.
    - `parting`: rate at which the overlap shrinks at the end of the step; `slip`, `spin`: velocity of the surfaces
      against each other and angular velocity of here relative to there, then.
    - `h`: the step.
    """

    normal: Vectors
    overlap: Array
    before: Array
    radius: Any
    mass: Any
    tilt: Vectors
    middle: Vectors
    twist: Array
    slide: Vectors
    turn: Vectors
    parting: Array
    slip: Vectors
    spin: Vectors
    h: Array

    def along_tangent(self, v: Vectors) -> Vectors:
        """The part of v in the plane of contact."""
        return add_scaled(v, -dot(v, self.normal), self.normal)

    def carry(self, spring: Vectors) -> Vectors:
        """A vector of the plane of contact at the start of the step, turned with the plane and of the same length."""
        n = self.normal
        turned = add_scaled(spring, -dot(spring, n), self.middle)
        turned = add_scaled(turned, self.twist, cross(n, turned))
        square = dot(turned, turned)
        some = square > 0
        return scale(jnp.sqrt(jnp.where(some, dot(spring, spring), 1.0) / jnp.where(some, square, 1.0)), turned)


def surface_velocity(normal: Vectors, levers: tuple[Any, Any], ends: Ends) -> Vectors:
    """Velocity here relative to there at the point of contact, `levers` away from both centres; its tangential part."""
    both = add_scaled(scale(levers[0], ends.here), levers[1], ends.there)
    v = subtract(ends.apart, cross(both, normal))
    return add_scaled(v, -dot(v, normal), normal)
