"""Linear systems of Newton's method for contact problems without matrices: stabilised biconjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

Map = Callable[[Array], Array]


class Iterate(NamedTuple):
    """Where the iteration is: solution, residual, search direction with its image, and products of before."""

    x: Array
    r: Array
    p: Array
    v: Array
    rho: Array
    alpha: Array
    omega: Array
    number: Int[Array, ""]
    best: Array
    least: Array


def solve(product: Map, precondition: Map, right: Array, tolerance: float, limit: int) -> tuple[Array, Array]:
    """x with the smallest residual that was met, and the number of iterations.

    Ends at a residual of `tolerance` times that of zero.
    """
    dot = lambda a, b: jnp.sum(a * b)  # noqa: E731
    size = dot(right, right)
    goal = tolerance**2 * size
    one, zero = jnp.ones(()), jnp.zeros_like(right)
    start = Iterate(zero, right, zero, zero, one, one, one, jnp.zeros((), int), zero, size)

    def more(at: Iterate) -> Array:
        return (at.least > goal) & (at.number < limit) & jnp.isfinite(at.rho) & (jnp.abs(at.rho) > 0)

    def advance(at: Iterate) -> Iterate:
        rho = dot(right, at.r)
        beta = _ratio(rho, at.rho) * _ratio(at.alpha, at.omega)
        p = at.r + beta * (at.p - at.omega * at.v)
        forward = precondition(p)
        v = product(forward)
        alpha = _ratio(rho, dot(right, v))
        s = at.r - alpha * v
        sideways = precondition(s)
        t = product(sideways)
        omega = _ratio(dot(t, s), dot(t, t))
        x = at.x + alpha * forward + omega * sideways
        r = s - omega * t
        square = dot(r, r)
        better = square < at.least
        best, least = jnp.where(better, x, at.best), jnp.where(better, square, at.least)
        return Iterate(x, r, p, v, rho, alpha, omega, at.number + 1, best, least)

    last = jax.lax.while_loop(more, advance, start)
    return last.best, last.number


def _ratio(a: Array, b: Array) -> Array:
    usable = jnp.abs(b) > 0
    return jnp.where(usable, a / jnp.where(usable, b, 1.0), 0.0)
