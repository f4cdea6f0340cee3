"""Runs inside jit, grad and vmap: from a plan, as one expression, to a solution."""

from __future__ import annotations

from typing import Any

from polhode.simulation.loops import traced, traced_events
from polhode.simulation.run import statistics
from polhode.simulation.run_plan import PlannedRun
from polhode.simulation.run_types import Plan
from polhode.solution.solution import Solution


def trace(run: PlannedRun, store: Any, estimate_error: bool) -> Solution:
    """The run as an expression of JAX. Raises ValueError for what has no place there."""
    _check(run.plan, store, estimate_error)
    method, events = run.plan.integrator, run.plan.events
    if events is not None and events.events:
        frames, p, table = traced_events.run(run.plan, events)
        return Solution(frames, {**statistics(p, method, p.result, {}), "events": table}, run.metadata)
    frames, p = traced.run(run.plan)
    return Solution(frames, statistics(p, method, p.result, {}), run.metadata)


def _check(plan: Plan, store: Any, estimate_error: bool) -> None:
    if store is not None:
        raise ValueError("A store can't be written inside jit, grad or vmap; run outside, or save the result.")
    if plan.start.checkpoint is not None or plan.start.aftermath is not None:
        raise ValueError(
            "Inside jit, grad or vmap a run can't go on with what the method or events remember of another. Run "
            "outside, or begin in the state alone, by `t0` and `state0`."
        )
    if estimate_error:
        raise ValueError("`estimate_error` makes a second run, which has no place inside jit, grad or vmap.")
    first, schedule = plan.segments[0].stepper, plan.schedule
    if not first.on_grid and schedule.at is None and schedule.every is not None:
        raise ValueError(
            "Inside jit, grad or vmap an error-controlled run has no fixed number of frames. Give `save_at` times, or "
            "save_every=None for the ends only."
        )
