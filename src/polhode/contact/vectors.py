"""Small vectors with derivatives that stay finite where a length vanishes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Vector = Float[Array, "3"]

UP: Any = np.array([0.0, 0.0, 1.0])
"""The direction z."""

_EAST: Any = np.array([1.0, 0.0, 0.0])
_RING: Any = np.array([[np.cos(a), np.sin(a)] for a in np.arange(8) * np.pi / 4])

_TINY = 1e-200
"""Squared lengths that count as zero."""


def root(square: Float[Array, " *n"]) -> Float[Array, " *n"]:
    """The square root of numbers that aren't negative, with derivative zero at zero."""
    positive = square > _TINY
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


def norm(a: Float[Array, " n"]) -> Float[Array, ""]:
    """The length of a vector, with derivative zero at zero."""
    return root(a @ a)


def unit_or(a: Vector, fallback: Vector) -> Vector:
    """The direction of a vector; `fallback` if it is zero."""
    square = a @ a
    positive = square > _TINY
    return jnp.where(positive, a / jnp.sqrt(jnp.where(positive, square, 1.0)), fallback)


def turn(v: Vector, pole: Vector, direction: Vector) -> Vector:
    """`v` under the smallest rotation from one unit vector to another, which must not be its negative."""
    middle = pole + direction
    return v - (v @ middle) / (1 + pole @ direction) * middle + 2 * (pole @ v) * direction


def turn_from_z(n: Vector) -> Float[Array, "3 3"]:
    """A rotation whose third column is the unit vector `n`: about an axis in the plane x, y, for either sign of n_z."""
    sign = jnp.where(n[2] < 0, -1.0, 1.0)
    a = -1 / (sign + n[2])
    b = n[0] * n[1] * a
    first = jnp.stack((1 + sign * n[0] * n[0] * a, sign * b, -sign * n[0]))
    second = jnp.stack((b, sign + n[1] * n[1] * a, -n[1]))
    return jnp.stack((first, second, n), axis=1)


def cross(a: Vector, b: Vector) -> Vector:
    """Cross product of two vectors."""
    return jnp.stack((a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]))


def largest(values: Float[Array, "3"]) -> Array:
    """The position of the largest of three numbers, as one of three flags."""
    a, b, c = values[0], values[1], values[2]
    first = (a >= b) & (a >= c)
    second = ~first & (b >= c)
    return jnp.stack((first, second, ~(first | second)))


def ring_directions(up: Array, across: Vector) -> Float[Array, "8 3"]:
    """Eight directions around z, counter-clockwise seen from the side `up` (1 or -1), beginning along `across`."""
    flat = unit_or(jnp.stack((across[0], across[1], jnp.zeros_like(up))), _EAST)
    aside = up * jnp.stack((-flat[1], flat[0], jnp.zeros_like(up)))
    return _RING[:, :1] * flat + _RING[:, 1:] * aside
