"""Diagnoses: why a run has failed, or is going to."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from polhode.compiler.numpy.eager import eager_numpy
from polhode.jax_context import warn
from polhode.result_codes import Result
from polhode.simulation.run_plan import PlannedRun
from polhode.simulation.run_types import Outcome

_UNSTABLE = (Result.nonfinite_state, Result.singular_constraints)
_DIAGNOSED = (
    Result.nonfinite_state,
    Result.newton_not_converged,
    Result.singular_constraints,
    Result.step_too_small,
    Result.joints_open,
    Result.half_turn_passed,
    Result.contact_unsolved,
)


class StepSizeWarning(UserWarning):
    """The step of an explicit method lies above what the stiffest element allows in linear theory."""


def warn_of_stiffness(run: PlannedRun) -> None:
    """Warns with `StepSizeWarning` if constant steps of an explicit method are too large for the stiffest element."""
    on_grid = run.plan.segments[0].stepper.on_grid
    if on_grid and not run.plan.integrator.implicit and run.identity.events.run_system.source.has_stiff_forces:
        message = _diagnose_step_size(run, {}, share=1.0)
        if message:
            warn(message.strip(), StepSizeWarning)


def diagnose(run: PlannedRun, outcome: Outcome, stats: dict[str, Any]) -> str:
    """The explanation of a failure besides its code; also added to the stats."""
    explanation = _diagnose_state(run, outcome, stats)
    if stats["result"] in _UNSTABLE and not run.plan.integrator.implicit:
        explanation += _diagnose_step_size(run, stats, share=0.5) or _diagnose_last_step(run, outcome, stats)
    return explanation


def _diagnose_state(run: PlannedRun, outcome: Outcome, stats: dict[str, Any]) -> str:
    """The unforeseen error, or what the system says about the last state."""
    if outcome.error is not None:
        message = stats["error"] = f"{type(outcome.error).__name__}: {outcome.error}"
        return f" {message}."
    if stats["result"] not in _DIAGNOSED:
        return ""
    last = jax.tree.map(jnp.asarray, outcome.progress.carry.state)
    try:
        message = stats["diagnosis"] = run.plan.system.diagnose(stats["t_reached"], last)
    except Exception as error:
        # A run is not lost because its diagnosis fails.
        message = stats["diagnosis"] = f"No diagnosis: {type(error).__name__}: {error}"
    return f" {message}" if message else ""


def _diagnose_last_step(run: PlannedRun, outcome: Outcome, stats: dict[str, Any]) -> str:
    """The same at the last state, where inertias may be less than at the start."""
    last = run.identity.events.run_system.conversion.to_source(outcome.progress.carry.state)
    state = jax.tree.map(jnp.asarray, last)
    if not all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(state)):
        return ""
    return _diagnose_step_size(run, stats, share=0.5, at=(stats["t_reached"], state))


@eager_numpy()
def _diagnose_step_size(
    run: PlannedRun, stats: dict[str, Any], share: float, at: tuple[float, Any] | None = None
) -> str:
    """A diagnosis of a step that is too large for the stiffness at an instant, or an empty text. `at`: the start."""
    stepper, event_plan = run.plan.segments[0].stepper, run.identity.events
    if not stepper.on_grid:
        return ""
    t, state = (event_plan.t0, event_plan.state0) if at is None else at
    try:
        message = event_plan.run_system.source.explicit_limit(float(t), state, float(stepper.h), share)
    except Exception as error:
        message = f"Whether the step is too large for the stiffness is not known: {type(error).__name__}: {error}"
    if message:
        stats["diagnosis"] = f"{stats.get('diagnosis', '')} {message}".strip()
    return f" {message}" if message else ""
