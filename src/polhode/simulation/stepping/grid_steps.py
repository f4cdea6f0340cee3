"""Steps on a grid that is known before a run: equal ones, or equal ones in each of several pieces."""

# Fields that only the other kind of steps has are None as class attributes, which types can't express.
# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations

import abc
import bisect
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.simulation.stepping import counted_angles
from polhode.simulation.stepping.segments import AbstractSegmentStepper
from polhode.simulation.stepping.stepper import Progress, TrialStep, accept, outcome_of
from polhode.systems.base import AbstractSystem

_ON_GRID = 1e-9
"""Part of a step within which another end lies on the grid of steps."""

_WHOLE_STEP = 0.6
"""Part of the requested step below which a step is the remainder of a short span, which later runs don't keep."""


class AbstractGridSteps(AbstractSegmentStepper):
    """Steps whose ends are fixed, until step number `last`.

    - `t1`: the end, up to rounding. - `right_limit_offset`: the same for all steps.
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
    def time_at(self, n: Any) -> Any:
        """The instant at which step number n begins, and the one before it ends."""

    @abc.abstractmethod
    def length_at(self, n: Any) -> Any:
        """The length of step number n, as methods take it."""

    @abc.abstractmethod
    def with_length(self, h: Array, right_limit_offset: Array) -> AbstractGridSteps:
        """The same ends, with one length and offset of all steps as methods take them."""

    def instants(self, n: Any) -> np.ndarray:
        """`time_at` as plain numbers, inside transformations too."""
        with jax.ensure_compile_time_eval():
            return np.asarray(self.time_at(n))

    def ends_as_planned(self, p: Progress, t: Array) -> bool:
        return True

    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        return self.length_at(self.first)

    def next_step(self, p: Progress) -> Array:
        return self.length_at(p.n)

    def initial_carry(
        self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry
    ) -> Carry:
        return carry

    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        h = self.length_at(p.n)
        carry, info = counted_angles.step(integrator, system, p.t + self.right_limit_offset, h, p.carry)
        result = outcome_of(carry, info)
        new = accept(p, self.time_at(p.n + 1), h, carry, info, result, p.error)
        # A failure ends the run, and nothing reads the memory of the method any more: it need not be restored.
        return new._replace(carry=new.carry._replace(memory=carry.memory))

    def is_finished(self, p: Progress) -> Array:
        return p.n >= self.last

    def last_step(self, p: Progress) -> tuple[Array, Array]:
        return p.t_before + self.right_limit_offset, self.length_at(p.n - 1)

    def has_passed(self, p: Progress, target: Array) -> Array:
        # A target on the grid must not be missed by round-off.
        return (p.t - target) / self.h > -1e-9

    def trial_step(self, p: Progress, searching: Array, share: Array, whole: Array) -> TrialStep:
        begin, length = self.time_at(p.n), self.length_at(p.n)
        off = p.t != begin
        right_limit_offset = jnp.where(off, 0.0, self.right_limit_offset)
        # After an event the step ends where it would have ended without.
        h = jnp.where(off, begin + self.right_limit_offset + length - p.t, length)
        h = jnp.where(searching & (share < 1), share * whole - right_limit_offset, h)
        return TrialStep(self.with_length(h, right_limit_offset), p._replace(h=h), p.t + right_limit_offset)

    def length(self, p: Progress, new: Progress) -> Array:
        return self.length_at(p.n)

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

    def time_at(self, n: Any) -> Any:
        return self.t0 + (n - self.first) * self.spacing

    def length_at(self, n: Any) -> Any:
        return self.h

    def with_length(self, h: Array, right_limit_offset: Array) -> ConstantSteps:
        return dataclasses.replace(self, h=h, right_limit_offset=right_limit_offset)

    def pieces(self, begin: int) -> list[list[float]]:
        return [[float(self.time_at(begin)), float(self.spacing), int(self.last) - begin]]

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
    """Equal steps in each of several pieces, which end at kinks of loads; methods go on there without a restart.

    - `begins`, `spacings`, `counts`: of each piece its start, its step and the number of its first step, the end of the
      last one included. Their length is a power of two, so that few programs are compiled for all numbers of kinks.
    - `trial_length`: the length of all steps, for a trial; None for that of their piece.
    """

    begins: Any
    spacings: Any
    counts: Any
    trial_length: Any = None

    @classmethod
    def of(cls, begins: Sequence[float], spacings: Sequence[float], counts: Sequence[int], last: int) -> Self:
        """Steps from the beginning of the first piece to step number `last`."""
        padding = (1 << len(begins).bit_length()) - len(begins)
        largest, k = max(spacings, key=abs), bisect.bisect_right(counts, last) - 1
        return cls(
            t0=np.asarray(begins[0]),
            t1=np.asarray(begins[k] + (last - counts[k]) * spacings[min(k, len(spacings) - 1)]),
            right_limit_offset=np.asarray(0.0),
            h=np.asarray(largest),
            spacing=np.asarray(largest),
            first=np.asarray(counts[0]),
            last=np.asarray(last),
            begins=np.array([*begins, *[begins[-1]] * padding]),
            spacings=np.array([*spacings, *[spacings[-1]] * (padding + len(begins) - len(spacings))]),
            counts=np.array([*counts, *[np.iinfo(np.int64).max] * padding]),
        )

    def _piece(self, n: Any) -> Any:
        return jnp.searchsorted(jnp.asarray(self.counts), n, side="right") - 1

    def time_at(self, n: Any) -> Any:
        k = self._piece(n)
        begins, spacings, counts = map(jnp.asarray, (self.begins, self.spacings, self.counts))
        return begins[k] + (n - counts[k]) * spacings[k]

    def length_at(self, n: Any) -> Any:
        return jnp.asarray(self.spacings)[self._piece(n)] if self.trial_length is None else self.trial_length

    def with_length(self, h: Array, right_limit_offset: Array) -> PiecewiseSteps:
        return dataclasses.replace(self, trial_length=h, right_limit_offset=right_limit_offset)

    @property
    def _entries(self) -> int:
        """How many of the entries are no padding."""
        return int(np.sum(np.asarray(self.counts) < np.iinfo(np.int64).max))

    def pieces(self, begin: int) -> list[list[float]]:
        counts = np.clip(self.counts[: self._entries], begin, int(self.last))
        rows = zip(self.instants(counts).tolist(), self.spacings.tolist(), np.diff(counts).tolist(), strict=False)
        return [[t0, spacing, count] for t0, spacing, count in rows if count]

    def finer(self, method: AbstractIntegrator) -> Self:
        counts = 2 * self.counts[: self._entries]
        spacings = 0.5 * self.spacings[: self._entries]
        return self.of(self.begins[: self._entries].tolist(), spacings.tolist(), counts.tolist(), 2 * int(self.last))

    def until(self, t1: float, h: float | None, after: int, counted_from: int) -> Self | None:
        return None

    def numbers(self) -> list[Any]:
        columns = self.begins, self.spacings, self.counts
        return [self.last, *(x for column in columns for x in column[: self._entries])]


def grid_steps(numbers: Sequence[float]) -> AbstractGridSteps:
    """Steps from their `numbers`, with any NaN after them."""
    values = [x for x in numbers if x == x]
    # Of pieces there are at least two, so more numbers.
    if len(values) == len(dataclasses.fields(ConstantSteps)):
        *times, first, last = values
        t0, t1, right_limit_offset, h, spacing = map(np.asarray, times)
        return ConstantSteps(t0, t1, right_limit_offset, h, spacing, np.asarray(int(first)), np.asarray(int(last)))
    last, rest = int(values[0]), values[1:]
    begins, spacings, counts = np.array(rest).reshape(3, -1).tolist()
    return PiecewiseSteps.of(begins, spacings, [int(x) for x in counts], last)
