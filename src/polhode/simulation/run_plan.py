"""The plan of a run: its segments, from checked step sizes, tolerances and breakpoints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from jax.core import Tracer

from polhode import checks, integrators
from polhode.checks import short_repr
from polhode.integrators.compatibility import accepts
from polhode.simulation import run_types
from polhode.simulation.checkpoint.event_state import Aftermath
from polhode.simulation.stepping.constant import constant_segments
from polhode.simulation.stepping.controlled import controlled_segments
from polhode.simulation.stepping.segments import Breakpoints, Segment, describe
from polhode.simulation.stepping.step_control import StepControl
from polhode.simulation.stepping.stepper import Progress
from polhode.simulation.task import Task, plain_number
from polhode.systems.base import AbstractSystem


class Steps(NamedTuple):
    """The user's request for steps: see `polhode.simulate`."""

    h: Any = None
    rtol: Any = None
    atol: Any = None
    control: StepControl = StepControl()
    max_steps: int = 10_000_000
    breakpoints: Any = ()


class Plan(NamedTuple):
    """The segments of a run, their metadata for results, and the start.

    `metadata["asked"]` is the user's request, with which a run continues beyond its end.
    """

    segments: list[Segment]
    metadata: dict[str, Any]
    start: run_types.Start


class PreviousSteps(Protocol):
    """A previous run, as far as a plan depends on it; `steps`: the request for its steps."""

    @property
    def steps(self) -> Steps: ...

    def progress(self, task: Task) -> Progress | None:
        """The progress that the method starts from; None if the method or the system is another one."""
        ...

    def has_equal_steps(self, task: Task, segment: Segment) -> bool:
        """Whether steps are like the last ones of the previous run: equal constant ones, or controlled ones."""
        ...

    def aftermath(self, task: Task) -> Aftermath | None:
        """The state of the events of the previous run."""
        ...

    def extend(self, task: Task, t1: float, h: float, h_is_explicit: bool) -> list[Segment] | None:
        """More steps on the grid of the previous run, if h was requested there and t1 lies on the grid.

        Where an event has ended that run between two steps, an h of the user begins a grid there.
        """
        ...


def plan(task: Task, steps: Steps, previous: PreviousSteps | None = None) -> Plan:
    """The plan of a run. Raises ValueError for invalid step sizes, tolerances and breakpoints."""
    t0, t1, span = task.t0, task.t1, abs(task.t1 - task.t0)
    h, rtol, atol = steps.h, steps.rtol, steps.atol
    times = breakpoint_times(steps.breakpoints) + (
        [] if previous is None else breakpoint_times(previous.steps.breakpoints)
    )
    breakpoints_in_span = breakpoints(task.system, times, t0, t1)
    metadata: dict[str, Any] = {"breakpoints": list(breakpoints_in_span.inner)} if breakpoints_in_span.inner else {}
    request: dict[str, Any] = {"breakpoints": times} if times else {}
    if h is not None and (rtol is not None or atol is not None):
        raise ValueError(f"Got both a constant step h = {h} and tolerances; give `h`, or `rtol` and `atol`.")
    if h is None and rtol is None and atol is None:
        if previous is not None and previous.steps.h is None:
            rtol, atol = previous.steps.rtol, previous.steps.atol
        elif previous is not None:
            h = min(abs(previous.steps.h), span)
        elif task.problem is None:
            raise ValueError("Give a constant step `h`, or tolerances `rtol` and `atol`.")
        else:
            h = min(_positive("h of the problem", task.problem.h, "Build the problem with another."), span)
    if h is not None:
        h = _positive("h", h, "Set the direction of time by t1.")
        if h > span * (1 + 1e-12):
            raise ValueError(f"`h` = {h:g} is larger than the span {span:g} from t0 to t1; take a smaller step.")
        check_span(t0, t1, h)
        # A short span doesn't make the steps of later ones shorter.
        request["h"] = abs(previous.steps.h) if steps.h is None and previous is not None and previous.steps.h else h
        extension = (
            None
            if previous is None or breakpoints_in_span != Breakpoints()
            else previous.extend(task, t1, h, steps.h is not None)
        )
        segments = constant_segments(t0, t1, h, breakpoints_in_span) if extension is None else extension
        return _with_start(segments, {**describe(segments), **metadata, "asked": request}, task, previous)
    if task.integrator.error_order is None:
        with_estimates = {n: m for n in integrators.names() if (m := integrators.get(n)).error_order is not None}
        able = [n for n, method in with_estimates.items() if accepts(method, task.source, without_note=True)]
        raise ValueError(
            f"Integrator `{task.integrator_name}` has no error estimate, so it can't take tolerances. Give `h`"
            f"{', or use one of ' + ', '.join(able) if able else ''}."
        )
    rtol = 0.0 if rtol is None else plain_number("rtol", rtol)
    atol = rtol / 100 if atol is None else plain_number("atol", atol)
    if rtol < 0 or atol < 0 or rtol + atol == 0:
        raise ValueError(f"`rtol` and `atol` must not be negative and not both zero, got {rtol:g} and {atol:g}.")
    check_span(t0, t1, None)
    segments = controlled_segments(t0, t1, (rtol, atol), steps.control, steps.max_steps, breakpoints_in_span)
    return _with_start(
        segments,
        {"rtol": rtol, "atol": atol, **metadata, "asked": {**request, "rtol": rtol, "atol": atol}},
        task,
        previous,
    )


