r"""Rescaled Rodrigues vectors α, along the axis, $|\alpha| = 2\tan(\theta/2)$.

They are infinite at half a turn. θ and θ - 2π have the same vector, so no shadow set leads past that; unit quaternions
do, of which α is twice the ratio of vector and scalar part. Small vectors are rotation vectors to order 3.

Source: C. Baker, M. Gonzalez, *Explicit variational time integrator based on rescaled Rodrigues parameters*.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces import quaternions
from polhode.spaces.base import cross
from polhode.spaces.quaternions import Quaternion, Vector3


def compose(a: Vector3, b: Vector3) -> Vector3:
    """The vector of R(a)R(b); the rotation b is applied first. Infinite where they make half a turn together."""
    return (a + b + 0.5 * cross(a, b)) / (1 - 0.25 * (a @ b))


def inverse(a: Vector3) -> Vector3:
    """The vector of R(a)ᵀ."""
    return -a


def to_quaternion(a: Vector3) -> Quaternion:
    """Unit quaternion, with w > 0."""
    q = jnp.concatenate((jnp.ones(1, a.dtype), 0.5 * a))
    return q / jnp.sqrt(q @ q)


def from_quaternion(q: Quaternion) -> Vector3:
    """The vector of a quaternion of any length and sign; infinite for half a turn."""
    return 2 * q[1:] / q[0]


def to_matrix(a: Vector3) -> Float[Array, "3 3"]:
    """Rotation matrix, body to inertial."""
    return quaternions.to_matrix(to_quaternion(a))


def from_matrix(R: Float[Array, "3 3"]) -> Vector3:
    """The vector of a rotation matrix; infinite for half a turn."""
    return from_quaternion(quaternions.from_matrix(R))


def from_vector(theta: Vector3) -> Vector3:
    """The Rodrigues vector of a rotation vector, axis times angle."""
    return from_quaternion(quaternions.from_vector(theta))


def to_vector(a: Vector3) -> Vector3:
    """Rotation vector, shorter than π."""
    return quaternions.to_vector(to_quaternion(a))
