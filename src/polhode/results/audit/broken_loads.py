"""Integrals over intervals between frames in which loads have kinks or jumps at known instants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

_AT_ONCE = 4096
"""Pieces between instants that are evaluated together."""

_SHORT = 2
"""Units of round-off from an instant at which a load that jumps has the value of that side."""

_BEND = 0.25
"""Deviation of the middle from the chord, relative to the change along it, above which a load may jump between."""

Rates = Callable[[np.ndarray, Any], dict[str, np.ndarray]]
"""Rates by name at stacked times, in stacked states."""


class BrokenIntervals(NamedTuple):
    """Shares of the rule for other intervals in those with instants inside or at their ends, or next to these.

    In each the rate is taken as the mean of two functions of time, those in the states of its two frames, weighted
    by time. Each is integrated from instant to instant by Simpson's rule, which is exact for straight lines.

    - `rows`: numbers of the intervals. - `integrals`: of the weighted mean.
    - `before`, `after`: the second divided difference that the states of three frames make at either end.
    - `changes`: the largest that the two states make, shape (m,).
    - `open`: bounds of the error by jumps at unknown instants and by accelerations that change within, shape (m,).
    """

    rows: Int[np.ndarray, " m"]
    integrals: Float[np.ndarray, "m k"]
    before: Float[np.ndarray, "m k"]
    after: Float[np.ndarray, "m k"]
    changes: Float[np.ndarray, " m"]
    open: Float[np.ndarray, " m"]

    def before_others(self, others: BrokenIntervals) -> BrokenIntervals:
        """These, and those of others that are not among them."""
        more = ~np.isin(others.rows, self.rows)
        return BrokenIntervals(*(np.concatenate((own, its[more])) for own, its in zip(self, others, strict=True)))


def broken_intervals(
    t: np.ndarray, instants: np.ndarray, blocks: Iterable[Any], rates: Rates, names: Iterable[str]
) -> dict[str, BrokenIntervals]:
    """Of each rate by its name. Blocks are of all frames, at increasing or decreasing times t."""
    sign = float(np.sign(t[-1] - t[0]))
    instants = np.sort(sign * np.asarray(instants, dtype=float))
    x = sign * t
    # Parabolas through three frames see instants between the outer ones, and jumps at these.
    before, after = (np.searchsorted(instants, x, side=side) for side in ("left", "right"))
    across, within = (np.pad(number > 0, 1) for number in (before[2:] - after[:-2], after[2:] - before[:-2]))
    rows = np.flatnonzero(within[:-1] | within[1:] | (before[1:] > after[:-1]))
    parts: dict[str, list[BrokenIntervals]] = {name: [] for name in names}
    for first, last, start, states in _windows(blocks, len(t)):
        own = rows[(rows >= first) & (rows < last)]
        for some in _in_portions(own, x, instants):
            pieces = _Pieces.of(some, t, sign, instants)
            values = rates(pieces.times, jax.tree.map(lambda s, k=pieces.frames - start: s[k], states))
            for name, collected in parts.items():
                rate = np.asarray(values[name], dtype=float)
                collected.append(pieces.combine(t, rate.reshape(len(rate), -1), (across[some], across[some + 1])))
    return {
        name: BrokenIntervals(*map(np.concatenate, zip(*several, strict=True)))
        for name, several in parts.items()
        if several
    }


def _windows(blocks: Iterable[Any], count: int) -> Iterator[tuple[int, int, int, Any]]:
    """Range of intervals, first frame and states of windows that have a frame more on both sides of each interval."""
    kept, end = None, 0
    for block in blocks:
        states = jax.tree.map(np.asarray, block.state)
        size = len(block.t)
        first, start = max(end - 2, 0), max(end - 3, 0)
        if kept is not None:
            states = jax.tree.map(lambda a, b: np.concatenate((a, b)), kept, states)
        end += size
        yield first, count - 1 if end == count else end - 2, start, states
        kept = jax.tree.map(lambda s: s[-3:], states)


def _in_portions(rows: np.ndarray, x: np.ndarray, instants: np.ndarray) -> Iterator[np.ndarray]:
    """The intervals in portions of a bounded number of pieces."""
    if not len(rows):
        return
    ends = np.searchsorted(instants, x[rows + 1], side="left") - np.searchsorted(instants, x[rows], side="right")
    portion = np.cumsum(np.maximum(ends, 0) + 1) // _AT_ONCE
    yield from np.split(rows, np.flatnonzero(np.diff(portion)) + 1)


class _Pieces(NamedTuple):
    """Pieces from instant to instant, and where rates are evaluated for them.

    - `rows`: numbers of the intervals. - `first`, `last`: of each interval its first and last piece.
    - `owner`: of each piece its place in `rows`. - `begin`, `end`: of each piece.
    - `times`, `frames`: at which times, with the state of which frame: beginning, middle and end of all pieces in the
      state before and that after, then the begin of intervals in the state before those, and the end in the one after.
    """

    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray
    owner: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    times: np.ndarray
    frames: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, t: np.ndarray, sign: float, instants: np.ndarray) -> _Pieces:
        x = sign * t
        inner = [instants[(instants > x[k]) & (instants < x[k + 1])] for k in rows]
        counts = np.array([len(some) + 1 for some in inner])
        nodes = [np.concatenate((x[k : k + 1], some, x[k + 1 : k + 2])) for k, some in zip(rows, inner, strict=True)]
        begin, end = (sign * np.concatenate([part[cut] for part in nodes]) for cut in (slice(-1), slice(1, None)))
        last = np.cumsum(counts) - 1
        first = last - counts + 1
        owner = np.repeat(np.arange(len(rows)), counts)
        off = sign * _SHORT * np.spacing(np.maximum(abs(t[0]), abs(t[-1])))
        stages = np.concatenate((begin + off, 0.5 * (begin + end), end - off))
        before = np.tile(rows[owner], 3)
        times = np.concatenate((stages, stages, begin[first] + off, end[last] - off))
        outer = np.maximum(rows - 1, 0), np.minimum(rows + 2, len(t) - 1)
        return cls(rows, first, last, owner, begin, end, times, np.concatenate((before, before + 1, *outer)))

    def combine(self, t: np.ndarray, rate: np.ndarray, bent: tuple[np.ndarray, np.ndarray]) -> BrokenIntervals:
        """The intervals, from the rates at `times`; `bent`: whether parabolas at either end go across an instant."""
        n, rows = len(self.begin), self.rows
        low, high = rate[: 3 * n].reshape(3, n, -1), rate[3 * n : 6 * n].reshape(3, n, -1)
        far_low, far_high = rate[6 * n :].reshape(2, len(rows), -1)
        begin, width = t[rows][self.owner], np.diff(t)[rows][self.owner]
        share = (np.stack((self.begin, 0.5 * (self.begin + self.end), self.end)) - begin) / width
        mean = (1 - share[..., None]) * low + share[..., None] * high
        length = self.end - self.begin
        whole = np.add.reduceat(length[:, None] / 6 * (mean[0] + 4 * mean[1] + mean[2]), self.first)
        bend, change = np.abs(mean[1] - 0.5 * (mean[0] + mean[2])), np.abs(mean[2] - mean[0])
        open_ = np.abs(length) * np.max(np.where(bend > _BEND * change, bend, 0.0), axis=1)
        rise = high[0][self.first] - low[0][self.first], high[2][self.last] - low[2][self.last]
        before = _second_difference(t, np.maximum(rows, 1), low[0][self.first] - far_low, rise[0])
        after = _second_difference(t, np.minimum(rows + 1, len(t) - 2), rise[1], far_high - high[2][self.last])
        # The first and the last interval have frames on one side only. Where a load has a kink or jumps, so do
        # accelerations, and a parabola across has another curvature than the motion on either side.
        at_start, at_end = (rows == 0)[:, None], (rows == len(t) - 2)[:, None]
        before, after = np.where(at_start, after, before), np.where(at_end, before, after)
        across_begin, across_end = (across[:, None] for across in bent)
        bad_before, bad_after = np.where(at_start, across_end, across_begin), np.where(at_end, across_begin, across_end)
        both = bad_before & bad_after
        before, after = np.where(bad_before & ~both, after, before), np.where(bad_after & ~both, before, after)
        curvature = np.max(np.where(both, np.maximum(np.abs(before), np.abs(after)), 0.0), axis=1)
        unknown = np.add.reduceat(open_, self.first) + np.abs(np.diff(t)[rows]) ** 3 / 12 * curvature
        return BrokenIntervals(rows, whole, before, after, np.max(np.maximum(*map(np.abs, rise)), axis=1), unknown)


def _second_difference(t: np.ndarray, k: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The second divided difference at frames k, from the changes before and after each."""
    steps = (t[k] - t[k - 1])[:, None], (t[k + 1] - t[k])[:, None]
    return (after / steps[1] - before / steps[0]) / (t[k + 1] - t[k - 1])[:, None]
