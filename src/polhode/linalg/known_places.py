"""Elements of arrays at places that are known while tracing.

`x[at]` and `x.at[at].add(…)` with arrays of integers wrap negative indices, so each takes five operations and some
twenty times as long to trace as the one operation here. Indices that are negative or outside raise IndexError.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

_CLIP = jax.lax.GatherScatterMode.CLIP


def take(x: Array, at: np.ndarray) -> Array:
    """x at places along its first axis; the shape of `at` comes first."""
    if np.array_equal(at, np.arange(x.shape[0])):
        # What is known of rows, such as axes of hinges, stays known in loops over them.
        return x
    return take_entries(x, at)


def take_columns(x: Array, at: np.ndarray) -> Array:
    """Columns of a matrix, in the order of `at`."""
    if np.array_equal(at, np.arange(x.shape[1])):
        return x
    dims = jax.lax.GatherDimensionNumbers((0,), (1,), (1,))
    return jax.lax.gather(x, _places(x.shape[1:], (at,)), dims, (x.shape[0], 1), mode=_CLIP)


def take_entries(x: Array, *at: Any) -> Array:
    """`x[at]`: indices along the first axes, broadcast against each other; their shape comes first."""
    places, k = _places(x.shape, at), len(at)
    if not places.size:
        return jnp.zeros((*places.shape[:-1], *x.shape[k:]), x.dtype)
    offsets = tuple(range(places.ndim - 1, places.ndim - 1 + x.ndim - k))
    dims = jax.lax.GatherDimensionNumbers(offsets, tuple(range(k)), tuple(range(k)))
    return jax.lax.gather(x, places, dims, (1,) * k + x.shape[k:], mode=_CLIP)


def add_entries(x: Array, values: Array, *at: Any) -> Array:
    """x with `values` of the shape of `x[at]` added, all of them where places are the same."""
    places = _places(x.shape, at)
    if not places.size:
        return x
    return jax.lax.scatter_add(x, places, values, _into(x, places), mode=_CLIP)


def set_entries(x: Array, values: Array, *at: Any) -> Array:
    """x with `values` of the shape of `x[at]` in these places, which differ."""
    places = _places(x.shape, at)
    if not places.size:
        return x
    return jax.lax.scatter(x, places, values, _into(x, places), unique_indices=True, mode=_CLIP)


def _places(shape: tuple[int, ...], at: tuple[Any, ...]) -> np.ndarray:
    places = np.stack(np.broadcast_arrays(*at), axis=-1).astype(np.int32)
    if ((places < 0) | (places >= shape[: len(at)])).any():
        raise IndexError(f"Indices are to be within an array of shape {shape}, and not negative.")
    return places


def _into(x: Array, places: np.ndarray) -> jax.lax.ScatterDimensionNumbers:
    k = places.shape[-1]
    window = tuple(range(places.ndim - 1, places.ndim - 1 + x.ndim - k))
    return jax.lax.ScatterDimensionNumbers(window, tuple(range(k)), tuple(range(k)))
