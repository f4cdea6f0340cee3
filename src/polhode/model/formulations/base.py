"""Coordinates of one body: the interface."""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.model.poses import Pose, Twist, Wrench
from polhode.spaces.base import AbstractSpace, Point, Vector, cross


class AbstractFormulation(eqx.Module):
    r"""Coordinates of one body: where q lives, and how the twist follows from velocities, twist = J(q) v.

    With the wrench W on the body, inertia forces in the body frame and d'Alembert's principle,
    $M = J^T \mathrm{diag}(\Theta, m1) J$ and $f = J^T\,(W - (\omega\times\Theta\omega, 0) -
    \mathrm{diag}(\Theta, m1)\,\dot J v)$; the defaults form both by automatic differentiation of `pose` and `twist`.
    """

    @property
    @abc.abstractmethod
    def space(self) -> AbstractSpace:
        """Configuration space of one body."""

    @property
    def n(self) -> int:
        """Number of velocities of one body."""
        return self.space.dim

    @property
    def internal(self) -> int:
        """Number of constraints among the coordinates of one body, such as the norm of Euler parameters."""
        return 0

    @property
    def holonomic_velocities(self) -> bool:
        """Whether the velocities are those with which q moves, so that `kinematics` is the identity."""
        return True

    @property
    def twist_is_fixed(self) -> bool:
        """Whether J does not depend on q."""
        return False

    @abc.abstractmethod
    def pose(self, q: Point) -> Pose:
        """Position and rotation matrix."""

    @abc.abstractmethod
    def twist(self, q: Point, v: Vector) -> Twist:
        """Angular velocity (body) and velocity (inertial), linear in v."""

    @abc.abstractmethod
    def from_pose(self, pose: Pose) -> Point:
        """The coordinates of a pose."""

    @abc.abstractmethod
    def from_twist(self, q: Point, twist: Twist) -> Vector:
        """The velocities with a given twist."""

    def kinematics(self, q: Point, v: Vector) -> Vector:
        """The algebra element with which q moves."""
        del q
        return v

    def constraint(self, q: Point) -> Float[Array, " internal"]:
        """Internal constraints."""
        del q
        return jnp.zeros(0)

    def jacobian(self, q: Point) -> Float[Array, "6 n"] | None:
        """J, or None for the identity."""
        columns = jax.vmap(lambda e: jnp.concatenate(self.twist(q, e)))(jnp.eye(self.n))
        return columns.T

    def body_jacobian(self, q: Point) -> Float[Array, "6 n"] | None:
        """J with the velocity in the body frame: (Ω, Rᵀu) = diag(1, Rᵀ) J v; None for the identity."""
        J, turn = self.jacobian(q), _turned(self.pose(q).R.T)
        return turn if J is None else turn @ J

    def bias(self, q: Point, v: Vector) -> Float[Array, "6"] | None:
        """J̇v, the accelerations when v does not change, or None for zero."""
        move = self.space.move
        flow = lambda s: jnp.concatenate(self.twist(move(q, s * self.kinematics(q, v)), v))  # noqa: E731
        return jax.jvp(flow, (jnp.zeros(()),), (jnp.ones(()),))[1]

    def mass(self, q: Point, mass: Array, inertia: Float[Array, "3 3"]) -> Float[Array, "n n"]:
        """M of one body."""
        M = rigid_mass(mass, inertia)
        J = self.jacobian(q)
        return M if J is None else J.T @ M @ J

    def force(self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]) -> Vector:
        """f of one body."""
        omega = self.twist(q, v).omega
        load = jnp.concatenate((wrench.torque - cross(omega, inertia @ omega), wrench.force))
        bias = self.bias(q, v)
        if bias is not None:
            load = load - rigid_mass(mass, inertia) @ bias
        return self.pull_back(q, load)

    def stiffness(
        self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]
    ) -> Float[Array, "n n"] | None:
        """Minus the derivative of `force` along θ in move(q, θ) at fixed wrench, or None for zero."""
        move = self.space.move
        return -jax.jacfwd(lambda theta: self.force(move(q, theta), v, wrench, mass, inertia))(jnp.zeros(self.n))

    def damping(
        self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]
    ) -> Float[Array, "n n"] | None:
        """Minus the derivative of `force` with respect to v, or None for zero."""
        return -jax.jacfwd(lambda u: self.force(q, u, wrench, mass, inertia))(v)

    def pull_back(self, q: Point, wrench: Float[Array, "6"]) -> Vector:
        """Jᵀ times a wrench."""
        J = self.jacobian(q)
        return wrench if J is None else J.T @ wrench


def _turned(R: Float[Array, "3 3"]) -> Float[Array, "6 6"]:
    zero = jnp.zeros((3, 3))
    return jnp.block([[jnp.eye(3), zero], [zero, R]])


def rigid_mass(mass: Array, inertia: Float[Array, "3 3"]) -> Float[Array, "6 6"]:
    """diag(Θ, m1)."""
    zero = jnp.zeros((3, 3))
    return jnp.block([[inertia, zero], [zero, mass * jnp.eye(3)]])
