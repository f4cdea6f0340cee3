"""The rotation group as matrices, unit quaternions and rotation vectors."""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces import quaternions, small_angle
from polhode.spaces.base import AbstractGroup, cross, norm
from polhode.spaces.quaternions import Quaternion, Vector3

Matrix = Float[Array, "3 3"]


class AbstractRotationGroup(AbstractGroup):
    r"""A group with the Lie algebra so(3) = (R³, ×); velocities Ω are body-fixed, in rad per unit of time.

    dexp(θ) = 1 + B θ× + C (θ×)², dexpinv(θ) = 1 - ½ θ× + f (θ×)² (Celledoni et al., §2.3), with the
    functions of `small_angle`.
    """

    @property
    def dim(self) -> int:
        return 3

    @property
    def blocks(self) -> tuple[int, ...]:
        return (3,)

    @abc.abstractmethod
    def from_quaternion(self, p: Quaternion) -> Any:
        """The element that a unit quaternion stands for."""

    @abc.abstractmethod
    def to_quaternion(self, q: Any) -> Quaternion:
        """The unit quaternion of an element; which of its two signs is left open."""

    @abc.abstractmethod
    def to_matrix(self, q: Any) -> Matrix:
        """The rotation matrix of an element, body to inertial."""

    def ad(self, u: Vector3, v: Vector3) -> Vector3:
        return cross(u, v)

    def ad_dual(self, u: Vector3, mu: Vector3) -> Vector3:
        return cross(mu, u)

    def dexp(self, theta: Vector3, v: Vector3) -> Vector3:
        B, C = small_angle.b_c(theta @ theta)
        first = cross(theta, v)
        return v + B * first + C * cross(theta, first)

    def dexpinv(self, theta: Vector3, v: Vector3) -> Vector3:
        first = cross(theta, v)
        return v - 0.5 * first + small_angle.f(theta @ theta) * cross(theta, first)

    def dexp_dual(self, theta: Vector3, mu: Vector3) -> Vector3:
        return self.dexp(-theta, mu)

    def dexpinv_dual(self, theta: Vector3, mu: Vector3) -> Vector3:
        return self.dexpinv(-theta, mu)

    def coadjoint(self, q: Any, mu: Vector3) -> Vector3:
        return self.Ad(q, mu)

    def scale(self, q: Any) -> Float[Array, "1"]:
        del q
        return jnp.ones(1)


class SO3(AbstractRotationGroup):
    """Rotation matrices R of shape (3, 3), body to inertial: Ṙ = R hat(Ω)."""

    def origin(self) -> Matrix:
        return jnp.eye(3)

    def compose(self, a: Matrix, b: Matrix) -> Matrix:
        return a @ b

    def inverse(self, a: Matrix) -> Matrix:
        return a.T

    def exp(self, theta: Vector3) -> Matrix:
        return _rodrigues(theta, *small_angle.a_b_any(theta @ theta))

    def increment(self, theta: Vector3) -> Matrix:
        return _rodrigues(theta, *small_angle.a_b(theta @ theta))

    def log(self, q: Matrix) -> Vector3:
        return quaternions.vector_from_matrix(q)

    def Ad(self, q: Matrix, v: Vector3) -> Vector3:
        return q @ v

    def Ad_dual(self, q: Matrix, mu: Vector3) -> Vector3:
        return mu @ q

    def from_quaternion(self, p: Quaternion) -> Matrix:
        return quaternions.to_matrix(p)

    def to_quaternion(self, q: Matrix) -> Quaternion:
        return quaternions.from_matrix(q)

    def to_matrix(self, q: Matrix) -> Matrix:
        return q

    def residual(self, q: Matrix) -> Float[Array, ""]:
        # The triple product tells a rotation from a reflection.
        orientation = jnp.abs(q[:, 0] @ cross(q[:, 1], q[:, 2]) - 1)
        return jnp.maximum(jnp.max(jnp.abs(q.T @ q - jnp.eye(3))), orientation)

    def project(self, q: Matrix) -> Matrix:
        # Newton–Schulz iteration for the polar factor: unlike an SVD it can be differentiated at a rotation
        X = q * jnp.sqrt(3 / jnp.sum(q * q))
        for _ in range(8):
            X = 1.5 * X - 0.5 * X @ (X.T @ X)
        return X

    def random(self, key: Array) -> Matrix:
        return quaternions.to_matrix(_random_quaternion(key))


