"""Forces and inertias along a joint coordinate of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.spaces.base import Point, Vector

if TYPE_CHECKING:
    from polhode.forces.efforts import AbstractEffort


class Place(NamedTuple):
    """Where a joint coordinate is: number of the link, of the coordinate in its joint, of its velocity in v."""

    link: int
    component: int
    velocity: int


class JointEffort(eqx.Module):
    """A force along a joint coordinate, which counts turns, or along a combination of such.

    - `element`: the force. - `zero`: what its coordinate is where those of the joints are zero.
    - `ratios`, `places`: of the joint coordinates that its coordinate is the sum of.
    - `turns`: whether it is an angle of one joint.
    """

    element: AbstractEffort
    zero: Float[Array, ""]
    ratios: Float[Array, " n"]
    places: tuple[Place, ...] = eqx.field(static=True)
    turns: bool = eqx.field(static=True)

    def add_force(self, to: Vector, t: Array, points: Sequence[Point], v: Vector) -> Vector:
        """Generalised forces, with its own; `points` are the coordinates of all joints."""
        return to.at[self._columns].add(self.ratios * self.element.effort(t, self._value(t, points), self._rate(v)))

    def add_stiffness(self, to: Array, t: Array, points: Sequence[Point], v: Vector) -> Array:
        """Minus the derivative along the coordinates."""
        return self._add(to, jax.grad(self.element.effort, 1)(t, self._value(t, points), self._rate(v)))

    def add_damping(self, to: Array, t: Array, points: Sequence[Point], v: Vector) -> Array:
        """Minus the derivative along the velocities."""
        return self._add(to, jax.grad(self.element.effort, 2)(t, self._value(t, points), self._rate(v)))

    def stored(self, points: Sequence[Point]) -> Float[Array, ""]:
        """Its potential."""
        return self.element.stored(self._sum(points))

    @property
    def _columns(self) -> np.ndarray:
        return np.array([place.velocity for place in self.places])

    def _add(self, to: Array, slope: Array) -> Array:
        columns = self._columns
        return to.at[columns[:, None], columns].add(-slope * jnp.outer(self.ratios, self.ratios))

    def _sum(self, points: Sequence[Point]) -> Float[Array, ""]:
        values = [points[place.link][place.component] for place in self.places]
        return self.ratios @ jnp.stack(values) + self.zero

    def _rate(self, v: Vector) -> Float[Array, ""]:
        return self.ratios @ v[self._columns]

    def _value(self, t: Array, points: Sequence[Point]) -> Float[Array, ""]:
        s = self._sum(points)
        if not (self.turns and self.element.modulo):
            return s
        middle = self.element.middle(t)
        return s - 2 * np.pi * jnp.round((s - middle) / (2 * np.pi))


class JointRotor(eqx.Module):
    """An inertia along a joint coordinate. - `place`: number of its velocity in v."""

    inertia: Float[Array, ""]
    place: int = eqx.field(static=True)
