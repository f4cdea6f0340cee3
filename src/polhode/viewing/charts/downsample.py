"""Downsampling of long curves that keeps their extremes."""

from __future__ import annotations

import numpy as np

_BUCKETS = 1200


def downsample(curves: np.ndarray) -> np.ndarray:
    """Indices of samples of curves (c, n): the extremes of every curve in every bucket."""
    c, n = curves.shape
    buckets = max(_BUCKETS // c, 100)
    if n <= 2 * buckets:
        return np.arange(n)
    width = -(-n // buckets)
    starts = np.arange(0, n, width)
    blocks = np.pad(curves, ((0, 0), (0, len(starts) * width - n)), mode="edge").reshape(c, len(starts), width)
    extremes = np.concatenate([np.argmin(blocks, axis=2), np.argmax(blocks, axis=2)]) + starts
    return np.unique(np.clip(np.concatenate([extremes.ravel(), [0, n - 1]]), 0, n - 1))


def shorten(name: str, most: int) -> str:
    """A name of at most `most` characters; the middle of a longer one is left out, as its end tells the quantity."""
    if len(name) <= most:
        return name
    tail = min(20, most // 2)
    return f"{name[: most - tail - 1]}…{name[-tail:]}"
