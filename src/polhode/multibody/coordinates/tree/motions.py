"""Relative motions of joints: of a link of a tree on its parent."""

from __future__ import annotations

import abc
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.numpy_jit import numpy_jit
from polhode.modules import Module
from polhode.multibody.mechanism.poses import Pose
from polhode.spaces.base import AbstractSpace, Point, Vector, cross, hat
from polhode.spaces.linear import Rn
from polhode.spaces.rigid import SE3
from polhode.spaces.rotations import S3

Rows = Float[Array, "n 3"]


class AbstractRelativeMotion(Module):
    """Motion of a link on its parent: the frame of the link in that of the parent, as a function of coordinates.

    With ω the angular velocity in the frame of the link and r its origin in the frame of the parent,
    ω = ωₚ + rotation_axes(q)ᵀ v and ṙ = translation_axes(q)ᵀ v. Frames are chosen so that as many
    entries as possible are constants, which the compiled step then skips.
    """

    @property
    @abc.abstractmethod
    def space(self) -> AbstractSpace:
        """The space of the coordinates; zero is the initial position."""

    @property
    def n(self) -> int:
        """Number of velocities."""
        return self.space.dim

    @abc.abstractmethod
    def pose(self, q: Point) -> Pose:
        """Origin r (3,) and rotation A (3, 3) of the link in the frame of its parent."""

    def rotation_axes(self, q: Point) -> Rows | None:
        """Axes of rotation in the frame of the link, or None if there are none."""
        del q
        return None

    def translation_axes(self, q: Point) -> Rows | None:
        """Directions of translation in the frame of the parent, or None if there are none."""
        del q
        return None

    def displacements(self, q: Point, A: Float[Array, "3 3"]) -> Rows | None:
        """The directions of translation in the frame of the link, which has the rotation A on its parent."""
        directions = self.translation_axes(q)
        return None if directions is None else directions @ A

    @property
    def frame_with_axis(self) -> Pose | None:
        """A constant frame on the parent with the same z axis as the link, about which it turns; None without one."""
        return None

    def turning_drift(self, q: Point, v: Vector) -> Float[Array, "3"] | None:
        """The derivative of `turning` times v, or None for zero."""
        del q, v
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """The joint's relative coordinates that are components of q, in their order; none unless overridden."""
        return ()

    def sliding_drift(self, q: Point, v: Vector) -> Float[Array, "3"] | None:
        """The derivative of `sliding` times v, or None for zero."""
        del q, v
        return None


def constant(value: np.ndarray) -> Any:
    """NumPy constants, which stay known while JAX traces."""
    return value


class AbstractJointMotion(AbstractRelativeMotion):
    """The relative motion that a joint allows.

    - `initial`: pose of the link at the start: in the inertial frame in a joint, in the frame of the parent in a link.
    """

    initial: eqx.AbstractVar[Pose]

    def on(self, parent: Pose) -> Self:
        """The same motion with `initial` in the frame of a parent, whose pose in the inertial frame is given."""
        return eqx.tree_at(lambda motion: motion.initial, self, _relative_pose(parent, self.initial))


@numpy_jit
def _relative_pose(parent: Pose, pose: Pose) -> Pose:
    return Pose((pose.x - parent.x) @ parent.R, parent.R.T @ pose.R)


class AxisMotion(AbstractJointMotion):
    """Rotation about the z axis of the link (if `turns`), then displacements along axes of its initial frame.

    Hinge: turns; slider: slides (2,); cylinder: both; plane: turns, slides (0, 1); weld: neither.
    """

    initial: Pose
    turns: bool = eqx.field(static=True)
    slides: tuple[int, ...] = eqx.field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        return ("angle",) * self.turns + (("displacement",) if self.slides == (2,) else ())

    @property
    def frame_with_axis(self) -> Pose | None:
        return self.initial if self.turns and not self.slides else None

    @property
    def space(self) -> Rn:
        return Rn(self.n, (1,) * self.turns + ((len(self.slides),) if self.slides else ()))

    @property
    def n(self) -> int:
        # Asked for thousands of times while a tree is traced.
        return self.turns + len(self.slides)

    @jax.jit
    def pose(self, q: Point) -> Pose:
        x, R = self.initial
        for k, column in enumerate(self.slides):
            x = x + R[:, column] * q[k + self.turns]
        if self.turns:
            # The first two columns turn, the third is the axis.
            c, s = jnp.cos(q[0]), jnp.sin(q[0])
            R = jnp.stack((c * R[:, 0] + s * R[:, 1], c * R[:, 1] - s * R[:, 0], R[:, 2]), axis=1)
        return Pose(x, R)

    def rotation_axes(self, q: Point) -> Rows | None:
        return constant(np.eye(self.n, 3, 2)) if self.turns else None

    def translation_axes(self, q: Point) -> Rows | None:
        if not self.slides:
            return None
        rows = self.initial.R.T[np.array(self.slides)]
        return jnp.concatenate((jnp.zeros((1, 3)), rows)) if self.turns else rows

    def displacements(self, q: Point, A: Float[Array, "3 3"]) -> Rows | None:
        if self.turns and self.slides not in ((), (2,)):
            return super().displacements(q, A)
        if not self.slides:
            return None
        return constant(np.concatenate((np.zeros((int(self.turns), 3)), np.eye(3)[list(self.slides)])))


