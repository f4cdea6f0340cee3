"""Integrals over the frames of a run, with error bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from polhode.results.audit.broken_loads import BrokenIntervals

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


def integral(
    t: Float[np.ndarray, " n"], rate: Float[np.ndarray, "n k"], broken: BrokenIntervals | None = None
) -> Integral:
    """Of a rate that is sampled in the frames: by parabolas through three of them, of order 4 for equal steps.

    Each interval takes the mean of the parabolas on both sides; half of their difference, of order 3, bounds the error.
    For a jump of the rate between two frames, whose time is unknown, half of the jump is added. For too few frames, or
    times that are not monotonic, the bound is infinite. In `broken` intervals parabolas are those of the states alone.
    """
    if not is_integrable(t):
        return Integral(np.zeros_like(rate), np.full(len(t), np.inf))
    steps = np.diff(t)
    changes = np.diff(rate, axis=0)
    curvature = np.diff(changes / steps[:, None], axis=0) / (t[2:] - t[:-2])[:, None]
    before, after = np.concatenate((curvature[:1], curvature)), np.concatenate((curvature, curvature[-1:]))
    sizes = np.max(np.abs(changes), axis=1)
    chords, least = 0.5 * steps[:, None] * (rate[1:] + rate[:-1]), sizes.copy()
    if broken is not None:
        rows = broken.rows
        before[rows], after[rows] = broken.before, broken.after
        chords[rows], least[rows] = broken.integrals, broken.changes
    thirds = steps[:, None] ** 3 / 6
    parts = chords - thirds * 0.5 * (before + after)
    halves = after - before
    # The outer intervals have one parabola each, which differs from the next one about as much.
    halves[0], halves[-1] = halves[1], halves[-2]
    smooth = np.maximum.accumulate(np.max(np.abs(np.cumsum(thirds * 0.5 * halves, axis=0)), axis=1))
    open_ = _open(np.abs(steps), least, sizes)
    if broken is not None:
        open_[broken.rows] = np.maximum(open_[broken.rows], broken.open)
    doubt = smooth + _DEVIATIONS * np.sqrt(np.cumsum(open_**2))
    return Integral(np.pad(np.cumsum(parts, axis=0), ((1, 0), (0, 0))), np.append(0.0, doubt))


def is_integrable(t: Float[np.ndarray, " n"]) -> bool:
    """Whether there are frames enough, at times that only increase or only decrease."""
    steps = np.diff(t)
    return len(t) >= _LEAST and bool(np.all(steps > 0) or np.all(steps < 0))


def _open(
    steps: Float[np.ndarray, " n"], sizes: Float[np.ndarray, " n"], changes: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Half of the largest integral error of a jump in each interval; zero where sizes are like changes beside them.

    `sizes` are the changes without those that are known.
    """
    neighbours = np.concatenate((changes[1:2], changes, changes[-2:-1]))
    beside = np.maximum(neighbours[:-2], neighbours[2:])
    return np.where(sizes > _JUMP * beside, 0.5 * steps * sizes, 0.0)
