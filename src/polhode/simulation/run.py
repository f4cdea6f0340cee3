"""One run on the host, from its plan to its solution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from polhode.compiler.numpy.eager import eager_numpy
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import warn
from polhode.result_codes import Result
from polhode.results.derived_quantities import reader_of
from polhode.results.observer import Observer
from polhode.simulation import run_types
from polhode.simulation.checkpoint.continuation import InMemoryCheckpoint
from polhode.simulation.events.handler import EventHandler
from polhode.simulation.loops import host
from polhode.simulation.loops.signals import Interrupts, interruption
from polhode.simulation.progress_display import open_display
from polhode.simulation.run_plan import Plan
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping.stepper import Progress
from polhode.simulation.task import Task
from polhode.solution.solution import Solution
from polhode.systems.base import AbstractSystem

if TYPE_CHECKING:
    from polhode.simulation.store_sink import StoreSink


class SimulationError(RuntimeError):
    """A run that did not reach its end.

    - `solution`: everything up to the failure.
    - `reason`: the cause, without a hint at the solution.
    """

    def __init__(self, reason: str, solution: Solution) -> None:
        super().__init__(f"{reason} Everything up to there is in `error.solution`.")
        self.reason = reason
        self.solution = solution


class InterruptionWarning(UserWarning):
    """A run was ended by a signal before its end; its last frame is not that of the span."""


class Run(NamedTuple):
    """A host run: its task, plan, schedule and options.

    - `build_time`: seconds of building and checking all this, without the problem.
    """

    task: Task
    plan: Plan
    schedule: SaveSchedule
    observer: Observer
    meta: dict[str, Any]
    progress: bool
    throw: bool
    build_time: float


def carry_out(run: Run, sink: StoreSink | None, interrupts: Interrupts) -> Solution:
    """As `compute`; warns of an interruption if the run is to throw, and Ctrl-C's exception gets the solution."""
    solution = compute(run, sink, interrupts)
    interrupts.keep(interruption(_stop_message(run, solution), solution))
    if run.throw and solution.stats["result"] == Result.interrupted and not interrupts.raises():
        warn(_interruption_message(run, solution), InterruptionWarning)
    return solution


def _stop_message(run: Run, solution: Solution) -> str:
    if solution.stats["result"] != Result.interrupted:
        return "A signal came when the run had ended."
    return f"A signal ended the run at t = {solution.stats['t_reached']:.6g} of {run.task.t1:.6g}."


def _interruption_message(run: Run, solution: Solution) -> str:
    # Where a signal ends one of many runs, a script would use the partial run as if it were whole.
    last = f"Its last frame is that of t = {float(solution.t[-1]):.6g}" if len(solution.t) else "It has no frame"
    return (
        f"{_stop_message(run, solution)} {last}, and "
        "`stats['result']` is `interrupted`. `simulate(…, initial=solution)` goes on, `resume` with a store."
    )


def compute(run: Run, sink: StoreSink | None, interrupts: Interrupts) -> Solution:
    """Make all steps.

    Raises SimulationError if they fail and the run is to throw, KeyboardInterrupt if Ctrl-C was pressed twice.
    """
    if sink is not None:
        sink.attach(run)
    task, plan = run.task, run.plan
    method, system = task.integrator, task.system
    with open_display(run.progress, task.problem.name if task.problem else "run", task.t0, task.t1) as show:
        show.stage("finding a consistent start")
        events = _event_handler(run)
        outcome = host.run(
            plan.segments, system, method, plan.start, run.observer, run.schedule, sink, show, interrupts, events
        )
        stats = statistics(outcome.progress, method, Result(int(outcome.progress.result)), _times(run, outcome))
        if task.events and events is not None:
            stats["events"] = events.table()
        show.finish(stats)
    explanation = _explanation(system, stats, outcome)
    if stats["result"] in _UNSTABLE and not method.implicit:
        explanation += step_size_diagnosis(task, plan, stats, share=0.5)
    frames: Any = outcome.frames
    if sink is not None:
        stats["result"] = sink.close(stats)
        frames = sink.frames() or frames
    # The method's memory of a closed contact is not for another run, which closes it itself.
    checkpoint = (
        None
        if events is not None and events.has_closed_contacts
        else InMemoryCheckpoint(outcome.checkpoint, plan.segments, task)
    )
    system_changed = events is not None and events.changed
    reader = None if system_changed else reader_of(task.problem, task.source, task.conversion)
    solution = Solution(frames, stats, run.meta, checkpoint, reader)
    if isinstance(outcome.error, KeyboardInterrupt):
        raise interruption(_stop_message(run, solution), solution, repeated=True) from outcome.error
    result = stats["result"]
    if run.throw and result not in _REGULAR:
        why = sink.reason if sink is not None and sink.reason else result.message
        extent = f"Computed up to t = {stats['t_reached']:.6g} of {task.t1:.6g}."
        cause = sink.error if sink is not None and sink.error else outcome.error
        raise SimulationError(f"{result.name}: {why}{explanation} {extent}", solution) from cause
    return solution


