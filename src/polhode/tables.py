"""Smooth functions through points, and functions of two numbers, as tables."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.time_functions import PARAMETERS_BESIDE, beside, interval


class CubicSpline(eqx.Module):
    """A function of time through given points, of cubics with continuous second derivatives, constant beyond the ends.

    It suits recorded signals and prescribed motions, whose rates it has. The third derivative is continuous at the
    second point and the last but one, too ("not a knot"), as by default in SciPy. Steps end nowhere for its sake:
    methods of order 4 keep their order, and constant steps of those of order 5 and 6 have order 4.

    ```python
    lift = ph.CubicSpline((0.0, 0.2, 0.5, 1.0), (0.0, 0.3, 0.1, 0.4))
    ```

    **Arguments:**

    - `times`: increasing, shape (n,), four or more.
    - `values`: shape (n,) or (n, k); may be traced by JAX.

    **Raises** ValueError for times that don't increase, or other shapes.
    """

    times: Float[Array, " n"]
    values: Float[Array, "n ..."]
    slopes: Float[Array, "n ..."]

    def __init__(self, times: Any, values: Any) -> None:
        checks.refuse_parameters(PARAMETERS_BESIDE, times=times, values=values)
        self.times = _places("times", times, 4, "of the points")
        self.values = _values(values, (len(self.times),), "at the times")
        self.slopes = _slopes(self.times, self.values)
        if checks.is_concrete(self.slopes) and not np.all(np.isfinite(self.slopes)):
            raise ValueError(
                f"No finite slopes through these points: `times` are too close or far apart, got {short_repr(times)}."
            )

    def __call__(self, t: Array) -> Array:
        k = interval(self.times, t)
        begin, end = self.times[k], self.times[k + 1]
        a, b = self.values[k], self.values[k + 1]
        # By the distance from the nearer values, so that the function goes through its points exactly.
        part = (jnp.clip(t, begin, end) - begin) / (end - begin)
        h, s = (beside(x, self.values.ndim > 1) for x in (end - begin, part))
        hermite = (1 - s) * (h * self.slopes[k] - (b - a)) - s * (h * self.slopes[k + 1] - (b - a))
        return (1 - s) * a + s * b + s * (1 - s) * hermite


class Table2D(eqx.Module):
    """A function of two numbers, such as a torque of speed and throttle: bilinear between points of a grid.

    Beyond the edges it has the value of the nearest point on the edge. When its kinks are passed depends on the motion,
    so no step ends there; tolerances see them.

    ```python
    torque = ph.Table2D((0.0, 100.0, 300.0), (0.0, 1.0), ((0, 40.0), (0, 35.0), (-5.0, 10.0)))
    torque(speed, throttle)
    ```

    **Arguments:**

    - `x`, `y`: increasing, shapes (n,) and (m,), two or more each.
    - `values`: shape (n, m) or (n, m, k). All three may be traced by JAX.

    **Raises** ValueError for places that don't increase, or other shapes.
    """

    x: Float[Array, " n"]
    y: Float[Array, " m"]
    values: Float[Array, "n m ..."]

    def __init__(self, x: Any, y: Any, values: Any) -> None:
        checks.refuse_parameters(PARAMETERS_BESIDE, x=x, y=y, values=values)
        self.x, self.y = _places("x", x, 2, "of the rows"), _places("y", y, 2, "of the columns")
        self.values = _values(values, (len(self.x), len(self.y)), "at the points of the grid")

    def __call__(self, x: Array, y: Array) -> Array:
        (i, r), (j, s) = _locate(self.x, x), _locate(self.y, y)
        r, s = (beside(part, self.values.ndim > 2) for part in (r, s))
        below = (1 - s) * self.values[i, j] + s * self.values[i, j + 1]
        above = (1 - s) * self.values[i + 1, j] + s * self.values[i + 1, j + 1]
        return (1 - r) * below + r * above


def _locate(knots: Array, x: Array) -> tuple[Array, Array]:
    """The number of the interval of a number, and the part of it, from 0 to 1."""
    k = interval(knots, x)
    begin, end = knots[k], knots[k + 1]
    return k, (jnp.clip(x, begin, end) - begin) / (end - begin)


def _slopes(times: Array, values: Array) -> Array:
    """The slopes at the points, from continuity of second derivatives, and of the third ones next to the ends."""
    h = jnp.diff(times)
    wide = h.reshape(-1, *(1,) * (values.ndim - 1))
    chord = jnp.diff(values, axis=0) / wide
    first, last = h[0] + h[1], h[-2] + h[-1]
    right = jnp.concatenate(
        [
            (((h[0] + 2 * first) * h[1] * chord[0] + h[0] ** 2 * chord[1]) / first)[None],
            3 * (wide[1:] * chord[:-1] + wide[:-1] * chord[1:]),
            ((h[-1] ** 2 * chord[-2] + (2 * last + h[-1]) * h[-2] * chord[-1]) / last)[None],
        ]
    )
    zero = jnp.zeros(1)
    lower = jnp.concatenate([zero, h[1:], last[None]])
    diagonal = jnp.concatenate([h[1:2], 2 * (h[:-1] + h[1:]), h[-2:-1]])
    upper = jnp.concatenate([first[None], h[:-1], zero])
    columns = right.reshape(len(times), -1)
    return jax.lax.linalg.tridiagonal_solve(lower, diagonal, upper, columns).reshape(values.shape)


def _places(name: str, places: Any, least: int, meaning: str) -> Array:
    """Checked places of a table."""
    shape = checks.shape(name, places, meaning)
    if len(shape) != 1 or shape[0] < least:
        raise ValueError(f"`{name}` must be a list of {least} numbers or more ({meaning}), got shape {shape}.")
    array = checks.array(name, places, shape, meaning)
    if checks.is_concrete(places) and np.any(np.diff(np.asarray(array)) <= 0):
        raise ValueError(f"`{name}` must increase from number to number ({meaning}), got {short_repr(places)}.")
    return array


def _values(values: Any, grid: tuple[int, ...], meaning: str) -> Array:
    """Checked values of a table: numbers, or vectors."""
    shape = checks.shape("values", values, meaning)
    if shape[: len(grid)] != grid or len(shape) > len(grid) + 1:
        raise ValueError(
            f"`values` must have one number or vector for each of the {' x '.join(map(str, grid))} places {meaning}, "
            f"got shape {shape}."
        )
    return checks.array("values", values, shape, meaning)
