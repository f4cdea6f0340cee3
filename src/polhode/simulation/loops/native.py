"""Steps and the frames that they save in machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.compiler.cache.disk_cache import Serialiser
from polhode.compiler.cache.program_cache import find_program
from polhode.compiler.compile_report import CompileReport
from polhode.compiler.llvm.types import TooManyOperations, UnsupportedNativeOperation
from polhode.compiler.loops.step_loop import LoopControl, StepLoop
from polhode.compiler.loops.step_loop_ir import ADDITION, FRAME
from polhode.compiler.number_pattern import NumberPattern
from polhode.compiler.placement import on_host
from polhode.compiler.xla.entry_points import CompileTimeWarning
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import warn
from polhode.result_codes import Result
from polhode.simulation.events.detection import EventDetectingStepper
from polhode.simulation.events.event_functions import EventState
from polhode.simulation.events.responses import EventRow
from polhode.simulation.stepping.stepper import AbstractStepper, Progress, advance, dense_output, select
from polhode.systems.base import AbstractSystem


def more(args: Any, p: Progress, c: LoopControl) -> Array:
    """Whether a block continues; `args` are the stepper, the system and the method."""
    stepper, *_ = args
    unfinished = ~stepper.is_finished(p)
    if p.before is not None:
        unfinished = unfinished | (c.has_target & stepper.has_passed(p, c.target))
    unfinished = unfinished & (p.n < c.n_limit)
    return (unfinished if p.events is None else unfinished | jnp.any(p.events.fired)) & (p.result == 0)


def advance_to_frame(args: Any, p: Progress, c: LoopControl) -> tuple[Progress, Array, Any]:
    """The progress at the next row or at the end of the block, whether that is a row to save, and its contents.

    Rows are frames, and in runs with events these as well: see `_respond`.
    """
    stepper, system, integrator = args
    if p.before is None:
        p = advance(stepper, system, integrator, p, jnp.minimum((p.n // c.every + 1) * c.every, c.n_limit), None)
        due, row = (p.n % c.every == 0) | (c.last & stepper.is_finished(p)), frame(p)
    else:
        p = advance(stepper, system, integrator, p, c.n_limit, c.target)
        due = c.has_target & stepper.has_passed(p, c.target)
        row = (c.target, *dense_output(stepper, system, integrator, p, c.target))
    return _respond(args, p, due, row) if _has_responses(stepper) else (p, due & (p.result == 0), row)


def _respond(args: Any, p: Progress, due: Array, row: Any) -> tuple[Progress, Array, Any]:
    """The same after the response to events, if the steps have ended at some and can deal with them.

    Frames between the ends of steps come before the events at the end: they are interpolated from what was before.
    The kind of a row is an integer, see `StepLoop`. Where the host has to deal with events, the result remains
    `event_reached`, and it makes the frames of their step.
    """
    stepper, system, integrator = args
    w: EventState = p.events
    at_event = jnp.any(w.fired) & ((p.result == 0) | (p.result == int(Result.event_reached)))
    if p.before is None:
        due, now = due & ~(at_event & w.cut), at_event
        pending = at_event & False
    else:
        now = at_event & ~due
        pending = at_event & due

    def respond(p: Progress) -> tuple[Progress, EventRow]:
        response, state = stepper.responses(w, p.t, p.carry.state, system, stepper.functions.source)
        counted = p._replace(events=state)
        after = stepper.after_event(system, integrator, counted, response.state, same_system=True)
        # The host counts those that it deals with.
        left = p._replace(result=jnp.full((), int(Result.event_reached), jnp.int32))
        happened = response.happened & response.valid
        return select(response.valid, after, left), EventRow(now, happened, response.state, response.impulses)

    before = row if p.before is None else select(now, (p.t, p.carry.state, p.carry.multipliers), row)
    skip = lambda p: (p, EventRow.empty(len(w.signs), p.carry.state))  # noqa: E731
    p, events = jax.lax.cond(now, respond, skip, p)
    p = p._replace(result=jnp.where(pending, 0, p.result).astype(jnp.int32))
    is_frame = due & (p.result == 0)
    kind = jnp.where(is_frame, FRAME, jnp.where(jnp.any(events.happened), ADDITION, 0)).astype(jnp.int32)
    return p, kind, (*before, events._replace(is_frame=is_frame))


def pattern_of(inputs: Any) -> NumberPattern:
    """Which numbers of the system are constants of its steps, from the arrays of the arguments of `steps`."""
    return NumberPattern.of(inputs[0], _SYSTEM)


_SYSTEM = 1
"""Where the system is among the arguments of steps."""


def steps(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    report: Callable[[CompileReport], None] = lambda _: None,
    pattern: Callable[[Any], NumberPattern] | None = None,
) -> tuple[StepLoop | None, Any]:
    """Steps in machine code with its arguments, if possible.

    `report` is called with a report of each compilation; `pattern` gives the numbers that are constants,
    those of the system otherwise.
    """
    make = _native if on_host((system, p)) else _on_devices
    (step_loop,), (args, _) = find_program(
        make, (stepper, system, integrator), p, serialiser=_STEP_LOOPS, beside=(report,), pattern=pattern or pattern_of
    )
    return step_loop, None if step_loop is None else step_loop.arguments(args)


def _native(
    inputs: Any, rest: Any, pattern: NumberPattern, report: Callable[[CompileReport], None]
) -> tuple[StepLoop | None]:
    """Steps in machine code, if possible."""
    (args, progress), others = inputs, rest[0]

    def with_all(function: Callable) -> Callable:
        return lambda arrays, p, control: function(eqx.combine(arrays, others), p, control)

    try:
        row = row_contents(args, progress)
        return (StepLoop.of(with_all(more), with_all(advance_to_frame), args, progress, row, report, pattern),)
    except UnsupportedNativeOperation as reason:
        if isinstance(reason, TooManyOperations):
            _warn_of_contacts(eqx.combine(args, others)[1], reason)
        return (None,)


def _warn_of_contacts(system: AbstractSystem, reason: TooManyOperations) -> None:
    """Many kinds of pairs of shapes make long programs, where a remedy is at hand."""
    contacts = getattr(system, "contact_set", None)
    if contacts is not None:
        warn(
            f"XLA compiles the steps of this model with {contacts.count} contacts, which may take many minutes: "
            f"{reason} are too many for machine code, and each kind of pairs of shapes has its own. Name the pairs "
            "that matter by `add_contact`, leave out `contacts=True` of `load_model` if `floor=True` will do, or "
            "replace general convex shapes by spheres and capsules. `timeout` bounds the time.",
            CompileTimeWarning,
        )


def frame(p: Progress) -> tuple[Any, Any, Array | None]:
    """Time, state and multipliers of a frame."""
    return p.t, p.carry.state, p.carry.multipliers


def row_contents(args: Any, p: Progress) -> tuple[Any, ...]:
    """Contents of a row: a frame, and events if the steps respond to them."""
    return (*frame(p), EventRow.empty(len(p.events.signs), p.carry.state)) if _has_responses(args[0]) else frame(p)


def _has_responses(stepper: AbstractStepper) -> bool:
    """Whether compiled steps respond to events."""
    return isinstance(stepper, EventDetectingStepper) and stepper.responses is not None


def _on_improved(loops: tuple[StepLoop | None], write: Callable[[], None]) -> None:
    if loops[0] is not None:
        loops[0].code.when_improved = write


_STEP_LOOPS: Serialiser[tuple[StepLoop | None]] = Serialiser(
    dump=lambda loops: None if loops[0] is None else (loops[0].code, loops[0].pattern.codes),
    load=lambda parts, inputs: (
        StepLoop(parts[0], inputs[0], inputs[1], row_contents(*inputs), NumberPattern(parts[1])),
    ),
    watch=_on_improved,
)


def _on_devices(inputs: Any, rest: Any, pattern: NumberPattern, report: Callable[[CompileReport], None]) -> tuple[None]:
    """No machine code for what JAX does elsewhere."""
    return (None,)