def _with_start(segments: list[Segment], metadata: dict[str, Any], task: Task, previous: PreviousSteps | None) -> Plan:
    """The plan with its start: the state, or the progress of a previous run with the same method."""
    progress = None if previous is None else previous.progress(task)
    aftermath = None if previous is None else previous.aftermath(task)
    if previous is None or progress is None:
        return Plan(segments, metadata, run_types.Start(task.state0, aftermath=aftermath))
    if not previous.has_equal_steps(task, segments[0]):
        # The memory of a method is of no use for steps of another length or direction.
        segments = [segments[0]._replace(after_jump=True), *segments[1:]]
    return Plan(
        segments, metadata, run_types.Start(task.state0, run_types.Checkpoint(progress, 0, 0), aftermath=aftermath)
    )


_STEPS_RESOLVED = 1000
"""Units of resolution that a constant step must have at least: times of steps are then right to a thousandth of it."""

_SPAN_RESOLVED = 10**6
"""The same for the span of a run with tolerances."""


def check_span(t0: float, t1: float, h: float | None) -> None:
    """Raises ValueError for a span with too many constant steps h, or below the resolution of times.

    `h` is None for controlled steps.
    """
    span = abs(t1 - t0)
    if not math.isfinite(span):
        raise ValueError(f"The span from t0 = {t0:g} to t1 = {t1:g} has no finite length; take a nearer end.")
    if h is None:
        _check_resolved(t0, t1, span, _SPAN_RESOLVED, f"a span of {span:g}")
        return
    if span / h > 2**53:
        raise ValueError(f"`h` = {h:g} needs {span / h:.3g} steps for the span {span:g}; take a larger step.")
    _check_resolved(t0, t1, h, _STEPS_RESOLVED, f"steps of {h:g}")


def _check_resolved(t0: float, t1: float, size: float, units: int, what: str) -> None:
    unit = math.ulp(max(abs(t0), abs(t1)))
    if size < units * unit:
        raise ValueError(
            f"At t = {max((t0, t1), key=abs):g} numbers are {unit:.2g} apart, too far to tell the times of {what} from "
            "each other. Count time from the start of the run: t0 = 0, with the shift in the functions of time."
        )


def breakpoint_times(values: Any) -> list[float]:
    """Breakpoints of the user. Raises ValueError for anything but finite times."""
    if isinstance(values, Tracer):
        raise ValueError("`breakpoints` are traced by JAX; give plain numbers.")
    items = [] if values is None else checks.as_list("breakpoints", values, "times")
    times = checks.numbers("breakpoints", items or np.zeros(0), "times")
    if times.ndim != 1 or not np.isfinite(times).all():
        raise ValueError(f"`breakpoints` must be finite times, got {short_repr(values)}.")
    return times.tolist()


def breakpoints(system: AbstractSystem, user_times: Sequence[float], t0: float, t1: float) -> Breakpoints:
    """Breakpoints of the user and of the loads within the span or at its ends, in the direction of time."""
    low, high, near = min(t0, t1), max(t0, t1), 1e-12 * abs(t1 - t0)
    own = np.unique(np.asarray(system.breakpoints(), dtype=float))
    # Breakpoints of loads are exact, those of users may be rounded.
    others = [t for t in user_times if not np.any(np.abs(own - t) <= near)]
    every = np.unique(np.concatenate((own, others)))
    at_low, at_high = (bool(np.any(np.abs(every - end) <= near)) for end in (low, high))
    inner = every[(every > low + near) & (every < high - near)]
    # Breakpoints within a few units of round-off are one.
    inner = inner[np.diff(inner, prepend=-np.inf) > 8 * math.ulp(max(abs(t0), abs(t1)))]
    forward = t1 > t0
    times = tuple(float(x) for x in (inner if forward else inner[::-1]))
    return Breakpoints(times, *((at_low, at_high) if forward else (at_high, at_low)))


def limit(value: Any, default: int) -> int:
    """The largest number of attempted steps. Raises ValueError for anything but a whole number."""
    return default if value is None else checks.count("max_steps", value, "attempted steps of a run")


def _positive(name: str, value: Any, remedy: str) -> float:
    number = plain_number(name, value)
    if number <= 0:
        raise ValueError(f"`{name}` must be positive, got {number:g}. {remedy}")
    return number
