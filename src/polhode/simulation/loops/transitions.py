"""Transitions between the steps of a host run: its start, restarts, events, and frames within a step."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.compiler.numpy_jit import numpy_jit
from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.result_codes import Result
from polhode.simulation.events.detection import EventDetectingStepper
from polhode.simulation.events.tally import EventTally
from polhode.simulation.stepping import counted_angles
from polhode.simulation.stepping.stepper import AbstractStepper, Progress, dense_output
from polhode.systems.base import AbstractSystem, State


@numpy_jit
def begin(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep: bool
) -> Progress:
    """The progress at the beginning of a run; `keep`: with the beginning of the last step, for interpolation."""
    return stepper.start(system, integrator, state, keep)


@numpy_jit
def begin_trial(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep: bool
) -> Progress:
    """The progress before the trial step by which some methods start, without which `begin` has that to evaluate."""
    return stepper.start_trial(system, integrator, state, keep)


@numpy_jit
def end_trial(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, trial: Carry
) -> Progress:
    """The progress at the beginning of a run, from the carry after the trial step from `p`."""
    carry = counted_angles.after_trial(integrator, system, p.t + stepper.right_limit_offset, p.carry, trial)
    return p._replace(carry=carry, before=None if p.before is None else carry)


@numpy_jit
def restart(stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
    """The progress after a breakpoint, where loads may have jumped."""
    return stepper.restart(system, integrator, p)


@numpy_jit
def with_event_state(
    stepper: EventDetectingStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress
) -> Progress:
    """The progress of a run without events, with an event state."""
    return stepper.with_event_state(system, integrator, p)


@numpy_jit
def after_event(
    stepper: EventDetectingStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, state: State
) -> Progress:
    """The progress after an event."""
    return stepper.after_event(system, integrator, p, state, same_system=False)


@numpy_jit
def reinitialise(system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
    """The progress with the method initialised again, for a system with other constraints."""
    carry = counted_angles.init(integrator, system, p.t, p.h, p.carry.state)._replace(state=p.carry.state)
    return p._replace(carry=carry) if p.before is None else p._replace(carry=carry, t_before=p.t, before=carry)


@numpy_jit
def interpolate_last_step(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, target: Array
) -> tuple[State, Any]:
    """The state and the multipliers at `target`, within the last step."""
    return dense_output(stepper, system, integrator, p, target)


def with_previous(p: Progress, keep: bool) -> Progress:
    """The progress with the beginning of the last step, which interpolation needs, or without."""
    if not keep:
        return p._replace(t_before=None, before=None)
    return p if p.before is not None else p._replace(t_before=p.t, before=p.carry)


def with_empty_tally(p: Progress) -> Progress:
    """The progress of a run that begins at the end of another one, whose events are not its own."""
    return p if p.events is None else p._replace(events=p.events._replace(tally=EventTally.empty()))


def without_responses(p: Progress) -> Progress:
    """The progress for steps that don't respond to events, where others have left one to their next block."""
    if p.events is None or not np.any(p.events.fired):
        return p
    return p._replace(result=jnp.asarray(int(Result.event_reached), jnp.int32))
