"""Decisions about a run before it begins: segments with their steps, its start, and its metadata."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode import integrators
from polhode.integrators.compatibility import accepts
from polhode.results.derived_quantities import Reader, reader_of
from polhode.simulation.checkpoint.checkpoint import CheckpointWriter
from polhode.simulation.checkpoint.identity import RunIdentity
from polhode.simulation.checkpoint.previous_run import Continuation, PreviousRun
from polhode.simulation.metadata import describe
from polhode.simulation.run_types import Checkpoint, Plan, Start
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.step_request import StepRequest, breakpoint_times, check_span, plain_number, positive_step
from polhode.simulation.stepping.constant import constant_segments
from polhode.simulation.stepping.controlled import controlled_segments
from polhode.simulation.stepping.kinks import EndPoints, choose_end_points
from polhode.simulation.stepping.segments import Breakpoints, Segment, describe_segments
from polhode.simulation.task import Task
from polhode.solution.picture import Picture


@dataclasses.dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run before it begins: the plan of its loop, and all that its solution says besides.

    - `metadata`: `meta` of the solution. - `reader`: computes quantities that are not saved.
    - `problem_time`: seconds of building the problem.
    - `picture`: returns its scene.
    """

    plan: Plan
    identity: RunIdentity
    metadata: dict[str, Any]
    reader: Reader | None
    problem_time: float
    picture: Picture

    @property
    def checkpoint_writer(self) -> CheckpointWriter:
        """The checkpoints of the run for a store."""
        return CheckpointWriter(self.identity, self.plan.segments, self.plan.schedule)

    @classmethod
    def of(cls, task: Task, plan: Plan, identity: RunIdentity, metadata: dict[str, Any]) -> PlannedRun:
        """The run of a task by some plan."""
        run_system, problem = task.run_system, task.problem
        reader = reader_of(problem, run_system.source, run_system.conversion)
        build_time, picture = problem.build_time if problem else 0.0, Picture(metadata, problem)
        return cls(plan, identity, metadata, reader, build_time, picture)


def plan_run(
    task: Task, request: StepRequest, schedule: SaveSchedule, previous: PreviousRun | None = None
) -> PlannedRun:
    """The run of a task. Raises ValueError for invalid step sizes, tolerances and breakpoints."""
    identity = identify(task)
    continuation = None if previous is None else previous.continue_as(identity)
    segments, step_metadata = plan_steps(task, request, continuation)
    start = Start(task.state0)
    if continuation is not None:
        start, segments = _continue(task, continuation, segments)
    metadata = describe(task, step_metadata, between_steps=schedule.at is not None)
    if start.aftermath is not None and start.aftermath.changes:
        metadata["changed_by_events"] = True
    run_system = task.run_system
    plan = Plan(segments, run_system.system, task.integrator, start, run_system.observer, schedule, task.events)
    return PlannedRun.of(task, plan, identity, metadata)


def identify(task: Task) -> RunIdentity:
    """The identity of the run of a task."""
    return RunIdentity(task.events, task.integrator_name, task.t1 - task.t0)


class StepPlan(NamedTuple):
    """The segments of a run, and their metadata.

    `metadata["asked"]` is the user's request, with which a run continues beyond its end.
    """

    segments: list[Segment]
    metadata: dict[str, Any]


def plan_steps(task: Task, request: StepRequest, continuation: Continuation | None = None) -> StepPlan:
    """The steps of a run. Raises ValueError for invalid step sizes, tolerances and breakpoints."""
    former = None if continuation is None else continuation.steps
    times = breakpoint_times(request.breakpoints) + ([] if former is None else breakpoint_times(former.breakpoints))
    h, rtol, atol = _step_size(task, request, former)
    breakpoints, inside = end_points(task, times, task.t0, task.t1, h)
    metadata: dict[str, Any] = {"breakpoints": list(breakpoints.all_jumps)} if breakpoints.all_jumps else {}
    metadata |= {"kinks_within_steps": inside} if inside else {}
    user_request: dict[str, Any] = {"breakpoints": times} if times else {}
    if h is None:
        tolerances = _tolerances(task, rtol, atol)
        check_span(task.t0, task.t1, None)
        segments = controlled_segments(task.t0, task.t1, tolerances, request.control, request.max_steps, breakpoints)
        sizes = dict(zip(("rtol", "atol"), tolerances, strict=True))
        return StepPlan(segments, {**sizes, **metadata, "asked": {**user_request, **sizes}})
    segments = None
    if continuation is not None and breakpoints == Breakpoints():
        segments = continuation.extend(task.t1, h, request.h is not None, bool(task.events.events))
    if segments is None:
        segments = constant_segments(task.t0, task.t1, h, breakpoints)
    # A short span doesn't make the steps of later ones shorter.
    user_request["h"] = abs(former.h) if request.h is None and former is not None and former.h else h
    return StepPlan(segments, {**describe_segments(segments), **metadata, "asked": user_request})


