"""Constraint elements of bodies that roll on a plane or glide on an edge."""

from __future__ import annotations

import abc
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.joints._frames import point_position
from polhode.multibody.mechanism.elements import AbstractRollingElement
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists
from polhode.spaces.base import cross

Vector3 = Float[Array, "3"]


def velocity(pose: Pose, twist: Twist, point: Vector3) -> Vector3:
    """Velocity in the inertial frame of the material point of a body that is at `point`."""
    return twist.u + cross(pose.R @ twist.omega, point - pose.x)


class EdgeConstraint(AbstractRollingElement):
    """A point of body 1 doesn't move, relative to body 0, along an axis fixed in body 1.

    **Arguments:**

    - `s1`: the point, `across`: the axis, both in the frame of body 1, shape (3,).
    """

    slips: ClassVar[int] = 1

    s1: Vector3
    across: Vector3

    @property
    def size(self) -> int:
        return 1

    def slip(self, t: Array, poses: Poses, twists: Twists) -> Float[Array, "1"]:
        del t
        point = point_position(poses[1], self.s1)
        relative = velocity(poses[1], twists[1], point) - velocity(poses[0], twists[0], point)
        return ((poses[1].R @ self.across) @ relative)[None]


class AbstractContact(AbstractRollingElement):
    """A round body, body 1, touches a plane of body 0 at a point at which they have the same velocity.

    Residual: the gap along the normal, then the components of the velocity of body 1 relative to body 0 at the point of
    contact along two tangents of the plane.

    - `s0`, `normal`: a point of the plane and its unit normal towards body 1, in the frame of body 0.
    - `s1`: the centre in the frame of body 1.
    """

    slips: ClassVar[int] = 2

    s0: Vector3
    normal: Vector3
    s1: Vector3

    @property
    def size(self) -> int:
        return 3

    @abc.abstractmethod
    def arm(self, poses: Poses) -> Vector3:
        """From the centre to the lowest point of body 1, inertial frame."""

    @abc.abstractmethod
    def tangents(self, poses: Poses) -> Float[Array, "2 3"]:
        """Two perpendicular tangents of the plane, one a row, inertial frame."""

    def gap(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        del t
        lowest = point_position(poses[1], self.s1) + self.arm(poses)
        return ((poses[0].R @ self.normal) @ (lowest - point_position(poses[0], self.s0)))[None]

    def slip(self, t: Array, poses: Poses, twists: Twists) -> Float[Array, "2"]:
        del t
        point = point_position(poses[1], self.s1) + self.arm(poses)
        return self.tangents(poses) @ (velocity(poses[1], twists[1], point) - velocity(poses[0], twists[0], point))


class DiscContact(AbstractContact):
    """A thin disc on a plane, with tangents in the direction of rolling and to its left.

    **Arguments:** as of `AbstractContact`, and

    - `axis`: unit vector of the disc's axis in the frame of body 1; `radius`: of the disc.
    """

    axis: Vector3
    radius: Float[Array, ""]

    def arm(self, poses: Poses) -> Vector3:
        n, a = self._directions(poses)
        upright = n - (n @ a) * a
        return -self.radius / jnp.sqrt(upright @ upright) * upright

    def tangents(self, poses: Poses) -> Float[Array, "2 3"]:
        n, a = self._directions(poses)
        ahead = cross(a, n)
        ahead = ahead / jnp.sqrt(ahead @ ahead)
        return jnp.stack((ahead, cross(n, ahead)))

    def _directions(self, poses: Poses) -> tuple[Vector3, Vector3]:
        """Normal of the plane and axis of the disc, inertial frame."""
        return poses[0].R @ self.normal, poses[1].R @ self.axis


class BallContact(AbstractContact):
    """A ball on a plane, with tangents that are fixed in the plane.

    **Arguments:** as of `AbstractContact`, and

    - `along`: the tangents in the frame of body 0, one a row; `radius`: of the ball.
    """

    along: Float[Array, "2 3"]
    radius: Float[Array, ""]

    def arm(self, poses: Poses) -> Vector3:
        return -self.radius * (poses[0].R @ self.normal)

    def tangents(self, poses: Poses) -> Float[Array, "2 3"]:
        return self.along @ poses[0].R.T
