"""Events inside jit, grad and vmap: steps are found first, then replayed with derivatives, those of event times too."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.compiler.cache.program_cache import xla_jit
from polhode.events.event import function_of
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.result_codes import Result
from polhode.results.observer import Observer
from polhode.simulation.events.actions import EventActions
from polhode.simulation.events.detection import EventDetectingStepper
from polhode.simulation.events.event_functions import EventFunctions
from polhode.simulation.events.event_plan import EventPlan
from polhode.simulation.events.simultaneous import SimultaneousEvents, root_at_zero
from polhode.simulation.loops.replay import nan_where_missing, observe, put_row, without_derivatives
from polhode.simulation.run_types import Plan
from polhode.simulation.save_schedule import frame_times
from polhode.simulation.stepping import counted_angles, divided_steps
from polhode.simulation.stepping.stepper import Progress, outcome_of, select, with_state_check
from polhode.systems.base import AbstractSystem


class _Steps(NamedTuple):
    """All steps of a run, the cut ones included.

    - `begin`, `length`: as the method has them. - `end`: the time reached. - `fixed`: whether that was planned.
    - `active`: false for padding. - `after_jump`: whether loads may jump before. - `fired`: the events at its end.
    - `signs`: those of the functions before the events. - `next`: length of the next step at a restart. - `choice`: the
      order that the method selected.
    """

    begin: Array
    length: Array
    end: Array
    fixed: Array
    active: Array
    after_jump: Array
    fired: Array
    signs: Array
    next: Array
    choice: Any = None


def run(plan: Plan, events: EventPlan) -> tuple[Frames, Progress, dict[str, Array]]:
    """The whole run as one expression: frames, progress and a table of at most `events.max_events` events."""
    segments, system, integrator, start, observer, schedule, _ = plan
    run_system, most = events.run_system, events.max_events
    event_functions = tuple(
        function_of(event, run_system.outputs, run_system.conversion.back) for event in events.events
    )
    functions, actions = EventFunctions.of(events.events, event_functions, run_system.source), EventActions.of(events)
    steppers = tuple(EventDetectingStepper(segment.stepper, functions) for segment in segments)
    after_jump = tuple(segment.after_jump for segment in segments)
    count = segments[-1].stepper.step_limit + 2 * most
    at = frame_times(segments, schedule)
    return _run(steppers, after_jump, system, integrator, start.state, observer, at, actions, most, count)


@xla_jit
def _run(
    steppers: tuple[EventDetectingStepper, ...],
    after_jump: tuple[bool, ...],
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state0: Any,
    observer: Observer,
    at: np.ndarray,
    actions: EventActions,
    most: int,
    count: int,
) -> tuple[Frames, Progress, dict[str, Array]]:
    start = steppers[0].inner.start(system, integrator, state0, keep_previous=False)
    search_steppers, base, method, begin, act = without_derivatives((steppers, system, integrator, state0, actions))
    rows, search_end = _find_steps(search_steppers, after_jump, base, method, begin, act, most, count)
    rows = jax.lax.stop_gradient(rows)
    has_jumps = any(after_jump) or any(stepper.inner.has_jumps for stepper in steppers)
    replay = _Replay(system, integrator, steppers[0], actions, has_jumps)
    initial = jnp.asarray(start.t, float), start.carry
    _, (begins, lengths, befores, ends, effects) = jax.lax.scan(jax.checkpoint(replay.step), initial, rows)
    frames = _frames(system, integrator, observer, rows, (begins, lengths, befores, ends), at, search_end.t)
    row, number = jnp.nonzero(rows.fired & rows.active[:, None], size=most, fill_value=-1)
    there = number >= 0
    pick = lambda x: jnp.where(there.reshape(-1, *(1,) * (x.ndim - 2)), x[row, number], jnp.nan)  # noqa: E731
    table: dict[str, Any] = {
        "t": pick(effects.t),
        "number": number,
        "before": [pick(x) for x in jax.tree.leaves(effects.before)],
        "after": [pick(x) for x in jax.tree.leaves(effects.after)],
    }
    return frames, search_end._replace(carry=start.carry), table


class _Replay(NamedTuple):
    """Replay of the steps, with derivatives; `restarts`: whether loads may jump before some of them."""

    system: AbstractSystem
    integrator: AbstractIntegrator
    steps: EventDetectingStepper
    actions: EventActions
    restarts: bool

    def step(self, now: tuple[Array, Carry], row: _Steps) -> tuple[tuple[Array, Carry], Any]:
        """Time and state after the step, and its data for frames and the table of events."""
        t, carry = now
        late = t - jax.lax.stop_gradient(t)
        begin = row.begin + late
        if self.restarts:
            carry = jax.lax.cond(row.after_jump, lambda c: self._restart(begin, row.length, c), lambda c: c, carry)
        start = carry if row.choice is None else self.integrator.with_order(carry, row.choice)
        at_event = jnp.any(row.fired)
        # A step that ends at a given time takes up what events before it are late; one that ends at an event doesn't.
        length = row.length - jnp.where(row.fixed & ~at_event, late, 0.0)
        length = length + jax.lax.cond(
            at_event & row.active, lambda: self._delay(row, begin, start), lambda: jnp.zeros(())
        )
        end, info = divided_steps.step(self.integrator, self.system, begin, length, start)
        t_end = row.end + jnp.where(row.fixed & ~at_event, 0.0, late + length - jax.lax.stop_gradient(length))
        simultaneous = SimultaneousEvents(self.system, self.steps.functions, self.actions.branches)
        apply_events = functools.partial(simultaneous, row.fired, row.signs, row.length)
        effects = jax.lax.cond(at_event, apply_events, simultaneous.no_effects, t_end, end.state)
        after, state = effects.t[-1], jax.tree.map(lambda x: x[-1], effects.after)
        restart = lambda c: self._restart(after, row.next, c._replace(state=state))  # noqa: E731
        new = jax.lax.cond(at_event, restart, lambda c: c, end)
        keep = row.active & (outcome_of(end, info) == 0)
        new = jax.tree.map(lambda a, b: jnp.where(keep, a, b), (after, new), (t, carry))
        return new, (begin, length, start, end, effects)

    def _restart(self, t: Array, h: Array, carry: Carry) -> Carry:
        carry = counted_angles.restart(self.integrator, self.system, t, h, carry)
        return self.steps.inner.initial_carry(self.system, self.integrator, t, h, carry)

    def _delay(self, row: _Steps, begin: Array, carry: Carry) -> Array:
        """Zero, with all derivatives of the length of the step to the first event: that of a root of its function."""
        first = jnp.argmax(row.fired)

        def value(late: Array) -> Array:
            end = divided_steps.step(self.integrator, self.system, begin, row.length + late, carry)[0]
            return self.steps.functions(begin + row.length + late, end.state)[first]

        return root_at_zero(value, row.active & jnp.any(row.fired))


def _frames(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    observer: Observer,
    rows: _Steps,
    steps: tuple[Array, Array, Carry, Carry],
    at: np.ndarray,
    t_end: Array,
) -> Frames:
    """Frames at given times, within the step that holds each; one at the time of an event shows what was before."""
    begins, lengths, befores, ends = steps
    times, way = jnp.asarray(at), jnp.sign(rows.length[0])
    near = 1e-9 * jnp.abs(rows.length[0])
    last = jnp.where(rows.active, rows.end, jnp.inf * way)
    index = jnp.sum((times[:, None] - last[None, :]) * way > near, axis=1)
    index = jnp.minimum(index, jnp.maximum(jnp.sum(rows.active) - 1, 0))

    def one(time: Array, i: Array) -> Any:
        before, end = (jax.tree.map(lambda x: x[i], c) for c in (befores, ends))
        s = (time - begins[i]) / lengths[i]
        s_value = jax.lax.stop_gradient(s)
        # At the ends of a step, to which rounding is cut off, it has its derivatives still.
        s = s + (jnp.clip(s_value, 0.0, 1.0) - s_value)
        place = integrator, system, begins[i], lengths[i], before, end, s
        inside = counted_angles.interpolate(*place), counted_angles.multipliers_within(*place)
        # The end of a step at an event is not that instant where numbers change, but that of the event.
        exact = rows.fixed[i] & ~jnp.any(rows.fired[i]) & (jnp.abs(s - 1) < 1e-9)
        state, multipliers = select(exact, (end.state, end.multipliers), inside)
        return select(s <= 0, before.state, state), multipliers

    state, multipliers = jax.vmap(one)(times, index)
    there = (times - t_end) * way <= near
    return observe(observer, times, *nan_where_missing(there, (state, multipliers)))


def _find_steps(
    steppers: tuple[EventDetectingStepper, ...],
    after_jump: tuple[bool, ...],
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state0: Any,
    actions: EventActions,
    most: int,
    count: int,
) -> tuple[_Steps, Progress]:
    """All steps, padded to `count`, and the progress at the end."""
    p = steppers[0].start(system, integrator, state0, keep_previous=False)
    numbers, no = jnp.zeros(count), jnp.zeros(count, bool)
    choices = jax.tree.map(lambda x: jnp.broadcast_to(x, (count,)), integrator.selected_order(p.carry))
    none_fired = jnp.zeros((count, len(actions.actions)), bool)
    rows = _Steps(numbers, numbers, numbers, no, no, no, none_fired, none_fired.astype(float), numbers, choices)
    loop = p, rows, jnp.zeros((), int), jnp.zeros((), int)
    for stepper, jumps in zip(steppers, after_jump, strict=True):
        p, *others = loop
        loop = (stepper.restart(system, integrator, p) if jumps else p, *others)
        loop = _find_segment(stepper, jumps, system, integrator, actions, most, count, loop)
    p, rows, *_ = loop
    # Padding with a real step keeps unused ones finite, so that their zero derivatives stay zero.
    real = lambda x: jnp.where(rows.active, x, x[0])  # noqa: E731
    rows = rows._replace(begin=real(rows.begin), length=real(rows.length), next=real(rows.next))
    return rows, p


def _find_segment(
    stepper: EventDetectingStepper,
    jumps: bool,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    actions: EventActions,
    most: int,
    count: int,
    loop: Any,
) -> Any:
    begin = loop[2]

    def more(loop: Any) -> Array:
        return ~stepper.is_finished(loop[0]) & (loop[0].result == 0)

    def body(loop: Any) -> Any:
        p, rows, at, event_count = loop
        new = stepper.attempt(system, integrator, p)
        new = new._replace(result=with_state_check(system, new.t, new.carry.state, new.result))
        event = new.result == int(Result.event_reached)
        accepted = (new.t != p.t) | event
        w = new.events
        fixed = stepper.inner.ends_as_planned(p, new.t) & ~w.cut

        def handle_event(p: Progress) -> Progress:
            state = actions(p.events.fired, p.t, p.carry.state)
            return stepper.after_event(system, integrator, p, state, same_system=True)

        after = jax.lax.cond(event, handle_event, lambda p: p, new)
        jumps_before, first = stepper.inner.is_after_jump(p), (at == begin) & jumps
        after_jump = first if jumps_before is None else first | jumps_before
        row = _Steps(
            w.begin, w.length, new.t, fixed, jnp.ones((), bool), after_jump, w.fired, w.signs, after.h,
            integrator.selected_order(new.carry),
        )  # fmt: skip
        place = jnp.where(accepted, at, count)
        rows = put_row(rows, place, row)
        at, event_count = at + accepted, event_count + jnp.sum(w.fired)
        code = jnp.where(event & (event_count >= most), int(Result.events_accumulate), after.result)
        code = jnp.where(event & actions.ends(w.fired), int(Result.event_reached), code)
        code = jnp.where((at >= count) & (code == 0) & ~stepper.is_finished(after), int(Result.max_steps_reached), code)
        return after._replace(result=code.astype(jnp.int32)), rows, at, event_count

    return jax.lax.while_loop(more, body, loop)
