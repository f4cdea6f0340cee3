"""Root bracketing by Newton's method or secants, safeguarded by bisection, with one evaluation at a time."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

_MARGIN = 0.3
"""Distance of trials beyond the estimated root, as a part of the width that is to be reached: two trials, one on each
side of a root that is known to a fifth of that width, end the search."""


class Bracket(NamedTuple):
    """An interval in which a function changes its sign.

    - `low`, `high`: where it is positive and negative. - `at_low`, `at_high`: its values there.
    - `width`: the width before the last trial. - `earlier`: that before the trial before.
    - `place`, `value`, `slope`: the last trial, the value there, and the rate there or that of a secant.
    """

    low: Array
    high: Array
    at_low: Array
    at_high: Array
    width: Array
    earlier: Array
    place: Array
    value: Array
    slope: Array

    @classmethod
    def of(cls, low: Array, high: Array, at_low: Array, at_high: Array, rate: Array | None = None) -> Bracket:
        """The initial bracket; `rate`: that at its high end, where it is known."""
        slope = _secant(high - low, at_high - at_low) if rate is None else rate
        unlimited = jnp.full((), jnp.inf)
        return cls(low, high, at_low, at_high, unlimited, unlimited, high, at_high, slope)

    def next(self, width: Array) -> Array:
        """The next trial on the way to a bracket of some width.

        It lies a little beyond the root of the tangent, towards the farther end of the bracket. Where two trials have
        not halved the bracket, the next one does. So it takes at most three times as many as bisection, and on
        smooth functions about three.
        """
        a, b = self.low, self.high
        middle, size = 0.5 * (a + b), b - a
        root = self.place - self.value / jnp.where(self.slope < 0, self.slope, 1.0)
        # After an event the function is zero at the low end, up to rounding of either sign, but not soon after.
        valid = (self.slope < 0) & (self.at_low > 0) & jnp.isfinite(root)
        root = jnp.clip(jnp.where(valid, root, middle), a, b)
        inward = jnp.sign(middle - root)
        trial = root + inward * jnp.minimum(_MARGIN * width, jnp.abs(middle - root))
        return jnp.where(size <= 0.5 * self.earlier, trial, middle)

    def narrow(self, place: Array, value: Array, rate: Array | None = None) -> Bracket:
        """The part of the bracket with the root, from the value at a place within, and the rate where it is known."""
        negative = value < 0
        return Bracket(
            jnp.where(negative, self.low, place),
            jnp.where(negative, place, self.high),
            jnp.where(negative, self.at_low, value),
            jnp.where(negative, value, self.at_high),
            self.high - self.low,
            self.width,
            place,
            value,
            _secant(place - self.place, value - self.value) if rate is None else rate,
        )


def _secant(width: Array, rise: Array) -> Array:
    """The slope of a secant; zero where there is none."""
    return jnp.where(width != 0, rise / jnp.where(width != 0, width, 1.0), 0.0)
