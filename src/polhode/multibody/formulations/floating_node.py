"""Nodes of flexible bodies, at which joints and forces act."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.formulations.base import AbstractFrame
from polhode.multibody.formulations.lie_groups import DirectProduct, SemidirectProduct
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.spaces.base import AbstractGroup, Point, Vector, cross, hat
from polhode.spaces.linear import Rn
from polhode.spaces.products import product

Frame = DirectProduct | SemidirectProduct


class FloatingNode(AbstractFrame):
    """A node of a flexible body: at r + Φη in its frame, turned by the Cayley map of Ψη.

    - `frame`: coordinates of the frame; `point`: r; `shape`: Φ; `turn`: Ψ, both (3, k), None if it keeps the axes.
    """

    frame: Frame
    point: Float[Array, "3"]
    shape: Float[Array, "3 k"]
    turn: Float[Array, "3 k"] | None

    @property
    def space(self) -> AbstractGroup:
        return frame_and_modes(self.frame, self.shape.shape[1])

    def pose(self, q: Point) -> Pose:
        rigid, eta = q
        x, R = self.frame.pose(rigid)
        return Pose(x + R @ self._place(eta), R if self.turn is None else R @ cayley(self.turn @ eta))

    def twist(self, q: Point, v: Vector) -> Twist:
        rigid, eta = q
        R, rate = self.frame.pose(rigid).R, v[6:]
        omega, u = self.frame.twist(rigid, v[:6])
        u_node = u + R @ (cross(omega, self._place(eta)) + self.shape @ rate)
        if self.turn is None:
            return Twist(omega, u_node)
        theta = self.turn @ eta
        return Twist(cayley(theta).T @ omega + cayley_rate(theta) @ (self.turn @ rate), u_node)

    def jacobian(self, q: Point) -> Float[Array, "6 n"]:
        R = self.frame.pose(q[0]).R
        along = jnp.eye(3) if self.frame.twist_is_fixed else R
        return self._rows(q[1], R, along)

    def body_jacobian(self, q: Point) -> Float[Array, "6 n"]:
        rigid, eta = q
        back = jnp.eye(3) if self.turn is None else cayley(self.turn @ eta).T
        return self._rows(eta, back, back @ self.frame.pose(rigid).R.T if self.frame.twist_is_fixed else back)

    def pull_back(self, q: Point, wrench: Float[Array, "6"]) -> Vector:
        rigid, eta = q
        torque, force = wrench[:3], self.frame.pose(rigid).R.T @ wrench[3:]
        modal = self.shape.T @ force
        if self.turn is not None:
            theta = self.turn @ eta
            modal = modal + self.turn.T @ (cayley_rate(theta).T @ torque)
            torque = cayley(theta) @ torque
        moment = torque + cross(self._place(eta), force)
        return jnp.concatenate((moment, wrench[3:] if self.frame.twist_is_fixed else force, modal))

    def load_slopes(self, q: Point, wrench: Float[Array, "6"]) -> Float[Array, "n n"]:
        """The derivative of `pull_back` along θ in move(q, θ) at a fixed wrench."""
        rigid, eta = q
        torque, force = wrench[:3], hat(self.frame.pose(rigid).R.T @ wrench[3:])
        zero, across = jnp.zeros((3, 3)), self.shape.T @ force
        along, modal = -force @ self.shape, jnp.zeros((eta.size, eta.size))
        if self.turn is not None:
            theta = self.turn @ eta
            along = along + jax.jacfwd(lambda x: cayley(x) @ torque)(theta) @ self.turn
            modal = self.turn.T @ jax.jacfwd(lambda x: cayley_rate(x).T @ torque)(theta) @ self.turn
        none = jnp.zeros((3, eta.size))
        return jnp.block(
            [
                [hat(self._place(eta)) @ force, zero, along],
                [zero if self.frame.twist_is_fixed else force, zero, none],
                [across, none.T, modal],
            ]
        )

    def _place(self, eta: Float[Array, " k"]) -> Float[Array, "3"]:
        return self.point + self.shape @ eta

    def _rows(self, eta: Array, Q: Float[Array, "3 3"], along: Float[Array, "3 3"]) -> Float[Array, "6 n"]:
        """J with velocities in the axes Q; `along`: those of the frame's velocity in these axes."""
        rotation, modal = jnp.eye(3), jnp.zeros((3, eta.size))
        if self.turn is not None:
            theta = self.turn @ eta
            rotation, modal = cayley(theta).T, cayley_rate(theta) @ self.turn
        return jnp.block([[rotation, jnp.zeros((3, 3)), modal], [-Q @ hat(self._place(eta)), along, Q @ self.shape]])


def frame_and_modes(frame: Frame, modes: int) -> AbstractGroup:
    """Coordinates of a frame, and amplitudes of modes."""
    return product(frame.space, Rn(modes))


def cayley(theta: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """The Cayley map: the rotation with 2 tan(½ angle) = |θ| about θ, to second order that by the vector θ."""
    turn = hat(theta)
    return jnp.eye(3) + 4.0 / (4.0 + theta @ theta) * (turn + 0.5 * turn @ turn)


def cayley_rate(theta: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """T of the body-fixed angular velocity Tθ̇ of `cayley`."""
    return 4.0 / (4.0 + theta @ theta) * (jnp.eye(3) - 0.5 * hat(theta))