class S3(AbstractRotationGroup):
    """Unit quaternions p = (w, x, y, z): ṗ = ½ p∘(0, Ω), exp(θ) = (cos(|θ|/2), sin(|θ|/2) θ/|θ|).

    p and -p are the same rotation: `log` and `difference` return the rotation vector of norm at most π for either.
    """

    def origin(self) -> Quaternion:
        return jnp.array([1.0, 0.0, 0.0, 0.0])

    def compose(self, a: Quaternion, b: Quaternion) -> Quaternion:
        return quaternions.multiply(a, b)

    def inverse(self, a: Quaternion) -> Quaternion:
        return quaternions.conjugate(a)

    def exp(self, theta: Vector3) -> Quaternion:
        return quaternions.from_vector(theta)

    def increment(self, theta: Vector3) -> Quaternion:
        return quaternions.from_increment(theta)

    def log(self, q: Quaternion) -> Vector3:
        return quaternions.to_vector(q)

    def Ad(self, q: Quaternion, v: Vector3) -> Vector3:
        return quaternions.rotate(q, v)

    def Ad_dual(self, q: Quaternion, mu: Vector3) -> Vector3:
        return quaternions.rotate(quaternions.conjugate(q), mu)

    def from_quaternion(self, p: Quaternion) -> Quaternion:
        return p

    def to_quaternion(self, q: Quaternion) -> Quaternion:
        return q

    def to_matrix(self, q: Quaternion) -> Matrix:
        return quaternions.to_matrix(q)

    def residual(self, q: Quaternion) -> Float[Array, ""]:
        return jnp.abs(norm(q) - 1)

    def project(self, q: Quaternion) -> Quaternion:
        return q / norm(q)

    def random(self, key: Array) -> Quaternion:
        return _random_quaternion(key)


class RotationVector(AbstractRotationGroup):
    """Rotation vectors ψ of shape (3,), R = exp(ψ), composed through half-angle quaternions.

    Products are returned with |ψ| ≤ π (ψ is replaced by ψ(1 - 2π/|ψ|) beyond), so ψ jumps there while the rotation
    does not: never interpolate or subtract stored ψ, use `difference`. Composition as in Holzinger, Arnold &
    Gerstmayr, with the angle from atan2 instead of asin. Every |ψ| ≤ 2π is a point of the space.
    """

    def origin(self) -> Vector3:
        return jnp.zeros(3)

    def compose(self, a: Vector3, b: Vector3) -> Vector3:
        return quaternions.to_vector(quaternions.multiply(quaternions.from_increment(a), quaternions.from_increment(b)))

    def inverse(self, a: Vector3) -> Vector3:
        return -a

    def exp(self, theta: Vector3) -> Vector3:
        s = theta @ theta
        outside = s > jnp.pi**2
        w = jnp.sqrt(jnp.where(outside, s, 1.0))
        turns = jnp.round(w / (2 * jnp.pi))
        return jnp.where(outside, theta * (1 - 2 * jnp.pi * turns / w), theta)

    def increment(self, theta: Vector3) -> Vector3:
        return theta

    def log(self, q: Vector3) -> Vector3:
        return self.exp(q)

    def Ad(self, q: Vector3, v: Vector3) -> Vector3:
        return quaternions.rotate(quaternions.from_increment(q), v)

    def Ad_dual(self, q: Vector3, mu: Vector3) -> Vector3:
        return self.Ad(-q, mu)

    def from_quaternion(self, p: Quaternion) -> Vector3:
        return quaternions.to_vector(p)

    def to_quaternion(self, q: Vector3) -> Quaternion:
        return quaternions.from_increment(q)

    def to_matrix(self, q: Vector3) -> Matrix:
        return quaternions.to_matrix(quaternions.from_increment(q))

    def residual(self, q: Vector3) -> Float[Array, ""]:
        return jnp.maximum(norm(q) - 2 * jnp.pi, 0.0)

    def project(self, q: Vector3) -> Vector3:
        return self.exp(q)

    def random(self, key: Array) -> Vector3:
        return quaternions.to_vector(_random_quaternion(key))


def _random_quaternion(key: Array) -> Quaternion:
    q = jax.random.normal(key, (4,))
    return q / jnp.sqrt(q @ q)


@jax.jit
def _rodrigues(theta: Vector3, A: Float[Array, ""], B: Float[Array, ""]) -> Matrix:
    """1 + A hat(θ) + B hat(θ)²."""
    x, y, z = theta[0], theta[1], theta[2]
    Bx, By, Bz = B * x, B * y, B * z
    xx, yy, zz = Bx * x, By * y, Bz * z
    xy, xz, yz = Bx * y, Bx * z, By * z
    return jnp.stack(
        (
            jnp.stack((1 - (yy + zz), xy - A * z, xz + A * y)),
            jnp.stack((xy + A * z, 1 - (xx + zz), yz - A * x)),
            jnp.stack((xz - A * y, yz + A * x, 1 - (xx + yy))),
        )
    )
