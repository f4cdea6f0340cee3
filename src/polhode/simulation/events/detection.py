"""Steps that end at events: which functions cross zero in a step, and where."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.result_codes import Result
from polhode.simulation.events import event_functions
from polhode.simulation.events.bracket import Bracket
from polhode.simulation.events.event_functions import EventFunctions, EventState, Motion, StepEnd, roundoff
from polhode.simulation.events.records import Aftermath
from polhode.simulation.events.responses import EventResponses
from polhode.simulation.events.sampling import Crossing, Curve
from polhode.simulation.events.step_attempt import StepAttempt
from polhode.simulation.events.step_parts import PartEnd, find_in_part, find_in_parts
from polhode.simulation.events.tally import EventTally
from polhode.simulation.stepping import counted_angles
from polhode.simulation.stepping.segments import AbstractSegmentStepper
from polhode.simulation.stepping.stepper import AbstractStepper, Progress, TrialStep, select
from polhode.systems.base import AbstractSystem, State
from polhode.systems.vector_field import VectorField

_NEAR = 1e-9
"""Part of a step within which a function counts as zero after an event, or at the start."""

_THROUGH = 1e-9
"""Part of its rate before an event that a function must keep after it to have crossed zero: less is rounding."""

_SHALLOW = 1e-6
"""Depth of a gap up to which it may close again before it was open."""

_JUMP = 1e-6
"""Part of a step that a continuous function takes at most, at its rate, from zero to its value after the event."""


class EventDetectingStepper(AbstractStepper):
    """The steps of another stepper, which end at events as well.

    A step in which a function crosses zero is rejected and tried again, shorter, until the event is bracketed; each
    attempt uses the same program as all steps. Then the progress has the result `event_reached`, and the loop continues
    with `after_event`. Numbers of steps count those that end as planned.
    `responses` are those of compiled steps; without them the loop around deals with all events.
    """

    on_grid: ClassVar[bool] = False
    t0: Any
    t1: Any
    right_limit_offset: Any
    inner: AbstractSegmentStepper
    functions: EventFunctions
    responses: EventResponses | None

    def __init__(
        self, inner: AbstractSegmentStepper, functions: EventFunctions, responses: EventResponses | None = None
    ) -> None:
        self.t0, self.t1, self.right_limit_offset = inner.t0, inner.t1, inner.right_limit_offset
        self.inner, self.functions, self.responses = inner, functions, responses

    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        return self.inner.first_step(system, integrator, state)

    def next_step(self, p: Progress) -> Array:
        return self.inner.next_step(p)

    def initial_carry(
        self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry
    ) -> Carry:
        return self.inner.initial_carry(system, integrator, t, h, carry)

    def is_finished(self, p: Progress) -> Array:
        return self.inner.is_finished(p)

    def has_passed(self, p: Progress, target: Array) -> Array:
        return self.inner.has_passed(p, target)

    def last_step(self, p: Progress) -> tuple[Array, Array]:
        return p.events.begin, p.events.length

    def trial_step(self, p: Progress, searching: Array, share: Array, whole: Array) -> TrialStep:
        return self.inner.trial_step(p, searching, share, whole)

    def length(self, p: Progress, new: Progress) -> Array:
        return self.inner.length(p, new)

    def start(
        self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep_previous: bool
    ) -> Progress:
        return self.with_event_state(system, integrator, self.inner.start(system, integrator, state, keep_previous))

    def with_event_state(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        """The progress of a run without events, with an initial event state."""
        motion, slopes = self.functions.slopes(system, integrator, p.t, p.h, p.carry)
        values = motion.values
        near = jnp.abs(values) <= _NEAR * jnp.abs(p.h * slopes)
        signs = jnp.where(near, jnp.sign(slopes), jnp.sign(values))
        signs = jnp.where(np.array(self.functions.unilateral) & (values >= -event_functions.CONTACT_DEPTH), 1.0, signs)
        return p._replace(events=self._idle_state(p, signs, motion))

    def with_aftermath(self, p: Progress, aftermath: Aftermath | None) -> Progress:
        """The progress after another run: a function that it has left at zero keeps its sign of before."""
        if aftermath is None or not len(aftermath.signs):
            return p
        signs = jnp.asarray(aftermath.signs)
        return p._replace(events=p.events._replace(signs=jnp.where(jnp.isfinite(signs), signs, p.events.signs)))

    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        w: EventState = p.events
        share = jnp.where(w.searching, w.share, 1.0)
        trial = self.inner.trial_step(p, w.searching, share, w.whole)
        new = trial.stepper.attempt(self._with_slope(system, p, trial.begin), integrator, trial.progress)
        accepted = (new.n > p.n) & (new.result == 0)
        partial = w.searching & (share < 1)
        t = jnp.where(partial, p.t + share * w.whole, new.t)
        length = trial.stepper.length(p, new)
        motion = self.functions.motion(system, t, new.h, new.carry.state)
        end = StepEnd(t, trial.begin, length, *motion)
        crossing = self._find_crossing(system, integrator, p, new, end)
        step = StepAttempt(p, new, accepted, partial, end, motion, crossing)
        # Nearly all steps are ordinary, and the arithmetic of the others costs as much as a small system's step.
        ordinary = accepted & ~w.searching & ~crossing.crossed
        return jax.lax.cond(ordinary, lambda s: self._complete(s), lambda s: self._search(s), step)

    def _with_slope(self, system: AbstractSystem, p: Progress, begin: Array) -> AbstractSystem:
        """The system for the step from p, with the velocity of the state if that is known there.

        It is not where the loads of the step are those after a jump.
        """
        velocity, state = p.events.velocity, p.carry.state
        if velocity is None or not isinstance(system, VectorField) or not self.functions.need_accelerations(state):
            return system
        slope = jax.lax.cond(begin == p.t, lambda: velocity, lambda: system.velocity(begin, state))
        return dataclasses.replace(system, slope=slope)

    def _complete(self, step: StepAttempt) -> Progress:
        """The progress after a step without an event, while none is being located."""
        p, new, end = step.p, step.new, step.end
        signs = self._reclosing_signs(p.events, step.crossing.signs, step.motion)
        idle = self._idle_state(new, signs, step.motion)
        return new._replace(events=idle._replace(begin=end.begin, length=end.length, whole=end.t - p.t))

    def _search(self, step: StepAttempt) -> Progress:
        """The progress after an attempt at an event, or after a step in which there is one."""
        p, new, end, crossing = step.p, step.new, step.end, step.crossing
        w: EventState = p.events
        # An attempt at an event that failed says that the step was too long for other reasons.
        failed = new._replace(events=w._replace(searching=jnp.zeros((), bool)))
        retry = p._replace(newton=new.newton, events=self._next_attempt(w, new.t - p.t, end, crossing))
        # A crossing of the estimates within a step need not be one of a step that ends there.
        missed = w.searching & self._is_first_attempt(w) & (self.functions.first_crossing(w.signs, end.values) >= 0)
        ends = jnp.where(w.searching, w.final | missed, ~crossing.crossed)
        return select(~step.accepted, failed, select(ends, self._complete_at(step, missed), retry))

    def _complete_at(self, step: StepAttempt, missed: Array) -> Progress:
        """The progress after a step that ends at an event, or where there was none after all."""
        p, new, end, motion = step.p, step.new, step.end, step.motion
        w: EventState = p.events
        at_event = w.searching & w.final
        fired = at_event & self._simultaneous(w, end) & ~self._has_jumped(w, end, new.carry.state)
        after = jnp.where(at_event | missed, self.functions.updated_signs(w.signs, end.values), step.crossing.signs)
        idle = self._idle_state(new, self._reclosing_signs(w, after, motion), motion)
        # A gap that has jumped has no sign until it is positive.
        after_jump = (
            at_event & ~fired & self.functions.has_crossed(w.signs, end.values) & np.array(self.functions.unilateral)
        )
        # The sign after an event that has fired is determined after its action.
        signs = jnp.where(fired, w.signs, jnp.where(after_jump, 0.0, idle.signs))
        result = jnp.where(jnp.any(fired), int(Result.event_reached), new.result).astype(jnp.int32)
        return new._replace(
            n=jnp.where(step.partial, p.n, new.n),
            t=end.t,
            h=jnp.where(w.searching, p.h, new.h),
            result=result,
            events=idle._replace(
                signs=signs, begin=end.begin, length=end.length, cut=step.partial, fired=fired, whole=end.t - p.t
            ),
        )

    def after_event(
        self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, state: State, same_system: bool
    ) -> Progress:
        """The progress after an event, from the state after its action.

        A function that is still about zero gets the sign to which it moves now: its former one where the action has
        turned it back, the opposite one where it has crossed. Rates before the event are known to be those of the step
        that ends there if `same_system`.
        """
        w: EventState = p.events
        start = p._replace(result=jnp.zeros((), jnp.int32))
        _, trial, begin = self.inner.trial_step(start, jnp.zeros((), bool), jnp.ones(()), w.whole)
        carry = counted_angles.restart(integrator, system, begin, trial.h, p.carry._replace(state=state))
        start = start._replace(h=trial.h, carry=self.initial_carry(system, integrator, begin, trial.h, carry))
        before, motion, slopes = self.functions.slopes_around(system, integrator, p, start, same_system)
        values, span = motion.values, jnp.maximum(jnp.abs(w.whole), jnp.abs(p.h))
        rate = jnp.maximum(jnp.abs(before), jnp.abs(slopes))
        zero = jnp.abs(values) <= (4 * self._resolution(p.t) + _NEAR * span) * rate
        # Where the rate itself vanishes, it says nothing; but what has fired was at zero before the action.
        near = zero | (w.fired & (rate > 0) & (jnp.abs(values) <= 4 * jnp.abs(w.values)))
        # One that was not even crossing is an impact that follows another one below the time resolution.
        through = (w.signs * before < 0) & (w.signs * slopes < 0) & (jnp.abs(slopes) > _THROUGH * jnp.abs(before))
        there = self.functions.updated_signs(w.signs, values)
        outgoing = jnp.where(through, -w.signs, w.signs)
        # Of those that have not fired, one that is at zero is about to.
        signs = jnp.where(near, jnp.where(w.fired, outgoing, w.signs), there)
        gaps = np.array(self.functions.unilateral)
        # What an impact has sent back may still be beyond, by as much as a restart changes the state. Behind an impact
        # without rebound rounding alone decides whether it closes again before its acceleration opens it.
        leaves = near & (slopes > _THROUGH * jnp.abs(before))
        signs = jnp.where(gaps & w.fired, jnp.where(leaves | (values >= 0), 1.0, 0.0), signs)
        # Those of forces and modes are others now: rates before say nothing, and one that is negative fires again.
        clear = (values > 0) | (values < -_SHALLOW)
        signs = jnp.where(np.array(self.functions.forces) & clear, 1.0, signs)
        return start._replace(events=self._idle_state(p, signs, motion))

    def _idle_state(self, p: Progress, signs: Float[Array, " k"], motion: Motion) -> EventState:
        """The event state while no event is being located."""
        zero, one, no = jnp.zeros(()), jnp.ones(()), jnp.zeros((), bool)
        bracket = Bracket.of(zero, one, zero, zero, zero)
        fired = jnp.zeros(len(self.functions.functions), bool)
        tally = EventTally.empty() if p.events is None else p.events.tally
        whole, begin = jnp.asarray(p.h, float), p.t + zero
        return EventState(signs, *motion, no, no, bracket, one, whole, begin, zero, no, fired, tally)

    def _reclosing_signs(self, w: EventState, signs: Float[Array, " k"], motion: Motion) -> Float[Array, " k"]:
        """Signs with those of gaps that close again before they were open: the next attempt finds their impact."""
        values, rates, _ = motion
        closes = values < w.values if rates is None else rates < 0
        shallow = (values < 0) & (values > -_SHALLOW)
        return jnp.where(np.array(self.functions.unilateral) & (signs == 0) & shallow & closes, 1.0, signs)

    def _find_crossing(
        self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, new: Progress, now: StepEnd
    ) -> Crossing:
        """The first crossing in a step; none while an event is being located already."""
        w = p.events
        begin = PartEnd(p.carry.state, p.t, w.values, w.rates, w.velocity)
        end = PartEnd(new.carry.state, now.t, now.values, now.rates, now.velocity)
        noise, jump = roundoff(new.carry.state), None
        if w.velocity is not None and now.velocity is not None:
            jump = counted_angles.jump_within(integrator, system, now.length, p.carry, new.carry)
        if jump is None:
            states = self._states(system, integrator, p, new, now)
            return find_in_part(self.functions, w.signs, states, begin, end, noise, w.searching)
        t = p.t + jump.share * (now.t - p.t)
        before, after = (
            PartEnd(state, t, *self.functions.motion(system, t, new.h, state)) for state in (jump.before, jump.after)
        )
        part = lambda signs, a, b, skip: find_in_part(  # noqa: E731
            self.functions, signs, self._curve(system, p, a, b), a, b, noise, skip
        )
        return find_in_parts(part, w.signs, jump.share, (begin, before), (after, end), w.searching)

    def _curve(self, system: AbstractSystem, p: Progress, begin: PartEnd, end: PartEnd) -> Callable[[Array], State]:
        """The states of a part of a step, by states and velocities at its ends."""
        assert begin.velocity is not None
        assert end.velocity is not None
        span = end.t - begin.t
        curve = Curve.of(system.state_space, begin.state, end.state, span * begin.velocity, span * end.velocity)
        if not system.counts:
            return curve
        return lambda s: system.count_turns(p.carry.state, curve(s), begin.t - p.t + s * span)

    def _states(
        self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, new: Progress, now: StepEnd
    ) -> Callable[[Array], State]:
        """The states within a step: from states and velocities at its ends, or by the method's interpolation."""
        w, begin, end = p.events, p.carry, new.carry
        before, after = w.velocity, now.velocity
        if before is None or after is None:
            return lambda s: counted_angles.interpolate(integrator, system, now.begin, now.length, begin, end, s)
        curve = Curve.of(system.state_space, begin.state, end.state, now.length * before, now.length * after)
        return (lambda s: system.count_turns(begin.state, curve(s), s * now.length)) if system.counts else curve

    def _resolution(self, t: Array) -> Array:
        """Width of brackets in time."""
        return jnp.maximum(self.functions.tolerance, 4 * jnp.finfo(float).eps * jnp.abs(t))

    def _simultaneous(self, w: EventState, now: StepEnd) -> Bool[Array, " k"]:
        """Which events occur at this instant: those that have crossed, and those within the time resolution of them."""
        crossed = self.functions.has_crossed(w.signs, now.values)
        if now.rates is None:
            return crossed
        margin = w.signs * now.values
        about = (w.signs * now.rates < 0) & (margin <= self._resolution(now.t) * jnp.abs(now.rates))
        return crossed | (jnp.any(crossed) & self.functions.may_cross(w.signs) & about)

    def _has_jumped(self, w: EventState, now: StepEnd, state: State) -> Bool[Array, " k"]:
        """Which functions have jumped across zero instead of crossing it, as angles do half a turn away.

        Jumps of piecewise constant functions are events.
        """
        if now.rates is None:
            return jnp.zeros(now.values.shape, bool)
        reach = (_JUMP * jnp.abs(w.whole) + 1e4 * self._resolution(now.t)) * jnp.abs(now.rates)
        # At rest, or nearly so, functions of the state change by its rounding.
        exceeds = (now.rates != 0) & (w.bracket.at_low - w.signs * now.values > reach + roundoff(state))
        return exceeds & ~np.array(self.functions.forces)

    def _is_first_attempt(self, w: EventState) -> Array:
        """Whether an attempt is the first one at an event whose crossing lies within a step."""
        return ~w.final & (w.share >= w.bracket.high)

    def _next_attempt(self, w: EventState, whole: Array, now: StepEnd, crossing: Crossing) -> EventState:
        """The next attempt at an event, after one or at first."""
        whole = jnp.where(w.searching, w.whole, whole)
        value, rate = self.functions.first_crossing(w.signs, now.values), None
        if now.rates is not None:
            rate = jnp.abs(whole) * self.functions.rate_of_first(w.signs, now.values, now.rates)
        first = Bracket.of(crossing.low, crossing.high, crossing.at_low, crossing.at_high, rate)
        at_high = Bracket.of(w.bracket.low, w.bracket.high, w.bracket.at_low, value, rate)
        bracket = select(self._is_first_attempt(w), at_high, w.bracket.narrow(w.share, value, rate))
        bracket = select(w.searching, bracket, first)
        near = self._resolution(now.t) / jnp.abs(whole)
        final = bracket.high - bracket.low <= near
        high = jnp.where(1 - bracket.high <= near, 1.0, bracket.high)
        # Within a step there are estimates, and where the bracket ends has to be tried.
        evaluate_end = w.searching | (bracket.high >= 1)
        share = jnp.where(final | ~evaluate_end, high, bracket.next(near))
        signs = jnp.where(w.searching, w.signs, crossing.signs)
        return w._replace(
            signs=signs, searching=jnp.ones((), bool), final=final, bracket=bracket, share=share, whole=whole
        )
