"""The sphere and its tangent bundle as homogeneous spaces."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces import quaternions, small_angle
from polhode.spaces.base import AbstractSpace, cross, norm
from polhode.spaces.quaternions import Vector3
from polhode.spaces.rigid import SE3, Vector6
from polhode.spaces.rotations import SO3

TangentPoint = tuple[Vector3, Vector3]


class S2(AbstractSpace):
    """The unit sphere with SO(3) acting from the left: points q of shape (3,), |q| = 1, algebra elements ω of shape
    (3,) with q̇ = ω × q.

    The component of ω along q does not move q; `difference` returns none.
    """

    @property
    def dim(self) -> int:
        return 3

    @property
    def blocks(self) -> tuple[int, ...]:
        return (3,)

    def move(self, q: Vector3, theta: Vector3) -> Vector3:
        A, B = small_angle.a_b(theta @ theta)
        first = cross(theta, q)
        return q + A * first + B * cross(theta, first)

    def rate(self, theta: Vector3, v: Vector3) -> Vector3:
        return SO3().dexpinv(theta, v)

    def bracket(self, u: Vector3, v: Vector3) -> Vector3:
        return cross(u, v)

    def difference(self, q0: Vector3, q1: Vector3) -> Vector3:
        return quaternions.between(q0, q1)

    def origin(self) -> Vector3:
        return jnp.array([0.0, 0.0, 1.0])

    def residual(self, q: Vector3) -> Float[Array, ""]:
        return jnp.abs(norm(q) - 1)

    def project(self, q: Vector3) -> Vector3:
        return q / norm(q)

    def random(self, key: Array) -> Vector3:
        return self.project(jax.random.normal(key, (3,)))

    def scale(self, q: Vector3) -> Float[Array, "1"]:
        del q
        return jnp.ones(1)


class TS2(AbstractSpace):
    """The tangent bundle of the sphere with SE(3) acting from the left: points (q, ω) with |q| = 1, q·ω = 0.

    (A, a)·(q, ω) = (Aq, Aω + a × Aq); an algebra element (u, v) of shape (6,) gives q̇ = u × q, ω̇ = u × ω + v × q. The
    motion q̇ = ω × q, ω̇ = w with w·q = 0 has the algebra element (ω, q × w). The action keeps |q| and q·ω exactly.
    Celledoni et al., "Lie group integrators for mechanical systems", §4.2.
    """

    @property
    def dim(self) -> int:
        return 6

    @property
    def blocks(self) -> tuple[int, ...]:
        return (3, 3)

    def move(self, q: TangentPoint, theta: Vector6) -> TangentPoint:
        R, a = SE3().increment(theta)
        direction = R @ q[0]
        return direction, R @ q[1] + cross(a, direction)

    def rate(self, theta: Vector6, v: Vector6) -> Vector6:
        return SE3().dexpinv(theta, v)

    def bracket(self, u: Vector6, v: Vector6) -> Vector6:
        return SE3().ad(u, v)

    def difference(self, q0: TangentPoint, q1: TangentPoint) -> Vector6:
        """The smallest rotation between the directions, then the smallest a with a × q = the change of ω left over."""
        u = quaternions.between(q0[0], q1[0])
        a = cross(q1[0], q1[1] - SO3().increment(u) @ q0[1])
        return jnp.concatenate((u, SO3().dexpinv(u, a)))

    def origin(self) -> TangentPoint:
        return jnp.array([0.0, 0.0, 1.0]), jnp.zeros(3)

    def residual(self, q: TangentPoint) -> Float[Array, ""]:
        return jnp.maximum(jnp.abs(norm(q[0]) - 1), jnp.abs(q[0] @ q[1]))

    def project(self, q: TangentPoint) -> TangentPoint:
        direction = q[0] / norm(q[0])
        return direction, q[1] - (direction @ q[1]) * direction

    def random(self, key: Array) -> TangentPoint:
        first, second = jax.random.split(key)
        return self.project((jax.random.normal(first, (3,)), jax.random.normal(second, (3,))))

    def scale(self, q: TangentPoint) -> Float[Array, "2"]:
        return jnp.stack((jnp.ones(()), norm(q[1])))
