"""Controllers and rotors that act on a joint coordinate of a tree directly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.spaces.base import Point, Vector

if TYPE_CHECKING:
    from polhode.forces.controllers import Tracking


class JointControl(eqx.Module):
    """A proportional-derivative controller of a coordinate that carries a link.

    The coordinate counts turns; its error is taken modulo full turns all the same, as in other formulations.

    - `tracking`: gains and target. - `zero`: what the controller's coordinate is where that of the joint is zero.
    - `link`: number of the link. - `component`: number of the coordinate in its joint.
    - `place`: number of its velocity in v. - `turns`: whether it is an angle.
    """

    tracking: Tracking
    zero: Float[Array, ""]
    link: int = eqx.field(static=True)
    component: int = eqx.field(static=True)
    place: int = eqx.field(static=True)
    turns: bool = eqx.field(static=True)

    def effort(self, t: Array, point: Point, v: Vector) -> Float[Array, ""]:
        """The generalised force, from the coordinates of the joint and all velocities."""
        error = point[self.component] + self.zero - self.tracking.target(t)
        if self.turns:
            error = error - 2 * np.pi * jnp.round(error / (2 * np.pi))
        return self.tracking.response(error, v[self.place] - self.tracking.target_rate(t))

    @property
    def stiffness(self) -> Float[Array, ""]:
        """Minus its derivative along the coordinate."""
        return self.tracking.proportional

    @property
    def damping(self) -> Float[Array, ""]:
        """Minus its derivative along the velocity."""
        return self.tracking.derivative


class JointRotor(eqx.Module):
    """An inertia along a joint coordinate. - `place`: number of its velocity in v."""

    inertia: Float[Array, ""]
    place: int = eqx.field(static=True)
