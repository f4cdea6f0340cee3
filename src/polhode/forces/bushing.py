"""The Cartesian bushing: springs and dampers along and about three axes."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero
from polhode.forces._pair import AbstractPairForce, force_wrench
from polhode.joints import _frames
from polhode.joints._frames import check_has_rotation, point_on, point_position
from polhode.joints.generic import IDENTITY
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.spaces.base import cross
from polhode.spaces.quaternions import vector_from_matrix
from polhode.spaces.rotations import SO3

Deformations = tuple[Float[Array, "3"], Float[Array, "3"] | None]
Matrices = tuple[Float[Array, "3 3"], Float[Array, "3 3"] | None]


class Deformation(eqx.Module):
    r"""Displacement of a frame of the second body from one of the first: r and the rotation vector θ.

    r is the way from point to point in axes of the first body; $\exp\tilde\theta = A_0R_0^TR_1A_1^T$, $|\theta|\le\pi$.

    **Arguments:**

    - `s0`, `s1`: the points in the frames of the bodies, shape (3,).
    - `A0`, `A1`: axes in the frames of the bodies as rows, shape (3, 3); None leaves rotations out.
    """

    s0: Float[Array, "3"]
    s1: Float[Array, "3"]
    A0: Float[Array, "3 3"]
    A1: Float[Array, "3 3"] | None

    def value(self, poses: Poses) -> Deformations:
        """r and θ."""
        first, second = poses
        r = self.A0 @ (first.R.T @ (point_position(second, self.s1) - point_position(first, self.s0)))
        if self.A1 is None:
            return r, None
        return r, vector_from_matrix((self.A0 @ first.R.T) @ (second.R @ self.A1.T))

    def rate(self, poses: Poses, twists: Twists) -> Deformations:
        """Time derivatives of r and θ."""
        first, second = poses
        velocity = twists[1].u + second.R @ cross(twists[1].omega, self.s1) - twists[0].u
        r_dot = self.A0 @ (first.R.T @ velocity - cross(twists[0].omega, self._reach(poses)))
        theta = self.value(poses)[1]
        if self.A1 is None or theta is None:
            return r_dot, None
        spin = self.A1 @ (twists[1].omega - second.R.T @ (first.R @ twists[0].omega))
        return r_dot, SO3().rate(theta, spin)

    def wrenches(self, poses: Poses, strengths: Deformations) -> tuple[Wrench, Wrench]:
        """Loads whose power is the product of the strengths with the rates."""
        first, second = poses
        along = self.A0.T @ strengths[0]
        force = first.R @ along
        on_first, on_second = Wrench(-cross(self._reach(poses), along), -force), force_wrench(second, self.s1, force)
        theta = self.value(poses)[1]
        if self.A1 is None or theta is None or strengths[1] is None:
            return on_first, on_second
        # The transpose of `rate`.
        torque = self.A1.T @ SO3().dexpinv(theta, strengths[1])
        reaction = first.R.T @ (second.R @ torque)
        return Wrench(on_first.torque - reaction, -force), Wrench(on_second.torque + torque, force)

    def _reach(self, poses: Poses) -> Float[Array, "3"]:
        """The point of the second body in the frame of the first."""
        return poses[0].R.T @ (point_position(poses[1], self.s1) - poses[0].x)


class ElasticBushing(AbstractForceElement):
    """Linear springs on a deformation: potential (rᵀK r + θᵀC θ)/2.

    **Arguments:**

    - `deformation`: r and θ.
    - `stiffness`: K and C, shape (3, 3) each; C None without rotations.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True

    deformation: Deformation
    stiffness: Matrices

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        r, theta = self.deformation.value(poses)
        K, C = self.stiffness
        energy = 0.5 * r @ (K @ r)
        return energy if C is None or theta is None else energy + 0.5 * theta @ (C @ theta)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        strengths = _times(self.stiffness, self.deformation.value(poses))
        return self.deformation.wrenches(poses, _minus(strengths))


class DampedBushing(AbstractForceElement):
    """Linear springs and dampers on a deformation.

    **Arguments:**

    - `elastic`: the springs.
    - `damping`: matrices that multiply the rates of r and θ, shape (3, 3) each; the second None without rotations.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    elastic: ElasticBushing
    damping: Matrices

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.elastic.potential(t, poses)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        deformation = self.elastic.deformation
        springs = _times(self.elastic.stiffness, deformation.value(poses))
        dampers = _times(self.damping, deformation.rate(poses, twists))
        return deformation.wrenches(poses, _minus(_plus(springs, dampers)))


@dataclasses.dataclass(frozen=True, eq=False)
class Bushing(AbstractPairForce):
    """Springs and dampers along and about three axes that move with the first body.

    Deformations are measured from the start: the displacement of the point in the axes of the first body, and the
    rotation vector, whose norm must stay below π.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`; the second may be a mass point if rotations are left out.
    - `point`: in the inertial frame at the initial time.
    - `stiffness`: force per length: a number, three numbers or a symmetric 3×3 matrix.
    - `damping`: force per speed, likewise.
    - `rotational_stiffness`, `rotational_damping`: torque per radian and per angular velocity, likewise.
    - `axes`: as rows, in the inertial frame at the initial time.
    - `name`: for messages.
    """

    point: Any
    stiffness: Any = 0.0
    damping: Any = 0.0
    rotational_stiffness: Any = 0.0
    rotational_damping: Any = 0.0
    axes: Any = IDENTITY
    name: str | None = None

    def place(self, poses: Poses) -> ElasticBushing | DampedBushing:
        K, D = (_matrix(name, getattr(self, name)) for name in ("stiffness", "damping"))
        C, E = (_matrix(name, getattr(self, name)) for name in ("rotational_stiffness", "rotational_damping"))
        check_has_rotation(self.first, type(self).__name__)
        rows = _frames.axes(self.axes)
        rotational = not (is_zero(C) and is_zero(E))
        if rotational:
            check_has_rotation(self.second, f"{type(self).__name__} with rotational stiffness or damping")
        s0, s1 = (point_on(body, pose, self.point) for body, pose in zip(self.bodies, poses, strict=True))
        deformation = Deformation(s0, s1, rows @ poses[0].R, rows @ poses[1].R if rotational else None)
        elastic = ElasticBushing(deformation, (K, C if rotational else None))
        if is_zero(D) and is_zero(E):
            return elastic
        return DampedBushing(elastic, (D, E if rotational else None))


def _matrix(name: str, value: Any) -> Float[Array, "3 3"]:
    shape = checks.shape(name, value, "for all axes or each")
    if shape == ():
        return checks.array(name, value, (), "for all three axes") * jnp.eye(3)
    if shape == (3,):
        return jnp.diag(checks.array(name, value, (3,), "for each axis"))
    matrix = checks.array(name, value, (3, 3), "a number, three numbers or a symmetric matrix")
    if checks.is_concrete(matrix) and not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0):
        raise ValueError(f"`{name}` must be symmetric, got {np.asarray(matrix).tolist()}.")
    return matrix


def _times(matrices: Matrices, y: Deformations) -> Deformations:
    (K, C), (r, theta) = matrices, y
    return K @ r, None if C is None or theta is None else C @ theta


def _plus(a: Deformations, b: Deformations) -> Deformations:
    return a[0] + b[0], None if a[1] is None or b[1] is None else a[1] + b[1]


def _minus(a: Deformations) -> Deformations:
    return -a[0], None if a[1] is None else -a[1]
