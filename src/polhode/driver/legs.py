"""A run as a sequence of legs: from one breakpoint to the next, each with steps of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.driver.control import StepControl, Tolerances
from polhode.driver.stepping import AbstractStepper, ConstantSteps, ControlledSteps

_SHORT = 2
"""Units of round-off by which steps end before a breakpoint, or begin behind it, for loads: two, so that the sum of
start and length of a step rounds to the same side. Whatever a load is at the breakpoint itself then doesn't matter."""

ON_GRID = 1e-9
"""Part of a step within which a breakpoint, or another end, lies on the grid of steps."""


class Breaks(NamedTuple):
    """Instants at which loads may jump: those within a span, and whether its ends are such."""

    inner: Sequence[float] = ()
    at_start: bool = False
    at_end: bool = False


class Leg(NamedTuple):
    """Steps from one instant to the next; `fresh`: whether it begins behind a breakpoint, where loads may jump."""

    stepper: AbstractStepper
    fresh: bool


class Grid(NamedTuple):
    """Constant steps: the whole number of them nearest to a wish."""

    t0: float
    t1: float
    h: float
    count: int

    @classmethod
    def of(cls, t0: float, t1: float, h: float) -> Grid:
        """Steps of at most h, equal to the last bit."""
        count = max(1, math.ceil(abs(t1 - t0) / h * (1 - 1e-12)))
        return cls(t0, t1, (t1 - t0) / count, count)


def constant(t0: float, t1: float, h: float, breaks: Breaks, first: int = 0) -> list[Leg]:
    """Legs of constant steps of at most h, which end at all breakpoints.

    Where these lie on the grid of the whole run they change nothing but that its methods start anew there; otherwise
    each leg has equal steps of its own. Step numbers count from `first`.
    """
    whole = Grid.of(t0, t1, h)
    ends = [*breaks.inner, t1]
    counts = [(end - t0) / whole.h for end in ends]
    legs: list[Leg] = []
    if all(abs(n - round(n)) < ON_GRID for n in counts):
        at = 0
        for end, n in zip(ends, map(round, counts), strict=True):
            legs += _until(whole, first, at, n, end, end != t1 or breaks.at_end, bool(legs) or breaks.at_start)
            at = n
        return legs
    begin = t0
    for end in ends:
        grid = Grid.of(begin, end, h)
        jumps = end != t1 or breaks.at_end, bool(legs) or breaks.at_start
        legs += _until(grid, first, 0, grid.count, end, *jumps)
        first, begin = first + grid.count, end
    return legs


def described(parts: Sequence[Leg]) -> dict[str, Any]:
    """The constant step h, and (t0, h, steps) of each leg if there are several."""
    steppers = [leg.stepper for leg in parts if isinstance(leg.stepper, ConstantSteps)]
    told: dict[str, Any] = {"h": float(steppers[0].spacing)}
    if len(steppers) > 1:
        told["legs"] = [[float(s.t0), float(s.spacing), int(s.last) - int(s.first)] for s in steppers]
    return told


def _until(grid: Grid, first: int, start: int, stop: int, end: float, breaks: bool, fresh: bool) -> list[Leg]:
    """Steps `start` to `stop` of a grid whose step 0 has the number `first`.

    A step behind a breakpoint (`fresh`) and one before it (`breaks`) stand apart.
    """
    cuts: list[int] = sorted({start, stop, start + fresh, stop - breaks})
    legs: list[Leg] = []
    for a, b in itertools.pairwise(cuts):
        behind, before = fresh and a == start, breaks and b == stop
        if not (behind or before):
            legs.append(Leg(_steps(grid.t0, grid.t0 + b * grid.h, grid.h, grid.h, first, first + b, 0.0), False))
            continue
        t0, t1 = grid.t0 + a * grid.h, end if b == stop else grid.t0 + b * grid.h
        spacing = _spacing(t0, t1)
        shift = math.copysign(_shift(t0, t1), spacing)
        h = spacing - shift * (behind + before)
        legs.append(Leg(_steps(t0, t1, h, spacing, first + a, first + b, shift * behind), behind))
    return legs


def _steps(t0: float, t1: float, h: float, spacing: float, first: int, last: int, ahead: float) -> ConstantSteps:
    numbers = {"t0": t0, "t1": t1, "ahead": ahead, "h": h, "spacing": spacing, "first": first, "last": last}
    return ConstantSteps(**{name: np.asarray(value) for name, value in numbers.items()})


def _spacing(start: float, end: float) -> float:
    """The number that gives `end` when added to `start`, to the last bit."""
    spacing = end - start
    for candidate in (spacing, math.nextafter(spacing, math.inf), math.nextafter(spacing, -math.inf)):
        if start + candidate == end:
            return candidate
    return spacing


def _shift(start: float, end: float) -> float:
    return _SHORT * math.ulp(max(abs(start), abs(end)))


def controlled(
    t0: float,
    t1: float,
    tolerances: tuple[float, float],
    control: StepControl,
    max_steps: int,
    breaks: Breaks,
) -> list[Leg]:
    """Legs of controlled steps."""
    legs: list[Leg] = []
    begin = t0
    rtol, atol = map(np.asarray, tolerances)
    for end in (*breaks.inner, t1):
        fresh = bool(legs) or breaks.at_start
        shift = math.copysign(_shift(begin, end), t1 - t0)
        stepper = ControlledSteps(
            t0=np.asarray(begin),
            t1=np.asarray(end),
            ahead=np.asarray(shift * fresh),
            tolerances=Tolerances(rtol, atol),
            control=control,
            max_steps=np.asarray(max_steps),
            short=np.asarray(shift * (end != t1 or breaks.at_end)),
        )
        legs.append(Leg(stepper, fresh))
        begin = end
    return legs
