"""Coordinates of one body: the interface."""

from __future__ import annotations

import abc
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.modules import Module
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench
from polhode.spaces.base import AbstractSpace, Point, Vector, cross


class AbstractFrame(Module):
    """A frame that moves with coordinates q and velocities v: a body, or a node of a deformable one."""

    @property
    @abc.abstractmethod
    def space(self) -> AbstractSpace:
        """The space of q."""

    @property
    def n(self) -> int:
        """Number of velocities."""
        return self.space.dim

    @property
    def twist_is_fixed(self) -> bool:
        """Whether J does not depend on q."""
        return False

    def move(self, q: Point, theta: Vector) -> Point:
        """The coordinates reached from q along θ, shape (n,)."""
        return self.space.move(q, theta)

    @abc.abstractmethod
    def pose(self, q: Point) -> Pose:
        """Position and rotation matrix."""

    @abc.abstractmethod
    def twist(self, q: Point, v: Vector) -> Twist:
        """Angular velocity (body) and velocity (inertial), linear in v."""

    def jacobian(self, q: Point) -> Float[Array, "6 n"] | None:
        """J, or None for the identity."""
        columns = jax.vmap(lambda e: jnp.concatenate(self.twist(q, e)))(jnp.eye(self.n))
        return columns.T

    def body_jacobian(self, q: Point) -> Float[Array, "6 n"] | None:
        """J with the velocity in the body frame: (Ω, Rᵀu) = diag(1, Rᵀ) J v; None for the identity."""
        J, turn = self.jacobian(q), _rotate_velocity(self.pose(q).R.T)
        return turn if J is None else turn @ J

    def pull_back(self, q: Point, wrench: Float[Array, "6"]) -> Vector:
        """Jᵀ times a wrench."""
        J = self.jacobian(q)
        return wrench if J is None else J.T @ wrench


class AbstractFormulation(AbstractFrame):
    r"""Coordinates of one body: the space of q, and the twist as a function of velocities, twist = J(q) v.

    With the wrench W on the body, inertia forces in the body frame and d'Alembert's principle,
    $M = J^T \mathrm{diag}(\Theta, m1) J$ and $f = J^T\,(W - (\omega\times\Theta\omega, 0) -
    \mathrm{diag}(\Theta, m1)\,\dot J v)$; the defaults form both by automatic differentiation of `pose` and `twist`.

    A deformable body has several frames, its `nodes`, of which the body is the first.
    """

    @property
    def nodes(self) -> int:
        """Number of frames of one body, its own included."""
        return 1

    def at(self, node: int) -> AbstractFrame:
        """One of its frames, by number."""
        del node
        return self

    @property
    def likeness(self) -> Hashable:
        """Key by which bodies are stacked: those with equal values."""
        return self

    @property
    def rotates(self) -> bool:
        """Whether bodies have an attitude."""
        return True

    @property
    def energetic(self) -> bool:
        """Whether motion has kinetic energy."""
        return True

    @property
    def regular(self) -> bool:
        """Whether every pose has coordinates, so that `from_pose` needs no concrete numbers."""
        return False

    @property
    def deforms(self) -> bool:
        """Whether bodies are deformable, with other inertia and inner energy than rigid ones."""
        return False

    @property
    def dissipative(self) -> bool:
        """Whether the body dissipates energy."""
        return False

    @property
    def moves_with_twist(self) -> bool:
        """Whether poses move with the twist also off the manifold of q, where some methods evaluate them."""
        return False

    @property
    def internal(self) -> int:
        """Number of constraints among the coordinates of one body, such as the norm of Euler parameters."""
        return 0

    @property
    def identity_kinematics(self) -> bool:
        """Whether `kinematics` is the identity."""
        return True

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

    def load_stiffness(
        self, q: Point, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]
    ) -> Float[Array, "n n"] | None:
        """Minus the derivative along θ of the generalised forces of fixed loads; None for zero."""
        return self.stiffness(q, jnp.zeros(self.n), wrench, mass, inertia)

    def relative_energy(self, q: Point, v: Vector, inertia: Float[Array, "3 3"]) -> Float[Array, ""]:
        """Kinetic energy relative to the centre of mass."""
        omega = self.twist(q, v).omega
        return 0.5 * omega @ inertia @ omega

    def spin(self, q: Point, v: Vector, inertia: Float[Array, "3 3"]) -> Float[Array, "3"]:
        """Angular momentum about the centre of mass, in the frame of the body."""
        return inertia @ self.twist(q, v).omega

    def strain_energy(self, q: Point) -> Float[Array, ""]:
        """Energy stored in deformation."""
        del q
        return jnp.zeros(())

    def inner_tangents(self) -> tuple[Float[Array, "n n"], Float[Array, "n n"]] | None:
        """Stiffness and damping of deformation; None if there is none."""
        return None


class AbstractTwistVelocities(AbstractFormulation):
    """Velocities (ω, u), the angular velocity in the body frame and u = ẋ in the inertial one: J is the identity."""

    @property
    def twist_is_fixed(self) -> bool:
        return True

    def twist(self, q: Point, v: Vector) -> Twist:
        return Twist(v[:3], v[3:])

    def from_twist(self, q: Point, twist: Twist) -> Vector:
        return jnp.concatenate(twist)

    def jacobian(self, q: Point) -> None:
        return None

    def bias(self, q: Point, v: Vector) -> None:
        return None

    def stiffness(self, *_: Any) -> None:
        return None


def _rotate_velocity(R: Float[Array, "3 3"]) -> Float[Array, "6 6"]:
    zero = jnp.zeros((3, 3))
    return jnp.block([[jnp.eye(3), zero], [zero, R]])


def rigid_mass(mass: Array, inertia: Float[Array, "3 3"]) -> Float[Array, "6 6"]:
    """diag(Θ, m1)."""
    zero = jnp.zeros((3, 3))
    return jnp.block([[inertia, zero], [zero, mass * jnp.eye(3)]])
