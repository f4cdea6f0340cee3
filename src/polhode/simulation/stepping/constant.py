"""Constant steps, and segments of them."""

# Fields that only the other kind of steps has are None as class attributes, which types can't express.
# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.simulation.stepping import counted_angles
from polhode.simulation.stepping.segments import AbstractSegmentStepper, Breakpoints, Segment, shift
from polhode.simulation.stepping.stepper import Progress, TrialStep, accept, outcome_of
from polhode.systems.base import AbstractSystem

_ON_GRID = 1e-9
"""Part of a step within which a breakpoint, or another end, lies on the grid of steps."""

_WHOLE_STEP = 0.6
"""Part of the requested step below which a step is the remainder of a short span, which later runs don't keep."""


class Grid(NamedTuple):
    """A grid of constant steps."""

    t0: float
    t1: float
    h: float
    count: int

    @classmethod
    def of(cls, t0: float, t1: float, h: float) -> Grid:
        """Steps of at most h, equal to the last bit."""
        count = max(1, math.ceil(abs(t1 - t0) / h * (1 - 1e-12)))
        return cls(t0, t1, (t1 - t0) / count, count)


class ConstantSteps(AbstractSegmentStepper):
    """Equal steps until step number `last`. Step n starts at t0 + (n - first)·spacing: equal to the last bit.

    - `t1`: the end, up to rounding. - `h`: the step as methods take it: the spacing, or a few units of round-off less
      where loads jump at t1 or t0. - `right_limit_offset`: the same for all steps.
    """

    on_grid: ClassVar[bool] = True
    control: ClassVar[None] = None
    left_limit_offset: ClassVar[float] = 0.0
    t0: Any
    t1: Any
    right_limit_offset: Any
    h: Any
    spacing: Any
    first: Any
    last: Any

    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        return self.h

    def next_step(self, p: Progress) -> Array:
        return self.h

    def initial_carry(
        self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry
    ) -> Carry:
        return carry

    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        carry, info = counted_angles.step(integrator, system, p.t + self.right_limit_offset, self.h, p.carry)
        result = outcome_of(carry, info)
        new = accept(p, self.t0 + (p.n + 1 - self.first) * self.spacing, self.h, carry, info, result, p.error)
        # A failure ends the run, and nothing reads the memory of the method any more: it need not be restored.
        return new._replace(carry=new.carry._replace(memory=carry.memory))

    def is_finished(self, p: Progress) -> Array:
        return p.n >= self.last

    def last_step(self, p: Progress) -> tuple[Array, Array]:
        return p.t_before + self.right_limit_offset, self.h

    def has_passed(self, p: Progress, target: Array) -> Array:
        # A target on the grid must not be missed by round-off.
        return (p.t - target) / self.h > -1e-9

    def trial_step(self, p: Progress, searching: Array, share: Array, whole: Array) -> TrialStep:
        begin = self.t0 + (p.n - self.first) * self.spacing
        off = p.t != begin
        right_limit_offset = jnp.where(off, 0.0, self.right_limit_offset)
        # After an event the step ends where it would have ended without.
        h = jnp.where(off, begin + self.right_limit_offset + self.h - p.t, self.h)
        h = jnp.where(searching & (share < 1), share * whole - right_limit_offset, h)
        return TrialStep(
            dataclasses.replace(self, h=h, right_limit_offset=right_limit_offset),
            p._replace(h=h),
            p.t + right_limit_offset,
        )

    def length(self, p: Progress, new: Progress) -> Array:
        return self.h

    @property
    def step_limit(self) -> int:
        return int(self.last)

    def with_limit(self, max_steps: int) -> Self:
        return self

    def finer(self, method: AbstractIntegrator) -> Self:
        # A step that is a little shorter for breakpoints at its ends has halves that are.
        spacing = 0.5 * self.spacing
        h = spacing - (self.spacing - self.h)
        return dataclasses.replace(self, h=h, spacing=spacing, first=2 * self.first, last=2 * self.last)

    def until(self, t1: float, h: float | None, after: int, counted_from: int) -> Self | None:
        if h is not None and abs(float(self.spacing)) < _WHOLE_STEP * h:
            return None
        steps = (t1 - float(self.t0)) / float(self.spacing)
        on = abs(steps - round(steps)) < _ON_GRID and float(self.h) == float(self.spacing)
        last = int(self.first) + round(steps)
        if not on or last <= after:
            return None
        first = np.asarray(int(self.first) - counted_from)
        return dataclasses.replace(self, t1=np.asarray(t1), first=first, last=np.asarray(last - counted_from))

    def extend(self, t1: float, breakpoints: Breakpoints, h: float | None) -> list[Segment]:
        mine = abs(float(self.spacing))
        h = mine if h is None else h
        first, *others = constant_segments(float(self.t1), t1, h, breakpoints, int(self.last))
        # Methods restart with another step.
        return [first._replace(after_jump=first.after_jump or h != mine), *others]

    def numbers(self) -> list[Any]:
        return [self.t0, self.t1, self.right_limit_offset, self.h, self.spacing, self.first, self.last]

    @classmethod
    def of_numbers(cls, numbers: list[float]) -> Self:
        *times, first, last = numbers
        names = ("t0", "t1", "right_limit_offset", "h", "spacing", "first", "last")
        values = map(np.asarray, (*times, int(first), int(last)))
        return cls(**dict(zip(names, values, strict=True)))


def constant_segments(t0: float, t1: float, h: float, breakpoints: Breakpoints, first: int = 0) -> list[Segment]:
    """Segments of constant steps of at most h, which end at all breakpoints.

    Breakpoints on the grid of the whole run don't change the steps, methods only restart there; otherwise each segment
    has equal steps of its own. Step numbers count from `first`.
    """
    whole = Grid.of(t0, t1, h)
    ends = [*breakpoints.inner, t1]
    counts = [(end - t0) / whole.h for end in ends]
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
            segments.append(
                Segment(_steps(grid.t0, grid.t0 + b * grid.h, grid.h, grid.h, first, first + b, 0.0), False)
            )
            continue
        t0, t1 = grid.t0 + a * grid.h, end if b == stop else grid.t0 + b * grid.h
        spacing = _exact_spacing(t0, t1)
        off = math.copysign(shift(t0, t1), spacing)
        h = spacing - off * (after + before)
        segments.append(Segment(_steps(t0, t1, h, spacing, first + a, first + b, off * after), after))
    return segments


def _steps(
    t0: float, t1: float, h: float, spacing: float, first: int, last: int, right_limit_offset: float
) -> ConstantSteps:
    numbers = {
        "t0": t0,
        "t1": t1,
        "right_limit_offset": right_limit_offset,
        "h": h,
        "spacing": spacing,
        "first": first,
        "last": last,
    }
    return ConstantSteps(**{name: np.asarray(value) for name, value in numbers.items()})


def _exact_spacing(start: float, end: float) -> float:
    """The number that gives `end` when added to `start`, to the last bit."""
    spacing = end - start
    for candidate in (spacing, math.nextafter(spacing, math.inf), math.nextafter(spacing, -math.inf)):
        if start + candidate == end:
            return candidate
    return spacing
