"""Statistics of a series, computed block by block, so that runs larger than memory can be audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

BLOCKS = 16
"""Number of parts of a run over which trends of a series are judged."""

_ROWS = 1 << 16


class SeriesStatistics(NamedTuple):
    """Statistics of a series of shape (n, components).

    - `first`: its first row. - `largest`, `end`: max-norm of the drift, largest and at the end.
    - `at_step_ends`: largest at the frames that are ends of steps. - `finite`: whether all numbers are.
    - `slopes`: of straight lines fitted to the drift, a component each.
    - `means`, `ranges`: of the components in each of `BLOCKS` parts, shape (16, components).
    - `early`, `late`: farthest off in the first half and in the last quarter, a component each.
    - `count`: n. - `extent`: range over the whole run, a component each.
    """

    first: np.ndarray
    largest: float
    end: float
    at_step_ends: float
    finite: bool
    slopes: np.ndarray
    means: np.ndarray
    ranges: np.ndarray
    early: np.ndarray
    late: np.ndarray
    count: int
    extent: np.ndarray


def series_statistics(
    time: Any, column: Any, residual: bool, is_step_end: Callable[[np.ndarray], np.ndarray]
) -> SeriesStatistics:
    """One pass over a column of numbers; the drift is the change since the first row, of residuals the value."""
    n, width = len(column), int(np.prod(column.shape[1:]))
    first = np.asarray(column[0:1], dtype=float).reshape(width)
    base = np.zeros(width) if residual else first
    ends = np.cumsum([0, *(len(part) for part in np.array_split(np.empty((n, 0)), BLOCKS))])
    middle = sum(float(np.sum(t)) for (t,) in chunks(time)) / n
    squares, moment, sums = 0.0, np.zeros(width), np.zeros((BLOCKS, width))
    low, high = np.full((BLOCKS, width), np.inf), np.full((BLOCKS, width), -np.inf)
    off = np.zeros((2, width))
    largest, at_steps, last, finite, row = 0.0, 0.0, 0.0, True, 0
    for t, values in chunks(time, column):
        drift = np.asarray(values, dtype=float).reshape(len(values), width) - base
        size = np.max(np.abs(drift), axis=1, initial=0.0)
        finite = finite and bool(np.isfinite(size).all())
        largest, last = float(np.maximum(largest, np.max(size))), float(size[-1])
        at_steps = float(np.maximum(at_steps, np.max(size[is_step_end(t)], initial=0.0)))
        offset = t - middle
        squares += float(offset @ offset)
        moment += offset @ drift
        for k in range(BLOCKS):
            part = drift[max(ends[k] - row, 0) : max(ends[k + 1] - row, 0)]
            if len(part):
                sums[k] += np.sum(part, axis=0)
                low[k], high[k] = np.minimum(low[k], np.min(part, axis=0)), np.maximum(high[k], np.max(part, axis=0))
        away = np.abs(drift - (first - base))
        early, late = away[: max(n // 2 - row, 0)], away[max(n - n // 4 - row, 0) :]
        off[0] = np.maximum(off[0], np.max(early, axis=0, initial=0.0))
        off[1] = np.maximum(off[1], np.max(late, axis=0, initial=0.0))
        row += len(values)
    sizes = np.diff(ends)[:, None]
    with np.errstate(invalid="ignore"):
        ranges = np.where(sizes > 0, high - low, 0.0)
        extent = np.max(high, axis=0) - np.min(low, axis=0)
    slopes = moment / squares if squares > 0 else np.zeros(width)
    means = sums / np.maximum(sizes, 1)
    return SeriesStatistics(first, largest, last, at_steps, finite, slopes, means, ranges, off[0], off[1], n, extent)


def is_drifting(m: SeriesStatistics) -> np.ndarray:
    """Whether each component of a series of 32 rows or more drifts monotonically; see `polhode.results.audit`."""
    moves = np.diff(m.means, axis=0)
    one_way = np.all(moves > 0, axis=0) | np.all(moves < 0, axis=0)
    return one_way & (np.abs(m.means[-1] - m.means[0]) > 0.5 * np.median(m.ranges, axis=0))


def is_growing(m: SeriesStatistics) -> np.ndarray:
    """Whether each component of a series of 32 rows or more grows in amplitude; see `polhode.results.audit`."""
    widens = np.all(np.diff(m.ranges, axis=0) > 0, axis=0) & (m.ranges[-1] > 2 * m.ranges[0])
    return widens | (m.late > 20 * m.early)


def swings(column: Any) -> bool:
    """Whether a component of a state crosses the middle of its range three times, by a tenth of that range."""
    low, high = span(column)
    width = len(low)
    indices = np.flatnonzero(high - low > 1e-9 * np.maximum(np.abs(low), np.abs(high)))
    side, crossings = np.zeros(len(indices)), np.zeros(len(indices), int)
    for (values,) in chunks(column) if len(indices) else ():
        flat = np.asarray(values, dtype=float).reshape(len(values), width)[:, indices]
        level = (flat - low[indices]) / (high - low)[indices] - 0.5
        for k in range(len(indices)):
            sides = np.sign(level[np.abs(level[:, k]) > 0.1, k])
            if len(sides):
                changes = np.count_nonzero(np.diff(sides)) + (side[k] * sides[0] < 0)
                crossings[k] += changes
                side[k] = sides[-1]
        if (crossings >= 3).any():
            return True
    return False


def span(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each component of a column; nan where one is."""
    width = int(np.prod(column.shape[1:]))
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for (values,) in chunks(column):
        flat = np.asarray(values, dtype=float).reshape(len(values), width)
        low, high = np.minimum(low, np.min(flat, axis=0)), np.maximum(high, np.max(flat, axis=0))
    return low, high


def chunks(*columns: Any) -> Iterator[tuple[np.ndarray, ...]]:
    """Rows of some columns of equal length, a bounded number at a time."""
    n = len(columns[0])
    for start in range(0, n, _ROWS):
        yield tuple(np.asarray(column[start : min(start + _ROWS, n)]) for column in columns)
