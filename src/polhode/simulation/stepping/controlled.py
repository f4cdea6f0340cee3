"""Error-controlled steps, and segments of them."""

# Fields that only the other kind of steps has are None as class attributes, which types can't express.

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.result_codes import Result
from polhode.simulation.stepping import divided_steps
from polhode.simulation.stepping.segments import AbstractSegmentStepper, Breakpoints, Segment, shift
from polhode.simulation.stepping.step_control import StepControl, Tolerances, first_step
from polhode.simulation.stepping.stepper import (
    Progress,
    TrialStep,
    accept,
    outcome_of,
    restart_after_jump,
    select,
    with_iterations,
)
from polhode.systems.base import AbstractSystem


class ControlledSteps(AbstractSegmentStepper):
    """Steps chosen from the local error estimate of the integrator.

    - `left_limit_offset`: how far before t1 the last step ends for the method, so that it sees the left limit of loads.
    - `stops`: instants at which steps end, too, times the direction of time, and then t1 as often as it takes for a
      length that is a power of two; none if t1 is the only end.
    - `offsets`: how far from each of these instants methods evaluate loads that jump there; zero at kinks and at t1;
      None if there are only kinks.
    """

    on_grid: ClassVar[bool] = False
    h: ClassVar[None] = None
    spacing: ClassVar[None] = None
    first: ClassVar[None] = None
    last: ClassVar[None] = None
    t0: Any
    t1: Any
    right_limit_offset: Any
    tolerances: Tolerances
    control: StepControl
    max_steps: Any
    left_limit_offset: Any
    stops: Any = None
    offsets: Any = None

    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        span = self.t1 - self.t0
        if self.control.first_step is not None:
            return jnp.sign(span) * jnp.minimum(self.control.first_step, jnp.abs(span))
        if system.velocity(self.t0, state) is None:
            return span * 1e-4
        return jnp.sign(span) * first_step(
            self.control,
            system.state_space,
            system.velocity,
            self.t0,
            span,
            state,
            integrator.first_order,
            self.tolerances,
        )

    def next_step(self, p: Progress) -> Array:
        return p.h

    def initial_carry(
        self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry
    ) -> Carry:
        return integrator.with_step_control(system, t, h, carry)

    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        # The limit ends a run before its next attempt, when frames and events of the last step are done.
        exhausted = p.n + p.rejected >= self.max_steps
        end = self._next_stop(p.t)
        remaining = end - p.t
        h = p.h
        if self.control.max_step is not None:
            h = jnp.clip(h, -self.control.max_step, self.control.max_step)
        # The last step ends exactly at t1; a remainder that would be a tiny step is stretched into this one.
        last = jnp.abs(h) * (1 + 1e-9) >= jnp.abs(remaining)
        h = jnp.where(last, remaining - self._offset_before(end), h)
        right_limit_offset = self._offset_after(p.t)
        t, length = p.t + right_limit_offset, h - right_limit_offset
        p = p._replace(carry=restart_after_jump(system, integrator, t, length, p.carry, self.is_after_jump(p)))
        carry, info = divided_steps.step(integrator, system, t, length, p.carry)
        result = outcome_of(carry, info)
        space = system.state_space
        error = self.control.measure(space, info.error, p.carry.state, carry.state, self.tolerances)
        good = ~exhausted & (result == 0) & (error <= 1)
        order = min(integrator.order, integrator.error_order or integrator.order) if info.order is None else info.order
        factor = retry_factor = self._factor(error, p.error, order, result)
        retry_carry = p.carry
        if info.others:
            others = tuple(
                self._factor(
                    self.control.measure(space, e, p.carry.state, carry.state, self.tolerances), p.error, k, result
                )
                for e, k in info.others
            )
            carry, factor = integrator.select_order(carry, (factor, *others), accepted=True)
            retry_carry, retry_factor = integrator.select_order(retry_carry, (retry_factor, *others), accepted=False)
        # A step that was shortened for the end doesn't limit later ones.
        next_h = jnp.where(last & (jnp.abs(p.h) > jnp.abs(h)), p.h, h * factor)
        proceed = accept(p, jnp.where(last, end, p.t + h), next_h, carry, info, jnp.zeros_like(result), error)
        retry_h = h * jnp.minimum(retry_factor, self.control.safety)
        retry = p._replace(
            h=jnp.where(exhausted, p.h, retry_h),
            carry=retry_carry if retry_carry is p.carry else select(exhausted, p.carry, retry_carry),
            rejected=jnp.where(exhausted, p.rejected, p.rejected + 1),
            newton=jnp.where(exhausted, p.newton, with_iterations(p, info)),
        )
        new = select(good, proceed, retry)
        resolution = 16 * jnp.finfo(jnp.float64).eps * jnp.maximum(jnp.abs(p.t), jnp.abs(self.t1 - self.t0))
        code = jnp.where(
            ~good & (jnp.abs(new.h) < resolution),
            jnp.where(result == 0, jnp.int32(Result.step_too_small), result),
            jnp.int32(0),
        )
        code = jnp.where(exhausted, jnp.int32(Result.max_steps_reached), code)
        return new._replace(result=code.astype(jnp.int32))

    def _next_stop(self, t: Array) -> Array:
        """The first instant after t at which a step ends."""
        if self.stops is None:
            return self.t1
        sign, stops = jnp.sign(self.t1 - self.t0), jnp.asarray(self.stops)
        k = jnp.searchsorted(stops, sign * t, side="right")
        return sign * stops[jnp.minimum(k, len(stops) - 1)]

    def _offset_at(self, t: Array) -> Any:
        """The offset at a stop; zero at other instants."""
        if self.offsets is None:
            return 0.0
        t, stops = jnp.sign(self.t1 - self.t0) * t, jnp.asarray(self.stops)
        k = jnp.minimum(jnp.searchsorted(stops, t, side="left"), len(stops) - 1)
        return jnp.where(stops[k] == t, jnp.asarray(self.offsets)[k], 0.0)

    def _offset_after(self, t: Array) -> Any:
        """How much later than t methods begin a step, for the right limit of loads."""
        return jnp.where(t == self.t0, self.right_limit_offset, self._offset_at(t))

    def _offset_before(self, t: Array) -> Any:
        """How much earlier than t methods end a step, for the left limit of loads."""
        return jnp.where(t == self.t1, self.left_limit_offset, self._offset_at(t))

    def is_after_jump(self, p: Progress) -> Any:
        return None if self.offsets is None else self._offset_at(p.t) != 0

    @property
    def has_jumps(self) -> bool:
        return self.offsets is not None

    def _factor(self, error: Array, previous: Array, order: Any, result: Array) -> Array:
        """Factor of the step after an error of a method of that order."""
        return jnp.where(result == 0, self.control.factor(error, previous, order), self.control.min_factor)

    def is_finished(self, p: Progress) -> Array:
        return p.t == self.t1

    def last_step(self, p: Progress) -> tuple[Array, Array]:
        right_limit_offset, dt = self._offset_after(p.t_before), p.t - p.t_before
        h = dt - right_limit_offset - self._offset_before(p.t)
        # Before the first step there is none.
        return p.t_before + right_limit_offset, jnp.where(dt != 0, h, self.t1 - self.t0)

    def has_passed(self, p: Progress, target: Array) -> Array:
        return (p.t - target) * jnp.sign(self.t1 - self.t0) >= 0

    def trial_step(self, p: Progress, searching: Array, share: Array, whole: Array) -> TrialStep:
        tolerances = self.tolerances._replace(atol=jnp.where(searching, 1e300, self.tolerances.atol))
        begin = p.t + self._offset_after(p.t)
        attempt = p._replace(h=jnp.where(searching, share * whole, p.h))
        return TrialStep(dataclasses.replace(self, tolerances=tolerances), attempt, begin)

    def length(self, p: Progress, new: Progress) -> Array:
        return new.t - p.t - self._offset_after(p.t) - self._offset_before(new.t)

    @property
    def step_limit(self) -> int:
        return int(self.max_steps)

    def with_limit(self, max_steps: int) -> Self:
        return dataclasses.replace(self, max_steps=np.asarray(max_steps))

    def finer(self, method: AbstractIntegrator) -> Self:
        factor = 2.0 ** -(1 + min(method.order, method.error_order or method.order))
        rtol, atol = (np.asarray(float(x) * factor) for x in self.tolerances)
        return dataclasses.replace(self, tolerances=Tolerances(rtol, atol))

    def until(self, t1: float, h: float | None, after: int, counted_from: int) -> None:
        return None

    def pieces(self, begin: int) -> list[list[float]]:
        return []

    def ends_as_planned(self, p: Progress, t: Array) -> Array:
        return t == self._next_stop(p.t)

    def numbers(self) -> list[Any]:
        stops = np.zeros(0) if self.stops is None else self.stops
        ends = *stops, *(0.0 * stops if self.offsets is None else self.offsets)
        limits = self.right_limit_offset, self.left_limit_offset
        return [self.t0, self.t1, *limits, self.max_steps, *self.tolerances, *ends]

    @classmethod
    def of_numbers(cls, numbers: list[float], control: StepControl) -> Self:
        """Steps from their `numbers`, with any NaN after them."""
        values = [x for x in numbers if x == x]
        t0, t1, right_limit_offset, left_limit_offset, max_steps, rtol, atol = map(np.asarray, values[:7])
        stops, offsets = np.array(values[7:]).reshape(2, -1)
        return cls(
            t0=t0,
            t1=t1,
            right_limit_offset=right_limit_offset,
            tolerances=Tolerances(rtol, atol),
            control=control,
            max_steps=max_steps.astype(int),
            left_limit_offset=left_limit_offset,
            stops=stops if len(stops) else None,
            offsets=offsets if np.any(offsets) else None,
        )


