"""Runs on the host: from a plan, through the loop, to a solution."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import warn
from polhode.result_codes import Result
from polhode.simulation.checkpoint.checkpoint import InMemoryCheckpoint
from polhode.simulation.diagnosis import diagnose
from polhode.simulation.loops import host
from polhode.simulation.loops.signals import Interrupts, interruption
from polhode.simulation.progress_display import open_display
from polhode.simulation.run_plan import PlannedRun
from polhode.simulation.run_types import Outcome
from polhode.simulation.stepping.stepper import Progress
from polhode.simulation.store_sink import StoreSink
from polhode.solution.solution import Solution


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


class RunOptions(NamedTuple):
    """How a run is to behave.

    - `progress`: whether to show it. - `throw`: whether to raise `SimulationError`.
    - `build_time`: seconds of building and checking its plan, without the problem.
    """

    progress: bool = False
    throw: bool = False
    build_time: float = 0.0


def carry_out(run: PlannedRun, options: RunOptions, sink: StoreSink | None, interrupts: Interrupts) -> Solution:
    """As `compute`; warns of an interruption if the run is to throw, and Ctrl-C's exception gets the solution."""
    solution = compute(run, options, sink, interrupts)
    interrupts.keep(interruption(_stop_message(solution), solution))
    if options.throw and solution.stats["result"] == Result.interrupted and not interrupts.raises():
        warn(_interruption_message(solution), InterruptionWarning)
    return solution


def _stop_message(solution: Solution) -> str:
    if solution.stats["result"] != Result.interrupted:
        return "A signal came when the run had ended."
    return f"A signal ended the run at t = {solution.stats['t_reached']:.6g} of {solution.meta['t1']:.6g}."


def _interruption_message(solution: Solution) -> str:
    # Where a signal ends one of many runs, a script would use the partial run as if it were whole.
    last = f"Its last frame is that of t = {float(solution.t[-1]):.6g}" if len(solution.t) else "It has no frame"
    return (
        f"{_stop_message(solution)} {last}, and "
        "`stats['result']` is `interrupted`. `simulate(…, initial=solution)` goes on, `resume` with a store."
    )


def compute(run: PlannedRun, options: RunOptions, sink: StoreSink | None, interrupts: Interrupts) -> Solution:
    """Make all steps.

    Raises SimulationError if they fail and the run is to throw, KeyboardInterrupt if Ctrl-C was pressed twice.
    """
    meta, method = run.metadata, run.plan.integrator
    with open_display(options.progress, meta["problem"] or "run", meta["t0"], meta["t1"]) as display:
        display.stage("finding a consistent start")
        outcome = host.run(run.plan, sink, display, interrupts)
        result = Result(int(outcome.progress.result))
        stats = statistics(outcome.progress, method, result, _times(run, options, outcome))
        if outcome.events is not None and outcome.events.table is not None:
            stats["events"] = outcome.events.table
        if outcome.events is not None and outcome.events.python_events:
            stats["python_events"] = outcome.events.python_events
        display.finish(stats)
    explanation = diagnose(run, outcome, stats)
    solution = _solution(run, outcome, stats, sink)
    if isinstance(outcome.error, KeyboardInterrupt):
        raise interruption(_stop_message(solution), solution, repeated=True) from outcome.error
    result = stats["result"]
    if options.throw and result not in _REGULAR:
        why = sink.reason if sink is not None and sink.reason else result.message
        extent = f"Computed up to t = {stats['t_reached']:.6g} of {meta['t1']:.6g}."
        cause = sink.error if sink is not None and sink.error else outcome.error
        raise SimulationError(f"{result.name}: {why}{explanation} {extent}", solution) from cause
    return solution


_REGULAR = (Result.successful, Result.interrupted, Result.event_reached)


def _solution(run: PlannedRun, outcome: Outcome, stats: dict[str, Any], sink: StoreSink | None) -> Solution:
    """The solution of a run; closes its store."""
    frames: Any = outcome.frames
    if sink is not None:
        stats["result"] = sink.close(stats)
        frames = sink.frames() or frames
    events = outcome.events
    checkpoint = None
    # The method's memory of a closed contact is not for another run, which closes it itself.
    if events is None or not events.has_closed_contacts:
        checkpoint = InMemoryCheckpoint(outcome.checkpoint, run.plan.segments, run.identity)
    reader = run.reader if events is None or not events.changed else None
    return Solution(frames, stats, run.metadata, checkpoint, reader, picture=run.picture)


def _times(run: PlannedRun, options: RunOptions, outcome: Outcome) -> dict[str, Any]:
    """Times of the parts of a run, and the report of its compilation."""
    return {
        "problem_time_s": run.problem_time,
        "build_time_s": options.build_time + outcome.start_time,
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
