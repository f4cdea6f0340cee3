"""Strings that pull: elastic, damped, with a length or a tension that changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero
from polhode.forces._pair import check_constant
from polhode.forces.coordinate_forces import AbstractEffort, Stops
from polhode.forces.joint_forces import AbstractJointForce, JointStops
from polhode.joints.named_coordinates import AbstractMeasured
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.joints.string_length import Pulley, StringLength, Wrap
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Poses
from polhode.multibody.mechanism.user_functions import (
    Constant,
    Function,
    check_shape,
    of_time,
    result_shapes,
    takes_arguments,
)


class DampedString(Stops):
    """A spring with a damper that pulls beyond a length, the upper limit."""

    measures: ClassVar[tuple[str, ...]] = ("length", "elongation")

    def deflection(self, s: Array) -> Float[Array, "2"]:
        return jnp.stack((s, s - self.limits[1]))


class ElasticString(DampedString):
    """One without a damper, whose force has a potential."""

    conservative: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False


class DrivenString(AbstractEffort):
    """A string with a length that is a function of time, and a tension of its own besides.

    **Arguments:**

    - `coordinate`: the length s. - `stiffness`, `damping`, `onset`: as of `Stops`.
    - `length`: at which it is slack, a function of time.
    - `tension`: what it pulls with besides, a function of t, or of (t, s, ṡ) if it `reads_state`; where it is negative
      it counts as zero.
    """

    brief: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = DampedString.measures

    coordinate: AbstractRelativeCoordinate
    stiffness: Float[Array, ""]
    damping: Float[Array, ""]
    onset: Float[Array, ""]
    length: Function
    tension: Function
    reads_state: bool = eqx.field(static=True)

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        length, feed = jax.jvp(lambda time: jnp.asarray(self.length(time), float), (t,), (jnp.ones_like(t),))
        depth = jnp.maximum(s - length, 0.0)
        damper = self.damping * jnp.minimum(depth / self.onset, 1.0) * (rate - feed)
        tension = self.tension(t, s, rate) if self.reads_state else self.tension(t)
        own = jnp.maximum(jnp.asarray(tension, float), 0.0)
        return -jnp.maximum(self.stiffness * depth + damper, 0.0) - own

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        depth = jnp.maximum(self.coordinate.value(poses) - self.length(t), 0.0)
        return 0.5 * self.stiffness * depth**2

    def measurements(self, t: Array, poses: Poses) -> Float[Array, "2"]:
        s = self.coordinate.value(poses)
        return jnp.stack((s, s - self.length(t)))


@dataclasses.dataclass(frozen=True, eq=False)
class Tendon(AbstractJointForce):
    r"""A massless string without friction through points of bodies, which pulls only.

    With $\delta = \ell - L$ its tension is $\max(k\delta + d\min(\delta/\delta_0, 1)\dot\delta, 0)$ where it is longer
    than L; shorter it is slack. A `force` adds to that. In a branch of a pulley the tension is divided by its divisor.
    A string that can't stretch is `forces.JointStops` along a `joints.StringLength`, which all other forces of joints
    take too.

    In `run.forces`, `effort` is minus the tension, `length` is ℓ, `elongation` ℓ - L, less than zero where it is slack.

    **Arguments:**

    - `points`: pairs (body, point) in the order of the string, with what it goes around; see `joints.StringLength`.
    - `stiffness`, `damping`: k and d. - `onset`: δ₀, over which the damper comes into force.
    - `length`: L, a number or a function of time, such as that of a winch; the initial length by default.
    - `force`: a tension, a number or a function of t or of (t, ℓ, dℓ/dt). Values less than zero of a function count as
      zero.
    - `name`: for messages.
    """

    joint: AbstractMeasured = dataclasses.field(init=False, repr=False)
    points: Sequence[tuple[Body, Any] | Wrap | Pulley]
    stiffness: Any = 0.0
    damping: Any = 0.0
    length: Any = None
    force: Any = None
    onset: Any = JointStops.onset
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "joint", StringLength(self.points))
        super().__post_init__()

    @property
    def along(self) -> None:
        return None

    def place(self, poses: Poses) -> DampedString | DrivenString:
        del poses
        stiffness = check_constant("stiffness", self.stiffness, "force per length")
        damping = checks.not_negative("damping", self.damping, (), "force per speed")
        onset = checks.positive("onset", self.onset, (), "over which the damper comes into force")
        if callable(self.length) or self.force is not None:
            length = self.length if callable(self.length) else Constant(self._rest())
            function = of_time(self, "length", length, (), "at which the string is slack")
            return DrivenString(self.measured, stiffness, damping, onset, function, *self._tension())
        limits = jnp.stack((jnp.asarray(-np.inf), self._rest()))
        kind = ElasticString if is_zero(damping) else DampedString
        return kind(self.measured, limits, stiffness, damping, onset)

    def _rest(self) -> Float[Array, ""]:
        if self.length is None:
            return self.joint.initial()
        return checks.not_negative("length", self.length, (), "at which the string is slack")

    def _tension(self) -> tuple[Function, bool]:
        """The `force` as a function, and whether it is one of (t, length, rate)."""
        meaning = "tension"
        if not takes_arguments(self.force, 3):
            number = 0.0 if self.force is None else self.force
            if not callable(number):
                number = Constant(checks.not_negative("force", number, (), "tension, since strings can't push"))
            return of_time(self, "force", number, (), meaning), False
        function = Function(self.force)
        check_shape(self, "force", result_shapes(self, "force", function, *[jnp.zeros(())] * 3), (), meaning)
        return function, True
