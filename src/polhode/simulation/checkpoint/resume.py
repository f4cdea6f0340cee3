"""The function `polhode.resume`: stored runs continue from their last state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from polhode import checks, integrators
from polhode.checks import short_repr
from polhode.compiler.placement import with_default_device
from polhode.events.event import Event, flatten_events
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.serialisation import deserialise, serialise
from polhode.jax_context import check_environment
from polhode.problem import Problem
from polhode.problems.rebuild import rebuild
from polhode.result_codes import Result
from polhode.simulation.checkpoint.checkpoint import StoredCheckpoint
from polhode.simulation.checkpoint.previous_run import PreviousRun
from polhode.simulation.checkpoint.resume_checks import (
    ResumeRequest,
    check_memory,
    check_request,
    check_resumable,
    check_same,
    check_schedule,
)
from polhode.simulation.loops.signals import interrupts
from polhode.simulation.run import RunOptions, carry_out
from polhode.simulation.run_plan import PlannedRun, end_points, identify
from polhode.simulation.run_types import Checkpoint, Plan, Start
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.step_request import StepRequest, breakpoint_times, check_span, step_limit
from polhode.simulation.stepping.constant import constant_segments
from polhode.simulation.stepping.controlled import ControlledSteps, controlled_segments
from polhode.simulation.stepping.segments import Breakpoints, Segment, describe_segments
from polhode.simulation.store_sink import StoreSink, check_when_full
from polhode.simulation.task import Task
from polhode.solution.load import load
from polhode.solution.solution import Solution
from polhode.storage.errors import translate_os_errors
from polhode.storage.store_choice import store_class
from polhode.storage.stored_run import AbstractStoredRun
from polhode.systems.base import AbstractSystem


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
    request = ResumeRequest(StepRequest(breakpoints=breakpoint_times(breakpoints)), t1, max_steps)
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
    previous = PreviousRun.of_store(root, problem, method)
    end, event_list = root.meta["t1"] if t1 is None else t1, flatten_events(events)
    task = Task.prepare(problem, method, None, end, None, events=event_list, max_events=max_events, previous=previous)
    return resume_task(path, task, request, when_full, RunOptions(progress, throw), began)


def resume_task(
    path: str | Path, task: Task, request: ResumeRequest, when_full: str | Path, options: RunOptions, began: float
) -> Solution:
    """Resumes the run in a store as a task; `began`: when the call began."""
    # Signals are handed on when the store is closed.
    with interrupts() as signals:
        store, root = store_class(path).reopen(_place(path))
        try:
            run = _plan_rest(path, task, request, root)
            if run is None:
                store.release()
                return load(path)
            store.meta = run.metadata
            options = options._replace(build_time=time.perf_counter() - began)
            return carry_out(run, options, StoreSink(store, run.checkpoint_writer, when_full), signals)
        finally:
            store.release()


def _plan_rest(path: Any, task: Task, request: ResumeRequest, root: AbstractStoredRun) -> PlannedRun | None:
    """The rest of the run in a store; None if there is none. Raises ValueError where it can't be resumed."""
    limit = None if request.max_steps is None else step_limit(request.max_steps, 1)
    checkpoint, identity = StoredCheckpoint.of(root.read_checkpoint()), identify(task)
    check_same(path, task, identity, root, checkpoint)
    check_schedule(path, request.schedule, checkpoint)
    check_request(path, task, identity, request, root, checkpoint)
    at = checkpoint.schedule.at if request.schedule is None or request.schedule.at is None else request.schedule.at
    p = check_memory(path, checkpoint.progress(identity, at is not None), root)
    end = float(checkpoint.segments[-1].stepper.t1)
    t_end = end if request.t1 is None else task.t1
    check_resumable(path, root, float(p.t), end, t_end, request.max_steps)
    result = root.stats.get("result")
    # After a terminal event a run continues only if another end is requested, or `resume` is given an end.
    is_terminal = result == Result.event_reached and (request.t1 is None or (request.starts and t_end == end))
    if is_terminal or (result == Result.successful and t_end == end):
        return None
    if at is not None and t_end != end and (request.schedule is None or request.schedule.at is None):
        raise ValueError("A run with `save_at` is extended by simulate(…, save_at=…, store=…, resume=True).")
    segments, run_request = checkpoint.segments, dict(root.meta.get("asked", {}))
    inside = 0
    if t_end != end:
        check_span(end, t_end, run_request.get("h") if checkpoint.control is None else None)
        times = [*run_request.get("breakpoints", ()), *request.steps.breakpoints]
        breakpoints, inside = end_points(task, times, end, t_end, run_request.get("h"))
        segments = _extend(checkpoint, int(p.n), t_end, breakpoints, run_request.get("h"))
        run_request.update({"breakpoints": times} if times else {})
    if limit is not None:
        segments = [segment._replace(stepper=segment.stepper.with_limit(limit)) for segment in segments]
    grids = describe_segments(segments) if checkpoint.control is None else {}
    metadata = {**root.meta, **grids, "t1": t_end, "asked": run_request}
    metadata |= {"kinks_within_steps": root.meta.get("kinks_within_steps", 0) + inside} if inside else {}
    place = Checkpoint(p, checkpoint.number, checkpoint.saved_count, checkpoint.event_arrays)
    start, schedule = Start(task.state0, place, continues=True), SaveSchedule(checkpoint.schedule.every, at)
    run_system = task.run_system
    plan = Plan(segments, run_system.system, task.integrator, start, run_system.observer, schedule, task.events)
    return PlannedRun.of(task, plan, identity, metadata)


def _extend(
    checkpoint: StoredCheckpoint, n: int, t1: float, breakpoints: Breakpoints, h: float | None
) -> list[Segment]:
    """The segments with another end.

    `n` is the number of steps so far, `breakpoints` are those from the present end on, `h` is the requested step.
    """
    segments = checkpoint.segments
    last, after_jump = segments[-1]
    if breakpoints == Breakpoints() and last.on_grid:
        over = checkpoint.number == len(segments) - 1 and n >= last.last
        first = int(last.first)
        longer = last.until(t1, h, first if over else max(first, n), counted_from=0)
        if longer is not None:
            return [*segments[:-1], Segment(longer, after_jump)]
    begin, control = float(last.t1), checkpoint.control
    if control is not None:
        assert isinstance(last, ControlledSteps)
        rtol, atol = map(float, last.tolerances)
        return [*segments, *controlled_segments(begin, t1, (rtol, atol), control, last.step_limit, breakpoints)]
    h = abs(float(last.spacing)) if h is None else h
    first, *others = constant_segments(begin, t1, h, breakpoints, int(last.last))
    # Methods restart with another step.
    first = first._replace(after_jump=first.after_jump or h != abs(float(last.spacing)))
    return [*segments, first, *others]


def _place(path: str | Path) -> Path:
    if not isinstance(path, str | Path) or not str(path):
        raise ValueError(f"`path` must be that of a run store, got {short_repr(path)}.")
    return Path(path)


def _method(facts: dict[str, Any]) -> AbstractIntegrator:
    if facts["method"] is None:
        raise ValueError(
            f"The store can't tell the method of the run, {facts['method_name']}, which is not one of polhode's. Give "
            "it: polhode.resume(path, integrator=…)."
        )
    name = facts["method_name"]
    if name in integrators.names() and serialise(integrators.get(name)) == facts["method"]:
        return integrators.get(name)
    return deserialise(facts["method"])