_REGULAR = (Result.successful, Result.interrupted, Result.event_reached)


def _event_handler(run: Run) -> EventHandler | None:
    """The events of a run, with the records of a resumed one, or the changes of the system by earlier events."""
    task, start = run.task, run.plan.start
    arrays = None if start.aftermath is None else start.aftermath.changes
    t, state = task.t0, task.state0
    if start.checkpoint is not None:
        t, state = float(start.checkpoint.progress.t), start.checkpoint.progress.carry.state
        arrays = start.checkpoint.event_arrays or arrays
    if not task.events and not arrays:
        return None
    events = EventHandler(task)
    if arrays:
        events.restore(arrays, t, state)
    return events


def _explanation(system: AbstractSystem, stats: dict[str, Any], outcome: run_types.Outcome) -> str:
    """The explanation of a failure besides its code; also added to the stats."""
    if outcome.error is not None:
        message = stats["error"] = f"{type(outcome.error).__name__}: {outcome.error}"
        return f" {message}."
    if stats["result"] not in _DIAGNOSED:
        return ""
    last = jax.tree.map(jnp.asarray, outcome.progress.carry.state)
    try:
        message = stats["diagnosis"] = system.diagnose(stats["t_reached"], last)
    except Exception as error:
        # A run is not lost because its diagnosis fails.
        message = stats["diagnosis"] = f"No diagnosis: {type(error).__name__}: {error}"
    return f" {message}" if message else ""


@eager_numpy()
def step_size_diagnosis(task: Task, plan: Plan, stats: dict[str, Any], share: float) -> str:
    """A diagnosis of a step that is too large for the stiffness at the start, or an empty text."""
    stepper = plan.segments[0].stepper
    if not stepper.on_grid:
        return ""
    try:
        message = task.source.explicit_limit(float(task.t0), task.state0, float(stepper.h), share)
    except Exception as error:
        message = f"Whether the step is too large for the stiffness is not known: {type(error).__name__}: {error}"
    if message:
        stats["diagnosis"] = f"{stats.get('diagnosis', '')} {message}".strip()
    return f" {message}" if message else ""


_UNSTABLE = (Result.nonfinite_state, Result.singular_constraints)
_DIAGNOSED = (
    Result.nonfinite_state,
    Result.newton_not_converged,
    Result.singular_constraints,
    Result.step_too_small,
    Result.joints_open,
    Result.half_turn_passed,
)


def _times(run: Run, outcome: run_types.Outcome) -> dict[str, Any]:
    """Times of the parts of a run, and the report of its compilation."""
    return {
        "problem_time_s": run.task.problem.build_time if run.task.problem else 0.0,
        "build_time_s": run.build_time + outcome.start_time,
        "compile_time_s": outcome.compile_time,
        "wall_time_s": outcome.wall_time,
        "compiled": outcome.compiled._asdict(),
    }


def statistics(p: Progress, method: AbstractIntegrator, result: Any, times: dict[str, Any]) -> dict[str, Any]:
    """Counts of a run, and its result."""
    steps, rejected, newton = p.n, p.rejected, p.newton
    if isinstance(result, Result):
        steps, rejected, newton = int(steps), int(rejected), int(newton)
    attempts = steps + rejected
    # NumPy computes with concrete numbers, for which JAX would compile a program.
    larger = np.maximum if isinstance(attempts, np.generic | np.ndarray) else jnp.maximum
    return {
        "steps": steps,
        "rejected": rejected,
        "evaluations": attempts * method.evaluations + newton,
        "newton_iterations": newton / (max(attempts, 1) if isinstance(attempts, int) else larger(attempts, 1)),
        "result": result,
        "t_reached": float(p.t) if isinstance(result, Result) else p.t,
        **times,
    }
