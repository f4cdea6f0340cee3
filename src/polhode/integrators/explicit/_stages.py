"""Shared parts of explicit one-step methods: right-hand sides, combinations, and interpolation on the manifold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.systems.vector_field import VectorField

Tree = TypeVar("Tree", bound=Any)


def combine(h: Array, weights: Sequence[float] | np.ndarray, values: Sequence[Vector]) -> Vector | None:
    """h Σ wᵢ vᵢ over the non-zero weights; None if there are none."""
    terms = [float(w) * v for w, v in zip(weights, values, strict=False) if w != 0]
    return h * sum(terms[1:], start=terms[0]) if terms else None


def move_if(space: AbstractSpace, q: Point, theta: Vector | None) -> Point:
    """`space.move`, where None stands for the zero increment."""
    return q if theta is None else space.move(q, theta)


def barrier(values: Tree) -> Tree:
    """The values, computed once: on arrays XLA would recompute them in the kernels of all that use them.

    No effect on scalars, where values are shared anyway.
    """
    return jax.tree.map(jax.lax.optimization_barrier, values)


def hermite(space: AbstractSpace, q0: Point, theta: Vector, rate0: Vector, rate1: Vector, s: Array) -> Point:
    r"""Cubic Hermite interpolation in the algebra, move(q0, θ(s)).

    $\theta(0) = 0$, $\theta(1)$ = `theta`, and `rate0`, `rate1` are $d\theta/ds$ at the ends. Error O(h⁴) inside a
    step; the curve stays on the space.
    """
    return space.move(q0, s * ((1 - s) ** 2 * rate0 + s * (s - 1) * rate1 + s * (3 - 2 * s) * theta))


def hermite_step(
    system: VectorField, t: Array, h: Array, q0: Point, q1: Point, theta: Vector, s: Array, space: AbstractSpace
) -> Point:
    """Hermite interpolation of one step from q0 to q1 = move(q0, theta), in the coordinates of `space`."""
    rate0 = h * system.field(t, q0)
    rate1 = h * space.rate(theta, system.field(t + h, q1))
    return hermite(space, q0, theta, rate0, rate1, s)


def polynomial(coefficients: np.ndarray, s: Array) -> Array:
    """Σ_k coefficients[..., k] s^(k+1)."""
    total = jnp.zeros(coefficients.shape[:-1])
    for k in range(coefficients.shape[-1] - 1, -1, -1):
        total = s * (total + coefficients[..., k])
    return total
