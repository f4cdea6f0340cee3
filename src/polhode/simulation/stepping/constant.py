"""Segments of steps on grids, which end at breakpoints and, where that keeps the order of a method, at kinks."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from polhode.simulation.stepping.grid_steps import ConstantSteps, PiecewiseSteps
from polhode.simulation.stepping.segments import Breakpoints, Segment, shift

_ON_GRID = 1e-9
"""Part of a step within which a breakpoint lies on the grid of steps."""


class Grid(NamedTuple):
    """A grid of equal steps: its start, its step and their number."""

    start: float
    spacing: float
    count: int

    @classmethod
    def of(cls, t0: float, t1: float, h: float) -> Grid:
        """Equal steps of at most h."""
        count = int(_count(t1 - t0, h))
        return cls(t0, (t1 - t0) / count, count)

    def at(self, n: int) -> float:
        """The start of step n; at the end of the last one up to rounding."""
        return self.start + n * self.spacing

    def steps(self, a: int, b: int, first: int) -> ConstantSteps:
        """Steps a to b, where step 0 has the number `first`."""
        return constant_steps(self.start, self.at(b), self.spacing, self.spacing, first, first + b, 0.0)


def _count(spans: Any, h: float) -> Any:
    """The number of equal steps of at most h in spans, which round-off doesn't make larger."""
    return np.maximum(1, np.ceil(np.abs(spans) / h * (1 - 1e-12))).astype(int)


def _piecewise(t0: float, t1: float, h: float, breakpoints: Breakpoints, first: int) -> PiecewiseSteps:
    """Steps of at most h, in each piece between stops equal to the last bit."""
    ends = np.array([t0, *breakpoints.stops, t1])
    spans = np.diff(ends)
    counts = _count(spans, h)
    is_jump = np.array([breakpoints.at_start, *np.isin(breakpoints.stops, breakpoints.jumps), breakpoints.at_end])
    offsets = np.where(is_jump, math.copysign(shift(t0, t1), t1 - t0), 0.0)
    numbers = first + np.concatenate(([0], np.cumsum(counts)))
    return PiecewiseSteps.of(ends, spans / counts, numbers, offsets, int(numbers[-1]))


def constant_segments(t0: float, t1: float, h: float, breakpoints: Breakpoints, first: int = 0) -> list[Segment]:
    """Segments of constant steps of at most h, which end at all breakpoints.

    With `stops` they are one segment. Without, breakpoints on the grid of the whole run don't change the steps, methods
    only restart there; otherwise each segment has steps of its own. Step numbers count from `first`.
    """
    if breakpoints.stops:
        return [Segment(_piecewise(t0, t1, h, breakpoints, first), breakpoints.at_start)]
    whole = Grid.of(t0, t1, h)
    ends = [*breakpoints.inner, t1]
    counts = [(end - t0) / whole.spacing for end in ends]
    segments: list[Segment] = []
    if all(abs(n - round(n)) < _ON_GRID for n in counts):
        at = 0
        for end, n in zip(ends, map(round, counts), strict=True):
            segments += _until(
                whole, first, at, n, end, end != t1 or breakpoints.at_end, bool(segments) or breakpoints.at_start
            )
            at = n
        return segments
    begin = t0
    for end in ends:
        grid = Grid.of(begin, end, h)
        jumps = end != t1 or breakpoints.at_end, bool(segments) or breakpoints.at_start
        segments += _until(grid, first, 0, grid.count, end, *jumps)
        first, begin = first + grid.count, end
    return segments


def _until(
    grid: Grid, first: int, start: int, stop: int, end: float, breakpoints: bool, after_jump: bool
) -> list[Segment]:
    """Steps `start` to `stop` of a grid whose step 0 has the number `first`.

    A step after a breakpoint (`after_jump`) and one before it (`breakpoints`) are segments of their own.
    """
    cuts: list[int] = sorted({start, stop, start + after_jump, stop - breakpoints})
    segments: list[Segment] = []
    for a, b in itertools.pairwise(cuts):
        after, before = after_jump and a == start, breakpoints and b == stop
        if not (after or before):
            segments.append(Segment(grid.steps(a, b, first), False))
            continue
        t0, t1 = grid.at(a), end if b == stop else grid.at(b)
        spacing = _exact_spacing(t0, t1)
        off = math.copysign(shift(t0, t1), spacing)
        h = spacing - off * (after + before)
        segments.append(Segment(constant_steps(t0, t1, h, spacing, first + a, first + b, off * after), after))
    return segments


def constant_steps(
    t0: float, t1: float, h: float, spacing: float, first: int, last: int, right_limit_offset: float
) -> ConstantSteps:
    """Equal steps, as plain numbers."""
    values = t0, t1, right_limit_offset, h, spacing, first, last
    return ConstantSteps(*map(np.asarray, values))


def _exact_spacing(start: float, end: float) -> float:
    """The number that gives `end` when added to `start`, to the last bit."""
    spacing = end - start
    for candidate in (spacing, math.nextafter(spacing, math.inf), math.nextafter(spacing, -math.inf)):
        if start + candidate == end:
            return candidate
    return spacing
