"""The coefficient of restitution and the damping ratio that gives it, exactly."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.checks import short_repr

_NEAR = 1e-3
_ITERATIONS = 60


def restitution(ratio: Any) -> Array:
    r"""e = exp(-2ζ acos ζ/√(1-ζ²)) of a spring and a dashpot that never pull, for the damping ratio ζ.

    The contact ends where the force vanishes. For the linear spring with a constant dashpot that is exact, whatever
    the speed. Hertz's spring with a dashpot that grows as $\delta^{1/4}$ has the same equation in $\delta^{5/4}$.

    ??? cite "Reference"
        T. Schwager, T. Pöschel, Coefficient of restitution and linear-dashpot model revisited, Granular Matter 9
        (2007). D. Antypov, J. Elliott, On an analytical solution for the damped Hertzian spring, EPL 94 (2011).
    """
    ratio = jnp.asarray(ratio, float)
    return jnp.exp(-2 * ratio * _quotient(ratio))


def _quotient(ratio: Array) -> Array:
    """acos ζ/√(1-ζ²), which goes on as acosh ζ/√(ζ²-1) above one."""
    u = ratio - 1
    near = jnp.abs(u) < _NEAR
    below = jnp.where(near | (u > 0), 0.5, ratio)
    above = jnp.where(near | (u < 0), 2.0, ratio)
    series = 1 + u * (-1 / 3 + u * (2 / 15 + u * (-2 / 35 + u * 8 / 315)))
    of_below = jnp.arccos(below) / jnp.sqrt(1 - below * below)
    of_above = jnp.arccosh(above) / jnp.sqrt(above * above - 1)
    return jnp.where(near, series, jnp.where(u < 0, of_below, of_above))


def damping_ratio(name: str, value: Any) -> Array:
    """The damping ratio ζ that gives this coefficient of restitution, by Newton's method.

    Raises ValueError unless it is greater than 0 and at most 1.
    """
    if checks.is_concrete(value):
        e = checks.numbers(name, value, "coefficient of restitution")
        if e.shape != () or not 0 < e <= 1:
            raise ValueError(
                f"`{name}` must be a number greater than 0 and at most 1 (coefficient of restitution), got "
                f"{short_repr(value)}. No finite damping gives 0."
            )
    target = -jnp.log(jnp.asarray(value, float))
    # -ln e = 2ζ q(ζ) is concave and between πζ and 2 ln(2ζ): steps in ln ζ from its slope at 0 converge from below.
    ratio = target / np.pi
    for _ in range(_ITERATIONS):
        value = 2 * ratio * _quotient(ratio)
        # d/dζ of 2ζq with (1-ζ²) q' = ζ q - 1.
        near = jnp.abs(1 - ratio * ratio) < 2 * _NEAR
        q = _quotient(ratio)
        slope = 2 * (q + ratio * jnp.where(near, -1 / 3, (ratio * q - 1) / jnp.where(near, 1.0, 1 - ratio * ratio)))
        before, ratio = ratio, ratio + (target - value) / slope
        if checks.is_concrete(ratio) and float(ratio) == float(before):
            break
    return ratio
