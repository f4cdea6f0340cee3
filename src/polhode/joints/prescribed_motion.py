"""Prescribed motion: joints whose frame on the first body moves as a function of time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.joints import _frames
from polhode.joints._elements import FrameConstraint
from polhode.joints._frames import check_has_rotation, point_position
from polhode.joints._pair import (
    AbstractPairJoint,
    angle_about,
    default_point,
    displacement_along,
    join,
    locked_axes,
)
from polhode.joints.generic import IDENTITY, ROTATIONS, TRANSLATIONS, Generic, directions
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.mechanism.poses import Pose, Poses
from polhode.multibody.mechanism.user_functions import Function, of_time

FunctionOfTime = Callable[[Array], Any]


class DrivenConstraint(AbstractConstraintElement):
    r"""A constraint whose frame on the first body moves: translated by $A^Tr(t)$ and turned by $A^TG(t)A$.

    Functions enter as vectors and matrices, so angles have no jumps however often a body turns.

    **Arguments:**

    - `inner`: the constraint at rest.
    - `axes`: A, axes of r and G as rows in the frame of the first body, shape (3, 3).
    - `translation`: r(t), shape (3,), or None for zero.
    - `rotation`: G(t), shape (3, 3), or None for the identity.
    """

    driven: ClassVar[bool] = True

    inner: FrameConstraint
    axes: Float[Array, "3 3"]
    translation: Function | None
    rotation: Function | None

    @property
    def size(self) -> int:
        return self.inner.size

    def residual(self, t: Array, poses: Poses) -> Float[Array, " size"]:
        return self.inner.residual(t, self._shift_frame(t, poses))

    def sides(self, t: Array, poses: Poses) -> Float[Array, " r"]:
        counterparts = self._counterparts()
        return jnp.zeros(0) if counterparts is None else self.inner.cosines(counterparts, self._shift_frame(t, poses))

    def branch_residual(self, t: Array, poses: Poses) -> Float[Array, " size"]:
        counterparts, shifted_poses = self._counterparts(), self._shift_frame(t, poses)
        return (
            self.inner.residual(t, shifted_poses)
            if counterparts is None
            else self.inner.angle_residual(counterparts, shifted_poses)
        )

    def points(self) -> tuple[Array, ...]:
        return self.inner.points()

    def _shift_frame(self, t: Array, poses: Poses) -> Poses:
        """Poses with the moved frame in the place of the first body."""
        first, s0 = poses[0], self.inner.s0
        r = jnp.zeros(3) if self.translation is None else self.translation(t) @ self.axes
        if self.rotation is None:
            return Pose(first.x + first.R @ r, first.R), poses[1]
        G = self.axes.T @ self.rotation(t) @ self.axes
        # The moved frame has the same point s0, so that its origin makes way for the rotation.
        return Pose(point_position(first, s0 + r - G @ s0), first.R @ G), poses[1]

    def _counterparts(self) -> Float[Array, "r 3"] | None:
        """Those of the constraint at rest; a prescribed angle has one as well."""
        if self.inner.a.shape[-2] == 1 and self.rotation is not None:
            # Axis k of the frame on the first body stays perpendicular to axis k + 1 of the second.
            return -(self.axes @ self.inner.a[0])[None] @ jnp.roll(self.axes, -1, axis=-2)
        return self.inner.counterparts()


class _AboutThird(eqx.Module):
    """Rotation matrix of an angle about the third axis."""

    angle: Function

    def __call__(self, t: Array) -> Float[Array, "3 3"]:
        phi = self.angle(t)
        c, s, zero, one = jnp.cos(phi), jnp.sin(phi), jnp.zeros_like(phi), jnp.ones_like(phi)
        return jnp.stack((c, -s, zero, s, c, zero, zero, zero, one)).reshape(3, 3)


class _AlongThird(eqx.Module):
    """Vector of a displacement along the third axis."""

    displacement: Function

    def __call__(self, t: Array) -> Float[Array, "3"]:
        s = self.displacement(t)
        return jnp.stack((jnp.zeros_like(s), jnp.zeros_like(s), s))


@dataclasses.dataclass(frozen=True, eq=False)
class PrescribedRotation(AbstractPairJoint):
    """The second body turns about an axis of the first as prescribed: one constraint, beside a joint with that axis.

    The multiplier is the moment on the first body about the axis, the negative of the one that drives the second. Which
    way round the body starts is checked: an angle is kept modulo full turns, not half ones.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`.
    - `axis`: in the inertial frame at the initial time.
    - `angle`: function of time returning the angle turned since the start, rad; twice differentiable, any size.
    - `name`: for messages.
    """

    axis: Any
    angle: FunctionOfTime
    name: str | None = None

    def place(self, poses: Poses) -> DrivenConstraint:
        angle = of_time(self, "angle", self.angle, (), "angle since the start, rad")
        rows = _frames.frame(_frames.axis("axis", self.axis))
        inner = join(self, poses, None, perpendicular=([-rows[0]], [rows[1]]))
        return DrivenConstraint(inner, rows @ poses[0].R, None, Function(_AboutThird(angle)))

    def driven_coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        return {"angle": angle_about(_frames.axis("axis", self.axis), self._start())}

    def at_start(self, name: str, t0: Any) -> Any:
        return self.angle(jnp.asarray(t0, float))


@dataclasses.dataclass(frozen=True, eq=False)
class PrescribedTranslation(AbstractPairJoint):
    """A point of the second body moves along an axis of the first as prescribed: one constraint.

    Motion across the axis and rotations stay free; add a joint that holds what should be held. The multiplier is the
    force on the first body along the axis, the negative of the one that drives the second.

    **Arguments:**

    - `first`: rigid body, or `model.ground`.
    - `second`: rigid body, mass point, or `model.ground`.
    - `axis`: in the inertial frame at the initial time.
    - `displacement`: function of time returning the displacement since the start; twice differentiable.
    - `point`: the point in the inertial frame at the initial time; the initial centre of mass of the second body (of
      the first, if the second is the ground) by default.
    - `name`: for messages.
    """

    axis: Any
    displacement: FunctionOfTime
    point: Any = None
    name: str | None = None

    def place(self, poses: Poses) -> DrivenConstraint:
        displacement = of_time(self, "displacement", self.displacement, (), "displacement since the start")
        rows = _frames.frame(_frames.axis("axis", self.axis))
        inner = join(self, poses, default_point(self, self.point), along=[rows[2]])
        return DrivenConstraint(inner, rows @ poses[0].R, Function(_AlongThird(displacement)), None)

    def driven_coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        point = default_point(self, self.point)
        return {"displacement": displacement_along(_frames.axis("axis", self.axis), self._start(), point)}


@dataclasses.dataclass(frozen=True, eq=False)
class PrescribedMotion(AbstractPairJoint):
    """A generic joint whose frame on the first body moves as prescribed.

    The frame starts with the axes of the joint and moves by `translation` and `rotation`; the directions that are fixed
    are fixed to this moving frame. Multipliers are those of `Generic`, along axes that move with the frame.

    **Arguments:**

    - `first`, `second`, `point`, `fixed`, `axes`, `name`: as for `Generic`; everything is fixed by default.
    - `translation`: function of time returning the displacement since the start in the axes of the joint, shape (3,).
    - `rotation`: function of time returning the rotation matrix since the start in the axes of the joint, shape (3, 3).
    """

    point: Any
    translation: FunctionOfTime | None = None
    rotation: FunctionOfTime | None = None
    fixed: Sequence[str] = (*TRANSLATIONS, *ROTATIONS)
    axes: Any = IDENTITY
    name: str | None = None

    def place(self, poses: Poses) -> DrivenConstraint:
        inner = Generic(self.first, self.second, self.point, self.fixed, self.axes).place(poses)
        check_has_rotation(self.first, type(self).__name__)
        names = directions(self.fixed)
        if self.translation is not None and names.isdisjoint(TRANSLATIONS):
            raise ValueError("`translation` prescribes nothing: none of 'x', 'y', 'z' is in `fixed`.")
        if self.rotation is not None and names.isdisjoint(ROTATIONS) and len(names) == 3:
            raise ValueError("`rotation` prescribes nothing: none of 'rx', 'ry', 'rz' is in `fixed`.")
        axes = _frames.axes(self.axes) @ poses[0].R
        return _driven_constraint(self, inner, axes, "translation", self.translation, "rotation", self.rotation)


@dataclasses.dataclass(frozen=True, eq=False)
class PrescribedPose(AbstractPairJoint):
    """The pose of the second body in the frame of the first is a function of time: three to six constraints.

    Multipliers: the force on the first body at the centre of mass of the second, in the inertial frame, then the
    moments on it about the axes of the second body.

    **Arguments:**

    - `first`: `model.ground`, or a rigid body.
    - `second`: a rigid body; a mass point, if only `position` is given.
    - `position`: function of time returning the centre of mass in the frame of the first body, shape (3,); None leaves
      it free.
    - `rotation`: function of time returning the rotation matrix from the frame of the second body to that of the first,
      shape (3, 3); None leaves it free.
    - `name`: for messages.
    """

    position: FunctionOfTime | None = None
    rotation: FunctionOfTime | None = None
    name: str | None = None

    def place(self, poses: Poses) -> DrivenConstraint:
        check_has_rotation(self.first, type(self).__name__)
        a = b = jnp.zeros((0, 3))
        if self.rotation is not None:
            check_has_rotation(self.second, type(self).__name__)
            a, b = (jnp.stack(rows) for rows in locked_axes(*jnp.eye(3)))
        zero = jnp.zeros(3)
        inner = FrameConstraint(zero, zero, jnp.zeros((0, 3)), a, b, self.position is not None)
        return _driven_constraint(self, inner, jnp.eye(3), "position", self.position, "rotation", self.rotation)


def _driven_constraint(
    joint: AbstractPairJoint, inner: FrameConstraint, axes: Array, name: str, vector: Any, other: str, matrix: Any
) -> DrivenConstraint:
    """The constraint of a joint with two arguments that are functions of time, each of which may be None."""
    if vector is None and matrix is None:
        raise ValueError(f"Give `{name}`, `{other}` or both as functions of time; otherwise use `Fixed` or `Generic`.")
    r = None if vector is None else of_time(joint, name, vector, (3,), "as a function of time")
    G = None if matrix is None else of_time(joint, other, matrix, (3, 3), "rotation matrix as a function of time")
    if G is not None:
        _check_rotation(other, G(jnp.zeros(())))
    return DrivenConstraint(inner, axes, r, G)


def _check_rotation(name: str, G: Array) -> None:
    if checks.is_concrete(G):
        matrix = np.asarray(G)
        defect = np.max(np.abs(matrix.T @ matrix - np.eye(3)))
        if not defect < 1e-6 or np.linalg.det(matrix) < 0:
            raise ValueError(f"`{name}` must return rotation matrices, at t = 0 it returns {matrix.tolist()}.")
