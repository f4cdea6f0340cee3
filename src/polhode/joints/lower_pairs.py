"""Joints with one axis or plane: revolute, prismatic, cylindrical, planar; and none: fixed."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp

from polhode.joints._elements import FrameConstraint
from polhode.joints._frames import axis, frame
from polhode.joints._pair import (
    AbstractPairJoint,
    SlidingJoint,
    TurningJoint,
    angle_about,
    default_point,
    displacement_along,
    join,
    link_frame,
    locked_axes,
    turning_about,
)
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.motions import AxisMotion
from polhode.multibody.mechanism.poses import Pose, Poses


@dataclasses.dataclass(frozen=True, eq=False)
class Revolute(TurningJoint):
    """A hinge: the bodies share a point and an axis, rotation about it is free. Five constraints.

    Multipliers: the force on the first body at the point, in the inertial frame, then the moments on it about x and y,
    which are perpendicular to the axis and turn with the bodies: x is the coordinate axis of the inertial frame least
    aligned with the axis at the initial time, without its part along it, y the axis times x.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`.
    - `point`, `axis`: of the hinge in the inertial frame at the initial time; the length of `axis` doesn't matter.
    - `name`: for messages.
    """

    point: Any
    axis: Any
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        return join(self, poses, self.point, pinned=True, perpendicular=turning_about(*frame(axis("axis", self.axis))))

    def motion(self, carried: Body) -> AxisMotion:
        return AxisMotion(link_frame(self, carried, self.point, axis("axis", self.axis)), True, ())

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        return {"angle": angle_about(axis("axis", self.axis), self._start())}


@dataclasses.dataclass(frozen=True, eq=False)
class Prismatic(SlidingJoint):
    """A slider: translation along an axis of the first body is free, nothing turns. Five constraints.

    Multipliers: the force on the first body at the point along x and y, then the moments on it about x, y and the axis,
    with x and y as for `Revolute`.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`; the axis is fixed in the first.
    - `axis`: direction of sliding in the inertial frame at the initial time.
    - `point`: a point of the second body that slides on a line of the first; the initial centre of mass of the second
      (of the first, if the second is the ground) by default. It changes the meaning of the multipliers, not the motion.
    - `name`: for messages.
    """

    axis: Any
    point: Any = None
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        x, y, z = frame(axis("axis", self.axis))
        return join(self, poses, default_point(self, self.point), along=[x, y], perpendicular=locked_axes(x, y, z))

    def motion(self, carried: Body) -> AxisMotion:
        return AxisMotion(link_frame(self, carried, self.point, axis("axis", self.axis)), False, (2,))

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        point = default_point(self, self.point)
        return {"displacement": displacement_along(axis("axis", self.axis), self._start(), point)}


@dataclasses.dataclass(frozen=True, eq=False)
class Cylindrical(TurningJoint, SlidingJoint):
    """Rotation about and translation along an axis are free. Four constraints.

    Multipliers: the force on the first body at the point of the second along x and y, then the moments on it about x
    and y, which are those of `Revolute`, fixed in the first body.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`.
    - `point`, `axis`: of the common axis in the inertial frame at the initial time.
    - `name`: for messages.
    """

    point: Any
    axis: Any
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        x, y, z = frame(axis("axis", self.axis))
        return join(self, poses, self.point, along=[x, y], perpendicular=turning_about(x, y, z))

    def motion(self, carried: Body) -> AxisMotion:
        return AxisMotion(link_frame(self, carried, self.point, axis("axis", self.axis)), True, (2,))

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        n, poses = axis("axis", self.axis), self._start()
        return {"angle": angle_about(n, poses), "displacement": displacement_along(n, poses, self.point)}


@dataclasses.dataclass(frozen=True, eq=False)
class Planar(TurningJoint):
    """A plane of the second body slides on one of the first and turns in it. Three constraints.

    Multipliers: the force on the first body at the point of the second along the normal, then the moments on it about x
    and y, which are those of `Revolute` for the normal, fixed in the first body.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`.
    - `normal`: of the plane in the inertial frame at the initial time.
    - `point`: a point of the plane; the initial centre of mass of the second body (of the first, if the second is the
      ground) by default.
    - `name`: for messages.
    """

    normal: Any
    point: Any = None
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        x, y, z = frame(axis("normal", self.normal))
        return join(self, poses, default_point(self, self.point), along=[z], perpendicular=turning_about(x, y, z))

    def motion(self, carried: Body) -> AxisMotion:
        return AxisMotion(link_frame(self, carried, self.point, axis("normal", self.normal)), True, (0, 1))

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        return {"angle": angle_about(axis("normal", self.normal), self._start())}


@dataclasses.dataclass(frozen=True, eq=False)
class Fixed(AbstractPairJoint):
    """The bodies move as one. Six constraints.

    Multipliers: the force on the first body at the point, in the inertial frame, then the moments on it about the axes
    of the inertial frame at the initial time, which turn with the bodies.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`.
    - `point`: where they are joined, for the multipliers; the initial centre of mass of the second body (of the first,
      if the second is the ground) by default.
    - `name`: for messages.
    """

    point: Any = None
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        return join(self, poses, default_point(self, self.point), pinned=True, perpendicular=locked_axes(*jnp.eye(3)))

    def motion(self, carried: Body) -> AxisMotion:
        return AxisMotion(Pose(carried.x, carried.R), False, ())
