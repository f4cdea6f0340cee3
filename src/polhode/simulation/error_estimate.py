"""The error of a run, estimated from a second one with half the step."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from polhode.frames import Frames
from polhode.result_codes import Result
from polhode.simulation.loops.signals import Interrupts
from polhode.simulation.run import RunOptions, SimulationError, compute
from polhode.simulation.run_plan import PlannedRun
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.store_sink import StoreSink, open_sink
from polhode.solution.solution import Solution
from polhode.storage.store_choice import store_class


def estimate_run_error(
    solution: Solution, run: PlannedRun, store: str | Path | None, interrupts: Interrupts
) -> dict[str, Any]:
    """Largest estimated error of each output over the run, and the decimal digits that are right.

    With a method of order p the run with half the step, or with tolerances that halve it, is 2ᵖ times as accurate, so
    the error is 2ᵖ/(2ᵖ - 1) times the difference of both. An output has as many digits as its error leaves of its
    largest value. Where the second run fails, "failed" says why. A run with a store has its second one on disk too,
    beside it and for a while, and gets the estimate into its stats.
    """
    finer = _finer(run, solution)
    with contextlib.ExitStack() as stack:
        sink = None
        if store is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path(store).resolve().parent)))
            sink = stack.enter_context(open_sink(folder / "finer.zarr", finer, False, "fail"))
        report = _compare(solution, finer, sink, interrupts)
    if store is not None:
        run_store, _ = store_class(store).reopen(store)
        run_store.close({**solution.stats, "error_estimate": report})
    return report


def _compare(solution: Solution, run: PlannedRun, sink: StoreSink | None, interrupts: Interrupts) -> dict[str, Any]:
    order = run.plan.integrator.order
    try:
        finer = compute(run, RunOptions(throw=True), sink, interrupts)
    except SimulationError as error:
        return {"failed": f"the run with half the step: {error.reason}"}
    if finer.stats["result"] != Result.successful:
        return {"failed": f"the run with half the step was interrupted at t = {finer.stats['t_reached']:.6g}."}
    factor = 2**order / (2**order - 1)

    def difference(a: Any, b: Any) -> np.ndarray:
        a, b = np.asarray(a), np.asarray(b)
        return np.array([np.max(np.abs(a - b), initial=0.0), np.max(np.abs(a), initial=0.0)])

    def describe(differences: np.ndarray) -> dict[str, float]:
        error, size = factor * float(differences[0]), float(differences[1])
        return {"error": error, "digits": _digits(error, size)}

    segments = [
        jax.tree.map(difference, _compared_values(a), _compared_values(b))
        for a, b in zip(solution.blocks(), finer.blocks(), strict=True)
    ]
    return jax.tree.map(lambda *values: describe(np.max(values, axis=0)), *segments)


def _compared_values(frames: Frames) -> dict[str, Any]:
    """The compared values: outputs, or the state where there are none."""
    return dict(frames.outputs) or {"state": frames.state}


def _digits(error: float, size: float) -> float:
    """Right decimal digits of a value of that size; at most those of double precision."""
    most = -math.log10(np.finfo(float).eps)
    if not math.isfinite(error) or size == 0:
        return most if error == 0 else 0.0
    return most if error == 0 else float(np.clip(math.log10(size / error), 0.0, most))


def _finer(run: PlannedRun, solution: Solution) -> PlannedRun:
    """The same run with half the step, which saves the same frames."""
    method, schedule = run.plan.integrator, run.plan.schedule
    segments = [segment._replace(stepper=segment.stepper.finer(method)) for segment in run.plan.segments]
    if schedule.at is None and schedule.every is not None:
        on_grid = run.plan.segments[0].stepper.on_grid
        schedule = (
            SaveSchedule(2 * schedule.every, None) if on_grid else SaveSchedule(None, np.asarray(solution.t, float))
        )
    return dataclasses.replace(run, plan=run.plan._replace(segments=segments, schedule=schedule))
