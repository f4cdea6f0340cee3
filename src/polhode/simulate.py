"""The one driver of all runs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from polhode import _host, _preparation, _traced
from polhode._ambient import inside_transformation
from polhode._preparation import Task
from polhode._stepping import AbstractStepper, ConstantSteps, ControlledSteps, Progress
from polhode.control import StepControl
from polhode.integrators.base import AbstractIntegrator
from polhode.observing import Observer
from polhode.problems.base import Problem
from polhode.results import Result
from polhode.solution import Frames, Solution
from polhode.systems.base import AbstractSystem, State


class SimulationError(RuntimeError):
    """A run that did not reach its end.

    - `solution`: everything up to the failure.
    - `reason`: what happened, without where to find the rest.
    """

    def __init__(self, reason: str, solution: Solution) -> None:
        super().__init__(f"{reason} Everything up to there is in `error.solution`.")
        self.reason = reason
        self.solution = solution


class StepSizeWarning(UserWarning):
    """The step of an explicit method lies above what the stiffest element allows in linear theory."""


def simulate(
    problem: Problem | AbstractSystem,
    integrator: AbstractIntegrator | str | None = None,
    *,
    h: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    t0: float | None = None,
    t1: float | None = None,
    state0: State = None,
    save_every: int | None = 1,
    save_at: Any = None,
    store: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = False,
    throw: bool = True,
    control: StepControl | None = None,
    max_steps: int | None = None,
) -> Solution:
    """Run a problem or a system with an integrator.

    Works as a program on the host, with progress, stores and Ctrl-C, and inside `jax.jit`, `jax.grad`, `jax.jvp` and
    `jax.vmap`, where the whole run becomes one traced expression. Derivatives of error-controlled runs are those of the
    accepted step sequence held fixed.

    **Arguments:**

    - `problem`: a `Problem`, or a bare system with `state0` and `t1`.
    - `integrator`: object or name; the problem's recommended one by default. With tolerances, a recommended
      generalized-α method takes `constraint="stabilized-index-2"` where there are constraints, because index 3 disturbs
      the multipliers at every change of step; in place of a method without error estimate comes `rkmk54`, or `herk54`
      with constraints. At tight tolerances `herk54` needs far fewer steps than generalized-α, which is of order 2.
    - `h`: constant step. The span is divided into a whole number of steps, so the step used is at most `h`.
    - `rtol`, `atol`: tolerances of error control instead, for integrators with an embedded estimate; atol is
      rtol / 100 by default.
    - `t0`, `t1`, `state0`: other ends and start than the problem's. t1 < t0 runs backward in time (constant steps).
      A start must lie on its space and keep constraints and their rates at t0 to 1e-6 of the larger of 1 and the
      largest coordinate or velocity; it is used as given.
    - `save_every`: save every that many accepted steps, and the ends; None saves the ends only.
    - `save_at`: save at these increasing times instead, interpolated on the manifold.
    - `store`: path of a zarr store to which frames are appended while running; with `overwrite` an existing run there
      is replaced.
    - `progress`: show a progress bar on standard error.
    - `throw`: raise `SimulationError` if the run fails; otherwise only `solution.stats["result"]` tells, with
      `stats["diagnosis"]` or, after an unforeseen error, `stats["error"]`.
    - `control`: details of step size control.
    - `max_steps`: limit of attempted steps of a controlled run, 10 million by default; inside JAX transformations
      4096, since that much is traced.

    **Returns** a `Solution`. After Ctrl-C it holds everything computed so far, with result `interrupted`.

    Warns with `StepSizeWarning` before a run if waves in rods, bonds or contacts are too fast for an explicit method
    with this step.

    **Raises** ValueError for bad input, before anything is compiled; `SimulationError` (see `throw`).
    """
    if control is not None and not isinstance(control, StepControl):
        raise ValueError(f"`control` must be a polhode.StepControl, got {type(control).__name__}.")
    task = Task.prepare(problem, integrator, t0, t1, state0, tolerances=rtol is not None or atol is not None)
    saving = _preparation.saving(save_every, save_at, task.t0, task.t1)
    method, system, state = task.integrator, task.system, task.state0
    traced = inside_transformation()
    limit = max_steps if max_steps is not None else 4096 if traced else 10_000_000
    stepper, how = _preparation.stepper(task, h, rtol, atol, control or StepControl(), limit)
    observer = Observer(system, task.outputs, task.invariants)
    meta = task.describe(how, saving, observer)
    if traced:
        _check_traced(stepper, saving, store)
        count = int(stepper.count) if isinstance(stepper, ConstantSteps) else limit
        frames, p = _traced.run(stepper, system, method, state, observer, saving, count, np.ones(()))
        return Solution(frames, _stats(p, method, p.result, {}), meta)

    explicit = isinstance(stepper, ConstantSteps) and not method.implicit
    if explicit and _source(problem).has_waves:
        said = _too_large(problem, task, stepper, {}, share=1.0)
        if said:
            warnings.warn(said.strip(), StepSizeWarning, stacklevel=2)
    with _store(store, overwrite, meta) as run_store, _bar(progress, task) as show:
        outcome = _host.run(stepper, system, method, state, observer, saving, run_store.append, show)
        times = {"wall_time_s": outcome.wall_time, "compile_time_s": outcome.compile_time}
        stats = _stats(outcome.progress, method, Result(int(outcome.progress.result)), times)
        explanation = _explanation(system, stats, outcome)
        if stats["result"] in _UNSTABLE and not method.implicit:
            explanation += _too_large(problem, task, stepper, stats, share=0.5)
        stats["result"] = run_store.close(stats)
    solution = Solution(outcome.frames, stats, meta)
    result = stats["result"]
    if throw and result not in (Result.successful, Result.interrupted):
        said = f"{result.name}: {run_store.reason or result.message}{explanation}"
        reached = f"Computed up to t = {stats['t_reached']:.6g} of {task.t1:.6g}."
        raise SimulationError(f"{said} {reached}", solution) from run_store.error or outcome.error
    return solution


def _explanation(system: AbstractSystem, stats: dict[str, Any], outcome: _host.Outcome) -> str:
    """What is known of a failure besides its code; also noted in the stats."""
    if outcome.error is not None:
        said = stats["error"] = f"{type(outcome.error).__name__}: {outcome.error}"
        return f" {said}."
    if stats["result"] not in _EXPLAINED:
        return ""
    last = jax.tree.map(jnp.asarray, outcome.progress.carry.state)
    try:
        said = stats["diagnosis"] = system.diagnose(stats["t_reached"], last)
    except Exception as error:
        # A run is not lost because nobody can say what was wrong with it.
        said = stats["diagnosis"] = f"No diagnosis: {type(error).__name__}: {error}"
    return f" {said}" if said else ""


def _source(problem: Problem | AbstractSystem) -> AbstractSystem:
    return problem.system if isinstance(problem, Problem) else problem


def _too_large(
    problem: Problem | AbstractSystem, task: Task, stepper: AbstractStepper, stats: dict[str, Any], share: float
) -> str:
    """That the step is too large for the stiffness at the start, if it is."""
    if not isinstance(stepper, ConstantSteps):
        return ""
    try:
        said = _source(problem).explicit_limit(float(task.t0), task.state0, float(stepper.h), share)
    except Exception as error:
        said = f"Whether the step is too large for the stiffness is not known: {type(error).__name__}: {error}"
    if said:
        stats["diagnosis"] = f"{stats.get('diagnosis', '')} {said}".strip()
    return f" {said}" if said else ""


_UNSTABLE = (Result.nonfinite_state, Result.singular_constraints)
_EXPLAINED = (Result.nonfinite_state, Result.newton_not_converged, Result.singular_constraints, Result.step_too_small)


def _check_traced(stepper: AbstractStepper, saving: _host.Saving, store: Any) -> None:
    if store is not None:
        raise ValueError("A store can't be written inside jit, grad or vmap; run outside, or save the result.")
    if isinstance(stepper, ControlledSteps) and saving.at is None and saving.every is not None:
        raise ValueError(
            "Inside jit, grad or vmap an error-controlled run has no fixed number of frames. Give `save_at` times, or "
            "save_every=None for the ends only."
        )


def _stats(p: Progress, method: AbstractIntegrator, result: Any, times: dict[str, float]) -> dict[str, Any]:
    steps, rejected, newton = p.n, p.rejected, p.newton
    if isinstance(result, Result):
        steps, rejected, newton = int(steps), int(rejected), int(newton)
    attempts = steps + rejected
    return {
        "steps": steps,
        "rejected": rejected,
        "evaluations": attempts * method.evaluations + newton,
        "newton_iterations": newton / (max(attempts, 1) if isinstance(attempts, int) else jnp.maximum(attempts, 1)),
        "result": result,
        "t_reached": float(p.t) if isinstance(result, Result) else p.t,
        **times,
    }


class _Sink:
    """Hands frames to a store, and turns its failure into a result code."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.error: Exception | None = None
        self.reason = ""

    def append(self, frames: Frames) -> Result:
        return self._guarded(lambda store: store.append(frames), Result.successful)

    def close(self, stats: dict[str, Any]) -> Result:
        """The run's result, or `store_failed` if the last rows could not be written."""
        return stats["result"] if self.reason else self._guarded(lambda store: store.close(stats), stats["result"])

    def _guarded(self, act: Callable[[Any], None], good: Result) -> Result:
        if self.store is not None:
            try:
                act(self.store)
            except Exception as error:
                self.error = error
                said = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}."
                self.reason = f"{said} Everything computed so far is kept in memory."
                return Result.store_failed
        return good


@contextlib.contextmanager
def _store(path: str | Path | None, overwrite: bool, meta: dict[str, Any]) -> Iterator[_Sink]:
    if path is None:
        yield _Sink(None)
        return
    from polhode.runs.store import RunStore

    yield _Sink(RunStore.create(path, meta, overwrite=overwrite))


@contextlib.contextmanager
def _bar(wanted: bool, task: Task) -> Iterator[Callable[[float, float], None]]:
    if not wanted:
        yield lambda t, elapsed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("t = {task.fields[t]:.4g}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        name = task.problem.name if task.problem else "run"
        job = bar.add_task(name, total=abs(task.t1 - task.t0), t=task.t0)
        yield lambda t, elapsed: bar.update(job, completed=abs(t - task.t0), t=t)
