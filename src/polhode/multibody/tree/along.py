"""Forces and inertias along a joint coordinate of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.spaces.base import Point, Vector

if TYPE_CHECKING:
    from polhode.forces.efforts import AbstractEffort


class JointEffort(eqx.Module):
    """A force along a joint coordinate, which counts turns.

    - `element`: the force. - `zero`: what its coordinate is where that of the joint is zero.
    - `link`: number of the link. - `component`: number of the coordinate in its joint.
    - `place`: number of its velocity in v. - `turns`: whether it is an angle.
    """

    element: AbstractEffort
    zero: Float[Array, ""]
    link: int = eqx.field(static=True)
    component: int = eqx.field(static=True)
    place: int = eqx.field(static=True)
    turns: bool = eqx.field(static=True)

    def effort(self, t: Array, point: Point, v: Vector) -> Float[Array, ""]:
        """The generalised force, from the coordinates of the joint and all velocities."""
        return self.element.effort(t, self._value(t, point), v[self.place])

    def stiffness(self, t: Array, point: Point, v: Vector) -> Float[Array, ""]:
        """Minus its derivative along the coordinate."""
        return -jax.grad(self.element.effort, 1)(t, self._value(t, point), v[self.place])

    def damping(self, t: Array, point: Point, v: Vector) -> Float[Array, ""]:
        """Minus its derivative along the velocity."""
        return -jax.grad(self.element.effort, 2)(t, self._value(t, point), v[self.place])

    def stored(self, point: Point) -> Float[Array, ""]:
        """Its potential."""
        return self.element.stored(point[self.component] + self.zero)

    def _value(self, t: Array, point: Point) -> Float[Array, ""]:
        s = point[self.component] + self.zero
        if not (self.turns and self.element.modulo):
            return s
        middle = self.element.middle(t)
        return s - 2 * np.pi * jnp.round((s - middle) / (2 * np.pi))


class JointRotor(eqx.Module):
    """An inertia along a joint coordinate. - `place`: number of its velocity in v."""

    inertia: Float[Array, ""]
    place: int = eqx.field(static=True)
