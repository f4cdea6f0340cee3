"""Bodies in Euler parameters: four coordinates of the rotation and the constraint of their norm."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.formulations.base import AbstractFormulation
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench
from polhode.spaces.base import AbstractGroup, Vector, cross, hat
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.spaces.quaternions import Quaternion, from_matrix

Point = tuple[Quaternion, Float[Array, "3"]]


class EulerParameters(AbstractFormulation):
    r"""q = (p, x) in R⁴×R³ with p = (e₀, e), v = (ṗ, u), and one constraint a body, $p\cdot p - 1 = 0$.

    R y = (e₀² - e·e) y + 2 e (e·y) + 2 e₀ e × y, without normalisation inside; ω = G(p) ṗ with
    G = 2 [-e | e₀ - ẽ], for which Ġṗ = 0 (S. Holzinger, M. Arnold & J. Gerstmayr).

    $G^T\Theta G$ has rank 3 of 4: nothing resists a change of |p|. The inertia $\tfrac43\mathrm{tr}(\Theta)\,pp^T$ is
    added there, which the norm constraint keeps from moving: it changes the multiplier of that constraint and nothing
    else, and the mass matrix can be inverted.
    """

    @property
    def space(self) -> AbstractGroup:
        return product(Rn(4), Rn(3))

    @property
    def internal(self) -> int:
        return 1

    def constraint(self, q: Point) -> Float[Array, "1"]:
        return (q[0] @ q[0] - 1)[None]

    def pose(self, q: Point) -> Pose:
        w, x, y, z = q[0]
        ww, xx, yy, zz = w * w, x * x, y * y, z * z
        wx, wy, wz, xy, xz, yz = 2 * w * x, 2 * w * y, 2 * w * z, 2 * x * y, 2 * x * z, 2 * y * z
        R = jnp.stack(
            (
                jnp.stack((ww + xx - yy - zz, xy - wz, xz + wy)),
                jnp.stack((xy + wz, ww - xx + yy - zz, yz - wx)),
                jnp.stack((xz - wy, yz + wx, ww - xx - yy + zz)),
            )
        )
        return Pose(q[1], R)

    def twist(self, q: Point, v: Vector) -> Twist:
        return Twist(_angular_velocity(q[0], v[:4]), v[4:])

    def from_pose(self, pose: Pose) -> Point:
        return from_matrix(pose.R), pose.x

    def from_twist(self, q: Point, twist: Twist) -> Vector:
        """ṗ = ¼ Gᵀω, which keeps the norm."""
        return jnp.concatenate((_pull_back_torque(q[0], twist.omega) / 4, twist.u))

    def jacobian(self, q: Point) -> Float[Array, "6 7"]:
        return jnp.block([[_matrix(q[0]), jnp.zeros((3, 3))], [jnp.zeros((3, 4)), jnp.eye(3)]])

    def mass(self, q: Point, mass: Array, inertia: Float[Array, "3 3"]) -> Float[Array, "7 7"]:
        p = q[0]
        return super().mass(q, mass, inertia) + _upper_left(4 / 3 * jnp.trace(inertia) * jnp.outer(p, p))

    def bias(self, q: Point, v: Vector) -> None:
        return None

    def pull_back(self, q: Point, wrench: Float[Array, "6"]) -> Vector:
        return jnp.concatenate((_pull_back_torque(q[0], wrench[:3]), wrench[3:]))

    def stiffness(
        self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]
    ) -> Float[Array, "7 7"]:
        """With G(δp)ṗ = -G(ṗ)δp: minus the derivative of G(p)ᵀ(τ - ω×Θω), linear in the first p."""
        p, rates = q[0], v[:4]
        omega = _angular_velocity(p, rates)
        load = wrench.torque - cross(omega, inertia @ omega)
        along = jax.vmap(lambda e: _pull_back_torque(e, load))(jnp.eye(4)).T
        return _upper_left(-along - _matrix(p).T @ _gyroscopic(omega, inertia) @ _matrix(rates))

    def damping(
        self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]
    ) -> Float[Array, "7 7"]:
        G = _matrix(q[0])
        return _upper_left(G.T @ _gyroscopic(_angular_velocity(q[0], v[:4]), inertia) @ G)


def _angular_velocity(p: Quaternion, rates: Quaternion) -> Float[Array, "3"]:
    """G(p) ṗ = 2 (e₀ė - ė₀e - e×ė)."""
    return 2 * (p[0] * rates[1:] - rates[0] * p[1:] - cross(p[1:], rates[1:]))


def _pull_back_torque(p: Quaternion, load: Float[Array, "3"]) -> Quaternion:
    """G(p)ᵀ τ = 2 (-e·τ, e₀τ + e×τ)."""
    return 2 * jnp.concatenate((-(p[1:] @ load)[None], p[0] * load + cross(p[1:], load)))


def _matrix(p: Quaternion) -> Float[Array, "3 4"]:
    """G(p)."""
    return 2 * jnp.concatenate((-p[1:, None], p[0] * jnp.eye(3) - hat(p[1:])), axis=1)


def _gyroscopic(omega: Float[Array, "3"], inertia: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """The derivative of ω × Θω with respect to ω."""
    return hat(omega) @ inertia - hat(inertia @ omega)


def _upper_left(block: Float[Array, "4 4"]) -> Float[Array, "7 7"]:
    """The block of the rotation in a matrix of all seven coordinates."""
    return jnp.block([[block, jnp.zeros((4, 3))], [jnp.zeros((3, 7))]])
