"""Forces along a relative coordinate of two bodies: springs, dampers, stops, dry friction, actuators."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.multibody.mechanism.coordinate_forces import AbstractEffort as AbstractEffort
from polhode.multibody.mechanism.coordinate_forces import AbstractRelativeCoordinate
from polhode.multibody.mechanism.user_functions import Function

_PART_OF_ONSET = 0.25
"""Part of the way over which the damper of a stop comes into force that a step may go: forces change by a quarter of
its full strength in each."""


class SpringEffort(AbstractEffort):
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

    def stored_energy(self, s: Array) -> Float[Array, ""]:
        return 0.5 * self.stiffness * (s - self.rest) ** 2

    def deflection(self, s: Array) -> Float[Array, "1"]:
        return (s - self.rest)[None]


class SpringDamperEffort(AbstractEffort):
    r"""A linear spring and a damper, $-k(s - s_0) - d\dot s$."""

    measures: ClassVar[tuple[str, ...]] = SpringEffort.measures

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

    def stored_energy(self, s: Array) -> Float[Array, ""]:
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

    def stiffest(self) -> SpringDamperEffort:
        """The spring and damper of a stop where it holds; nothing between infinite limits."""
        some = jnp.any(jnp.isfinite(self.limits), axis=-1)
        stiffness, damping = (jnp.where(some, x, 0.0) for x in (self.stiffness, self.damping))
        return SpringDamperEffort(self.coordinate, stiffness, jnp.zeros_like(stiffness), damping)

    @property
    def has_onset(self) -> bool:
        return True

    def onset_rate(self, s: Array, rate: Array, sense: Array) -> Float[Array, ""]:
        """Of the way to the limit ahead, and beyond it through a part of the onset, at the speed of now."""
        # Written so that code has these differences once, here and in the force.
        depth = jnp.where(sense * rate > 0, s - self.limits[1], self.limits[0] - s)
        return jnp.where(depth < self.onset, jnp.abs(rate) / jnp.maximum(-depth, _PART_OF_ONSET * self.onset), 0.0)

    def stored_energy(self, s: Array) -> Float[Array, ""]:
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

    def stiffest(self) -> SpringDamperEffort:
        """The damper that it is at rest."""
        nothing = jnp.zeros_like(self.friction)
        return SpringDamperEffort(self.coordinate, nothing, nothing, self.friction / self.stick_velocity)

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        del t, s
        return -self.friction * jnp.tanh(rate / self.stick_velocity)


class AbstractReaction(AbstractEffort):
    """A force along a coordinate that follows from a law between velocities and impulses, in the problem of contacts.

    So it is no function of the state: as an element it does nothing.
    """

    uses_twists: ClassVar[bool] = False

    @property
    def reads_angles(self) -> bool:
        return False

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        del t, rate
        return jnp.zeros_like(s)


class RigidStops(AbstractReaction):
    """Stops that hold a coordinate between two limits, with impacts."""

    coordinate: AbstractRelativeCoordinate
    limits: Float[Array, "2"]
    restitution: Float[Array, ""]


class DryFriction(AbstractReaction):
    """Dry friction that sticks.

    - `friction`: the largest force of what slides, a function of time.
    - `static_friction`, `stribeck_speed`: that of what sticks, and the rate over which it falls; None for the same.
    - `load_factor`: what it has besides, for each unit of the joint's force; None for nothing.
    """

    coordinate: AbstractRelativeCoordinate
    friction: Function
    static_friction: Float[Array, ""] | None = None
    stribeck_speed: Float[Array, ""] | None = None
    load_factor: Float[Array, ""] | None = None


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

    def stiffest(self) -> Actuation:
        """The drive without its limits."""
        return dataclasses.replace(self, force_limits=jnp.full_like(self.force_limits, jnp.inf) * jnp.array([-1, 1]))

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        return self.actuator_force(self.control(t), s, rate)

    def actuator_force(self, control: Array, s: Array, rate: Array) -> Float[Array, ""]:
        """The generalised force with a given control."""
        u = jnp.clip(control, *self.control_limits)
        b0, b1, b2 = self.bias
        force = self.gain * u + b0 + b1 * self.gear * s + b2 * self.gear * rate
        return self.gear * jnp.clip(force, *self.force_limits)
