"""Controllers that act on the free coordinate of a joint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.forces.coordinate_forces import AbstractEffort
from polhode.forces.joint_forces import AbstractJointForce, check_limits
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.angles import PlacedAngle
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.mechanism.user_functions import Constant, Function, of_time
from polhode.multibody.parts import AbstractForce, AddsCoordinates


class TrackingEffort(AbstractEffort):
    r"""Force $-Pe - D\dot e$ on a relative coordinate, where e is the coordinate minus its target; angles count turns.

    **Arguments:**

    - `coordinate`: the controlled one.
    - `target`: function of time.
    - `proportional`, `derivative`: P and D.
    - `force_limits`: (lower, upper) of the force; None if there are none.
    """

    coordinate: AbstractRelativeCoordinate
    target: Function
    proportional: Float[Array, ""]
    derivative: Float[Array, ""]
    force_limits: Float[Array, "2"] | None = None

    @property
    def reads_angles(self) -> Bool[Array, "..."]:
        return self.proportional != 0

    def stiffest(self) -> TrackingEffort:
        """The controller without its limits."""
        return dataclasses.replace(self, force_limits=None)

    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        return self.clip_effort(self.response(s - self.target(t), rate - self.target_rate(t)))

    def target_rate(self, t: Array) -> Float[Array, ""]:
        """Time derivative of the target."""
        return jax.jvp(self.target, (t,), (jnp.ones_like(t),))[1]

    def error(self, t: Array, poses: Poses) -> Float[Array, ""]:
        """e."""
        return self.coordinate.value(poses) - self.target(t)

    def error_rate(self, t: Array, poses: Poses, twists: Twists) -> Float[Array, ""]:
        """ė."""
        return self.coordinate.rate(poses, twists) - self.target_rate(t)

    def response(self, error: Array, rate: Array) -> Float[Array, ""]:
        """The effort for given e and ė, without limits."""
        return -self.proportional * error - self.derivative * rate

    def clip_effort(self, effort: Array) -> Float[Array, ""]:
        """The effort within its limits."""
        return effort if self.force_limits is None else jnp.clip(effort, self.force_limits[0], self.force_limits[1])


class IntegralTracking(AbstractForceElement):
    r"""Tracking with the integral of the error as the rate of a last node, a coordinate of mass 1: $\dot v = e$.

    So it needs no derivative of the target, and targets may jump.

    **Arguments:**

    - `tracking`: the other two terms.
    - `integral`: I.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    tracking: TrackingEffort
    integral: Float[Array, ""]

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        body_poses, body_twists = poses[:-1], twists[:-1]
        error, rate = self.tracking.error(t, body_poses), self.tracking.error_rate(t, body_poses, body_twists)
        effort = self.tracking.response(error, rate) - self.integral * twists[-1].u[0]
        zero = jnp.zeros(())
        wrenches = self.tracking.coordinate.wrenches(body_poses, self.tracking.clip_effort(effort))
        return (*wrenches, Wrench(jnp.zeros(3), jnp.stack((error, zero, zero))))

    def angles(self) -> tuple[PlacedAngle, ...]:
        return self.tracking.angles()


@dataclasses.dataclass(frozen=True, eq=False)
class PD(AbstractJointForce):
    r"""Proportional-derivative control of a joint: torque or force $-P(s - s_d(t)) - D(\dot s - \dot s_d(t))$.

    s is 0 at the start and counts by the right-hand rule about, or along, the axis of the joint. Angles are real
    numbers, and so are their targets: a target two turns away is reached after two turns.

    **Arguments:**

    - `joint`: a joint with a free coordinate, such as `Revolute` or `Prismatic`.
    - `proportional`, `derivative`: P (torque per radian, force per length) and D.
    - `target`: s_d, a number or a function of time; its rate comes by differentiation. Numbers in fields of an
      `equinox.Module` can be differentiated with respect to, and equal functions of many joints run together.
    - `coordinate`: which one, if the joint has several; see its `coordinates`.
    - `name`: for messages.
    - `force_limits`: (lower, upper), between which the force is kept; either may be infinite. "joint" for those of the
      joint, which joints of a file have if the file limits their effort: ValueError for others. None by default.
    """

    proportional: Any
    derivative: Any
    target: Callable[[Array], Any] | float = 0.0
    coordinate: str | None = None
    name: str | None = None
    force_limits: Any = None

    @property
    def along(self) -> str | None:
        return self.coordinate

    def place(self, poses: Poses) -> TrackingEffort:
        del poses
        return _tracking_effort(self)


