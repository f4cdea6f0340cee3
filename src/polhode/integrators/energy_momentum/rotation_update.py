"""Rotation updates of steps on Livens' principle, and the levers that loads act on: two variants."""

from __future__ import annotations

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.spaces import quaternions
from polhode.spaces.base import hat
from polhode.systems.quaternion_body import E, E_transposed, G, G_transposed

Vector3 = Float[Array, "3"]
Quaternion = Float[Array, "4"]


class NodeStep(NamedTuple):
    """A node over a step: poses at both ends, the matrix that its loads act on, and its motion in the middle."""

    start: Pose
    end: Pose
    lever: Float[Array, "3 3"]
    middle: Pose
    twist: Twist
    share: Float[Array, ""]


class AbstractRotationUpdate(eqx.Module):
    """The attitude of a body over a step that turns it by the rotation vector ϑ, given as x = tan(|ϑ|/4) ϑ/|ϑ|.

    Arguments: `q0`, `v0`, `p0`: the attitude at the start, its rate and its momentum; `inertia`: about the centre.
    """

    @abc.abstractmethod
    def ratio(self, turn: Vector3) -> Float[Array, ""]:
        """Ratio of the motion of body-fixed points to that of quaternions."""

    @abc.abstractmethod
    def end_rates(
        self, h: Array, q0: Quaternion, v0: Quaternion, p0: Quaternion, turn: Vector3, inertia: Array
    ) -> tuple[Quaternion, Quaternion]:
        """v₁ and p₁."""

    @abc.abstractmethod
    def momentum_gain(
        self, h: Array, q0: Quaternion, v0: Quaternion, p0: Quaternion, turn: Vector3, inertia: Array
    ) -> Vector3:
        """Angular momentum gained in the inertial frame, which the moments of all loads must account for."""

    @abc.abstractmethod
    def lever_and_share(
        self, start: Pose, end: Pose, middle: Quaternion
    ) -> tuple[Float[Array, "3 3"], Float[Array, ""]]:
        """The matrix of levers, and the share of moments that is passed on; `middle`: the mean of the quaternions."""

    def node_step(self, h: Array, q0: Float[Array, "7"], x: Float[Array, "6"]) -> NodeStep:
        """A node from coordinates (x, quaternion) over increments (turn, move)."""
        turn, move = x[:3], x[3:]
        quaternion = rotate_quaternion(turn, q0[3:])
        start = Pose(q0[:3], quaternions.to_matrix(q0[3:]))
        end = Pose(q0[:3] + move, quaternions.to_matrix(quaternion))
        middle = 0.5 * (q0[3:] + quaternion)
        square = middle @ middle
        R = scaled_matrix(middle)
        omega = 4 * self.ratio(turn) / h * turn
        lever, share = self.lever_and_share(start, end, middle)
        pose = Pose(0.5 * (start.x + end.x), R / square)
        return NodeStep(start, end, lever, pose, Twist(R.T @ omega / square, move / h), share)


class InvariantRotationUpdate(AbstractRotationUpdate):
    """The mean angular velocity moves attitudes, and loads act on the mean of the rotation matrices."""

    def ratio(self, turn: Vector3) -> Float[Array, ""]:
        return 1 / (1 - turn @ turn)

    def end_rates(
        self, h: Array, q0: Quaternion, v0: Quaternion, p0: Quaternion, turn: Vector3, inertia: Array
    ) -> tuple[Quaternion, Quaternion]:
        del p0
        q1, omega = rotate_quaternion(turn, q0), self._rate(h, q0, v0, turn)
        return 0.5 * G_transposed(q1, omega), 2 * G_transposed(q1, inertia @ omega)

    def momentum_gain(
        self, h: Array, q0: Quaternion, v0: Quaternion, p0: Quaternion, turn: Vector3, inertia: Array
    ) -> Vector3:
        spin = inertia @ self._rate(h, q0, v0, turn)
        return quaternions.rotate(rotate_quaternion(turn, q0), spin) - 0.5 * E(q0, p0)

    def lever_and_share(
        self, start: Pose, end: Pose, middle: Quaternion
    ) -> tuple[Float[Array, "3 3"], Float[Array, ""]]:
        return 0.5 * (start.R + end.R), jnp.ones(())

    def _rate(self, h: Array, q0: Quaternion, v0: Quaternion, turn: Vector3) -> Vector3:
        """Ω₁ from the mean R₀ᵀc/h of both, which is R₁ᵀc/h as well."""
        c = 4 * self.ratio(turn) * turn
        return 2 / h * quaternions.rotate(quaternions.conjugate(q0), c) - 2 * G(q0, v0)


class VectorRotationUpdate(AbstractRotationUpdate):
    """As published: quaternions move with the mean of their rates, and loads act on R of their mean."""

    def ratio(self, turn: Vector3) -> Float[Array, ""]:
        return jnp.ones(())

    def end_rates(
        self, h: Array, q0: Quaternion, v0: Quaternion, p0: Quaternion, turn: Vector3, inertia: Array
    ) -> tuple[Quaternion, Quaternion]:
        q1 = rotate_quaternion(turn, q0)
        v1 = 2 / h * (q1 - q0) - v0
        spin = inertia @ (G(q0, v0) + G(q1, v1))
        return v1, 2 * G_transposed(q0 + q1, spin) - p0

    def momentum_gain(
        self, h: Array, q0: Quaternion, v0: Quaternion, p0: Quaternion, turn: Vector3, inertia: Array
    ) -> Vector3:
        q1 = rotate_quaternion(turn, q0)
        change, middle = q1 - q0, 0.5 * (q0 + q1)
        spin = inertia @ (G(q0, v0) + G(q1, 2 / h * change - v0))
        # ½E(q̄)(Δp - h ∂T/∂q)
        return E(middle, 2 * G_transposed(middle, spin) + G_transposed(change, spin) - p0)

    def lever_and_share(
        self, start: Pose, end: Pose, middle: Quaternion
    ) -> tuple[Float[Array, "3 3"], Float[Array, ""]]:
        return scaled_matrix(middle), middle @ middle


ROTATION_UPDATES: dict[str, AbstractRotationUpdate] = {
    "invariant": InvariantRotationUpdate(),
    "vector": VectorRotationUpdate(),
}


def rotate_quaternion(x: Float[Array, "3"], q: Float[Array, "4"]) -> Float[Array, "4"]:
    """q turned by the rotation vector ϑ in the inertial frame, x = tan(|ϑ|/4) ϑ/|ϑ|."""
    square = x @ x
    return (1 - square) / (1 + square) * q + 2 / (1 + square) * E_transposed(q, x)


def scaled_matrix(q: Float[Array, "4"]) -> Float[Array, "3 3"]:
    """|q|² times the rotation matrix."""
    w, v = q[0], q[1:]
    return (w * w - v @ v) * jnp.eye(3) + 2 * jnp.outer(v, v) + 2 * w * hat(v)
