"""Checks of a request to resume a stored run: it must be of the same run, and that must be able to go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from polhode import __version__
from polhode.checks import short_repr
from polhode.integrators.serialisation import serialise
from polhode.json_values import from_plain, to_plain
from polhode.result_codes import Result
from polhode.results.problem_description import describe_problem
from polhode.simulation.checkpoint.checkpoint import StoredCheckpoint
from polhode.simulation.checkpoint.identity import RunIdentity
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.step_request import StepRequest
from polhode.simulation.stepping.step_control import StepControl
from polhode.simulation.stepping.stepper import Progress
from polhode.simulation.task import Task
from polhode.storage.stored_run import AbstractStoredRun

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


class ResumeRequest(NamedTuple):
    """The request to resume a run.

    - `steps`: the user's, which must be those of the run. - `t1`, `max_steps`: another end or limit.
    - `schedule`: the save schedule. - `starts`: whether the task's start must be that of the run.
    """

    steps: StepRequest
    t1: float | None
    max_steps: int | None
    schedule: SaveSchedule | None = None
    starts: bool = False


def check_same(
    path: Any, task: Task, identity: RunIdentity, root: AbstractStoredRun, checkpoint: StoredCheckpoint
) -> None:
    """Raises ValueError unless the run in the store is of that task."""
    now, before = identity.fingerprints, checkpoint.facts["signatures"]
    other = [name for name in {**before, **now} if now.get(name) != before.get(name)]
    if other == ["set of events"]:
        here, there = [event.name for event in task.events.events], [x["name"] for x in root.meta.get("events", ())]
        raise ValueError(
            f"The run in `{path}` watches {_quote(there) or 'no events'}, and this one {_quote(here) or 'none'}. Give "
            "the events of the run in `events`, or begin a new run in another place."
        )
    if other:
        reason = _differences(root.meta, task) or "functions, or numbers that they or the model hold, differ"
        raise ValueError(
            f"The run in `{path}` is of another {' and '.join(other)}: {reason}. Go on with what it was made from, or "
            "begin a new run in another place."
        )


def _quote(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def check_memory(path: Any, progress: Progress | None, root: AbstractStoredRun) -> Progress:
    """The progress of a checkpoint. Raises ValueError where it has the memory of another version of the method."""
    if progress is None:
        raise ValueError(
            f"The run in `{path}` can't go on to the same bytes: its method kept other numbers from step to step "
            f"than that of this polhode does ({root.meta.get('version')} wrote it). Go on with that version, or begin "
            "in its last frame: polhode.simulate(problem, initial=polhode.load(path), t1=…)."
        )
    return progress


def check_schedule(path: Any, schedule: SaveSchedule | None, checkpoint: StoredCheckpoint) -> None:
    """Raises ValueError for a save schedule that is not that of the run; None is that."""
    if schedule is None:
        return
    former = checkpoint.schedule
    if (schedule.at is None) != (former.at is None) or (former.at is None and schedule.every != former.every):
        raise ValueError(f"The run in `{path}` saves other frames than `save_every` and `save_at` ask for.")
    if schedule.at is not None and former.at is not None:
        saved_times = former.at[: checkpoint.saved_count]
        if not np.array_equal(schedule.at[: len(saved_times)], saved_times):
            raise ValueError(f"`save_at` does not begin with the times that the run in `{path}` has saved.")


def check_request(
    path: Any,
    task: Task,
    identity: RunIdentity,
    request: ResumeRequest,
    root: AbstractStoredRun,
    checkpoint: StoredCheckpoint,
) -> None:
    """Raises ValueError where steps, start or breakpoints are requested that are not those of the run."""
    meta, facts, steps = root.meta, checkpoint.facts, request.steps
    run_request = meta.get("asked", {})
    if request.starts and (identity.start != facts["start"] or task.t0 != meta["t0"]):
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


def check_resumable(
    path: Any, root: AbstractStoredRun, t: float, end: float, t_end: float, max_steps: int | None
) -> None:
    """Raises ValueError where a run can't be resumed."""
    result: Any = root.stats.get("result")
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


def _differences(meta: Mapping[str, Any], task: Task) -> str:
    """Problem, parameters, options of the method and version that differ from the metadata of a run; "" for none."""
    metadata = {**describe_problem(task.problem), "method": serialise(task.integrator), "version": __version__}
    now = from_plain(to_plain(metadata))
    texts = []
    if meta.get("problem") != now["problem"]:
        texts.append(_describe_difference("the problem", meta.get("problem"), now["problem"]))
    else:
        texts += _field_differences(meta.get("parameters", {}), now["parameters"])
    texts += _method_differences(meta.get("method"), now["method"])
    if meta.get("version") != now["version"]:
        texts.append(_describe_difference("the version of polhode", meta.get("version"), now["version"]))
    return ", ".join(texts)


def _method_differences(there: Any, here: Any) -> Iterator[str]:
    if there is None or here is None:
        return
    if there["class"] != here["class"]:
        yield _describe_difference("the method", *(each["class"].partition(":")[2] for each in (there, here)))
    else:
        yield from _field_differences(there["fields"], here["fields"])


def _field_differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for name in {**there, **here}:
        if name not in there or name not in here or there[name] != here[name]:
            yield _describe_difference(f"`{name}`", there.get(name), here.get(name))


def _describe_difference(name: str, there: Any, here: Any) -> str:
    return f"{name} is {short_repr(there)} there and {short_repr(here)} here"
