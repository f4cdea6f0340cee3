"""Positions in the flattened operand that gathers read and scatters write.

The dimension numbers are those of `jax.lax.GatherDimensionNumbers` and `jax.lax.ScatterDimensionNumbers`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

OUTSIDE = -1

_SMALL = 1000
"""Positions up to which results are cached: most programs use the same indices each time."""


def gather_positions(params: Any, shape: tuple[int, ...], indices: np.ndarray) -> np.ndarray:
    """The position of each element of the result, or `OUTSIDE` where the window is not within the operand."""
    return _cached_positions(_gather, params, shape, indices, tuple(params["slice_sizes"]))


def scatter_positions(params: Any, shape: tuple[int, ...], indices: np.ndarray, updates: tuple[int, ...]) -> np.ndarray:
    """The position that each element of the updates goes to, or `OUTSIDE` where its window is dropped."""
    return _cached_positions(_scatter, params, shape, indices, updates)


def _cached_positions(
    find: Callable[..., np.ndarray], params: Any, shape: tuple[int, ...], indices: np.ndarray, sizes: tuple[int, ...]
) -> np.ndarray:
    key = find, params["dimension_numbers"], _clips(params["mode"]), shape, sizes
    if indices.size * math.prod(sizes) > _SMALL:
        return _positions_of(*key, indices)
    return _positions_by_content(*key, indices.tobytes(), indices.dtype.str, indices.shape)


@functools.lru_cache(maxsize=4096)
def _positions_by_content(
    find: Any, dims: Any, clips: bool, shape: Any, sizes: Any, content: bytes, dtype: str, form: tuple[int, ...]
) -> np.ndarray:
    return _positions_of(find, dims, clips, shape, sizes, np.frombuffer(content, dtype).reshape(form))


def _positions_of(find: Any, dims: Any, clips: bool, shape: Any, sizes: Any, indices: np.ndarray) -> np.ndarray:
    positions = find(dims, clips, shape, sizes, indices)
    positions.setflags(write=False)
    return positions


def _gather(dims: Any, clips: bool, shape: tuple[int, ...], slices: tuple[int, ...], indices: np.ndarray) -> np.ndarray:
    sizes = np.array(slices, np.int64)
    starts = _starts(
        indices, len(shape), dims.start_index_map, dims.operand_batching_dims, dims.start_indices_batching_dims
    )
    window = [d for d in range(len(shape)) if d not in (*dims.collapsed_slice_dims, *dims.operand_batching_dims)]
    places = _positions(shape, starts, window, sizes, clips)
    return places.transpose(_order(places.ndim, dims.offset_dims, starts.ndim - 1))


def _scatter(
    dims: Any, clips: bool, shape: tuple[int, ...], updates: tuple[int, ...], indices: np.ndarray
) -> np.ndarray:
    window = [d for d in range(len(shape)) if d not in (*dims.inserted_window_dims, *dims.operand_batching_dims)]
    sizes = np.ones(len(shape), np.int64)
    for d, of in zip(window, dims.update_window_dims, strict=True):
        sizes[d] = updates[of]
    starts = _starts(
        indices,
        len(shape),
        dims.scatter_dims_to_operand_dims,
        dims.operand_batching_dims,
        dims.scatter_indices_batching_dims,
    )
    places = _positions(shape, starts, window, sizes, clips)
    return places.transpose(_order(places.ndim, dims.update_window_dims, starts.ndim - 1))


@functools.cache
def _clips(mode: Any) -> bool:
    """Whether windows are clamped instead of dropped."""
    return "FILL" not in str(mode).upper()


def _starts(
    indices: np.ndarray, n: int, index_map: Sequence[int], batch_dims: Sequence[int], of_indices: Sequence[int]
) -> np.ndarray:
    """The start of each window, in all n dimensions of the operand."""
    batch = indices.shape[:-1]
    starts = np.zeros((*batch, n), np.int64)
    for k, d in enumerate(index_map):
        starts[..., d] = indices[..., k]
    for d, of in zip(batch_dims, of_indices, strict=True):
        starts[..., d] = np.arange(batch[of]).reshape([-1 if k == of else 1 for k in range(len(batch))])
    return starts


def _positions(
    shape: tuple[int, ...], starts: np.ndarray, window: Sequence[int], sizes: np.ndarray, clips: bool
) -> np.ndarray:
    """Positions of the elements of all windows: dimensions of the starts first, then those of the window."""
    batch, highest = starts.shape[:-1], np.array(shape, np.int64) - sizes
    if clips:
        starts = np.clip(starts, 0, highest)
    inside = ((starts >= 0) & (starts <= highest)).all(-1)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1] if shape else np.ones(0, np.int64)
    positions = (starts * strides).sum(-1).reshape((*batch, *(1,) * len(window))).astype(np.int64)
    for d in window:
        positions = positions + (np.arange(sizes[d]) * strides[d]).reshape(
            [-1 if d == other else 1 for other in window]
        )
    return np.where(inside.reshape((*batch, *(1,) * len(window))), positions, OUTSIDE)


def _order(n: int, of_window: Sequence[int], n_batch: int) -> list[int]:
    """The permutation that moves the window's dimensions into place."""
    offsets, batch = list(of_window), iter(range(n_batch))
    return [n_batch + offsets.index(k) if k in offsets else next(batch) for k in range(n)]
