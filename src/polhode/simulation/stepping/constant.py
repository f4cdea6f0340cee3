"""Segments of steps on grids, which end at breakpoints and, where that keeps the order of a method, at kinks."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polhode.simulation.stepping.grid_steps import AbstractGridSteps, ConstantSteps, PiecewiseSteps
from polhode.simulation.stepping.segments import Breakpoints, Segment, shift

_ON_GRID = 1e-9
"""Part of a step within which a breakpoint lies on the grid of steps."""


class Grid(NamedTuple):
    """A grid of steps: of each piece of equal ones its begin, its step and the number of its first step.

    `begins` and `counts` have the end of the last piece, too.
    """

    begins: tuple[float, ...]
    spacings: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, t0: float, t1: float, h: float, kinks: Sequence[float] = ()) -> Grid:
        """Steps of at most h, in each piece between kinks equal to the last bit."""
        ends, spacings, counts = (t0, *kinks, t1), [], [0]
        for begin, end in itertools.pairwise(ends):
            count = max(1, math.ceil(abs(end - begin) / h * (1 - 1e-12)))
            spacings.append((end - begin) / count)
            counts.append(counts[-1] + count)
        return cls(ends, tuple(spacings), tuple(counts))

    @property
    def count(self) -> int:
        """The number of steps."""
        return self.counts[-1]

    def at(self, n: int) -> float:
        """The start of step n; at the end of the last one up to rounding."""
        k = min(bisect.bisect_right(self.counts, n), len(self.spacings)) - 1
        return self.begins[k] + (n - self.counts[k]) * self.spacings[k]

    def steps(self, a: int, b: int, first: int) -> AbstractGridSteps:
        """Steps a to b, where step 0 has the number `first`."""
        k = bisect.bisect_right(self.counts, a) - 1
        if b > self.counts[k + 1]:
            return PiecewiseSteps.of(self.begins, self.spacings, [first + n for n in self.counts], first + b)
        h = self.spacings[k]
        return constant_steps(self.begins[k], self.at(b), h, h, first + self.counts[k], first + b, 0.0)


def constant_segments(t0: float, t1: float, h: float, breakpoints: Breakpoints, first: int = 0) -> list[Segment]:
    """Segments of constant steps of at most h, which end at all breakpoints, and at the kinks among them.

    Breakpoints on the grid of the whole run don't change the steps, methods only restart there; otherwise each segment
    has steps of its own. Step numbers count from `first`.
    """
    whole = Grid.of(t0, t1, h)
    ends = [*breakpoints.inner, t1]
    counts = [(end - t0) / whole.spacings[0] for end in ends]
    segments: list[Segment] = []
    if not breakpoints.kinks and all(abs(n - round(n)) < _ON_GRID for n in counts):
        at = 0
        for end, n in zip(ends, map(round, counts), strict=True):
            segments += _until(
                whole, first, at, n, end, end != t1 or breakpoints.at_end, bool(segments) or breakpoints.at_start
            )
            at = n
        return segments
    begin = t0
    for end in ends:
        grid = Grid.of(begin, end, h, [t for t in breakpoints.kinks if min(begin, end) < t < max(begin, end)])
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
