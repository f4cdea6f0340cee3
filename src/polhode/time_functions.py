"""Functions of time for loads, drives and targets."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr


class PiecewiseLinear(eqx.Module):
    """A function of time through given points, straight between them and constant beyond the ends.

    Two points at one time are a jump; there the value is that of the second. Runs end steps exactly at all points, and
    the step before a jump sees nothing of it.

    ```python
    pulse = ph.PiecewiseLinear((0.5, 0.5, 0.502, 0.502), (0.0, 1.0, 1.0, 0.0))     # 2 ms
    ramp = ph.PiecewiseLinear((0.0, 1.0), ((0, 0, 0), (0, 0, 40.0)))               # of a vector
    ```

    **Arguments:**

    - `times`: not decreasing, shape (n,); plain numbers.
    - `values`: shape (n,) or (n, k); may be traced by JAX.

    **Raises** ValueError for times that decrease, three points at one time, or other shapes.
    """

    times: tuple[float, ...] = eqx.field(static=True)
    values: Float[Array, "n ..."]

    def __init__(self, times: Any, values: Any) -> None:
        if not checks.is_concrete(times):
            raise ValueError("`times` are traced by JAX, but steps have to end there; give plain numbers.")
        checks.array("times", times, checks.shape("times", times, "of the points"), "of the points")
        if np.ndim(times) != 1 or np.size(times) < 2:
            raise ValueError(f"`times` must be a list of two times or more, got {short_repr(times)}.")
        self.times = tuple(float(t) for t in times)
        n = len(self.times)
        if np.any(np.diff(self.times) < 0) or any(a == b for a, b in zip(self.times, self.times[2:], strict=False)):
            raise ValueError(f"`times` must not decrease, and hold no time more than twice, got {short_repr(times)}.")
        shape = checks.shape("values", values, "at the times")
        if len(shape) not in (1, 2) or shape[0] != n:
            raise ValueError(f"`values` must be one for each of the {n} times, got shape {shape}.")
        self.values = checks.array("values", values, shape, "at the times")

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Where steps have to end."""
        return tuple(sorted(set(self.times)))

    def __call__(self, t: Array) -> Array:
        times = np.array(self.times)
        # The last point at or before t; of two at one time the second.
        k = jnp.clip(jnp.searchsorted(times, t, side="right", method="compare_all") - 1, 0, len(times) - 2)
        begin, span = jnp.asarray(times)[k], jnp.asarray(np.diff(times))[k]
        s = jnp.where(span > 0, jnp.clip((t - begin) / jnp.where(span > 0, span, 1.0), 0.0, 1.0), 1.0)
        s = jnp.where(t < times[0], 0.0, s)
        return (1 - s) * self.values[k] + s * self.values[k + 1]


def breakpoints_of(function: Any) -> tuple[float, ...]:
    """The instants in the attribute `breakpoints` of a function, if they are concrete numbers.

    Elements of a model with functions that differ in their numbers alone have these stacked, and so are the instants.
    """
    breakpoints = getattr(function, "breakpoints", ())
    if callable(breakpoints) or not checks.is_concrete(breakpoints):
        return ()
    try:
        times = [np.asarray(t, dtype=float).ravel() for t in jax.tree.leaves(breakpoints)]
        return tuple(float(t) for t in np.concatenate([*times, np.zeros(0)]) if np.isfinite(t))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`breakpoints` of {short_repr(function)} must be times, got {short_repr(breakpoints)}."
        ) from error
