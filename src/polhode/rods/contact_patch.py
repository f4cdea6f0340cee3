"""The part of an edge that is in contact, and points of a quadrature on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

STATIONS: Any = np.array([0.0, 0.5, 1.0])
"""Places along an edge where its distance from something is known before."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_PLACES: Any = 0.5 * (1 + _NODES)
_SHARES: Any = 0.5 * _WEIGHTS


class Patch(NamedTuple):
    """Points of Gauss' quadrature on a patch; of an empty one, weights are zero.

    - `places`: along the edge, from 0 to 1, shape (4,). - `weights`: shares of the edge, shape (4,).
    """

    places: Float[Array, "4"]
    weights: Float[Array, "4"]


def square_like(gap: Array, curvature: Array | float) -> Array:
    """A function of the gap with its sign that is a quadratic along straight lines past whatever is round.

    With ρ the radius of what is round and of the rod together it is (D² - ρ²)/2ρ of the distance D from its axis or
    centre. - `curvature`: 1/ρ, 0 for planes.
    """
    return gap * (1 + 0.5 * curvature * gap)


class Span(NamedTuple):
    """A part of an edge, empty where `last` is not above `first`; places along the edge from 0 to 1."""

    first: Float[Array, ""]
    last: Float[Array, ""]

    def within(self, other: Span) -> Span:
        """The part that is in both."""
        return Span(jnp.maximum(self.first, other.first), jnp.minimum(self.last, other.last))

    @property
    def patch(self) -> Patch:
        """The quadrature on it. There are no derivatives by its places.

        Contact ends where the depth is zero, or at an end that another edge continues: ends contribute none.
        """
        a, b = jax.lax.stop_gradient(self)
        width = jnp.maximum(b - a, 0.0)
        return Patch(a + width * _PLACES, width * _SHARES)


def contact_span(value: Callable[[Array], Array]) -> Span:
    """Where a function along an edge is negative, which is nearly a parabola: a convex one is so in one piece.

    Its values at the stations give a first answer, those at the ends of that correct it. Both change continuously with
    the function, also where it is nearly constant, as on edges that lie on a drum: a parabola around the least value
    would jump there with the place of that, and Newton's method with it.
    """
    still = lambda s: jax.lax.stop_gradient(value(s))  # noqa: E731
    values = jax.vmap(still)(STATIONS)
    span = negative_span(values)
    steepness = jnp.sqrt(jnp.maximum(_discriminant(values), 0.0))
    ends = jnp.stack(span)
    width = jnp.maximum(ends[1] - ends[0], 0.0)
    change = jax.vmap(still)(jnp.clip(ends, 0.0, 1.0)) / jnp.where(steepness > 0, steepness, 1.0)
    change = jnp.clip(change, -0.25 * width, 0.25 * width)
    inside = (ends > 0) & (ends < 1) & (width > 0)
    first, last = jnp.where(inside, ends + jnp.array([1.0, -1.0]) * change, ends)
    return Span(jnp.clip(first, 0.0, 2.0), jnp.clip(last, -1.0, 1.0))


def _discriminant(values: Float[Array, "3"]) -> Array:
    g0, middle, g1 = values
    b = 4 * middle - 3 * g0 - g1
    return b * b - 8 * (g0 - 2 * middle + g1) * g0


def negative_span(values: Float[Array, "3"]) -> Span:
    """Where the parabola through values at the stations is negative."""
    g0, middle, g1 = values
    a, b, square = 2 * (g0 - 2 * middle + g1), 4 * middle - 3 * g0 - g1, _discriminant(values)
    root = jnp.sqrt(jnp.maximum(square, 0.0))
    start = jnp.where(g0 < 0, 0.0, jnp.where(square > 0, _first_root(g0, root - b), 2.0))
    stop = jnp.where(g1 < 0, 1.0, jnp.where(square > 0, 1 - _first_root(g1, root + b + 2 * a), -1.0))
    return Span(start, stop)


def _first_root(value: Array, divisor: Array) -> Array:
    """The place from an end with a positive value where a parabola becomes negative; 2 if it does not."""
    regular = divisor > 2 * value
    return jnp.where(regular, 2 * value / jnp.where(regular, divisor, 1.0), 2.0)