class ScrewMotion(AbstractJointMotion):
    """Rotation about the z axis of the link, and `advance` times its angle along it."""

    initial: Pose
    advance: Float[Array, ""]

    @property
    def names(self) -> tuple[str, ...]:
        return ("angle",)

    @property
    def space(self) -> Rn:
        return Rn(1)

    @jax.jit
    def pose(self, q: Point) -> Pose:
        x, R = self.initial
        c, s = jnp.cos(q[0]), jnp.sin(q[0])
        attitude = jnp.stack((c * R[:, 0] + s * R[:, 1], c * R[:, 1] - s * R[:, 0], R[:, 2]), axis=1)
        return Pose(x + self.advance * q[0] * R[:, 2], attitude)

    def rotation_axes(self, q: Point) -> Rows:
        return constant(np.eye(1, 3, 2))

    def translation_axes(self, q: Point) -> Rows:
        return self.advance * self.initial.R[:, 2][None]

    def displacements(self, q: Point, A: Float[Array, "3 3"]) -> Rows:
        return self.advance * constant(np.eye(1, 3, 2))


class CrossMotion(AbstractJointMotion):
    """Rotation about the x axis of the initial frame of the link, then about its z axis: a universal joint.

    - `angle_names`: names of its angles as coordinates of the joint; none if the joint is reversed.
    """

    initial: Pose
    angle_names: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def names(self) -> tuple[str, ...]:
        return self.angle_names

    @property
    def space(self) -> Rn:
        return Rn(2, (1, 1))

    @jax.jit
    def pose(self, q: Point) -> Pose:
        (c1, c2), (s1, s2) = jnp.cos(q), jnp.sin(q)
        zero = jnp.zeros(())
        attitude = jnp.stack(
            (
                jnp.stack((c2, -s2, zero)),
                jnp.stack((c1 * s2, c1 * c2, -s1)),
                jnp.stack((s1 * s2, s1 * c2, c1)),
            )
        )
        return Pose(self.initial.x, self.initial.R @ attitude)

    @jax.jit
    def rotation_axes(self, q: Point) -> Rows:
        zero = jnp.zeros(())
        first = jnp.stack((jnp.cos(q[1]), -jnp.sin(q[1]), zero))
        return jnp.stack((first, jnp.array([0.0, 0.0, 1.0])))

    @jax.jit
    def turning_drift(self, q: Point, v: Vector) -> Float[Array, "3"]:
        return -v[0] * v[1] * jnp.stack((jnp.sin(q[1]), jnp.cos(q[1]), jnp.zeros(())))


class HingesMotion(AbstractJointMotion):
    """Rotations about three axes through the origin of the link, each rotated by those before it.

    Singular where the first and the third axis coincide.

    - `axes`: unit vectors in the initial frame of the link, where all angles are zero; shape (3, 3).
    """

    initial: Pose
    axes: Float[Array, "3 3"]

    @property
    def names(self) -> tuple[str, ...]:
        return ("first_angle", "second_angle", "third_angle")

    @property
    def space(self) -> Rn:
        return Rn(3, (1, 1, 1))

    @jax.jit
    def pose(self, q: Point) -> Pose:
        first, second, third = (axis_rotation(self.axes[k], q[k]) for k in range(3))
        return Pose(self.initial.x, self.initial.R @ first @ second @ third)

    @jax.jit
    def rotation_axes(self, q: Point) -> Rows:
        second, third = axis_rotation(self.axes[1], q[1]), axis_rotation(self.axes[2], q[2])
        return jnp.stack((self.axes[0] @ second @ third, self.axes[1] @ third, self.axes[2]))

    @jax.jit
    def turning_drift(self, q: Point, v: Vector) -> Float[Array, "3"]:
        first, second, third = self.rotation_axes(q)
        # Axes are fixed in their carriers, which rotate relative to the frame of the link.
        return v[0] * v[1] * cross(first, second) + v[2] * cross(v[0] * first + v[1] * second, third)


@jax.jit
def axis_rotation(axis: Float[Array, "3"], angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    """The rotation by an angle about a unit vector (Rodrigues' formula)."""
    outer = jnp.outer(axis, axis)
    return outer + jnp.cos(angle) * (jnp.eye(3) - outer) + jnp.sin(angle) * hat(axis)


class BallMotion(AbstractJointMotion):
    """Free rotation about the origin of the link: q a unit quaternion, v the relative angular velocity, body-fixed."""

    initial: Pose

    @property
    def space(self) -> S3:
        return S3()

    @jax.jit
    def pose(self, q: Point) -> Pose:
        return Pose(self.initial.x, self.initial.R @ S3().to_matrix(q))

    def rotation_axes(self, q: Point) -> Rows:
        return constant(np.eye(3))


class FreeMotion(AbstractRelativeMotion):
    """A rigid body without a joint: q = (R, x) in SE(3), v = (Ω, U) both body-fixed."""

    @property
    def space(self) -> SE3:
        return SE3()

    def pose(self, q: Point) -> Pose:
        return Pose(q[1], q[0])

    def rotation_axes(self, q: Point) -> Rows:
        return constant(np.eye(6, 3))

    def translation_axes(self, q: Point) -> Rows:
        return jnp.concatenate((np.zeros((3, 3)), q[0].T))

    def displacements(self, q: Point, A: Float[Array, "3 3"]) -> Rows:
        return constant(np.eye(6, 3, -3))

    @jax.jit
    def sliding_drift(self, q: Point, v: Vector) -> Float[Array, "3"]:
        return q[0] @ cross(v[:3], v[3:])


class PointMotion(AbstractRelativeMotion):
    """The first `size` Cartesian coordinates of a mass point, or of a single coordinate."""

    size: int = eqx.field(static=True)

    @property
    def space(self) -> Rn:
        return Rn(self.size)

    def pose(self, q: Point) -> Pose:
        return Pose(jnp.concatenate((q, np.zeros(3 - self.size))), constant(np.eye(3)))

    def translation_axes(self, q: Point) -> Rows:
        return constant(np.eye(self.size, 3))
