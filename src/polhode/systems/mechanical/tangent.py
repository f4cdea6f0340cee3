"""Sums of M, C and K, of which iteration matrices of implicit methods consist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.linalg.blocks import Matrix, absolute, apply, scale_matrix
from polhode.linalg.tangent_operator import times_tangent
from polhode.spaces.base import Point, Vector

if TYPE_CHECKING:
    from polhode.systems.mechanical.abstract import AbstractMechanical


class Weights(NamedTuple):
    """Factors of M, C and K in a sum."""

    mass: Any
    damping: Any
    stiffness: Any


class Tangent(NamedTuple):
    """A sum of M, C and K.

    - `magnified`: for each row a bound of |K| |q| + |C| |v|: the round-off of forces that comes from that of positions
      and velocities, in units of 2⁻⁵².
    """

    matrix: Matrix
    magnified: Vector


def sum_of_tangents(
    system: AbstractMechanical, t: Array, q: Point, v: Vector, increment: Vector | None, weights: Weights
) -> Tangent:
    """The sum of matrices that the system has one by one; K times T at an increment, if there is one."""
    K, C = system.stiffness(t, q, v), system.damping(t, q, v)
    magnified = magnified_round_off(K, largest_coordinate(q), system.configuration.dim, system.n)
    magnified = magnified + magnified_round_off(C, largest_of(v), system.n, system.n)
    if increment is not None:
        K = times_tangent(K, system.configuration, increment)
    M = system.mass(t, q)
    return Tangent((*M, *scale_matrix(C, weights.damping), *scale_matrix(K, weights.stiffness)), magnified)


def magnified_round_off(matrix: Matrix, size: Array, cols: int, rows: int) -> Vector:
    """A bound of the product of a matrix with numbers of some size, row by row."""
    return apply(absolute(matrix), jnp.broadcast_to(size, (cols,)), rows)


def largest_coordinate(q: Point) -> Array:
    """The largest number in a point."""
    return jnp.max(jnp.stack([largest_of(part) for part in jax.tree.leaves(q)]))


def largest_of(x: Array) -> Array:
    """The largest absolute value; 0 of nothing."""
    return jnp.max(jnp.abs(x), initial=0.0)
