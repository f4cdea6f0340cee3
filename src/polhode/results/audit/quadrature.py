"""Integrals over the frames of a run, with error bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_LEAST = 8
"""Frames below which nothing is integrated."""

_JUMP = 3.0
"""Ratio of a change between frames to the larger of its neighbours above which it counts as a jump."""

_DEVIATIONS = 3.0
"""Standard deviations of the sum of the errors by jumps; half a jump is one deviation."""


class Integral(NamedTuple):
    """Integrals from the first frame to each of them, shape (n, k), and their uncertainty, shape (n,)."""

    value: Float[np.ndarray, "n k"]
    doubt: Float[np.ndarray, " n"]


def integral(t: Float[np.ndarray, " n"], rate: Float[np.ndarray, "n k"]) -> Integral:
    """Of a rate that is sampled in the frames: by parabolas through three of them, of order 4 for equal steps.

    Each interval takes the mean of the parabolas on both sides; half of their difference, of order 3, bounds the error.
    For a jump of the rate between two frames, whose time is unknown, half of the jump is added. For too few frames, or
    times that are not monotonic, the bound is infinite.
    """
    steps = np.diff(t)
    if len(t) < _LEAST or not (np.all(steps > 0) or np.all(steps < 0)):
        return Integral(np.zeros_like(rate), np.full(len(t), np.inf))
    changes = np.diff(rate, axis=0)
    curvature = np.diff(changes / steps[:, None], axis=0) / (t[2:] - t[:-2])[:, None]
    before, after = np.concatenate((curvature[:1], curvature)), np.concatenate((curvature, curvature[-1:]))
    thirds = steps[:, None] ** 3 / 6
    parts = 0.5 * steps[:, None] * (rate[1:] + rate[:-1]) - thirds * 0.5 * (before + after)
    halves = np.concatenate(
        (curvature[1:2] - curvature[:1], after[1:-1] - before[1:-1], curvature[-1:] - curvature[-2:-1])
    )
    smooth = np.maximum.accumulate(np.max(np.abs(np.cumsum(thirds * 0.5 * halves, axis=0)), axis=1))
    open_ = _open(np.abs(steps), np.max(np.abs(changes), axis=1))
    doubt = smooth + _DEVIATIONS * np.sqrt(np.cumsum(open_**2))
    return Integral(np.pad(np.cumsum(parts, axis=0), ((1, 0), (0, 0))), np.append(0.0, doubt))


def _open(steps: Float[np.ndarray, " n"], changes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Half of the largest integral error of a jump in each interval; zero where changes are like neighbouring ones."""
    neighbours = np.concatenate((changes[1:2], changes, changes[-2:-1]))
    beside = np.maximum(neighbours[:-2], neighbours[2:])
    return np.where(changes > _JUMP * beside, 0.5 * steps * changes, 0.0)
