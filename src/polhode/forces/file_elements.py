"""Elements that imported models need beyond joints and forces in general use."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.joints._elements import FrameConstraint
from polhode.joints._pair import AbstractPairJoint, join
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.motions import AbstractJointMotion, BallMotion, HingesMotion, SlidingMotion
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Pose, Poses, Twists, Wrench
from polhode.multibody.parts import AbstractForce, AbstractJoint
from polhode.spaces.base import cross


@dataclasses.dataclass(frozen=True, eq=False)
class _ImportedPart:
    """A part whose element is given in body frames."""

    connected_bodies: tuple[Body, ...]
    element: Any
    name: str | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.connected_bodies

    def place(self, poses: Poses) -> Any:
        return self.element


class ImportedJoint(_ImportedPart, AbstractJoint):
    """A constraint between imported bodies."""


@dataclasses.dataclass(frozen=True, eq=False)
class CompoundJoint(ImportedJoint):
    """Slides along any axes, before or after hinges that meet in a point or a ball: a constraint of two bodies.

    Its coordinates are those of slides and hinges where it carries `child`.

    - `child`: the body that the last one moves. - `frame`: of its motion, in the inertial frame at the start.
    - `rotation`: its motion without the slides, in this frame. - `slide_axes`: shape (k, 3), in this frame as well.
    - `slide_names`: of their coordinates. - `turn_along`: whether slides turn with the child.
    """

    child: Any = dataclasses.field(kw_only=True)
    frame: Pose = dataclasses.field(kw_only=True)
    rotation: AbstractJointMotion = dataclasses.field(kw_only=True)
    slide_axes: Float[Array, "k 3"] = dataclasses.field(kw_only=True)
    slide_names: tuple[str, ...] = dataclasses.field(kw_only=True)
    turn_along: bool = dataclasses.field(kw_only=True)

    def motion(self, carried: Body) -> SlidingMotion | None:
        if carried is not self.child:
            return None
        return SlidingMotion(self.frame, self.rotation, self.slide_axes, self.turn_along, self.slide_names)


@dataclasses.dataclass(frozen=True, eq=False)
class HingedBall(AbstractPairJoint):
    """A ball joint made of three hinges, whose angles are its coordinates where it carries the second body.

    - `point`: where the hinges meet. - `axes`: theirs, shape (3, 3); both in the inertial frame at the start.
    """

    point: Any
    axes: Any
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        return join(self, poses, self.point, pinned=True)

    def motion(self, carried: Body) -> HingesMotion | BallMotion:
        initial = Pose(jnp.asarray(self.point, dtype=float), carried.R)
        if carried is not self.second:
            return BallMotion(initial)
        return HingesMotion(initial, jnp.asarray(self.axes) @ carried.R)


class ImportedForce(_ImportedPart, AbstractForce):
    """A load on imported bodies."""


class BallDamper(AbstractForceElement):
    """Torque -d ω on the second body and its reaction on the first, with ω their relative angular velocity."""

    damping: Float[Array, ""]
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        (first, second), (w0, w1) = poses, twists
        torque = self.damping * (second.R @ w1.omega - first.R @ w0.omega)
        none = jnp.zeros(3)
        return Wrench(first.R.T @ torque, none), Wrench(-second.R.T @ torque, none)


class FreeDamper(AbstractForceElement):
    """Force -d v at a point of the second body and torque -d ω, with its velocities in the inertial frame.

    **Arguments:**

    - `damping`: d. - `point`: in the frame of the second body.
    """

    damping: Float[Array, ""]
    point: Float[Array, "3"]
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        (_, body), (_, twist) = poses, twists
        velocity = twist.u + body.R @ cross(twist.omega, self.point)
        force, none = -self.damping * velocity, jnp.zeros(3)
        torque = cross(self.point, body.R.T @ force) - self.damping * twist.omega
        return Wrench(none, none), Wrench(torque, force)
