"""The one driver of all runs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from polhode import _host, _traced, integrators
from polhode._ambient import inside_transformation
from polhode._stepping import AbstractStepper, ConstantSteps, ControlledSteps, Progress
from polhode.control import StepControl, Tolerances
from polhode.integrators.base import AbstractIntegrator
from polhode.observing import Observer
from polhode.problems.base import Problem
from polhode.results import Result
from polhode.solution import Frames, Solution
from polhode.spaces.checks import check_point
from polhode.systems.base import AbstractSystem, State


class SimulationError(RuntimeError):
    """A run that did not reach its end. `solution` holds everything up to the failure."""

    def __init__(self, message: str, solution: Solution) -> None:
        super().__init__(message)
        self.solution = solution


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
    - `integrator`: object or name; the problem's recommended one by default (with tolerances `rkmk54`, if that one has
      no error estimate).
    - `h`: constant step. The span is divided into a whole number of steps, so the step used is at most `h`.
    - `rtol`, `atol`: tolerances of error control instead, for integrators with an embedded estimate; atol is
      rtol / 100 by default.
    - `t0`, `t1`, `state0`: other ends and start than the problem's. t1 < t0 runs backward in time (constant steps).
    - `save_every`: save every that many accepted steps, and the ends; None saves the ends only.
    - `save_at`: save at these increasing times instead, interpolated on the manifold.
    - `store`: path of a zarr store to which frames are appended while running; with `overwrite` an existing run there
      is replaced.
    - `progress`: show a progress bar on standard error.
    - `throw`: raise `SimulationError` if the run fails; otherwise only `solution.stats["result"]` tells.
    - `control`: details of step size control.
    - `max_steps`: limit of attempted steps of a controlled run, 10 million by default; inside JAX transformations
      4096, since that much is traced.

    **Returns** a `Solution`. After Ctrl-C it holds everything computed so far, with result `interrupted`.

    **Raises** ValueError for bad input, before anything is compiled; `SimulationError` (see `throw`).
    """
    if integrator is None and isinstance(problem, Problem) and (rtol is not None or atol is not None):
        # The recommended method may be one for constant steps.
        recommended = integrators.get(problem.integrator)
        integrator = problem.integrator if recommended.error_order is not None else "rkmk54"
    if control is not None and not isinstance(control, StepControl):
        raise ValueError(f"`control` must be a polhode.StepControl, got {type(control).__name__}.")
    task = _Task.prepare(problem, integrator, t0, t1, state0)
    saving = _saving(save_every, save_at, task.t0, task.t1)
    method, system, state = task.integrator, task.system, task.state0
    traced = inside_transformation()
    system.check(task.t0, state)
    limit = max_steps if max_steps is not None else 4096 if traced else 10_000_000
    stepper, how = _stepper(task, h, rtol, atol, control or StepControl(), limit)
    observer = Observer(system, task.outputs, task.invariants)
    meta = task.describe(how, observer)
    if traced:
        _check_traced(stepper, saving, store)
        count = int(stepper.count) if isinstance(stepper, ConstantSteps) else limit
        frames, p = _traced.run(stepper, system, method, state, observer, saving, count, np.ones(()))
        return Solution(frames, _stats(p, method, p.result, {}), meta)

    with _store(store, overwrite, meta) as run_store, _bar(progress, task) as show:
        outcome = _host.run(stepper, system, method, state, observer, saving, run_store.append, show)
        times = {"wall_time_s": outcome.wall_time, "compile_time_s": outcome.compile_time}
        stats = _stats(outcome.progress, method, Result(int(outcome.progress.result)), times)
        diagnosis = _diagnosis(system, stats, outcome.progress.carry.state)
        stats["result"] = run_store.close(stats)
    solution = Solution(outcome.frames, stats, meta)
    result = stats["result"]
    if throw and result not in (Result.successful, Result.interrupted):
        where = f" Computed up to t = {stats['t_reached']:.6g} of {task.t1:.6g}; the rest is in `error.solution`."
        raise SimulationError(f"{result.name}: {run_store.reason or result.message}{diagnosis}{where}", solution)
    return solution


def _diagnosis(system: AbstractSystem, stats: dict[str, Any], last: State) -> str:
    """What the system says of the last good state of a failed run; also noted in the stats."""
    if stats["result"] not in _EXPLAINED:
        return ""
    stats["diagnosis"] = system.diagnose(stats["t_reached"], jax.tree.map(jnp.asarray, last))
    return f" {stats['diagnosis']}" if stats["diagnosis"] else ""


