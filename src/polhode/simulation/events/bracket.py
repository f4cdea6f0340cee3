"""Root bracketing by the ITP method, with one evaluation at a time."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

_TRUNCATION = 0.2
"""Truncation of the ITP method: distance of trials beyond the secant's root, as a part of the initial bracket."""


class Bracket(NamedTuple):
    """An interval in which a function changes its sign.

    - `low`, `high`: where it is positive and negative. - `at_low`, `at_high`: its values there.
    - `spread`: half-width that bisection with one more evaluation would have reached. - `width`: the initial width.
    """

    low: Array
    high: Array
    at_low: Array
    at_high: Array
    spread: Array
    width: Array

    @classmethod
    def of(cls, low: Array, high: Array, at_low: Array, at_high: Array) -> Bracket:
        """The initial bracket."""
        return cls(low, high, at_low, at_high, high - low, high - low)

    def next(self) -> Array:
        """The next trial, by the method of Oliveira and Takahashi (2021, ACM Trans. Math. Softw. 47(1), algorithm ITP).

        It needs at most one evaluation more than bisection, and on smooth functions about as many as the secant method.
        """
        a, b = self.low, self.high
        middle, size = 0.5 * (a + b), b - a
        difference = self.at_low - self.at_high
        # After an event the function is zero at the low end, up to rounding of either sign, but not soon after.
        valid = (self.at_low > 0) & (difference > 0) & jnp.isfinite(difference)
        secant = jnp.where(valid, (self.at_low * b - self.at_high * a) / jnp.where(valid, difference, 1.0), middle)
        inward = jnp.sign(middle - secant)
        beyond = _TRUNCATION * size * size / self.width
        truncation = jnp.where(beyond <= jnp.abs(middle - secant), secant + inward * beyond, middle)
        radius = jnp.maximum(self.spread - 0.5 * size, 0.0)
        return jnp.where(jnp.abs(truncation - middle) <= radius, truncation, middle - inward * radius)

    def narrow(self, place: Array, value: Array) -> Bracket:
        """The part of the bracket with the root, from the value at a place within."""
        negative = value < 0
        return Bracket(
            jnp.where(negative, self.low, place),
            jnp.where(negative, place, self.high),
            jnp.where(negative, self.at_low, value),
            jnp.where(negative, value, self.at_high),
            0.5 * self.spread,
            self.width,
        )
