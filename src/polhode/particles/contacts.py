"""Contacts of spheres with each other: Hertz's law."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode.spaces.component_arrays import Vectors, dot, scale

_COINCIDENT = 1e-200
"""|d|² below which two centres coincide; above it, powers of 1/|d| in derivatives are finite."""


def overlap(d: Vectors, reach: Any) -> tuple[Array, Array]:
    """δ = [1 - |d|/D]₊ for D = `reach`, and 1/|d|; both zero for d = 0, or nearly."""
    square = dot(d, d)
    near = (square > _COINCIDENT) & (square < reach * reach)
    inverse = 1 / jnp.sqrt(jnp.where(near, square, 1.0))
    return jnp.where(near, 1 - 1 / (inverse * reach), 0.0), jnp.where(near, inverse, 0.0)


def hertz(stiffness: Any, delta: Array) -> Array:
    """K δ^{3/2}, with a derivative at zero."""
    return stiffness * delta * _root(delta)


def hertz_energy(stiffness: Any, delta: Array) -> Array:
    """(2/5) K δ^{5/2}."""
    return 0.4 * stiffness * delta * delta * _root(delta)


def _root(delta: Array) -> Array:
    positive = delta > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, delta, 1.0)), 0.0)


def push(stiffness: Any, reach: Any, length: Array) -> Array:
    """K/D δ^{3/2} at the distance `length`."""
    return hertz(stiffness, jnp.maximum(1 - length / reach, 0.0)) / reach


def force(stiffness: Any, damping: Any, d: Vectors, reach: Any, v: Vectors | None = None) -> Vectors:
    """The force on the end that sees d: K/D δ^{3/2} n, or with velocities -c n n·v while δ > 0."""
    delta, inverse = overlap(d, reach)
    if v is None:
        return scale(hertz(stiffness, delta) / reach * inverse, d)
    return scale(jnp.where(delta > 0, -damping, 0.0) * dot(d, v) * inverse * inverse, d)
