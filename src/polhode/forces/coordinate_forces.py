"""Forces along a relative coordinate of two bodies: springs, dampers, stops, dry friction, actuators."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.mechanism.angles import PlacedAngle
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.mechanism.user_functions import Function


class AbstractEffort(AbstractForceElement):
    r"""A force or torque $f(t, s, \dot s)$ along a relative coordinate s; angles count turns.

    In joint coordinates that s is one of it acts on these directly; otherwise on the two bodies. Where it has a
    potential `stored` gives it.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    coordinate: eqx.AbstractVar[AbstractRelativeCoordinate]

    @abc.abstractmethod
    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        """The generalised force f."""

    def stored(self, s: Array) -> Float[Array, ""]:
        """Potential of the part of the force that has one; zero unless overridden."""
        del s
        return jnp.zeros(())

    def deflection(self, s: Array) -> Float[Array, " k"]:
        """Values that results show by the names `measures`, at a value of the coordinate; none unless overridden."""
        del s
        return jnp.zeros(0)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        rate = self.coordinate.rate(poses, twists) if self.uses_twists else jnp.zeros(())
        return self.coordinate.wrenches(poses, self.effort(t, self.coordinate.value(poses), rate))

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        return self.stored(self.coordinate.value(poses))

    def measured(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        del t
        return self.deflection(self.coordinate.value(poses))

    def angles(self) -> tuple[PlacedAngle, ...]:
        return self.coordinate.angles()


class Spring(AbstractEffort):
    """A linear spring, $-k(s - s_0)$."""

    conservative: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    measures: ClassVar[tuple[str, ...]] = ("deflection",)

    coordinate: AbstractRelativeCoordinate
    stiffness: Float[Array, ""]
    rest: Float[Array, ""]

    @property
    def reads_angles(self) -> Bool[Array, "..."]:
        return self.stiffness != 0

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        del t, rate
        return -self.stiffness * (s - self.rest)

    def stored(self, s: Array) -> Float[Array, ""]:
        return 0.5 * self.stiffness * (s - self.rest) ** 2

    def deflection(self, s: Array) -> Float[Array, "1"]:
        return (s - self.rest)[None]


class SpringDamper(AbstractEffort):
    r"""A linear spring and a damper, $-k(s - s_0) - d\dot s$."""

    measures: ClassVar[tuple[str, ...]] = Spring.measures

    coordinate: AbstractRelativeCoordinate
    stiffness: Float[Array, ""]
    rest: Float[Array, ""]
    damping: Float[Array, ""]

    @property
    def reads_angles(self) -> Bool[Array, "..."]:
        return self.stiffness != 0

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        del t
        return -self.stiffness * (s - self.rest) - self.damping * rate

    def stored(self, s: Array) -> Float[Array, ""]:
        return 0.5 * self.stiffness * (s - self.rest) ** 2

    def deflection(self, s: Array) -> Float[Array, "1"]:
        return (s - self.rest)[None]


class Stops(AbstractEffort):
    """Linear springs and dampers beyond two limits, which push only; the dampers come in over a depth `onset`."""

    brief: ClassVar[bool] = True

    coordinate: AbstractRelativeCoordinate
    limits: Float[Array, "2"]
    stiffness: Float[Array, ""]
    damping: Float[Array, ""]
    onset: Float[Array, ""]

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        del t
        below, above = self._depths(s)
        return self._push(below, -rate) - self._push(above, rate)

    def stored(self, s: Array) -> Float[Array, ""]:
        below, above = self._depths(s)
        return 0.5 * self.stiffness * (below**2 + above**2)

    def _push(self, depth: Array, inwards: Array) -> Array:
        damping = self.damping * jnp.minimum(depth / self.onset, 1.0)
        return jnp.maximum(self.stiffness * depth + damping * inwards, 0.0)

    def _depths(self, s: Array) -> tuple[Array, Array]:
        return jnp.maximum(self.limits[0] - s, 0.0), jnp.maximum(s - self.limits[1], 0.0)


class Friction(AbstractEffort):
    r"""Dry friction that is smooth around rest, $-F\tanh(\dot s/v_s)$."""

    coordinate: AbstractRelativeCoordinate
    friction: Float[Array, ""]
    stick_velocity: Float[Array, ""]

    @property
    def reads_angles(self) -> bool:
        return False

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        del t, s
        return -self.friction * jnp.tanh(rate / self.stick_velocity)


class Actuation(AbstractEffort):
    r"""An affine actuator, $g\,\mathrm{clip}(k\,u(t) + b_0 + b_1 g s + b_2 g\dot s)$."""

    coordinate: AbstractRelativeCoordinate
    control: Function
    gain: Float[Array, ""]
    bias: Float[Array, "3"]
    gear: Float[Array, ""]
    control_limits: Float[Array, "2"]
    force_limits: Float[Array, "2"]

    @property
    def reads_angles(self) -> Bool[Array, "..."]:
        return self.bias[..., 1] != 0

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        return self.driven(self.control(t), s, rate)

    def driven(self, control: Array, s: Array, rate: Array) -> Float[Array, ""]:
        """The generalised force with a given control."""
        u = jnp.clip(control, *self.control_limits)
        b0, b1, b2 = self.bias
        force = self.gain * u + b0 + b1 * self.gear * s + b2 * self.gear * rate
        return self.gear * jnp.clip(force, *self.force_limits)
