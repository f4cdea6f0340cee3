"""Steps and the frames that they save in machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from polhode.compiler.cache.disk_cache import Serialiser
from polhode.compiler.cache.program_cache import find_program
from polhode.compiler.compile_report import CompileReport
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.step_loop import LoopControl, StepLoop
from polhode.compiler.placement import on_host
from polhode.integrators.base import AbstractIntegrator
from polhode.simulation.stepping.stepper import AbstractStepper, Progress, advance, dense_output
from polhode.systems.base import AbstractSystem


def more(args: Any, p: Progress, c: LoopControl) -> Array:
    """Whether a block continues; `args` are the stepper, the system and the method."""
    stepper, *_ = args
    unfinished = ~stepper.is_finished(p)
    if p.before is not None:
        unfinished = unfinished | (c.has_target & stepper.has_passed(p, c.target))
    return unfinished & (p.n < c.n_limit) & (p.result == 0)


def advance_to_frame(args: Any, p: Progress, c: LoopControl) -> tuple[Progress, Array, Any]:
    """The progress at the next frame or at the end of the block, whether that is a frame, and its contents."""
    stepper, system, integrator = args
    if p.before is None:
        p = advance(stepper, system, integrator, p, jnp.minimum((p.n // c.every + 1) * c.every, c.n_limit), None)
        save = ((p.n % c.every == 0) | (c.last & stepper.is_finished(p))) & (p.result == 0)
        return p, save, (p.t, p.carry.state, p.carry.multipliers)
    p = advance(stepper, system, integrator, p, c.n_limit, c.target)
    save = c.has_target & stepper.has_passed(p, c.target) & (p.result == 0)
    return p, save, (c.target, dense_output(stepper, system, integrator, p, c.target), p.carry.multipliers)


def steps(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    report: Callable[[CompileReport], None] = lambda _: None,
) -> tuple[StepLoop | None, Any]:
    """Steps in machine code with its arguments, if possible; `report` is called with a report of each compilation."""
    make = _native if on_host((system, p)) else _on_devices
    (step_loop,), (args, _) = find_program(
        make, (stepper, system, integrator), p, serialiser=_STEP_LOOPS, beside=(report,)
    )
    return step_loop, None if step_loop is None else step_loop.arguments(args)


def _native(inputs: Any, rest: Any, report: Callable[[CompileReport], None]) -> tuple[StepLoop | None]:
    """Steps in machine code, if possible."""
    (args, progress), others = inputs, rest[0]

    def with_all(function: Callable) -> Callable:
        return lambda arrays, p, control: function(eqx.combine(arrays, others), p, control)

    try:
        return (StepLoop.of(with_all(more), with_all(advance_to_frame), args, progress, frame(progress), report),)
    except UnsupportedNativeOperation:
        return (None,)


def frame(p: Progress) -> tuple[Any, Any, Array | None]:
    """Time, state and multipliers of a frame."""
    return p.t, p.carry.state, p.carry.multipliers


def _on_improved(loops: tuple[StepLoop | None], write: Callable[[], None]) -> None:
    if loops[0] is not None:
        loops[0].code.when_improved = write


_STEP_LOOPS: Serialiser[tuple[StepLoop | None]] = Serialiser(
    dump=lambda loops: None if loops[0] is None else loops[0].code,
    load=lambda code, inputs: (StepLoop(code, inputs[0], inputs[1], frame(inputs[1])),),
    watch=_on_improved,
)


def _on_devices(inputs: Any, rest: Any, report: Callable[[CompileReport], None]) -> tuple[None]:
    """No machine code for what JAX does elsewhere."""
    return (None,)
