"""The loop inside jit, grad and vmap: the same steps as one traced expression, differentiable in both modes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.compiler.cache.program_cache import xla_jit
from polhode.compiler.xla.entry_points import carried_on_scalars
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.jax_context import in_derivative
from polhode.results.observer import Observer
from polhode.simulation.derivatives import run_derivative
from polhode.simulation.loops.replay import nan_where_missing, observe, put_row, without_derivatives
from polhode.simulation.run_types import Plan
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping import counted_angles, divided_steps
from polhode.simulation.stepping.grid_steps import AbstractGridSteps
from polhode.simulation.stepping.segments import AbstractSegmentStepper, Segment
from polhode.simulation.stepping.stepper import (
    Progress,
    accept,
    outcome_of,
    restart_after_jump,
    select,
    with_state_check,
)
from polhode.systems.base import AbstractSystem

Step = Callable[[Progress, Any], Progress]


class _Steps(NamedTuple):
    """All steps of a run, from t to `end` with h; `active` is false for padding, loads may jump before `after_jump`.

    `choice`: the order of each step, where step control selects it; see `AbstractIntegrator.selected_order`.
    """

    t: Array
    end: Array
    h: Array
    active: Array
    after_jump: Array
    choice: Any = None


def run(plan: Plan) -> tuple[Frames, Progress]:
    """The whole run as one expression.

    Constant steps are a scan. Controlled steps are found first, without derivatives; then the accepted sequence is
    replayed, held fixed, and that is what is differentiated. Memory of reverse mode is O(√steps) states, plus what is
    saved.
    """

    segments, system, integrator, start, observer, schedule, _ = plan

    differentiated = in_derivative()

    def expression(system: AbstractSystem, state0: Any, observer: Observer) -> tuple[Frames, Progress]:
        return _expression(segments, system, integrator, state0, observer, schedule, differentiated)

    parts = system, integrator, start.state, observer
    native = run_derivative.run(segments, *parts, schedule, lambda s, x, o: expression(s, x, o)[0])
    return expression(system, start.state, observer) if native is None else native


def _expression(
    segments: Sequence[Segment],
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state0: Any,
    observer: Observer,
    schedule: SaveSchedule,
    differentiated: bool,
) -> tuple[Frames, Progress]:
    steppers, after_jump = zip(*segments, strict=True)
    counts = [s.step_limit for s in steppers]
    if steppers[0].on_grid:
        counts = [b - a for a, b in itertools.pairwise((0, *counts))]
    return _run(steppers, after_jump, tuple(counts), system, integrator, state0, observer, schedule, differentiated)


@xla_jit
def _run(
    steppers: tuple[AbstractSegmentStepper, ...],
    after_jump: tuple[bool, ...],
    counts: tuple[int, ...],
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state0: Any,
    observer: Observer,
    schedule: SaveSchedule,
    differentiated: bool,
) -> tuple[Frames, Progress]:
    stepper, search_end = steppers[0], None
    if not stepper.on_grid:
        count = counts[0]
        xs, search_end = _find_steps(steppers, after_jump, system, integrator, state0, count)
    else:
        count = sum(counts)
        xs = _constant_steps(steppers, after_jump, counts)
    start = stepper.start(system, integrator, state0, keep_previous=False)
    start = start._replace(h=jax.lax.stop_gradient(start.h))

    def restart(p: Progress, x: _Steps) -> Progress:
        # Each segment has its own constant step; controlled steps begin a segment with the suggestion of the last one.
        return stepper.restart_at(system, integrator, x.t, x.h if search_end is None else p.h, p)

    has_jumps = any(after_jump) or any(stepper.has_jumps for stepper in steppers)

    def step(p: Progress, x: _Steps) -> Progress:
        if has_jumps and not (integrator.one_step and p.carry.memory is None):
            p = jax.lax.cond(x.after_jump, restart, lambda p, x: p, p, x)
        begin = p.carry if x.choice is None else integrator.with_order(p.carry, x.choice)
        carry, info = divided_steps.step(integrator, system, x.t, x.h, begin)
        outcome = with_state_check(system, x.end, carry.state, outcome_of(carry, info))
        # A failure ends the run: later steps from the last good state don't count.
        outcome = jnp.where(p.result == 0, outcome, p.result)
        new = accept(p, x.end, x.h, carry, info, outcome, p.error)
        if search_end is None:
            return new
        return jax.tree.map(lambda a, b: jnp.where(x.active, a, b), new, p)

    if schedule.at is not None:
        p, carries = _scan(step, start, xs, differentiated, emit=True)
        end = search_end if search_end is not None else p
        t, state, multipliers = _interpolate_frames(
            system, integrator, start, carries, xs, has_jumps, count, schedule.at, end.t
        )
    else:
        p, t, state, multipliers = _at_steps(step, start, xs, differentiated, count, schedule.every)
    if search_end is not None:
        result = jnp.where(search_end.result != 0, search_end.result, p.result)
        p = p._replace(rejected=search_end.rejected, newton=search_end.newton, result=result)
    return observe(observer, t, state, multipliers), p


def _constant_steps(
    steppers: tuple[AbstractSegmentStepper, ...], after_jump: tuple[bool, ...], counts: tuple[int, ...]
) -> _Steps:
    parts = []
    for stepper, jumps, count in zip(steppers, after_jump, counts, strict=True):
        assert isinstance(stepper, AbstractGridSteps)
        n = jnp.arange(count) + (stepper.last - count)
        step, first = stepper.step(n), (jnp.arange(count) == 0) & jumps
        h = jnp.broadcast_to(jnp.asarray(step.length), (count,))
        restarts = first if step.after_jump is None else first | step.after_jump
        parts.append(_Steps(step.begin + step.offset, step.end, h, jnp.ones(count, bool), restarts))
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def _at_steps(
    step: Step, p: Progress, xs: Any, differentiated: bool, count: int, every: int | None
) -> tuple[Progress, Array, Any, Any]:
    """Frames at the start, every `every` steps and at the end."""
    every = min(every or count, count)
    whole = count // every
    frames = [jax.tree.map(lambda x: x[None], (p.t, p.carry.state, p.carry.multipliers))]

    def interval(p: Progress, x: Any) -> tuple[Progress, Any]:
        p, _ = _scan(step, p, x, differentiated, emit=False)
        return p, (p.t, p.carry.state, p.carry.multipliers)

    chunks = jax.tree.map(lambda x: x[: whole * every].reshape(whole, every, *x.shape[1:]), xs)
    p, interval_frames = jax.lax.scan(interval, p, chunks)
    frames.append(interval_frames)
    if count % every:
        p, last = interval(p, jax.tree.map(lambda x: x[whole * every :], xs))
        frames.append(jax.tree.map(lambda x: x[None], last))
    t, state, multipliers = jax.tree.map(lambda *x: jnp.concatenate(x), *frames)
    return p, t, state, multipliers


def _scan(step: Step, p: Progress, xs: Any, differentiated: bool, emit: bool) -> tuple[Progress, Any]:
    """A scan on scalars with square-root checkpointing; with `emit`, also the carries after each step."""
    enter, leave, advance = carried_on_scalars(step, p, jax.tree.map(lambda x: x[0], xs), differentiated)

    def body(flat: Any, x: Any) -> tuple[Any, Any]:
        flat = jax.checkpoint(advance)(flat, x)
        return flat, (leave(flat).carry if emit else None)

    def chunk(flat: Any, x: Any) -> tuple[Any, Any]:
        return jax.lax.scan(body, flat, x)

    count = len(jax.tree.leaves(xs)[0])
    size = max(1, math.isqrt(count))
    whole = count // size
    head = jax.tree.map(lambda x: x[: whole * size].reshape(whole, size, *x.shape[1:]), xs)
    flat, carries = jax.lax.scan(jax.checkpoint(chunk), enter(p), head)
    carries = jax.tree.map(lambda x: x.reshape(whole * size, *x.shape[2:]), carries)
    if count % size:
        flat, rest = chunk(flat, jax.tree.map(lambda x: x[whole * size :], xs))
        carries = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), carries, rest)
    return leave(flat), carries


def _interpolate_frames(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: Progress,
    carries: Carry,
    xs: Any,
    has_jumps: bool,
    count: int,
    at: np.ndarray,
    t_reached: Array,
) -> tuple[Array, Any, Any]:
    """Frames at given times, interpolated within the step that holds each."""
    t, h, active = xs.t, xs.h, xs.active
    first = jax.tree.map(lambda x: x[None], start.carry)
    carries = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, carries)
    times = jnp.asarray(at)
    ends = jnp.where(active, t + h, jnp.inf * jnp.sign(h[0]))
    index = jnp.sum((times[:, None] - ends[None, :]) * jnp.sign(h[0]) > 1e-9 * jnp.abs(h)[None, :], axis=1)
    index = jnp.minimum(index, count - 1)

    def one(time: Array, i: Array) -> Any:
        carry0 = jax.tree.map(lambda x: x[i], carries)
        carry1 = jax.tree.map(lambda x: x[i + 1], carries)
        carry0 = restart_after_jump(system, integrator, t[i], h[i], carry0, xs.after_jump[i] if has_jumps else None)
        s = jnp.clip((time - t[i]) / h[i], 0.0, 1.0)
        place = integrator, system, t[i], h[i], carry0, carry1, s
        inside = counted_angles.interpolate(*place), counted_angles.multipliers_within(*place)
        return select(jnp.abs(s - 1) < 1e-9, (carry1.state, carry1.multipliers), inside)

    state, multipliers = jax.vmap(one)(times, index)
    there = (times - t_reached) * jnp.sign(h[0]) <= 1e-9 * jnp.abs(h[0])
    return times, *nan_where_missing(there, (state, multipliers))


def _find_steps(
    steppers: tuple[AbstractSegmentStepper, ...],
    after_jump: tuple[bool, ...],
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state0: Any,
    max_steps: int,
) -> tuple[_Steps, Progress]:
    """The accepted steps, padded to `max_steps`; no derivatives pass through here."""
    steppers, system, integrator, state0 = without_derivatives((steppers, system, integrator, state0))
    p = steppers[0].start(system, integrator, state0, keep_previous=False)
    numbers = jnp.zeros(max_steps)
    choices = jax.tree.map(lambda x: jnp.broadcast_to(x, (max_steps,)), integrator.selected_order(p.carry))
    steps = _Steps(numbers, numbers, numbers, jnp.zeros(max_steps, bool), jnp.zeros(max_steps, bool), choices)
    for stepper, jumps in zip(steppers, after_jump, strict=True):
        if jumps:
            p = stepper.restart(system, integrator, p)
        p, steps = _find_segment(stepper, jumps, system, integrator, p, steps, max_steps)
    # Padding with a real step size keeps unused steps finite, so that their zero derivatives stay zero.
    steps = steps._replace(h=jnp.where(steps.active, steps.h, steps.h[0]))
    return jax.lax.stop_gradient(steps), p


def _find_segment(
    stepper: AbstractSegmentStepper,
    jumps: bool,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    steps: _Steps,
    max_steps: int,
) -> tuple[Progress, _Steps]:
    begin = p.n

    def more(loop: tuple[Progress, _Steps]) -> Array:
        return ~stepper.is_finished(loop[0]) & (loop[0].result == 0)

    def body(loop: tuple[Progress, _Steps]) -> tuple[Progress, _Steps]:
        p, so_far = loop
        new = stepper.attempt(system, integrator, p)
        index = jnp.where(new.n > p.n, p.n, max_steps)
        # Steps at breakpoints are a little shorter for their loads.
        t, h = stepper.last_step(new._replace(t_before=p.t))
        jumps_before = stepper.is_after_jump(p)
        after_jump = (p.n == begin) & jumps if jumps_before is None else jumps_before | ((p.n == begin) & jumps)
        row = _Steps(t, new.t, h, jnp.ones((), bool), after_jump, integrator.selected_order(new.carry))
        return new, put_row(so_far, index, row)

    return jax.lax.while_loop(more, body, (p, steps))