_EXPLAINED = (Result.nonfinite_state, Result.newton_not_converged, Result.singular_constraints, Result.step_too_small)


class _Task(eqx.Module):
    """What is to be run, with names resolved and input checked."""

    system: AbstractSystem
    integrator: AbstractIntegrator
    integrator_name: str
    state0: State
    t0: float
    t1: float
    outputs: dict[str, Callable]
    invariants: dict[str, Callable]
    problem: Problem | None

    @classmethod
    def prepare(
        cls,
        problem: Problem | AbstractSystem,
        integrator: AbstractIntegrator | str | None,
        t0: float | None,
        t1: float | None,
        state0: State,
    ) -> _Task:
        if isinstance(problem, str):
            raise ValueError(f"`problem` must be a Problem or a system; for a name use problems.get({problem!r}).")
        if not isinstance(problem, Problem | AbstractSystem):
            raise ValueError(f"`problem` must be a Problem or a system, got {type(problem).__name__}.")
        known = problem if isinstance(problem, Problem) else None
        given: Any = known
        system = problem.system if isinstance(problem, Problem) else problem
        if known is None and (state0 is None or t1 is None or integrator is None):
            raise ValueError("A bare system needs `integrator`, `state0` and `t1`; a Problem brings its own.")
        chosen = integrator if integrator is not None else given.integrator
        name = chosen if isinstance(chosen, str) else type(chosen).__name__
        method = integrators.get(chosen) if isinstance(chosen, str) else chosen
        if not isinstance(method, AbstractIntegrator):
            raise ValueError(f"`integrator` must be a name or an integrator, got {chosen!r}.")
        system = _convert(system, method, name)
        state = given.state0 if state0 is None else state0
        state = check_point(system.state_space, state, "state0")
        start = _time("t0", t0 if t0 is not None else known.t_span[0] if known else 0.0)
        end = _time("t1", t1 if t1 is not None else given.t_span[1])
        if end == start:
            raise ValueError(f"`t1` must differ from t0 = {start:g}; the span is empty.")
        outputs = dict(known.outputs) if known else system.outputs()
        invariants = dict(known.invariants) if known else system.invariants()
        return cls(system, method, name, state, start, end, outputs, invariants, known)

    def describe(self, how: dict[str, Any], observer: Observer) -> dict[str, Any]:
        """Plain values that tell how the run was made."""
        from polhode import __version__

        promises = dict(self.integrator.promises)
        kept = promises.pop("action invariants", None)
        if kept is not None:
            promises.update(dict.fromkeys(observer.system.state_space.invariants(self.state0), kept))
        return {
            "problem": self.problem.name if self.problem else None,
            "parameters": _plain(dict(self.problem.parameters)) if self.problem else {},
            "integrator": {"name": self.integrator_name, "class": type(self.integrator).__name__},
            "order": self.integrator.order,
            "t0": self.t0,
            "t1": self.t1,
            **how,
            "promises": promises,
            "version": __version__,
            **self._scene(),
        }

    def _scene(self) -> dict[str, Any]:
        """How to draw the run, where plain values say it all."""
        scene = self.problem.scene if self.problem else None
        return {} if scene is None or scene.description is None else {"scene": _plain(scene.description)}


def _convert(system: AbstractSystem, method: AbstractIntegrator, name: str) -> AbstractSystem:
    """`system`, or the conversion of it that the method takes."""
    for candidate in (system, *system.conversions()):
        if isinstance(candidate, method.kinds):
            return candidate
    able = [
        n
        for n in integrators.names()
        if any(isinstance(c, integrators.get(n).kinds) for c in (system, *system.conversions()))
    ]
    wanted = " or ".join(k.__name__ for k in method.kinds)
    raise ValueError(
        f"Integrator `{name}` takes {wanted} systems, and this {type(system).__name__} can't be written as one without "
        f"loss. Integrators for it: {', '.join(able) or 'none'}."
    )


def _time(name: str, value: Any) -> float:
    if isinstance(value, Tracer):
        raise ValueError(
            f"`{name}` is traced by JAX, but the number of steps is part of the program. Make it a plain number; for "
            "derivatives with respect to time, scale the vector field."
        )
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be a number, got {value!r}.") from error
    if not math.isfinite(number):
        raise ValueError(f"`{name}` must be finite, got {number}.")
    return number


def _positive(name: str, value: Any, remedy: str) -> float:
    number = _time(name, value)
    if number <= 0:
        raise ValueError(f"`{name}` must be positive, got {number:g}. {remedy}")
    return number


