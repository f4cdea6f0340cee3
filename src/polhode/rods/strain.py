"""Strains of an edge between two nodes, times its length, for potentials and constraints of rods."""

from __future__ import annotations

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.mechanism.poses import Pose, Poses, Twists, Wrench, axial, rates
from polhode.spaces import small_angle
from polhode.spaces.base import cross
from polhode.spaces.quaternions import vector_from_matrix

Vector3 = Float[Array, "3"]
Vector6 = Float[Array, "6"]
Scalar = Float[Array, ""]


class Increment(NamedTuple):
    """d = (θ, U): rotation vector and translation of an edge, length times strain; f and g for derivatives."""

    theta: Vector3
    U: Vector3
    f: Scalar
    g: Scalar

    @property
    def vector(self) -> Vector6:
        """d, shape (6,)."""
        return jnp.concatenate((self.theta, self.U))


class AbstractStrain(eqx.Module):
    """The increment d = Δs·w of an edge as a function of two poses; loads and rates follow by differentiation."""

    @abc.abstractmethod
    def increment(self, poses: Poses) -> Increment:
        """d of the edge; unchanged by rigid motions of both nodes. Rotations between nodes stay below π."""

    def rate(self, poses: Poses, twists: Twists, d: Increment) -> Vector6:
        """Time derivative of d."""
        del d
        return jax.jvp(lambda p: self.increment(p).vector, (poses,), (rates(poses, twists),))[1]

    def loads(self, poses: Poses, d: Increment, stress: Vector6) -> tuple[Wrench, Wrench]:
        """The loads on both nodes whose power is minus stress times the rate of d."""
        del d
        gradients = jax.grad(lambda p: stress @ self.increment(p).vector)(poses)
        first, second = (
            Wrench(-axial(pose.R.T @ gradient.R), -gradient.x) for pose, gradient in zip(poses, gradients, strict=True)
        )
        return first, second

    def rows(self, poses: Poses, which: tuple[int, ...]) -> tuple[Float[Array, "k 6"], Float[Array, "k 6"]]:
        """Derivatives of components of d along (rotation, translation) of both nodes."""
        d = self.increment(poses)
        units = jnp.asarray(np.eye(6)[list(which)])
        loads = jax.vmap(lambda e: self.loads(poses, d, e))(units)
        first, second = (-jnp.concatenate((load.torque, load.force), axis=1) for load in loads)
        return first, second


class HelicalStrain(AbstractStrain):
    r"""$d = \log(q_0^{-1}q_1)$ in SE(3): the edge is a helix, the curve of constant strain through both poses.

    With $\dot d = T^{-1}(d)v_1 - T^{-1}(-d)v_0$, where v are body-fixed velocities; odd and even parts of T⁻¹ are
    shared between the nodes.

    ??? cite "Reference"
        Half-explicit Runge–Kutta Lie group integrators for constrained mechanical systems and beams (D. Tumiotto and
        co-authors), equation (23).
    """

    def increment(self, poses: Poses) -> Increment:
        first, second = poses
        theta = vector_from_matrix(first.R.T @ second.R)
        r = first.R.T @ (second.x - first.x)
        f, g = small_angle.f_g(theta @ theta)
        across = cross(theta, r)
        return Increment(theta, r - 0.5 * across + f * cross(theta, across), f, g)

    def rate(self, poses: Poses, twists: Twists, d: Increment) -> Vector6:
        (a0, b0), (a1, b1) = ((w.omega, pose.R.T @ w.u) for pose, w in zip(poses, twists, strict=True))
        a, b = a1 - a0, b1 - b0
        Oa = cross(d.theta, a)
        OOa, mixed = cross(d.theta, Oa), cross(d.U, a) + cross(d.theta, b)
        even = b + d.f * (cross(d.U, Oa) + cross(d.theta, mixed)) + d.g * (d.theta @ d.U) * OOa
        s, p = a1 + a0, b1 + b0
        odd = cross(d.theta, s), cross(d.U, s) + cross(d.theta, p)
        return jnp.concatenate((a + d.f * OOa + 0.5 * odd[0], even + 0.5 * odd[1]))

    def loads(self, poses: Poses, d: Increment, stress: Vector6) -> tuple[Wrench, Wrench]:
        m, n = stress[:3], stress[3:]
        On = cross(d.theta, n)
        OOn, mixed = cross(d.theta, On), cross(d.theta, m) + cross(d.U, n)
        even = m + d.f * (cross(d.theta, mixed) + cross(d.U, On)) + d.g * (d.theta @ d.U) * OOn
        force = poses[0].R @ (n + 0.5 * On + d.f * OOn)
        return Wrench(even + 0.5 * mixed, force), Wrench(0.5 * mixed - even, -force)


class StraightStrain(AbstractStrain):
    r"""$d = (\theta, R_m^T(x_1 - x_0))$ with $\theta = \log(R_0^TR_1)$ and $R_m = R_0\exp(\theta/2)$.

    The strain of SO(3)×R³, whose edges are straight lines with a section that turns: for comparison. It locks no shear
    either, because both parts are constant along the edge.
    """

    def increment(self, poses: Poses) -> Increment:
        first, second = poses
        theta = vector_from_matrix(first.R.T @ second.R)
        r = first.R.T @ (second.x - first.x)
        half = 0.5 * theta
        a, b = small_angle.a_b(half @ half)
        across = cross(half, r)
        zero = jnp.zeros(())
        return Increment(theta, r - a * across + b * cross(half, across), zero, zero)


MEASURES: dict[str, type[AbstractStrain]] = {"SE3": HelicalStrain, "SO3xR3": StraightStrain}
"""Strain measures by the group of their logarithm."""


def offset(pose: Pose, frame: Pose | None) -> Pose:
    """The pose of a frame that is fixed in a body; the body's own pose for None."""
    return pose if frame is None else Pose(pose.x + pose.R @ frame.x, pose.R @ frame.R)
