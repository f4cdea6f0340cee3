"""The function `polhode.resume`: stored runs continue from their last state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.placement import with_default_device
from polhode.events.event import Event, flatten_events
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.compatibility import convert_for
from polhode.integrators.serialisation import deserialise, serialise
from polhode.jax_context import check_environment
from polhode.problem import Problem
from polhode.problems.rebuild import rebuild
from polhode.result_codes import Result
from polhode.simulation import run_plan, run_types
from polhode.simulation.checkpoint import continuation
from polhode.simulation.checkpoint.compatibility import differences
from polhode.simulation.loops.signals import Interrupts, interrupts
from polhode.simulation.run import Run, carry_out
from polhode.simulation.run_plan import Plan, Steps
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping.segments import describe
from polhode.simulation.stepping.step_control import StepControl
from polhode.simulation.store_sink import StoreSink, check_when_full
from polhode.simulation.task import Task
from polhode.solution.load import load
from polhode.solution.solution import Solution
from polhode.storage.errors import translate_os_errors
from polhode.storage.store_choice import store_class
from polhode.storage.stored_run import AbstractStoredRun
from polhode.systems.base import AbstractSystem

_RESUMABLE = (
    None,
    Result.interrupted,
    Result.store_failed,
    Result.unexpected_error,
    Result.max_steps_reached,
    Result.events_accumulate,
    Result.event_reached,
)
"""Results of runs that can be resumed as they are."""


@with_default_device
def resume(
    path: str | Path,
    t1: float | None = None,
    *,
    breakpoints: Sequence[float] = (),
    problem: Problem | AbstractSystem | None = None,
    integrator: AbstractIntegrator | str | None = None,
    events: Sequence[Event] | Event = (),
    max_steps: int | None = None,
    max_events: int = 10_000,
    when_full: Literal["fail", "wait"] | str | Path = "fail",
    progress: bool = False,
    throw: bool = True,
) -> Solution:
    """Continue the run in a store, from the last state that was written, to the bytes of an uninterrupted run.

    The method continues with its full memory: multipliers, accelerations, factors, step sizes, history.
    A run that has reached its end is returned as it is, or extended to a later `t1`.

    **Arguments:**

    - `path`: of the store.
    - `t1`: another end, beyond what is reached.
    - `breakpoints`: more of them, beyond the present end; those of the run stay.
    - `problem`: of the run. Named problems and model files are rebuilt from the metadata of the store; systems and
      models of your own have to be given.
    - `integrator`: the method, if it is one of your own.
    - `events`: those of the run, if it has any.
    - `max_steps`, `max_events`: another limit for a run that has reached its own.
    - `when_full`, `progress`, `throw`: as for `polhode.simulate`.

    **Returns** the whole run.

    **Raises** `StoreError` where there is nothing to resume or another process writes there; ValueError if the
    problem or the method are not those of the run; `SimulationError` as `polhode.simulate` does.
    """
    began = time.perf_counter()
    check_environment()
    location = _place(path)
    check_when_full(when_full)
    if not isinstance(integrator, AbstractIntegrator | str | None):
        raise ValueError(f"`integrator` must be a name or an integrator, got {short_repr(integrator)}.")
    request = ResumeRequest(Steps(breakpoints=run_plan.breakpoint_times(breakpoints)), t1, max_steps)
    throw, progress = checks.flag("throw", throw), checks.flag("progress", progress)
    with translate_os_errors(location):
        root = store_class(location).read_root(location)
        facts = root.read_checkpoint()["facts"]
    if problem is None:
        problem = rebuild(root.meta)
        # It has a time of its own.
        began += 0.0 if problem is None else problem.build_time
    if problem is None:
        raise ValueError(
            f"The store `{path}` can't tell what was run: a system or model of your own. Give it: polhode.resume(path, "
            "problem=…)."
        )
    method = integrator if integrator is not None else _method(facts)
    previous = continuation.PreviousRun(root.meta["t0"], _state(problem, method, path), method, run_plan.Steps(), None)
    task = Task.prepare(problem, method, None, root.meta["t1"] if t1 is None else t1, None, previous=previous)
    task = task.with_events(flatten_events(events), max_events)
    return resume_task(path, task, request, when_full, progress, throw, began)


class ResumeRequest(NamedTuple):
    """The request to resume a run.

    - `steps`: the user's, which must be those of the run. - `t1`, `max_steps`: another end or limit.
    - `schedule`: the save schedule. - `starts`: whether the task's start must be that of the run.
    """

    steps: Steps
    t1: float | None
    max_steps: int | None
    schedule: SaveSchedule | None = None
    starts: bool = False


def resume_task(
    path: str | Path,
    task: Task,
    request: ResumeRequest,
    when_full: str | Path,
    progress: bool,
    throw: bool,
    began: float,
) -> Solution:
    """Resumes the run in a store as a task; `began`: when the call began."""
    # Signals are handed on when the store is closed.
    with interrupts() as signals:
        return _resume_task(path, task, request, when_full, progress, throw, began, signals)


def _resume_task(
    path: str | Path,
    task: Task,
    request: ResumeRequest,
    when_full: str | Path,
    progress: bool,
    throw: bool,
    began: float,
    interrupts: Interrupts,
) -> Solution:
    schedule, t1, max_steps = request.schedule, request.t1, request.max_steps
    limit = None if max_steps is None else run_plan.limit(max_steps, 1)
    store, root = store_class(path).reopen(_place(path))
    try:
        checkpoint = root.read_checkpoint()
        facts = checkpoint["facts"]
        _check_same(path, task, schedule, root.meta, checkpoint)
        _check_request(path, task, request, root.meta, facts)
        control = deserialise(facts["control"])
        segments = continuation.segments_from_array(checkpoint["legs"], control)
        segment, saved_count = (int(k) for k in checkpoint["stand"])
        at = schedule.at if schedule is not None and schedule.at is not None else checkpoint.get("targets")
        saved_schedule = SaveSchedule(facts["every"], at)
        p = continuation.progress_from_arrays(checkpoint, task, segments[segment], saved_schedule.at is not None)
        end = float(segments[-1].stepper.t1)
        t_end = end if t1 is None else task.t1
        _check_resumable(path, root, float(p.t), end, t_end, max_steps)
        result = root.stats.get("result")
        # After a terminal event a run continues only if another end is requested, or `resume` is given an end.
        is_terminal = result == Result.event_reached and (t1 is None or (request.starts and t_end == end))
        if is_terminal or (result == Result.successful and t_end == end):
            store.release()
            return load(path)
        if saved_schedule.at is not None and t_end != end and (schedule is None or schedule.at is None):
            raise ValueError("A run with `save_at` is extended by simulate(…, save_at=…, store=…, resume=True).")
        run_request = dict(root.meta.get("asked", {}))
        if t_end != end:
            run_plan.check_span(end, t_end, run_request.get("h") if control is None else None)
            times = [*run_request.get("breakpoints", ()), *request.steps.breakpoints]
            breakpoints = run_plan.breakpoints(task.system, times, end, t_end)
            segments = continuation.extend(segments, segment, int(p.n), t_end, breakpoints, run_request.get("h"))
            run_request.update({"breakpoints": times} if times else {})
        if limit is not None:
            segments = continuation.with_limit(segments, limit)
        event_arrays = {name: x for name, x in checkpoint.items() if name.startswith(("events-", "system-"))} or None
        start = run_types.Start(None, run_types.Checkpoint(p, segment, saved_count, event_arrays), continues=True)
        grids = describe(segments) if control is None else {}
        store.meta = {**root.meta, **grids, "t1": t_end, "asked": run_request}
        observer = task.observer
        plan = Plan(segments, {}, start)
        run = Run(task, plan, saved_schedule, observer, store.meta, progress, throw, time.perf_counter() - began)
        return carry_out(run, StoreSink(store, when_full), interrupts)
    finally:
        store.release()


def _place(path: str | Path) -> Path:
    if not isinstance(path, str | Path) or not str(path):
        raise ValueError(f"`path` must be that of a run store, got {short_repr(path)}.")
    return Path(path)


def _method(facts: dict[str, Any]) -> AbstractIntegrator:
    from polhode import integrators

    if facts["method"] is None:
        raise ValueError(
            f"The store can't tell the method of the run, {facts['method_name']}, which is not one of polhode's. Give "
            "it: polhode.resume(path, integrator=…)."
        )
    name = facts["method_name"]
    if name in integrators.names() and serialise(integrators.get(name)) == facts["method"]:
        return integrators.get(name)
    return deserialise(facts["method"])


@eager_numpy()
def _state(problem: Any, method: AbstractIntegrator | str, path: Any) -> Any:
    """A state of the same structure as the run's; its numbers don't matter."""
    if isinstance(problem, Problem):
        from polhode import integrators

        able = integrators.get(method) if isinstance(method, str) else method
        way = convert_for(problem.system, able, problem.t_span[0], problem.state0, check_state=False)
        return way.converted.to_system(problem.state0)
    return jax.tree.map(lambda x: x[-1], load(path)[-1].state)


def _check_same(
    path: Any, task: Task, schedule: SaveSchedule | None, meta: dict[str, Any], checkpoint: dict[str, Any]
) -> None:
    """Raises ValueError unless the run in the store is of that task."""
    now, facts = continuation.fingerprints(task), checkpoint["facts"]
    before = facts["signatures"]
    other = [name for name in {**before, **now} if now.get(name) != before.get(name)]
    if other == ["set of events"]:
        raise ValueError(
            f"The run in `{path}` watches {_event_names(meta) or 'no events'}, and this one "
            f"{_task_event_names(task) or 'none'}. Give the events of the run in `events`, or begin a new run in "
            "another place."
        )
    if other:
        reason = differences(meta, task) or "functions, or numbers that they or the model hold, differ"
        raise ValueError(
            f"The run in `{path}` is of another {' and '.join(other)}: {reason}. Go on with what it was made from, or "
            "begin a new run in another place."
        )
    if schedule is None:
        return
    targets = checkpoint.get("targets")
    if (schedule.at is None) != (targets is None) or (targets is None and schedule.every != facts["every"]):
        raise ValueError(f"The run in `{path}` saves other frames than `save_every` and `save_at` ask for.")
    if schedule.at is not None and targets is not None:
        saved_times = targets[: int(checkpoint["stand"][1])]
        if not np.array_equal(schedule.at[: len(saved_times)], saved_times):
            raise ValueError(f"`save_at` does not begin with the times that the run in `{path}` has saved.")


def _event_names(meta: dict[str, Any]) -> str:
    return ", ".join(f"`{event['name']}`" for event in meta.get("events", ()))


def _task_event_names(task: Task) -> str:
    return ", ".join(f"`{event.name}`" for event in task.events)


def _check_request(path: Any, task: Task, request: ResumeRequest, meta: dict[str, Any], facts: Any) -> None:
    """Raises ValueError where steps, start or breakpoints are given that are not those of the run."""
    run_request, steps = meta.get("asked", {}), request.steps
    if request.starts and (continuation.start_digest(task) != facts["start"] or task.t0 != meta["t0"]):
        raise ValueError(
            f"The run in `{path}` began in another state or at another time than this one is to. Go on with "
            "polhode.resume(path), or begin a new run in another place."
        )
    for name in ("h", "rtol", "atol"):
        value = getattr(steps, name)
        if value is not None and value != run_request.get(name):
            was = ", ".join(f"{key} = {run_request[key]:g}" for key in ("h", "rtol", "atol") if key in run_request)
            raise ValueError(f"The run in `{path}` was made with {was}, not with {name} = {value:g}, and goes on so.")
    if request.starts and steps.control != StepControl() and serialise(steps.control) != facts["control"]:
        raise ValueError(f"The run in `{path}` was made with another `control` of its steps, and goes on with that.")
    inside = [t for t in steps.breakpoints if t not in run_request.get("breakpoints", ()) and _within(t, meta)]
    if inside:
        raise ValueError(
            f"The run in `{path}` is to t = {meta['t1']:g} without a breakpoint at t = {inside[0]:g}. Give breakpoints "
            "beyond that, or begin a new run in another place."
        )


def _within(t: float, meta: dict[str, Any]) -> bool:
    return min(meta["t0"], meta["t1"]) <= t < max(meta["t0"], meta["t1"])


def _check_resumable(
    path: Any, root: AbstractStoredRun, t: float, end: float, t_end: float, max_steps: int | None
) -> None:
    """Raises ValueError where a run can't be resumed."""
    result = root.stats.get("result")
    if result == Result.max_steps_reached and max_steps is None:
        raise ValueError(f"The run in `{path}` ended with max_steps_reached; give a larger `max_steps`.")
    if result not in (*_RESUMABLE, Result.successful):
        raise ValueError(
            f"The run in `{path}` ended with {result.name} at t = {t:.6g}; going on would meet the same. "
            f"{result.message}"
        )
    forward = np.sign(end - root.meta["t0"])
    if (t_end - t) * forward < 0:
        raise ValueError(f"`t1` = {t_end:g} lies behind t = {t:g}, which the run in `{path}` has reached.")