def _saving(every: int | None, at: Any, t0: float, t1: float) -> _host.Saving:
    if at is not None:
        if isinstance(at, Tracer):
            raise ValueError("`save_at` is traced by JAX; give plain numbers or a NumPy array.")
        try:
            times = np.atleast_1d(np.asarray(at, dtype=float))
        except (TypeError, ValueError) as error:
            raise ValueError(f"`save_at` must be numbers, got {at!r}.") from error
        low, high = min(t0, t1), max(t0, t1)
        if times.ndim != 1 or len(times) == 0 or not np.isfinite(times).all():
            raise ValueError(f"`save_at` must be a non-empty list of finite times, got {at!r}.")
        if (np.diff(times) * np.sign(t1 - t0) <= 0).any():
            raise ValueError("`save_at` must run strictly from t0 towards t1; sort it and drop repeated times.")
        if times.min() < low - 1e-12 * (high - low) or times.max() > high + 1e-12 * (high - low):
            raise ValueError(
                f"`save_at` holds {times.min():g} … {times.max():g}, outside the span [{low:g}, {high:g}]."
            )
        return _host.Saving(None, np.clip(times, low, high))
    if every is not None and (not isinstance(every, int | np.integer) or every < 1):
        raise ValueError(f"`save_every` must be a positive whole number of steps or None, got {every!r}.")
    return _host.Saving(None if every is None else int(every), None)


def _stepper(
    task: _Task, h: Any, rtol: Any, atol: Any, control: StepControl, max_steps: int
) -> tuple[AbstractStepper, dict[str, Any]]:
    """The step size rule, and how it is described."""
    t0, t1, span = task.t0, task.t1, abs(task.t1 - task.t0)
    if h is not None and (rtol is not None or atol is not None):
        raise ValueError(f"Got both a constant step h = {h} and tolerances; give `h`, or `rtol` and `atol`.")
    if h is None and rtol is None and atol is None:
        if task.problem is None:
            raise ValueError("Give a constant step `h`, or tolerances `rtol` and `atol`.")
        h = min(task.problem.h, span)
    if h is not None:
        h = _positive("h", h, "Set the direction of time by t1.")
        if h > span * (1 + 1e-12):
            raise ValueError(f"`h` = {h:g} is larger than the span {span:g} from t0 to t1; take a smaller step.")
        if span / h > 2**53:
            raise ValueError(f"`h` = {h:g} needs {span / h:.3g} steps for the span {span:g}; take a larger step.")
        count = math.ceil(span / h * (1 - 1e-12))
        step = (t1 - t0) / count
        return ConstantSteps(*map(np.asarray, (t0, t1, step, count))), {"h": step}
    if task.integrator.error_order is None:
        able = [n for n in integrators.names() if integrators.get(n).error_order is not None]
        raise ValueError(
            f"Integrator `{task.integrator_name}` has no error estimate, so it can't take tolerances. Give `h`, or use "
            f"one of {', '.join(able)}."
        )
    rtol = 0.0 if rtol is None else _time("rtol", rtol)
    atol = rtol / 100 if atol is None else _time("atol", atol)
    if rtol < 0 or atol < 0 or rtol + atol == 0:
        raise ValueError(f"`rtol` and `atol` must not be negative and not both zero, got {rtol:g} and {atol:g}.")
    start, end, *tolerances = map(np.asarray, (t0, t1, rtol, atol))
    stepper = ControlledSteps(start, end, Tolerances(*tolerances), control, np.asarray(max_steps))
    return stepper, {"rtol": rtol, "atol": atol}


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
    return {
        "steps": steps,
        "rejected": rejected,
        "evaluations": (steps + rejected) * method.evaluations,
        "newton_iterations": newton / max(steps, 1) if isinstance(steps, int) else newton / jnp.maximum(steps, 1),
        "result": result,
        "t_reached": float(p.t) if isinstance(result, Result) else p.t,
        **times,
    }


def _plain(value: Any) -> Any:
    """Values that survive JSON: arrays become lists, tracers their description."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Tracer):
        return "traced"
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return np.asarray(value).tolist()
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


class _Sink:
    """Hands frames to a store, and turns its failure into a result code."""

    def __init__(self, store: Any) -> None:
        self.store = store
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
            except OSError as error:
                self.reason = f"{error} Everything computed so far is kept in memory."
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
def _bar(wanted: bool, task: _Task) -> Iterator[Callable[[float, float], None]]:
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
