"""Relative coordinates of bodies: of joints, for controllers and plots."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.joints._frames import point_position
from polhode.multibody.mechanism.angles import PlacedAngle
from polhode.multibody.mechanism.coordinate_forces import AbstractRelativeCoordinate as AbstractRelativeCoordinate
from polhode.multibody.mechanism.coordinate_forces import Scalar
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.spaces.base import cross

_ZERO = np.zeros(())
"""Cannot be written, so that angles are immutable, and programs that read them have short keys."""
_ZERO.setflags(write=False)


class Angle(AbstractRelativeCoordinate):
    r"""Angle by which the second body has turned about an axis n of the first.

    With the frame $(e_1, e_2, n)$ of the first body and an axis c of the second that starts along $e_1$ it is
    $\mathrm{atan2}(R_0e_2\cdot R_1c,\ R_0e_1\cdot R_1c)$. Where c is parallel to n the angle is not defined; it is 0
    there, with derivative 0.

    **Arguments:**

    - `e1`, `e2`: frame of the first body, shape (3,).
    - `c`: frame of the second body, shape (3,).
    - `reference`: the angle whose turn `value` is in; systems replace it by the angle that they count.
    """

    e1: Float[Array, "3"]
    e2: Float[Array, "3"]
    c: Float[Array, "3"]
    reference: Float[Array, ""] = eqx.field(default_factory=lambda: _ZERO)

    def near(self, reference: Any) -> Angle:
        """The same angle with another reference."""
        return dataclasses.replace(self, reference=reference)

    @jax.jit
    def value(self, poses: Poses) -> Scalar:
        x, y, _ = self._components(poses)
        defined = x * x + y * y > 0
        angle = jnp.arctan2(jnp.where(defined, y, 0.0), jnp.where(defined, x, 1.0))
        return angle + 2 * np.pi * jnp.round((self.reference - angle) / (2 * np.pi))

    def angles(self, nodes: Sequence[int] | None = None) -> tuple[PlacedAngle, ...]:
        first, second = (0, 1) if nodes is None else nodes
        # JAX types what it compiles as attributes, not as methods.
        return (PlacedAngle(self, first, second),)  # pyrefly: ignore[bad-argument-type]

    @jax.jit
    def difference(self, poses: Poses, target: Any) -> Scalar:
        across, along = self.sine_and_cosine(poses, target)
        defined = across * across + along * along > 0
        return jnp.where(defined, jnp.arctan2(jnp.where(defined, across, 0.0), jnp.where(defined, along, 1.0)), 0.0)

    @jax.jit
    def sine_and_cosine(self, poses: Poses, target: Any) -> tuple[Scalar, Scalar]:
        """Sine and cosine of the angle minus `target`, times the sine between c and n, which is 1 in a closed joint."""
        x, y, _ = self._components(poses)
        cosine, sine = jnp.cos(target), jnp.sin(target)
        return y * cosine - x * sine, x * cosine + y * sine

    @jax.jit
    def rate(self, poses: Poses, twists: Twists) -> Scalar:
        return self._gradient(poses) @ (poses[1].R @ twists[1].omega - poses[0].R @ twists[0].omega)

    @jax.jit
    def wrenches(self, poses: Poses, strength: Any) -> tuple[Wrench, Wrench]:
        torque = strength * self._gradient(poses)
        none = jnp.zeros(3)
        return Wrench(-(poses[0].R.T @ torque), none), Wrench(poses[1].R.T @ torque, none)

    def _components(self, poses: Poses) -> tuple[Array, Array, Array]:
        c = poses[0].R.T @ (poses[1].R @ self.c)
        return self.e1 @ c, self.e2 @ c, c

    def _gradient(self, poses: Poses) -> Float[Array, "3"]:
        """Derivative along rotations of the second body, inertial frame; n while c is perpendicular to it."""
        x, y, c = self._components(poses)
        square = x * x + y * y
        return poses[0].R @ cross(c, x * self.e2 - y * self.e1) / jnp.where(square > 0, square, 1.0)


class Displacement(AbstractRelativeCoordinate):
    """Component along an axis of the first body of the way from a point of the first to a point of the second.

    **Arguments:**

    - `n`: unit vector in the frame of the first body, shape (3,).
    - `s0`, `s1`: the points in the frames of the bodies, shape (3,).
    """

    n: Float[Array, "3"]
    s0: Float[Array, "3"]
    s1: Float[Array, "3"]

    @jax.jit
    def difference(self, poses: Poses, target: Any) -> Scalar:
        return (poses[0].R @ self.n) @ (point_position(poses[1], self.s1) - point_position(poses[0], self.s0)) - target

    @jax.jit
    def rate(self, poses: Poses, twists: Twists) -> Scalar:
        first, second = poses
        reach = first.R.T @ (point_position(second, self.s1) - first.x)
        velocity = twists[1].u + second.R @ cross(twists[1].omega, self.s1) - twists[0].u
        # Relative to the first body; its rotation carries the place where the point of the second is now.
        return self.n @ (first.R.T @ velocity - cross(twists[0].omega, reach))

    @jax.jit
    def wrenches(self, poses: Poses, strength: Any) -> tuple[Wrench, Wrench]:
        first, second = poses
        reach = first.R.T @ (point_position(second, self.s1) - first.x)
        force = strength * (first.R @ self.n)
        return (
            Wrench(-strength * cross(reach, self.n), -force),
            Wrench(cross(self.s1, second.R.T @ force), force),
        )


class ReversedCoordinate(AbstractRelativeCoordinate):
    """The negative of a coordinate with the bodies exchanged.

    **Arguments:**

    - `inner`: coordinate whose first body is the second one here.
    """

    inner: AbstractRelativeCoordinate

    def difference(self, poses: Poses, target: Any) -> Scalar:
        return -self.inner.difference(poses[::-1], -target)

    def value(self, poses: Poses) -> Scalar:
        return -self.inner.value(poses[::-1])

    def angles(self, nodes: Sequence[int] | None = None) -> tuple[PlacedAngle, ...]:
        return self.inner.angles((1, 0) if nodes is None else nodes[::-1])

    def rate(self, poses: Poses, twists: Twists) -> Scalar:
        return -self.inner.rate(poses[::-1], twists[::-1])

    def wrenches(self, poses: Poses, strength: Any) -> tuple[Wrench, Wrench]:
        second, first = self.inner.wrenches(poses[::-1], -strength)
        return first, second


def is_angle(coordinate: Any) -> bool:
    """Whether a coordinate is an angle, from either side."""
    return isinstance(coordinate.inner if isinstance(coordinate, ReversedCoordinate) else coordinate, Angle)
