"""Steps on a grid that is known before a run: equal ones, or equal ones in each of several pieces."""

# Fields that only the other kind of steps has are None as class attributes, which types can't express.

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.simulation.stepping import divided_steps
from polhode.simulation.stepping.segments import AbstractSegmentStepper
from polhode.simulation.stepping.stepper import Progress, TrialStep, accept, outcome_of, restart_after_jump
from polhode.systems.base import AbstractSystem

_ON_GRID = 1e-9
"""Part of a step within which another end lies on the grid of steps."""

_WHOLE_STEP = 0.6
"""Part of the requested step below which a step is the remainder of a short span, which later runs don't keep."""


class GridStep(NamedTuple):
    """A step whose ends are fixed.

    - `begin`, `end`: its ends, which are those of its neighbours to the last bit. - `length`: as methods take it.
    - `offset`: by how much they begin later, for the right limit of loads.
    - `after_jump`: whether loads jump before; None if they never do.
    """

    begin: Any
    end: Any
    length: Any
    offset: Any
    after_jump: Any = None


class AbstractGridSteps(AbstractSegmentStepper):
    """Steps whose ends are fixed, until step number `last`.

    - `t1`: the end, up to rounding. - `right_limit_offset`: that of the first step.
    - `h`, `spacing`: where there are several, the largest.
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

    @abc.abstractmethod
    def step(self, n: Any) -> GridStep:
        """Step number n, or several."""

    def is_after_jump(self, p: Progress) -> Any:
        return self.step(p.n).after_jump

    @property
    def has_jumps(self) -> bool:
        return False

    @abc.abstractmethod
    def with_length(self, h: Array, right_limit_offset: Array) -> AbstractGridSteps:
        """The same ends, with one length and offset of all steps as methods take them."""

    def instants(self, n: Any) -> np.ndarray:
        """Where steps number n begin, as plain numbers, inside transformations too."""
        with jax.ensure_compile_time_eval():
            return np.asarray(self.step(n).begin)

    def ends_as_planned(self, p: Progress, t: Array) -> bool:
        return True

    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        return self.step(self.first).length

    def next_step(self, p: Progress) -> Array:
        return self.step(p.n).length

    def initial_carry(
        self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry
    ) -> Carry:
        return carry

    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        step = self.step(p.n)
        t, h = p.t + step.offset, step.length
        p = p._replace(carry=restart_after_jump(system, integrator, t, h, p.carry, step.after_jump))
        carry, info = divided_steps.step(integrator, system, t, h, p.carry)
        result = outcome_of(carry, info)
        new = accept(p, step.end, h, carry, info, result, p.error)
        # A failure ends the run, and nothing reads the memory of the method any more: it need not be restored.
        return new._replace(carry=new.carry._replace(memory=carry.memory))

    def is_finished(self, p: Progress) -> Array:
        return p.n >= self.last

    def last_step(self, p: Progress) -> tuple[Array, Array]:
        step = self.step(p.n - 1)
        return p.t_before + step.offset, step.length

    def has_passed(self, p: Progress, target: Array) -> Array:
        # A target on the grid must not be missed by round-off.
        return (p.t - target) / self.h > -1e-9

    def trial_step(self, p: Progress, searching: Array, share: Array, whole: Array) -> TrialStep:
        begin, _, length, offset, _ = self.step(p.n)
        off = p.t != begin
        right_limit_offset = jnp.where(off, 0.0, offset)
        # After an event the step ends where it would have ended without.
        h = jnp.where(off, begin + offset + length - p.t, length)
        h = jnp.where(searching & (share < 1), share * whole - right_limit_offset, h)
        return TrialStep(self.with_length(h, right_limit_offset), p._replace(h=h), p.t + right_limit_offset)

    def length(self, p: Progress, new: Progress) -> Array:
        return self.step(p.n).length

    @property
    def step_limit(self) -> int:
        return int(self.last)

    def with_limit(self, max_steps: int) -> Self:
        return self


@final
class ConstantSteps(AbstractGridSteps):
    """Equal steps. Step n starts at t0 + (n - first)·spacing: equal to the last bit.

    `h`: the step as methods take it: the spacing, or a few units of round-off less where loads jump at t1 or t0.
    """

    def step(self, n: Any) -> GridStep:
        begin, end = (self.t0 + (k - self.first) * self.spacing for k in (n, n + 1))
        return GridStep(begin, end, self.h, self.right_limit_offset)

    def with_length(self, h: Array, right_limit_offset: Array) -> ConstantSteps:
        return dataclasses.replace(self, h=h, right_limit_offset=right_limit_offset)

    def pieces(self, begin: int) -> list[list[float]]:
        return [[float(self.step(begin).begin), float(self.spacing), int(self.last) - begin]]

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

    def numbers(self) -> list[Any]:
        return [self.t0, self.t1, self.right_limit_offset, self.h, self.spacing, self.first, self.last]


@final
class PiecewiseSteps(AbstractGridSteps):
    """Equal steps in each of several pieces, which end at kinks and jumps of loads.

    - `begins`, `spacings`, `counts`: of each piece its start, its step and the number of its first step, the end of the
      last one included. Their length is a power of two, so that few programs are compiled for all numbers of kinks.
    - `offsets`: how far from the start of each piece, and from the end, methods evaluate loads that jump there; zero at
      kinks; None if there are only kinks.
    - `trial_length`: the length of all steps, for a trial; None for that of their piece.
    """

    begins: Any
    spacings: Any
    counts: Any
    offsets: Any = None
    trial_length: Any = None

    @classmethod
    def of(cls, begins: Any, spacings: Any, counts: Any, offsets: Any, last: int) -> Self:
        """Steps from the beginning of the first piece to step number `last`; numbers of the pieces as arrays."""
        padding = (1 << len(begins).bit_length()) - len(begins)
        largest, k = spacings[np.argmax(np.abs(spacings))], int(np.searchsorted(counts, last, side="right")) - 1
        pad = lambda x, value: np.concatenate((x, np.full(padding + len(begins) - len(x), value)))  # noqa: E731
        return cls(
            t0=np.asarray(begins[0]),
            t1=np.asarray(begins[k] + (last - counts[k]) * spacings[min(k, len(spacings) - 1)]),
            right_limit_offset=np.asarray(offsets[0]),
            h=np.asarray(largest),
            spacing=np.asarray(largest),
            first=np.asarray(counts[0]),
            last=np.asarray(last),
            begins=pad(begins, begins[-1]),
            spacings=pad(spacings, spacings[-1]),
            counts=pad(counts, np.iinfo(np.int64).max),
            offsets=pad(offsets, 0.0) if np.any(offsets) else None,
        )

    def step(self, n: Any) -> GridStep:
        begins, spacings, counts = map(jnp.asarray, (self.begins, self.spacings, self.counts))
        k = jnp.searchsorted(counts, n, side="right") - 1
        first, spacing = n == counts[k], spacings[k]
        last = n + 1 == counts[k + 1]
        begin = begins[k] + (n - counts[k]) * spacing
        end = jnp.where(last, begins[k + 1], begins[k] + (n + 1 - counts[k]) * spacing)
        if self.offsets is None:
            length, offset, after_jump = spacing, self.right_limit_offset, None
        else:
            offsets = jnp.asarray(self.offsets)
            offset = jnp.where(first, offsets[k], 0.0)
            length, after_jump = spacing - (offset + jnp.where(last, offsets[k + 1], 0.0)), offset != 0
        if self.trial_length is not None:
            length, offset = self.trial_length, self.right_limit_offset
        return GridStep(begin, end, length, offset, after_jump)

    @property
    def has_jumps(self) -> bool:
        return self.offsets is not None

    def with_length(self, h: Array, right_limit_offset: Array) -> PiecewiseSteps:
        return dataclasses.replace(self, trial_length=h, right_limit_offset=right_limit_offset)

    @property
    def _entries(self) -> int:
        """How many of the entries are no padding."""
        return int(np.sum(np.asarray(self.counts) < np.iinfo(np.int64).max))

    def pieces(self, begin: int) -> list[list[float]]:
        begins, spacings, counts, _ = self._columns
        first = np.clip(counts, begin, int(self.last))
        starts = (begins + (first - counts) * spacings)[:-1]
        rows = zip(starts.tolist(), spacings.tolist(), np.diff(first).tolist(), strict=False)
        return [[t0, spacing, count] for t0, spacing, count in rows if count]

    def finer(self, method: AbstractIntegrator) -> Self:
        begins, spacings, counts, offsets = self._columns
        return self.of(begins, 0.5 * spacings, 2 * counts, offsets, 2 * int(self.last))

    @property
    def _columns(self) -> list[np.ndarray]:
        """The numbers of the pieces, without padding."""
        offsets = np.zeros(len(self.counts)) if self.offsets is None else self.offsets
        columns = self.begins, self.spacings, self.counts, offsets
        return [np.asarray(x)[: self._entries] for x in columns]

    def until(self, t1: float, h: float | None, after: int, counted_from: int) -> Self | None:
        return None

    def numbers(self) -> list[Any]:
        return [self.last, *np.concatenate(self._columns)]


def grid_steps(numbers: Sequence[float]) -> AbstractGridSteps:
    """Steps from their `numbers`, with any NaN after them."""
    values = [x for x in numbers if x == x]
    # Of pieces there are at least two, so more numbers.
    if len(values) == len(dataclasses.fields(ConstantSteps)):
        *times, first, last = values
        t0, t1, right_limit_offset, h, spacing = map(np.asarray, times)
        return ConstantSteps(t0, t1, right_limit_offset, h, spacing, np.asarray(int(first)), np.asarray(int(last)))
    last, rest = int(values[0]), values[1:]
    begins, spacings, counts, offsets = np.array(rest).reshape(4, -1)
    return PiecewiseSteps.of(begins, spacings, counts.astype(int), offsets, last)