@dataclasses.dataclass(frozen=True, eq=False)
class PID(AbstractJointForce):
    r"""Proportional-integral-derivative control of a joint: the terms of `PD`, and $-I\int_{t_0}^t (s - s_d)\,dt$.

    The integral is the rate of a linear coordinate of the system that is named after the controller, "…-integral". It
    is zero at the start, whatever t₀ is, unless the velocities of that start say otherwise.

    **Arguments:**

    - `joint`, `coordinate`, `name`: as for `PD`.
    - `target`: as for `PD`. It may jump: the terms of P and I follow within the step that holds the jump, the term of
      D doesn't see it, because differentiation finds no rate there.
    - `proportional`, `integral`, `derivative`: P, I and D.
    - `force_limits`: as for `PD`, of the sum of the three terms. The integral goes on while the force is at a limit.
    """

    proportional: Any
    integral: Any
    derivative: Any
    target: Callable[[Array], Any] | float = 0.0
    coordinate: str | None = None
    name: str | None = None
    force_limits: Any = None

    @property
    def along(self) -> str | None:
        return self.coordinate

    def place(self, poses: Poses) -> IntegralTracking:
        del poses
        return IntegralTracking(_tracking_effort(self), checks.array("integral", self.integral, (), "gain I"))

    def attach(self, model: AddsCoordinates) -> AbstractForce:
        name = checks.extend_name(self.name, "-integral")
        return _AttachedPID(self, model.add_integral(name=name), self.name)


@dataclasses.dataclass(frozen=True, eq=False)
class _AttachedPID(AbstractForce):
    """A PID controller and the coordinate that integrates its error."""

    controller: PID
    state: Body
    name: str | None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return *self.controller.bodies, self.state

    def place(self, poses: Poses) -> IntegralTracking:
        return self.controller.place(poses)


def _tracking_effort(controller: PD | PID) -> TrackingEffort:
    target, meaning = controller.target, "target of the coordinate"
    if not callable(target):
        target = Constant(checks.array("target", target, (), meaning))
    return TrackingEffort(
        controller.measured,
        of_time(controller, "target", target, (), meaning),
        checks.array("proportional", controller.proportional, (), "gain P"),
        checks.array("derivative", controller.derivative, (), "gain D"),
        _limits(controller),
    )


def _limits(controller: PD | PID) -> Float[Array, "2"] | None:
    """Limits of the controller, or of its joint; None for infinite ones."""
    value = controller.force_limits
    if value is None:
        return None
    if isinstance(value, str):
        checks.choice("force_limits", value, ("joint",))
        value = _of_joint(controller)
    limits = check_limits("force_limits", value)
    return None if checks.is_concrete(limits) and np.isinf(limits).all() else limits


def _of_joint(controller: PD | PID) -> tuple[float, float]:
    """Limits of the joint. Raises ValueError if it has none, since they are requested."""
    limits = controller.joint.force_limits
    if np.isinf(limits).all():
        name = getattr(controller.joint, "name", None)
        subject = "The joint" if name is None else f"Joint {short_repr(name)}"
        raise ValueError(
            f'{subject} has no limits of its effort for `force_limits="joint"`; files give them to their joints. '
            "Leave `force_limits` out, or give (lower, upper)."
        )
    return limits
