"""Many vectors and quaternions at once, component by component.

Tuples of arrays, one for each component, keep all arithmetic in long loops over contiguous numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import factorial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.spaces.small_angle import economise, polynomial

Vectors = tuple[Any, ...]
"""Three components."""

Quaternions = tuple[Any, ...]
"""Four components (w, x, y, z)."""


def columns(rows: Array) -> tuple[Array, ...]:
    """The components of an array of shape (n, k)."""
    return tuple(rows[:, k] for k in range(rows.shape[1]))


def rows(components: tuple[Array, ...]) -> Array:
    """The array of shape (n, k) of k components."""
    return jnp.stack(components, axis=1)


def select(a: tuple[Array, ...], which: Array) -> tuple[Array, ...]:
    """The vectors with these numbers."""
    return tuple(x[which] for x in a)


def map_components(f: Callable[..., Any], *vectors: Vectors) -> Vectors:
    """`f` of each component."""
    return tuple(f(*each) for each in zip(*vectors, strict=True))


def scale(s: Any, a: Vectors) -> Vectors:
    """s a."""
    return tuple(s * x for x in a)


def add(a: Vectors, b: Vectors) -> Vectors:
    """a + b."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def subtract(a: Vectors, b: Vectors) -> Vectors:
    """a - b."""
    return tuple(x - y for x, y in zip(a, b, strict=True))


def add_scaled(a: Vectors, s: Any, b: Vectors) -> Vectors:
    """a + s b."""
    return tuple(x + s * y for x, y in zip(a, b, strict=True))


def dot(a: Vectors, b: Vectors) -> Any:
    """a·b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vectors, b: Vectors) -> Vectors:
    """a × b."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def conjugate(p: Quaternions) -> Quaternions:
    """The inverse of unit quaternions."""
    return p[0], -p[1], -p[2], -p[3]


def rotate(p: Quaternions, a: Vectors) -> Vectors:
    """R(p) a for unit quaternions."""
    u = p[1:]
    twice = scale(2.0, cross(u, a))
    return add(add_scaled(a, p[0], twice), cross(u, twice))


def multiply(p: Quaternions, q: Quaternions) -> Quaternions:
    """p∘q."""
    w = p[0] * q[0] - dot(p[1:], q[1:])
    return (w, *add(add_scaled(scale(p[0], q[1:]), q[0], p[1:]), cross(p[1:], q[1:])))


def unit(p: Quaternions) -> Quaternions:
    """p/|p|."""
    return scale(1 / jnp.sqrt(p[0] * p[0] + dot(p[1:], p[1:])), p)


def spin_of(moments: Vectors, q: Quaternions, omega: Vectors) -> Vectors:
    """Angular momenta of bodies with these principal moments, attitudes and angular velocities, inertial frame."""
    return rotate(q, map_components(jnp.multiply, moments, rotate(conjugate(q), omega)))


def rate_of(moments: Vectors, q: Quaternions, spin: Vectors) -> Vectors:
    """Angular velocities of bodies with these angular momenta, inertial frame."""
    return rotate(q, map_components(lambda a, b: a / b, rotate(conjugate(q), spin), moments))


def rotate_by_rodrigues(half: Vectors, q: Quaternions) -> Quaternions:
    """q turned by the rescaled Rodrigues vector 2·`half` in the inertial frame, of length one again."""
    w = q[0] - dot(half, q[1:])
    u = add(add_scaled(q[1:], q[0], half), cross(half, q[1:]))
    return unit((w, *u))


_TERMS = 20
# asin(√u)/√u on [0, ½].
_ASIN = economise(
    [Fraction(factorial(2 * k), 4**k * factorial(k) ** 2 * (2 * k + 1)) for k in range(48)], _TERMS, Fraction(1, 2)
)


def relative_rotation(p: Quaternions, q: Quaternions) -> Vectors:
    """log(R(p) R(q)ᵀ), of length at most π, without branches and roots of zero."""
    w = p[0] * q[0] + dot(p[1:], q[1:])
    u = subtract(subtract(scale(q[0], p[1:]), scale(p[0], q[1:])), cross(p[1:], q[1:]))
    square = dot(u, u)
    small = square <= 0.5
    c = jnp.abs(w)
    series = polynomial(_ASIN, jnp.where(small, square, jnp.minimum(w * w, 0.5)))
    # A division at the end: XLA then computes the factor once, not in each component.
    factor = jnp.where(small, series, 0.5 * np.pi - c * series) / jnp.sqrt(jnp.where(small, 1.0, square))
    return scale(jnp.where(w < 0, -2.0, 2.0) * factor, u)
