"""Springs, stops, dry friction and actuators along the free coordinate of a joint."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, TypeGuard

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero, short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.contact.rules import check_static_friction
from polhode.forces._pair import check_constant
from polhode.forces.coordinate_forces import (
    Actuation,
    DryFriction,
    Friction,
    RigidStops,
    SpringDamperEffort,
    SpringEffort,
    Stops,
)
from polhode.joints._frames import initial_pose
from polhode.joints.named_coordinates import AbstractMeasured
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses
from polhode.multibody.mechanism.user_functions import Constant, Function, of_time
from polhode.multibody.parts import AbstractForce


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractJointForce(AbstractForce):
    """A force along the free coordinate of a joint, or a combination of such. Its data are checked when it is made.

    Subclasses have a field `coordinate`, the name of the joint's coordinate, which may be None if there is only one.
    """

    joint: AbstractMeasured

    @property
    @abc.abstractmethod
    def along(self) -> str | None:
        """The name of the coordinate, or None."""

    @eager_numpy()
    def __post_init__(self) -> None:
        if not isinstance(self.joint, AbstractMeasured):
            raise ValueError(
                f"`joint` of {type(self).__name__} must be a joint with a free coordinate, such as `Revolute`, or a "
                f"`Combination` of such, got {short_repr(self.joint)}. It need not be part of the model."
            )
        self.place(tuple(initial_pose(body) for body in self.joint.bodies))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.joint.bodies

    @property
    def measured(self) -> AbstractRelativeCoordinate:
        """The coordinate."""
        return self.joint.coordinate(self.along)

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractForceElement: ...


@dataclasses.dataclass(frozen=True, eq=False)
class JointSpring(AbstractJointForce):
    r"""A linear spring and damper along a joint coordinate: force $-k(s - s_0) - d\dot s$.

    Angles count turns: one that rests at 5 rad pulls until then.

    **Arguments:**

    - `joint`: a joint with a free coordinate s, 0 at the start, the joint of a file, with the file's zero, or a
      `joints.Combination`.
    - `stiffness`, `damping`: k and d, for angles torque per radian and per angular velocity.
    - `rest`: s₀.
    - `coordinate`: which one, if the joint has several; see its `coordinates`.
    - `name`: for messages.
    """

    stiffness: Any
    damping: Any = 0.0
    rest: Any = 0.0
    coordinate: str | None = None
    name: str | None = None

    @property
    def along(self) -> str | None:
        return self.coordinate

    def place(self, poses: Poses) -> SpringEffort | SpringDamperEffort:
        del poses
        stiffness = check_constant("stiffness", self.stiffness, "force per displacement, torque per radian")
        damping = checks.array("damping", self.damping, (), "force per velocity, torque per angular velocity")
        rest = checks.array("rest", self.rest, (), "coordinate at rest")
        if is_zero(damping):
            return SpringEffort(self.measured, stiffness, rest)
        return SpringDamperEffort(self.measured, stiffness, rest, damping)


@dataclasses.dataclass(frozen=True, eq=False)
class JointStops(AbstractJointForce):
    r"""Stops at both ends of the range of a joint coordinate: rigid, or elastic with a `stiffness`.

    Rigid ones are contacts, $0 \le g \perp \lambda \ge 0$ for the way g to a limit, with impacts by Newton's law of
    restitution; methods with contacts take them, `moreau` by default. `events.stop` has those of other methods.

    Elastic: beyond a limit by δ the force is $\max(k\delta + d\min(\delta/\delta_0, 1)\dot\delta, 0)$, back into
    the range. It is continuous, also where a joint arrives with a rate: an implicit step has no solution at a jump.

    **Arguments:**

    - `joint`, `coordinate`, `name`: as for `JointSpring`.
    - `limits`: (lower, upper); either may be infinite.
    - `stiffness`: k; None for rigid stops. - `damping`: d. - `onset`: δ₀ in rad or length, over which the damper
      comes into force.
    - `restitution`: of rigid stops, from 0 (no rebound) to 1 (no loss).
    """

    limits: Any
    stiffness: Any = None
    damping: Any = 0.0
    coordinate: str | None = None
    name: str | None = None
    onset: Any = 1e-3
    restitution: Any = 0.0

    @property
    def along(self) -> str | None:
        return self.coordinate

    @property
    def is_rigid(self) -> bool:
        return self.stiffness is None

    def place(self, poses: Poses) -> Stops | RigidStops:
        del poses
        limits = check_limits("limits", self.limits)
        e = checks.array("restitution", self.restitution, (), "of an impact, from 0 to 1")
        if checks.is_concrete(e) and not 0 <= float(e) <= 1:
            raise ValueError(
                f"`restitution` must be from 0 (no rebound) to 1 (no loss), got {short_repr(self.restitution)}."
            )
        if self.is_rigid:
            if not is_zero(self.damping):
                raise ValueError("`damping` is that of elastic stops: give their `stiffness`, or a `restitution`.")
            return RigidStops(self.measured, limits, e)
        if not is_zero(e):
            raise ValueError("`restitution` is that of rigid stops: leave `stiffness` out, or give a `damping`.")
        return Stops(
            self.measured,
            limits,
            checks.positive("stiffness", self.stiffness, (), "of the stops"),
            checks.array("damping", self.damping, (), "of the stops"),
            checks.positive("onset", self.onset, (), "over which the dampers of stops come into force"),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class JointFriction(AbstractJointForce):
    r"""Dry friction along a joint coordinate, which sticks; smooth around rest with a `stick_velocity`.

    It is a contact with the law $\lambda \in -F\,\mathrm{sign}(\dot s)$, which may be anything from -F to F at rest: a
    joint that it holds doesn't move. Methods with contacts take it, `moreau` by default. Where F is a function of time
    it is a brake; along a `Revolute` between two shafts, which need not be part of the model, a clutch.

    With `static_friction` $F_s$ a joint that sticks holds up to that, and what slides has
    $F + (F_s - F)e^{-\dot s^2/v^2}$ with the `stribeck_speed` v: loads move it by jerks.

    With a `load_factor` c it grows with the force R that the joint transmits, $F + c|R|$: a bearing of radius r has
    c = μr, a guide c = μ. Method `moreau` takes it, in absolute coordinates, which are the default then.

    With `stick_velocity` it is $-F\tanh(\dot s/v_s)$, for all methods. Below $v_s$ the joint creeps then where it
    would stick: under a load L < F at the speed $v_s\,\mathrm{artanh}(L/F)$.

    **Arguments:**

    - `joint`, `coordinate`, `name`: as for `JointSpring`.
    - `friction`: F, a torque for an angle; without `stick_velocity` also a function of time.
    - `load_factor`: c, a length for an angle, of friction of a joint of the model that sticks.
    - `stick_velocity`: v_s. Small ones are stiff: the damping at rest is F/v_s.
    - `static_friction`, `stribeck_speed`: F_s and v, of friction that sticks and whose F is a number.
    """

    friction: Any
    stick_velocity: Any = None
    coordinate: str | None = None
    name: str | None = None
    static_friction: Any = None
    stribeck_speed: Any = None
    load_factor: Any = None

    @property
    def along(self) -> str | None:
        return self.coordinate

    @property
    def is_rigid(self) -> bool:
        return self.stick_velocity is None

    def place(self, poses: Poses) -> Friction | DryFriction:
        del poses
        if not callable(self.friction):
            check_static_friction(self.friction, self.static_friction, self.stribeck_speed)
        self._check_load_factor()
        if self.is_rigid:
            numbers = self.static_friction, self.stribeck_speed, self.load_factor
            return DryFriction(
                self.measured, self._largest_force(), *(None if x is None else jnp.asarray(x, float) for x in numbers)
            )
        if self.static_friction is not None:
            raise ValueError(
                "`static_friction` is of friction that sticks, and `stick_velocity` makes it smooth: leave one out."
            )
        return Friction(
            self.measured,
            checks.array("friction", self.friction, (), "largest force, torque for an angle"),
            checks.positive("stick_velocity", self.stick_velocity, (), "below which the joint sticks"),
        )

    def _check_load_factor(self) -> None:
        if self.load_factor is None:
            return
        checks.array("load_factor", self.load_factor, (), "friction over the force of the joint")
        if checks.is_concrete(self.load_factor) and not float(np.asarray(self.load_factor)) >= 0:
            raise ValueError(f"`load_factor` can't be negative, got {short_repr(self.load_factor)}.")
        if self.static_friction is not None or not self.is_rigid:
            other = "stick_velocity" if not self.is_rigid else "static_friction"
            raise ValueError(
                f"`load_factor` is of friction that sticks and is the same at all speeds: leave `{other}` out."
            )

    def _largest_force(self) -> Function:
        """The largest force as a function of time."""
        if callable(self.friction):
            if self.static_friction is not None:
                raise ValueError("`static_friction` goes with a `friction` that is a number, not a function of time.")
            return of_time(self, "friction", self.friction, (), "largest force, torque for an angle")
        value = checks.array("friction", self.friction, (), "largest force, torque for an angle")
        if checks.is_concrete(value) and not float(value) >= 0:
            raise ValueError(f"`friction` can't be negative, got {short_repr(self.friction)}.")
        return of_time(self, "friction", Constant(value), (), "largest force, torque for an angle")


@dataclasses.dataclass(frozen=True, eq=False)
class Actuator(AbstractJointForce):
    r"""Affine actuator of a coordinate s: $g\,\mathrm{clip}(k\,\mathrm{clip}(u(t)) + b_0 + b_1 gs + b_2 g\dot s)$.

    A motor has only k; a position servo k and $b_1 = -k$, with damping $b_2 = -d$; a velocity servo k and $b_2 = -k$.

    **Arguments:**

    - `joint`, `coordinate`, `name`: as for `JointSpring`.
    - `control`: u, a number or a function of time.
    - `gain`: k. - `bias`: (b₀, b₁, b₂). - `gear`: g.
    - `control_limits`, `force_limits`: (lower, upper), infinite by default.
    """

    control: Callable[[Array], Any] | Any = 0.0
    gain: Any = 1.0
    bias: Any = (0.0, 0.0, 0.0)
    gear: Any = 1.0
    control_limits: Any = (-np.inf, np.inf)
    force_limits: Any = (-np.inf, np.inf)
    coordinate: str | None = None
    name: str | None = None

    @property
    def along(self) -> str | None:
        return self.coordinate

    def place(self, poses: Poses) -> Actuation:
        del poses
        control = self.control
        if not callable(control):
            control = Constant(checks.array("control", control, (), "of the actuator"))
        return Actuation(
            self.measured,
            of_time(self, "control", control, (), "of the actuator"),
            checks.array("gain", self.gain, (), "force per control"),
            checks.array("bias", self.bias, (3,), "constant, per length and per velocity"),
            checks.array("gear", self.gear, (), "ratio of the actuator"),
            check_limits("control_limits", self.control_limits),
            check_limits("force_limits", self.force_limits),
        )


def is_rigid(part: Any) -> TypeGuard[AbstractForce]:
    """Whether a part of a model is a rigid stop, or dry friction that sticks."""
    return isinstance(part, AbstractForce) and part.is_rigid


def check_limits(name: str, value: Any) -> Float[Array, "2"]:
    """Limits (lower, upper), of which one may be infinite; ValueError unless the first is below the second."""
    limits = checks.numbers(name, value, "lower and upper limit") if checks.is_concrete(value) else jnp.asarray(value)
    if limits.shape != (2,) or (checks.is_concrete(value) and not limits[0] < limits[1]):
        raise ValueError(f"`{name}` must be a lower and a larger upper limit, got {short_repr(value)}.")
    return jnp.asarray(limits)
