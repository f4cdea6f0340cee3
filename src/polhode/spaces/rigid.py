"""Rigid displacements: the semidirect products SO(3)⋉R³ and S³⋉R³."""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces import small_angle
from polhode.spaces.base import AbstractGroup, cross, norm
from polhode.spaces.quaternions import Vector3
from polhode.spaces.rotations import S3, SO3, AbstractRotationGroup, RotationVector

Vector6 = Float[Array, "6"]
RigidPoint = tuple[Any, Vector3]
Scalar = Float[Array, ""]


class AbstractRigidGroup(AbstractGroup):
    r"""A group with the Lie algebra se(3): points (R, x), velocities (Ω, U) with Ṙ = R hat(Ω), ẋ = R U.

    Composition (a, x)(b, y) = (ab, x + a y), so Ω and U are both body-fixed. dexp and dexpinv are the exact
    analytic functions of ad of Celledoni et al., "Lie group integrators for mechanical systems", §2.3.
    """

    @property
    @abc.abstractmethod
    def rotations(self) -> AbstractRotationGroup:
        """The group in which the rotational part is stored."""

    @property
    def dim(self) -> int:
        return 6

    @property
    def blocks(self) -> tuple[int, ...]:
        return (3, 3)

    def origin(self) -> RigidPoint:
        return self.rotations.origin(), jnp.zeros(3)

    def compose(self, a: RigidPoint, b: RigidPoint) -> RigidPoint:
        return self.rotations.compose(a[0], b[0]), a[1] + self.rotations.Ad(a[0], b[1])

    def inverse(self, a: RigidPoint) -> RigidPoint:
        return self.rotations.inverse(a[0]), -self.rotations.Ad_dual(a[0], a[1])

    def exp(self, theta: Vector6) -> RigidPoint:
        rotation, U = theta[:3], theta[3:]
        B, C = small_angle.b_c_any(rotation @ rotation)
        return self.rotations.exp(rotation), _translate(rotation, U, B, C)

    def increment(self, theta: Vector6) -> RigidPoint:
        rotation, U = theta[:3], theta[3:]
        B, C = small_angle.b_c(rotation @ rotation)
        return self.rotations.increment(rotation), _translate(rotation, U, B, C)

    def log(self, q: RigidPoint) -> Vector6:
        rotation = self.rotations.log(q[0])
        return jnp.concatenate((rotation, self.rotations.dexpinv(rotation, q[1])))

    def Ad(self, q: RigidPoint, v: Vector6) -> Vector6:
        rotation = self.rotations.Ad(q[0], v[:3])
        return jnp.concatenate((rotation, self.rotations.Ad(q[0], v[3:]) + cross(q[1], rotation)))

    def ad(self, u: Vector6, v: Vector6) -> Vector6:
        return jnp.concatenate((cross(u[:3], v[:3]), cross(u[:3], v[3:]) + cross(u[3:], v[:3])))

    def Ad_dual(self, q: RigidPoint, mu: Vector6) -> Vector6:
        Pi, Gamma = mu[:3], mu[3:]
        transpose = self.rotations.Ad_dual
        return jnp.concatenate((transpose(q[0], Pi - cross(q[1], Gamma)), transpose(q[0], Gamma)))

    def ad_dual(self, u: Vector6, mu: Vector6) -> Vector6:
        Pi, Gamma = mu[:3], mu[3:]
        return jnp.concatenate((cross(Pi, u[:3]) + cross(Gamma, u[3:]), cross(Gamma, u[:3])))

    def coadjoint(self, q: RigidPoint, mu: Vector6) -> Vector6:
        Gamma = self.rotations.Ad(q[0], mu[3:])
        return jnp.concatenate((self.rotations.Ad(q[0], mu[:3]) + cross(q[1], Gamma), Gamma))

    def dexp(self, theta: Vector6, v: Vector6) -> Vector6:
        B, C, D, E = small_angle.b_c_d_e(theta[:3] @ theta[:3])
        return _function_of_ad(theta, v, B, C, -D, -E)

    def dexpinv(self, theta: Vector6, v: Vector6) -> Vector6:
        f, g = small_angle.f_g(theta[:3] @ theta[:3])
        return _function_of_ad(theta, v, -0.5, f, 0.0, g)

    def dexp_dual(self, theta: Vector6, mu: Vector6) -> Vector6:
        # ad_dual(u, ·) on (Γ, Π) is ad(-u, ·), so transposes are the same functions at -θ with the halves swapped
        return _swap(self.dexp(-theta, _swap(mu)))

    def dexpinv_dual(self, theta: Vector6, mu: Vector6) -> Vector6:
        return _swap(self.dexpinv(-theta, _swap(mu)))

    def residual(self, q: RigidPoint) -> Scalar:
        return self.rotations.residual(q[0])

    def project(self, q: RigidPoint) -> RigidPoint:
        return self.rotations.project(q[0]), q[1]

    def random(self, key: Array) -> RigidPoint:
        rotation, translation = jax.random.split(key)
        return self.rotations.random(rotation), jax.random.normal(translation, (3,))

    def scale(self, q: RigidPoint) -> Float[Array, "2"]:
        return jnp.stack((jnp.ones(()), norm(q[1])))


class SE3(AbstractRigidGroup):
    """Special Euclidean group: points (R, x) with a rotation matrix (3, 3) and a position (3,)."""

    @property
    def rotations(self) -> AbstractRotationGroup:
        return SO3()


class S3R3(AbstractRigidGroup):
    """Semidirect product S³⋉R³: points (p, x) with a unit quaternion (4,) and a position (3,)."""

    @property
    def rotations(self) -> AbstractRotationGroup:
        return S3()


class RotationVectorR3(AbstractRigidGroup):
    """Rigid displacements with the rotation as a vector: points (ψ, x), see `RotationVector`."""

    @property
    def rotations(self) -> AbstractRotationGroup:
        return RotationVector()


def _translate(theta: Vector3, U: Vector3, B: Scalar, C: Scalar) -> Vector3:
    first = cross(theta, U)
    return U + B * first + C * cross(theta, first)


def _swap(mu: Vector6) -> Vector6:
    return jnp.concatenate((mu[3:], mu[:3]))


def _function_of_ad(
    theta: Vector6, v: Vector6, g1: Scalar | float, g2: Scalar, h1: Scalar | float, h2: Scalar
) -> Vector6:
    """φ(ad_θ) v for φ(iz) = 1 - z² g2(z) + i z g1(z); h1 = g1'(z)/z, h2 = g2'(z)/z at z = |θ_rotation|."""
    A, a = theta[:3], theta[3:]
    B, b = v[:3], v[3:]
    AB = cross(A, B)
    AAB = cross(A, AB)
    cross_terms = cross(a, B) + cross(A, b)
    translation = b + g1 * cross_terms + g2 * (cross(a, AB) + cross(A, cross_terms)) + (A @ a) * (h1 * AB + h2 * AAB)
    return jnp.concatenate((B + g1 * AB + g2 * AAB, translation))
