"""Shared parts of joints between two bodies."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.fingerprint.closures import is_immutable
from polhode.compiler.numpy.eager import array_of, eager_numpy
from polhode.joints._elements import FrameConstraint
from polhode.joints._frames import check_distinct, check_has_rotation, frame, initial_pose, point_on, to_body_frame
from polhode.joints.named_coordinates import AbstractMeasuredPair
from polhode.joints.relative import Angle, Displacement
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractConstraintElement, AbstractForceElement
from polhode.multibody.mechanism.poses import Pose, Poses
from polhode.multibody.parts import AbstractJoint
from polhode.systems.base import State

Axes = Sequence[Array] | Array
"""Axes of the inertial frame, one a row."""

NO_AXES: Any = np.zeros((0, 3))


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractPairJoint(AbstractMeasuredPair, AbstractJoint):
    """A joint between two bodies. Its data are checked when it is made.

    Its multipliers are the forces and moments that the joint exerts on the first body, along the directions in which it
    holds the second one relative to the first; those on the second body are opposite.
    """

    first: Body
    second: Body

    @eager_numpy()
    def __post_init__(self) -> None:
        check_distinct(self, self.first, self.second)
        # Building the element checks the data.
        _ = self._element

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractConstraintElement: ...

    def initial_element(self) -> AbstractConstraintElement | AbstractForceElement:
        # Values that functions capture may have changed since.
        return self._element if is_immutable(self._element) else super().initial_element()

    @functools.cached_property
    def _element(self) -> AbstractConstraintElement:
        """The element that was built to check the data."""
        return self.place(self._start())

    @property
    def carrier(self) -> AbstractJoint:
        return self

    def initial(self, name: str | None = None) -> Float[Array, ""]:
        return self.coordinate(name).difference(self._start(), 0.0)

    def _start(self) -> Poses:
        return initial_pose(self.first), initial_pose(self.second)


class TurningJoint(AbstractPairJoint):
    """A joint with the coordinate "angle": of the second body relative to the first, by the right-hand rule."""

    def angle(self, system: Any, t: Any, state: State) -> Float[Array, "..."]:
        """Angle since the start, turns included."""
        return self.value(system, t, state, "angle")

    def angle_rate(self, system: Any, t: Any, state: State) -> Float[Array, "..."]:
        """Relative angular velocity about the axis."""
        return self.rate(system, t, state, "angle")


class SlidingJoint(AbstractPairJoint):
    """A joint with the coordinate "displacement": of the second body relative to the first along the axis."""

    def displacement(self, system: Any, t: Any, state: State) -> Float[Array, "..."]:
        """Displacement since the start."""
        return self.value(system, t, state, "displacement")

    def displacement_rate(self, system: Any, t: Any, state: State) -> Float[Array, "..."]:
        """Its time derivative."""
        return self.rate(system, t, state, "displacement")


def angle_about(axis: Array, poses: Poses) -> Angle:
    """The angle about an axis of the inertial frame at the initial time."""
    e1, e2, _ = frame(axis)
    first, second = checks.readable(poses)
    return Angle(*map(_array, (first.R.T @ e1, first.R.T @ e2, second.R.T @ e1)))


def displacement_along(axis: Array, poses: Poses, point: Any) -> Displacement:
    """The displacement along an axis of a point that both bodies share at the initial time."""
    first, second = checks.readable(poses)
    place = checks.values("point", point, (3,), "in the inertial frame at the initial time")
    return Displacement(*map(_array, (first.R.T @ axis, to_body_frame(first, place), to_body_frame(second, place))))


def _array(values: Any) -> Array:
    return array_of(values) if isinstance(values, np.ndarray) else jnp.asarray(values)


def join(
    joint: AbstractPairJoint,
    poses: Poses,
    point: object,
    *,
    pinned: bool = False,
    along: Axes = NO_AXES,
    perpendicular: tuple[Axes, Axes] = (NO_AXES, NO_AXES),
) -> FrameConstraint:
    """The constraint of a joint from its axes in the inertial frame at the initial time.

    **Arguments:**

    - `point`: where both frames are.
    - `pinned`: whether the two points stay together.
    - `along`: directions, fixed in the first body, along which they don't slide.
    - `perpendicular`: axes of the first and of the second body that stay perpendicular, pair by pair.
    """
    poses = checks.readable(poses)
    directions, a, b = (_rows(axes) if len(axes) else NO_AXES for axes in (along, *perpendicular))
    what = type(joint).__name__
    if len(a):
        check_has_rotation(joint.second, what)
    if len(a) or len(directions):
        check_has_rotation(joint.first, what)
    s0: Any = np.zeros(3)
    s1: Any = np.zeros(3)
    if pinned or len(directions):
        s0, s1 = point_on(joint.first, poses[0], point), point_on(joint.second, poses[1], point)
    return FrameConstraint(s0, s1, directions @ poses[0].R, a @ poses[0].R, b @ poses[1].R, pinned)


def _rows(axes: Axes) -> Any:
    rows: Any = axes
    return np.stack(rows) if all(isinstance(axis, np.ndarray) for axis in axes) else jnp.asarray(axes)


def locked_axes(x: Array, y: Array, z: Array) -> tuple[list[Array], list[Array]]:
    """Pairs of axes that stay perpendicular when nothing turns: to first order rotations about x, y and z."""
    return [-y, -z, -x], [z, x, y]


def turning_about(x: Array, y: Array, z: Array) -> tuple[list[Array], list[Array]]:
    """Pairs of axes that stay perpendicular when only rotation about z is free: rotations about x and y."""
    return [-y, x], [z, z]


def default_point(joint: AbstractPairJoint, point: Any) -> Any:
    """`point`, or by default the initial centre of mass of the second body (the first, if that is the ground)."""
    if point is not None:
        return point
    return joint.first.x if joint.second.kind == "ground" else joint.second.x


def link_frame(joint: AbstractPairJoint, carried: Body, point: Any, z: Array) -> Pose:
    """The frame of a link carried by a joint about or along an axis, in the inertial frame at the start.

    Its coordinates are those of the second body relative to the first, whichever of them is carried.
    """
    sign = 1.0 if joint.second is carried else -1.0
    origin = carried.x if point is None else jnp.asarray(point, dtype=float)
    return Pose(origin, jnp.asarray(frame(sign * z).T))
