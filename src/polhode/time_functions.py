"""Functions of time for loads, drives and targets."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr

PARAMETERS_BESIDE = (
    "Give an `equinox.Module` with the Parameter in a field, which multiplies the table by it or makes it when called."
)
"""The remedy for tables, which compute with their numbers at once."""

_COMPARED = 16
"""Knots up to which comparison with all of them takes fewer operations than bisection."""


class Instants(tuple[float, ...]):
    """Times in order, as numbers and as an array, so that tables of ten thousand aren't converted in every run."""

    _array: np.ndarray

    def __new__(cls, times: Any) -> Self:
        array = np.array(times, dtype=float)
        array.flags.writeable = False
        instants = super().__new__(cls, array.tolist())
        instants._array = array
        return instants

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype=dtype, copy=copy)

    @functools.cached_property
    def distinct(self) -> Instants:
        """Each of them once."""
        return Instants(np.unique(self._array))

    @functools.cached_property
    def single(self) -> Instants:
        """Those that are there only once."""
        times, counts = np.unique(self._array, return_counts=True)
        return Instants(times[counts == 1])


class PiecewiseLinear(eqx.Module):
    """A function of time through given points, straight between them and constant beyond the ends.

    Two points at one time are a jump; there the value is that of the second. Steps end exactly at jumps, and the step
    before one sees nothing of it. The other points are kinks. Controlled steps end there, too; constant ones do where
    the order of the method asks for it and there are four steps for each point. Kinks of recorded signals with more
    points lie inside steps, which costs less accuracy than the straight lines themselves.

    A value is found by bisection, so ten thousand points take little longer than ten.

    ```python
    pulse = ph.PiecewiseLinear((0.5, 0.5, 0.502, 0.502), (0.0, 1.0, 1.0, 0.0))     # 2 ms
    ramp = ph.PiecewiseLinear((0.0, 1.0), ((0, 0, 0), (0, 0, 40.0)))               # of a vector
    ```

    **Arguments:**

    - `times`: not decreasing, shape (n,); plain numbers.
    - `values`: shape (n,) or (n, k); may be traced by JAX.

    **Raises** ValueError for times that decrease, three points at one time, or other shapes.
    """

    times: Instants = eqx.field(static=True)
    values: Float[Array, "n ..."]

    def __init__(self, times: Any, values: Any) -> None:
        checks.refuse_parameters(PARAMETERS_BESIDE, times=times, values=values)
        if not checks.is_concrete(times):
            raise ValueError("`times` are traced by JAX, but steps have to end there; give plain numbers.")
        checks.array("times", times, checks.shape("times", times, "of the points"), "of the points")
        if np.ndim(times) != 1 or np.size(times) < 2:
            raise ValueError(f"`times` must be a list of two times or more, got {short_repr(times)}.")
        self.times = Instants(times)
        n, at = len(self.times), np.asarray(self.times)
        if np.any(np.diff(at) < 0) or np.any(at[2:] == at[:-2]):
            raise ValueError(f"`times` must not decrease, and hold no time more than twice, got {short_repr(times)}.")
        shape = checks.shape("values", values, "at the times")
        if len(shape) not in (1, 2) or shape[0] != n:
            raise ValueError(f"`values` must be one for each of the {n} times, got shape {shape}.")
        self.values = checks.array("values", values, shape, "at the times")

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Where it has jumps and kinks."""
        return self.times.distinct

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where it has kinks, but no jumps."""
        return self.times.single

    def __call__(self, t: Array) -> Array:
        times = jnp.asarray(np.asarray(self.times))
        # The last point at or before t; of two at one time the second.
        k = interval(times, t)
        begin, span = times[k], times[k + 1] - times[k]
        s = jnp.where(span > 0, jnp.clip((t - begin) / jnp.where(span > 0, span, 1.0), 0.0, 1.0), 1.0)
        s = jnp.where(t < times[0], 0.0, s)
        s = beside(s, self.values.ndim > 1)
        return (1 - s) * self.values[k] + s * self.values[k + 1]


def beside(number: Array, vectors: bool) -> Array:
    """Numbers for several values of a table, each beside all components of its value if these are vectors."""
    return number[..., None] if vectors and number.ndim else number


def interval(knots: Array, x: Array) -> Array:
    """The number of the last knot at or before x that has another one behind it."""
    n = len(knots)
    method = "compare_all" if n <= _COMPARED else "scan"
    return jnp.clip(jnp.searchsorted(knots, x, side="right", method=method) - 1, 0, n - 2)


def breakpoints_of(*functions: Any) -> tuple[float, ...]:
    """The instants in the attributes `breakpoints` of functions, if they are concrete numbers.

    Elements of a model with functions that differ in their numbers alone have these stacked, and so are the instants.
    """
    return _unique([_instants(function, "breakpoints") for function in functions])


def kinks_of(*functions: Any) -> tuple[float, ...]:
    """The instants in the attributes `kinks` of functions, but for those at which another one jumps."""
    kinks = [_instants(function, "kinks") for function in functions]
    if len(functions) == 1 or not any(map(len, kinks)):
        return _unique(kinks)
    jumps = _unique([np.setdiff1d(_instants(f, "breakpoints"), own) for f, own in zip(functions, kinks, strict=True)])
    return Instants(np.setdiff1d(_unique(kinks), jumps)) if jumps else _unique(kinks)


def _unique(times: Sequence[np.ndarray]) -> Instants:
    return Instants(np.unique(np.concatenate([*times, np.zeros(0)])))


def _instants(function: Any, name: str) -> np.ndarray:
    values = getattr(function, name, ())
    if callable(values):
        return np.zeros(0)
    try:
        times = np.asarray(values, dtype=float).ravel()
    except (TypeError, ValueError):
        times = _leaves(function, name, values)
    return times[np.isfinite(times)]


def _leaves(function: Any, name: str, values: Any) -> np.ndarray:
    """Instants in arrays of several shapes; none if they are traced."""
    if not checks.is_concrete(values):
        return np.zeros(0)
    try:
        return np.concatenate([*(np.asarray(t, dtype=float).ravel() for t in jax.tree.leaves(values)), np.zeros(0)])
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` of {short_repr(function)} must be times, got {short_repr(values)}.") from error
