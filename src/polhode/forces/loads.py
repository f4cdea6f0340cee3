"""Forces and torques on one body."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.numpy.eager import eager_numpy
from polhode.forces._pair import force_wrench
from polhode.joints._frames import check_body, check_has_rotation, initial_pose, point_on, point_position
from polhode.multibody.bodies import SINGLE, Body
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.mechanism.user_functions import Constant, Function, of_time
from polhode.multibody.parts import AbstractForce

Frame = Literal["inertial", "body"]
FRAMES = ("inertial", "body")


class DeadForce(AbstractForceElement):
    """A constant force in the inertial frame at a point of a body: potential -F·x.

    **Arguments:**

    - `s`: the point in the body frame, shape (3,).
    - `force`: F, shape (3,).
    """

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True

    s: Float[Array, "3"]
    force: Float[Array, "3"]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        return -self.force @ point_position(poses[0], self.s)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        return (force_wrench(poses[0], self.s, self.force),)


class AppliedForce(AbstractForceElement):
    """A force at a point of a body as a function of time.

    **Arguments:**

    - `s`: the point in the body frame, shape (3,).
    - `force`: function of time, shape (3,).
    - `follower`: whether the force is given in the body frame and turns with it.
    """

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False

    s: Float[Array, "3"]
    force: Function
    follower: bool = eqx.field(static=True)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del twists
        force = self.force(t)
        return (force_wrench(poses[0], self.s, poses[0].R @ force if self.follower else force),)


class BodyTorque(AbstractForceElement):
    """A torque in the body frame as a function of time.

    **Arguments:**

    - `torque`: function of time, shape (3,).
    """

    uses_poses: ClassVar[bool] = False
    uses_twists: ClassVar[bool] = False

    torque: Function

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del poses, twists
        return (Wrench(self.torque(t), jnp.zeros(3)),)


class InertialTorque(AbstractForceElement):
    """A torque in the inertial frame as a function of time.

    **Arguments:**

    - `torque`: function of time, shape (3,).
    """

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False

    torque: Function

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del twists
        return (Wrench(poses[0].R.T @ self.torque(t), jnp.zeros(3)),)


@dataclasses.dataclass(frozen=True, eq=False)
class PointForce(AbstractForce):
    """A force on a point of a body.

    **Arguments:**

    - `body`: a rigid body or a mass point.
    - `force`: shape (3,), or a function of time that returns it.
    - `point`: where it acts, in the inertial frame at the initial time; the centre of mass by default.
    - `frame`: "inertial", or "body" for a force that turns with the body.
    - `name`: for messages.

    A constant force in the inertial frame has a potential and keeps the energy.
    """

    body: Body
    force: Callable[[Array], Any] | Any
    point: Any = None
    frame: Frame = "inertial"
    name: str | None = None

    @eager_numpy()
    def __post_init__(self) -> None:
        check_body(self, "body", self.body)
        if self.body.kind in SINGLE:
            raise ValueError(
                f"{self.body!r} is a single coordinate, not a place where a force acts. Use `Load`, of whose force it "
                "takes the first component."
            )
        self.place((initial_pose(self.body),))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    def place(self, poses: Poses) -> DeadForce | AppliedForce:
        follower = checks.choice("frame", self.frame, FRAMES) == "body"
        if follower:
            check_has_rotation(self.body, f"{type(self).__name__} with frame='body'")
        s = jnp.zeros(3) if self.point is None else point_on(self.body, poses[0], self.point)
        if not callable(self.force) and not follower:
            return DeadForce(s, checks.array("force", self.force, (3,), "in the inertial frame"))
        return AppliedForce(s, _of_time(self, "force", self.force, self.frame), follower)


@dataclasses.dataclass(frozen=True, eq=False)
class Torque(AbstractForce):
    """A torque on a body. It has no potential, not even if it is constant.

    **Arguments:**

    - `body`: a rigid body.
    - `torque`: shape (3,), or a function of time that returns it.
    - `frame`: "inertial" or "body".
    - `name`: for messages.
    """

    body: Body
    torque: Callable[[Array], Any] | Any
    frame: Frame = "inertial"
    name: str | None = None

    @eager_numpy()
    def __post_init__(self) -> None:
        check_body(self, "body", self.body)
        self.place((initial_pose(self.body),))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    def place(self, poses: Poses) -> BodyTorque | InertialTorque:
        del poses
        check_has_rotation(self.body, type(self).__name__)
        frame = checks.choice("frame", self.frame, FRAMES)
        torque = _of_time(self, "torque", self.torque, frame)
        return BodyTorque(torque) if frame == "body" else InertialTorque(torque)


def _of_time(part: AbstractForce, name: str, value: Any, frame: str) -> Function:
    meaning = f"in the {frame} frame"
    function = value if callable(value) else Constant(checks.array(name, value, (3,), meaning))
    return of_time(part, name, function, (3,), meaning)