def controlled_segments(
    t0: float,
    t1: float,
    tolerances: tuple[float, float],
    control: StepControl,
    max_steps: int,
    breakpoints: Breakpoints,
) -> list[Segment]:
    """Segments of controlled steps."""
    segments: list[Segment] = []
    begin = t0
    rtol, atol = map(np.asarray, tolerances)
    for end in (*breakpoints.inner, t1):
        after_jump = bool(segments) or breakpoints.at_start
        off = math.copysign(shift(begin, end), t1 - t0)
        stops = _stops(begin, end, breakpoints.stops)
        stepper = ControlledSteps(
            t0=np.asarray(begin),
            t1=np.asarray(end),
            right_limit_offset=np.asarray(off * after_jump),
            tolerances=Tolerances(rtol, atol),
            control=control,
            max_steps=np.asarray(max_steps),
            left_limit_offset=np.asarray(off * (end != t1 or breakpoints.at_end)),
            stops=stops,
            offsets=_offsets(stops, off, breakpoints.jumps),
        )
        segments.append(Segment(stepper, after_jump))
        begin = end
    return segments


def _offsets(stops: np.ndarray | None, off: float, jumps: Sequence[float]) -> np.ndarray | None:
    """The offsets at stops, of which some are jumps."""
    if stops is None or not jumps:
        return None
    return np.where(np.isin(stops, math.copysign(1.0, off) * np.asarray(jumps)), off, 0.0)


def _stops(begin: float, end: float, others: Sequence[float]) -> np.ndarray | None:
    """The stops on the way from one instant to another, and that, as `ControlledSteps` takes them."""
    sign = math.copysign(1.0, end - begin)
    stops = [sign * t for t in others if sign * begin < sign * t < sign * end]
    padding = (1 << len(stops).bit_length()) - len(stops)
    return np.array([*stops, *[sign * end] * padding]) if stops else None
