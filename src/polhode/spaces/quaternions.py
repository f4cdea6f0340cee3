"""Unit quaternions (w, x, y, z) with the Hamilton product, and their relation to matrices and rotation vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces import small_angle
from polhode.spaces.base import cross

Quaternion = Float[Array, "4"]
Vector3 = Float[Array, "3"]


@jax.jit
def multiply(p: Quaternion, q: Quaternion) -> Quaternion:
    """Hamilton product p∘q; the rotation q is applied first."""
    (w, u), (x, v) = (p[0], p[1:]), (q[0], q[1:])
    return _pair(w * x - u @ v, w * v + x * u + cross(u, v))


def conjugate(p: Quaternion) -> Quaternion:
    """The inverse of a unit quaternion."""
    return _pair(p[0], -p[1:])


@jax.jit
def rotate(p: Quaternion, v: Vector3) -> Vector3:
    """R(p) v for a unit quaternion."""
    twice = 2 * cross(p[1:], v)
    return v + p[0] * twice + cross(p[1:], twice)


@jax.jit
def to_matrix(p: Quaternion) -> Float[Array, "3 3"]:
    """Rotation matrix of a unit quaternion, body to inertial."""
    w, x, y, z = p[0], p[1], p[2], p[3]
    return jnp.stack(
        (
            jnp.stack((1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y))),
            jnp.stack((2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x))),
            jnp.stack((2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y))),
        )
    )


@jax.jit
def from_matrix(R: Float[Array, "3 3"]) -> Quaternion:
    """Unit quaternion of a rotation matrix, with w ≥ 0; accurate for every angle.

    The columns of 4 p pᵀ are linear in R; the one with the largest diagonal entry is a well-conditioned multiple of p.
    """
    p = _multiple_from_matrix(R)
    p = p / jnp.sqrt(p @ p)
    return jnp.where(p[0] < 0, -p, p)


@jax.jit
def _multiple_from_matrix(R: Float[Array, "3 3"]) -> Quaternion:
    x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    xy, xz, yz = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    ww = 1 + R[0, 0] + R[1, 1] + R[2, 2]
    xx = 1 + R[0, 0] - R[1, 1] - R[2, 2]
    yy = 1 - R[0, 0] + R[1, 1] - R[2, 2]
    zz = 1 - R[0, 0] - R[1, 1] + R[2, 2]
    upper = jnp.where(ww >= xx, jnp.stack((ww, x, y, z)), jnp.stack((x, xx, xy, xz)))
    lower = jnp.where(yy >= zz, jnp.stack((y, xy, yy, yz)), jnp.stack((z, xz, yz, zz)))
    return jnp.where(jnp.maximum(ww, xx) >= jnp.maximum(yy, zz), upper, lower)


@jax.jit
def vector_from_matrix(R: Float[Array, "3 3"]) -> Vector3:
    """Rotation vector θ of R = exp(θ), |θ| ≤ π."""
    return to_vector(_multiple_from_matrix(R))


@jax.jit
def to_vector(p: Quaternion) -> Vector3:
    """Rotation vector of ±p, the sign chosen so that its norm is at most π; p need not be normalised."""
    p = jnp.where(p[0] < 0, -p, p)
    v = p[1:]
    return 2 * small_angle.angle_over_sine(p[0], v @ v) * v


@jax.jit
def from_vector(theta: Vector3) -> Quaternion:
    """Unit quaternion (cos(|θ|/2), sin(|θ|/2) θ/|θ|) of a rotation vector of any length."""
    c, a = small_angle.half_angle_any(theta @ theta)
    return _pair(c, a * theta)


@jax.jit
def from_increment(theta: Vector3) -> Quaternion:
    """`from_vector` by polynomials only; NaN for |θ| > 6π."""
    c, a = small_angle.half_angle(theta @ theta)
    return _pair(c, a * theta)


def _pair(c: Float[Array, ""], v: Vector3) -> Quaternion:
    return jnp.concatenate((c[None], v))


@jax.jit
def between(a: Vector3, b: Vector3) -> Vector3:
    """The smallest rotation vector that turns the direction of a into that of b; zero if either vector is zero.

    Perpendicular to both; for opposite directions, where every perpendicular axis would do, one of them.
    """
    axis, c = cross(a, b), a @ b
    n2 = axis @ axis
    defined = (n2 > 0) | (c != 0)
    acute = small_angle.angle_over_sine(jnp.where(defined, jnp.abs(c), 1.0), n2)
    n = jnp.sqrt(jnp.where(n2 > 0, n2, 1.0))
    theta = jnp.where(c < 0, jnp.pi / n - acute, acute) * axis
    return jnp.where((n2 == 0) & (c < 0), jnp.pi * _perpendicular(a), theta)


def _perpendicular(a: Vector3) -> Vector3:
    """A unit vector perpendicular to a; an arbitrary unit vector for a = 0."""
    zero = jnp.zeros_like(a[0])
    p = jnp.where(a[0] * a[0] < 0.5 * (a @ a), jnp.stack((zero, a[2], -a[1])), jnp.stack((-a[2], zero, a[0])))
    s = p @ p
    return jnp.where(s > 0, p, jnp.ones(3)) / jnp.sqrt(jnp.where(s > 0, s, 3.0))
