"""What joints between two bodies share."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.joints._elements import FrameConstraint
from polhode.joints._frames import has_rotation, point_on, start
from polhode.model.bodies import Body
from polhode.model.elements import AbstractConstraintElement, AbstractJoint, Poses

Axes = Sequence[Array] | Array
"""Axes of the inertial frame, one a row."""

NO_AXES = jnp.zeros((0, 3))


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractPairJoint(AbstractJoint):
    """A joint between two bodies. Its data are checked when it is made."""

    first: Body
    second: Body

    def __post_init__(self) -> None:
        if self.first is self.second:
            raise ValueError(f"{type(self).__name__} connects {self.first!r} with itself; give two different bodies.")
        self.place(tuple(start(body) for body in self.bodies))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractConstraintElement: ...


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
    directions, a, b = (jnp.asarray(rows) if len(rows) else NO_AXES for rows in (along, *perpendicular))
    turning = type(joint).__name__
    if len(a):
        has_rotation(joint.second, turning)
    if len(a) or len(directions):
        has_rotation(joint.first, turning)
    s0 = point_on(joint.first, poses[0], point)
    s1 = point_on(joint.second, poses[1], point)
    return FrameConstraint(s0, s1, directions @ poses[0].R, a @ poses[0].R, b @ poses[1].R, pinned)


def locked(x: Array, y: Array, z: Array) -> tuple[list[Array], list[Array]]:
    """Pairs of axes that stay perpendicular when nothing turns: to first order rotations about x, y and z."""
    return [y, z, x], [z, x, y]


def turning_about(x: Array, y: Array, z: Array) -> tuple[list[Array], list[Array]]:
    """Pairs of axes that stay perpendicular when only rotation about z is free."""
    return [x, y], [z, z]


def frame_rows(rows: Float[Array, "3 3"]) -> tuple[Array, Array, Array]:
    """The three axes of a frame."""
    return rows[0], rows[1], rows[2]
