"""Forces and inertias along a joint coordinate of a tree."""

from __future__ import annotations

import abc
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
    from polhode.forces.joint_control import Feedback


class CoordinateIndex(NamedTuple):
    """Where a joint coordinate is: number of the link, of the coordinate in its joint, of its velocity in v."""

    link: int
    component: int
    velocity: int


class AbstractAlong(eqx.Module):
    """Forces along joint coordinates."""

    @property
    @abc.abstractmethod
    def conservative(self) -> bool:
        """Whether they have the potential `stored`."""

    @abc.abstractmethod
    def strengths(self, t: Array, points: Sequence[Point], v: Vector) -> Float[Array, " k"]:
        """The forces along the coordinates of the element, which may be sums of those of joints."""

    @abc.abstractmethod
    def measured(self, t: Array, points: Sequence[Point]) -> Float[Array, " m"]:
        """What results show of the force besides its strength."""

    @abc.abstractmethod
    def add_force(self, to: Vector, t: Array, points: Sequence[Point], v: Vector) -> Vector:
        """Generalised forces, with its own; `points` are the coordinates of all joints."""

    @abc.abstractmethod
    def add_stiffness(self, to: Array, t: Array, points: Sequence[Point], v: Vector) -> Array:
        """Minus the derivative along the coordinates."""

    @abc.abstractmethod
    def add_damping(self, to: Array, t: Array, points: Sequence[Point], v: Vector) -> Array:
        """Minus the derivative along the velocities."""

    @abc.abstractmethod
    def stored(self, points: Sequence[Point]) -> Float[Array, ""]:
        """Their potential."""


class JointEffort(AbstractAlong):
    """A force along a joint coordinate, which counts turns, or along a combination of such.

    - `element`: the force. - `zero`: what its coordinate is where those of the joints are zero.
    - `ratios`, `places`: of the joint coordinates that its coordinate is the sum of.
    - `turns`: whether it is an angle of one joint.
    """

    element: AbstractEffort
    zero: Float[Array, ""]
    ratios: Float[Array, " n"]
    places: tuple[CoordinateIndex, ...] = eqx.field(static=True)
    turns: bool = eqx.field(static=True)

    @property
    def conservative(self) -> bool:
        return self.element.conservative

    def strengths(self, t: Array, points: Sequence[Point], v: Vector) -> Float[Array, "1"]:
        return self.element.effort(t, self._value(t, points), self._rate(v))[None]

    def measured(self, t: Array, points: Sequence[Point]) -> Float[Array, " m"]:
        return self.element.deflection(self._value(t, points))

    def add_force(self, to: Vector, t: Array, points: Sequence[Point], v: Vector) -> Vector:
        return to.at[self._columns].add(self.ratios * self.element.effort(t, self._value(t, points), self._rate(v)))

    def add_stiffness(self, to: Array, t: Array, points: Sequence[Point], v: Vector) -> Array:
        return self._add(to, jax.grad(self.element.effort, 1)(t, self._value(t, points), self._rate(v)))

    def add_damping(self, to: Array, t: Array, points: Sequence[Point], v: Vector) -> Array:
        return self._add(to, jax.grad(self.element.effort, 2)(t, self._value(t, points), self._rate(v)))

    def stored(self, points: Sequence[Point]) -> Float[Array, ""]:
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


class JointFeedback(AbstractAlong):
    """Forces along joint coordinates, or combinations of such, as functions of all of them.

    - `element`: the forces. - `zeros`: what its coordinates are where those of the joints are zero.
    - `ratios`, `places`: of the joint coordinates that they are sums of; `ratios` has a row for each.
    """

    element: Feedback
    zeros: Float[Array, " n"]
    ratios: Float[Array, "n places"]
    places: tuple[CoordinateIndex, ...] = eqx.field(static=True)

    @property
    def conservative(self) -> bool:
        return False

    def strengths(self, t: Array, points: Sequence[Point], v: Vector) -> Float[Array, " n"]:
        return self._efforts(t, self._values(points), v[self._columns])

    def measured(self, t: Array, points: Sequence[Point]) -> Float[Array, "0"]:
        return jnp.zeros(0)

    def add_force(self, to: Vector, t: Array, points: Sequence[Point], v: Vector) -> Vector:
        return to.at[self._columns].add(self._force(t, self._values(points), v[self._columns]))

    def add_stiffness(self, to: Array, t: Array, points: Sequence[Point], v: Vector) -> Array:
        rates = v[self._columns]
        return self._add(to, jax.jacfwd(lambda s: self._force(t, s, rates))(self._values(points)))

    def add_damping(self, to: Array, t: Array, points: Sequence[Point], v: Vector) -> Array:
        s = self._values(points)
        return self._add(to, jax.jacfwd(lambda rates: self._force(t, s, rates))(v[self._columns]))

    def stored(self, points: Sequence[Point]) -> Float[Array, ""]:
        return jnp.zeros(())

    @property
    def _columns(self) -> np.ndarray:
        return np.array([place.velocity for place in self.places])

    def _values(self, points: Sequence[Point]) -> Float[Array, " places"]:
        return jnp.stack([points[place.link][place.component] for place in self.places])

    def _force(self, t: Array, s: Array, rates: Array) -> Float[Array, " places"]:
        return self._efforts(t, s, rates) @ self.ratios

    def _efforts(self, t: Array, s: Array, rates: Array) -> Float[Array, " n"]:
        return self.element.efforts(t, self.ratios @ s + self.zeros, self.ratios @ rates)

    def _add(self, to: Array, slopes: Array) -> Array:
        columns = self._columns
        return to.at[columns[:, None], columns].add(-slopes)


class JointRotor(eqx.Module):
    """An inertia along a joint coordinate. - `place`: number of its velocity in v."""

    inertia: Float[Array, ""]
    place: int = eqx.field(static=True)