def _step_size(task: Task, request: StepRequest, former: StepRequest | None) -> tuple[float | None, Any, Any]:
    """The constant step, or None and the tolerances: the user's, or those of the previous run or of the problem."""
    h, rtol, atol = request.h, request.rtol, request.atol
    span = abs(task.t1 - task.t0)
    if h is not None and request.has_tolerances:
        raise ValueError(f"Got both a constant step h = {h} and tolerances; give `h`, or `rtol` and `atol`.")
    if h is None and not request.has_tolerances:
        if former is not None and former.h is None:
            rtol, atol = former.rtol, former.atol
        elif former is not None:
            h = min(abs(former.h), span)
        elif task.problem is None:
            raise ValueError("Give a constant step `h`, or tolerances `rtol` and `atol`.")
        else:
            h = min(positive_step("h of the problem", task.problem.h, "Build the problem with another."), span)
    if h is None:
        return None, rtol, atol
    h = positive_step("h", h, "Set the direction of time by t1.")
    if h > span * (1 + 1e-12):
        raise ValueError(f"`h` = {h:g} is larger than the span {span:g} from t0 to t1; take a smaller step.")
    check_span(task.t0, task.t1, h)
    return h, None, None


def _tolerances(task: Task, rtol: Any, atol: Any) -> tuple[float, float]:
    """Checked tolerances, for a method that has an error estimate."""
    if task.integrator.error_order is None:
        source = task.run_system.source
        forms = {n: integrators.get(n).for_system(source) for n in integrators.names()}
        with_estimates = {n: m for n, m in forms.items() if m.error_order is not None}
        able = [n for n, method in with_estimates.items() if accepts(method, source, without_note=True)]
        raise ValueError(
            f"Integrator `{task.integrator_name}` has no error estimate, so it can't take tolerances. Give `h`"
            f"{', or use one of ' + ', '.join(able) if able else ''}."
        )
    rtol = 0.0 if rtol is None else plain_number("rtol", rtol)
    atol = rtol / 100 if atol is None else plain_number("atol", atol)
    if rtol < 0 or atol < 0 or rtol + atol == 0:
        raise ValueError(f"`rtol` and `atol` must not be negative and not both zero, got {rtol:g} and {atol:g}.")
    return rtol, atol


def _continue(task: Task, continuation: Continuation, segments: list[Segment]) -> tuple[Start, list[Segment]]:
    """The start of a run at the end of another one, and the segments from there."""
    progress, aftermath = continuation.start, continuation.aftermath
    if progress is None:
        return Start(task.state0, aftermath=aftermath), segments
    if not continuation.has_equal_steps(segments[0]):
        # The memory of a method is of no use for steps of another length or direction.
        segments = [segments[0]._replace(after_jump=True), *segments[1:]]
    return Start(task.state0, Checkpoint(progress, 0, 0), aftermath=aftermath), segments


def end_points(task: Task, user_times: Sequence[float], t0: float, t1: float, h: float | None) -> EndPoints:
    """Where steps from t0 to t1 have to end, of constant length h or None; see `choose_end_points`."""
    system = task.run_system.system
    kinks = np.setdiff1d(np.asarray(system.kinks(), dtype=float), np.asarray(user_times, dtype=float))
    jumps = np.setdiff1d(np.asarray(system.breakpoints(), dtype=float), kinks)
    breakpoints = _breakpoints_within(jumps, user_times, t0, t1)
    others = _breakpoints_within(np.setdiff1d(kinks, _near(kinks, breakpoints.inner, t1 - t0)), (), t0, t1).inner
    return choose_end_points(breakpoints, others, task.integrator, t0, t1, h)


def _near(times: np.ndarray, others: Sequence[float], span: float) -> np.ndarray:
    """Those times that are others, up to rounding."""
    if not len(others):
        return np.zeros(0)
    ends = np.sort(others)
    k = np.searchsorted(ends, times)
    distances = [np.abs(times - ends[np.clip(n, 0, len(ends) - 1)]) for n in (k - 1, k)]
    return times[np.minimum(*distances) <= 1e-12 * abs(span)]


def _breakpoints_within(own: np.ndarray, user_times: Sequence[float], t0: float, t1: float) -> Breakpoints:
    """Breakpoints of the user and of the loads within the span or at its ends, in the direction of time."""
    low, high, near = min(t0, t1), max(t0, t1), 1e-12 * abs(t1 - t0)
    # Breakpoints of loads are exact, those of users may be rounded.
    others = [t for t in user_times if not np.any(np.abs(own - t) <= near)]
    every = np.unique(np.concatenate((own, others)))
    at_low, at_high = (bool(np.any(np.abs(every - end) <= near)) for end in (low, high))
    inner = every[(every > low + near) & (every < high - near)]
    # Breakpoints within a few units of round-off are one.
    inner = inner[np.diff(inner, prepend=-np.inf) > 8 * math.ulp(max(abs(t0), abs(t1)))]
    forward = t1 > t0
    times = tuple((inner if forward else inner[::-1]).tolist())
    return Breakpoints(times, *((at_low, at_high) if forward else (at_high, at_low)))
