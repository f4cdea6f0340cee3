"""The tangent operator T of a step's increment, and its product with block matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import map_rows
from polhode.linalg.blocks import Blocks, Matrix
from polhode.spaces.base import AbstractSpace, Vector
from polhode.spaces.linear import Rn
from polhode.spaces.powers import Power, PowerGroup
from polhode.spaces.products import AbstractProduct

_LOOP_COORDINATES = 48
"""Coordinates from which on blocks are multiplied one after the other: 464 µs for a rod of 128 edges all at once."""


def times_tangent(matrix: Matrix, space: AbstractSpace, theta: Vector) -> Matrix:
    r"""`matrix` times T(θ), the inverse of `space.rate(θ, ·)`: $T v = v + ½[θ, v] + ⅙[θ, [θ, v]] + O(θ^3)$.

    T couples only the coordinates of one factor of a product space. So the result has the places of `matrix`,
    whose blocks should hold all columns of a factor or none: products outside a block are dropped. With that and
    the truncated series this is for iteration matrices, whose errors cost iterations but no accuracy.
    """
    sizes = _factors(space)
    largest = max(sizes, default=0)
    if largest <= 1:
        return matrix
    dim = space.dim
    factor = np.repeat(np.arange(len(sizes)), sizes)
    local = np.concatenate([np.arange(size) for size in sizes])
    # One application of T gives a column of every factor at once.
    columns = jnp.concatenate((*(_apply(space, theta, jnp.asarray(local == k, float)) for k in range(largest)), _ZERO))

    def times(group: Blocks) -> Blocks:
        cols = group.cols.numbers
        same_factor = factor[cols][:, :, None] == factor[cols][:, None, :]
        where = np.where(same_factor, local[cols][:, None, :] * dim + cols[:, :, None], largest * dim)
        product = map_rows(
            lambda _, block, T: block @ T, None, group.values, columns[where], loop=dim >= _LOOP_COORDINATES
        )
        return Blocks(product, group.rows, group.cols)

    return tuple(map(times, matrix))


def tangent_operator(space: AbstractSpace, theta: Vector) -> Float[Array, "dim dim"] | None:
    """T(θ) as a matrix, as `times_tangent` has it; None for the identity."""
    if isinstance(space, Rn):
        return None
    return jax.vmap(lambda e: _apply(space, theta, e), out_axes=1)(jnp.eye(space.dim))


_ZERO = np.zeros(1)


def _apply(space: AbstractSpace, theta: Vector, v: Vector) -> Float[Array, " dim"]:
    once = space.bracket(theta, v)
    return v + once / 2 + space.bracket(theta, once) / 6


def _factors(space: AbstractSpace) -> tuple[int, ...]:
    """Numbers of coordinates of the factors that a product space consists of."""
    if isinstance(space, AbstractProduct):
        return tuple(size for factor in space.spaces for size in _factors(factor))
    if isinstance(space, Power | PowerGroup):
        return _factors(space.space) * space.n
    if isinstance(space, Rn):
        return (1,) * space.dim
    return (space.dim,)
