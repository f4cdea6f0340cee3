"""Continuation of runs: in memory from any frame of another, or from the last state in a store."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from polhode import integrators
from polhode.compiler.fingerprint.persistent_keys import fingerprint
from polhode.compiler.numpy.eager import eager_numpy
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.compatibility import convert_for
from polhode.integrators.serialisation import deserialise, serialise
from polhode.problem import Problem
from polhode.simulation import run_types
from polhode.simulation.checkpoint.event_state import (
    Aftermath,
    check_unchanged,
    describe,
    event_signatures,
    state_after,
)
from polhode.simulation.events.handler import EventHandler
from polhode.simulation.run_plan import Steps
from polhode.simulation.stepping.constant import ConstantSteps
from polhode.simulation.stepping.controlled import ControlledSteps
from polhode.simulation.stepping.segments import AbstractSegmentStepper, Breakpoints, Segment
from polhode.simulation.stepping.step_control import StepControl
from polhode.simulation.stepping.stepper import Progress
from polhode.simulation.task import Task
from polhode.solution.solution import Solution
from polhode.storage.documents import digest
from polhode.systems.base import AbstractSystem, Converted, State


@dataclasses.dataclass(frozen=True, eq=False)
class InMemoryCheckpoint:
    """The end of a run in memory, from which another run can start."""

    checkpoint: run_types.Checkpoint
    segments: list[Segment]
    task: Task


@dataclasses.dataclass(frozen=True, eq=False)
class PreviousRun:
    """A previous run, in whose last frame another one begins.

    - `t`, `state`: that frame. - `method`, `steps`: of the previous run, where they are known.
    - `checkpoint`: that of a run in memory, or arrays out of a store; None without either.
    """

    t: float
    state: State
    method: AbstractIntegrator | str | None
    steps: Steps
    checkpoint: InMemoryCheckpoint | dict[str, Any] | None

    @classmethod
    @eager_numpy()
    def of(cls, solution: Any, start_values: tuple[Any, Any]) -> PreviousRun:
        """The end of a solution. Raises ValueError for anything but a run with frames, and for explicit starts."""
        if not isinstance(solution, Solution):
            raise ValueError(f"`initial` must be a Solution, got {type(solution).__name__}.")
        if any(value is not None for value in start_values):
            raise ValueError("Give either `initial`, which says when and where to begin, or `t0` and `state0`.")
        if not len(solution.t):
            raise ValueError("`initial` has no frames to begin in.")
        run_metadata, checkpoint, t = solution.meta, solution.checkpoint, float(solution.t[-1])
        if np.ndim(solution.t) != 1:
            raise ValueError("`initial` is a batch of runs; give one of them: jax.tree.map(lambda x: x[k], solution).")
        request = {
            "h": run_metadata.get("h"),
            "rtol": run_metadata.get("rtol"),
            "atol": run_metadata.get("atol"),
            **run_metadata.get("asked", {}),
        }
        steps = Steps(request["h"], request["rtol"], request["atol"], breakpoints=request.get("breakpoints", ()))
        if checkpoint is None and not isinstance(solution.saved, Frames):
            checkpoint = solution.saved.read_checkpoint()
        state = state_after(solution.stats, t, jax.tree.map(lambda x: jnp.asarray(x[-1]), solution.state))
        if checkpoint is None:
            check_unchanged(
                solution.stats, run_metadata, t, run_metadata.get("t1", np.inf) - run_metadata.get("t0", 0.0)
            )
        method = None
        if isinstance(checkpoint, InMemoryCheckpoint):
            method = checkpoint.task.integrator
        elif run_metadata.get("method") is not None:
            method = deserialise(run_metadata["method"])
        return cls(t, state, method, steps, checkpoint)

    def conversion(self, system: AbstractSystem, problem: Problem | None, t: float) -> Converted:
        """The conversion of the system in the previous run; `state` is one of the converted system."""
        if isinstance(self.checkpoint, InMemoryCheckpoint):
            return self.checkpoint.task.conversion
        if problem is None or self.method is None:
            return Converted(system)
        method = integrators.get(self.method) if isinstance(self.method, str) else self.method
        return convert_for(system, method, t, problem.state0, check_state=False).converted

    @eager_numpy()
    def progress(self, task: Task) -> Progress | None:
        """The progress that the method starts from; None if the method or the system is another one."""
        position = self._position(task)
        if position is None:
            return None
        zero, aftermath = jnp.zeros((), jnp.int64), self._aftermath
        same = (
            aftermath is not None
            and aftermath.names == event_signatures(task.events)
            and aftermath.way == np.sign(task.t1 - task.t0)
        )
        events = position[0].events if same else None
        return position[0]._replace(n=zero, rejected=zero, newton=zero, result=jnp.zeros((), jnp.int32), events=events)

    def aftermath(self, task: Task) -> Aftermath | None:
        """The state of the events of the previous run, if this one begins at its end."""
        former = self._aftermath
        return None if former is None else former.for_run(task.events, task.source, task.t1 - task.t0)

    @functools.cached_property
    def _aftermath(self) -> Aftermath | None:
        """The state of the events of the previous run, if it had any and its checkpoint is at its last frame."""
        checkpoint = self.checkpoint
        if isinstance(checkpoint, InMemoryCheckpoint):
            p, task = checkpoint.checkpoint.progress, checkpoint.task
            arrays = dict(checkpoint.checkpoint.event_arrays or {})
            arrays |= {} if p.events is None else {"sides": p.events.signs}
            if float(p.t) != self.t or not arrays:
                return None
            return Aftermath.of(event_signatures(task.events), fingerprint(task.source), arrays, task.t1 - task.t0)
        if checkpoint is None or "events" not in checkpoint["facts"] or float(checkpoint["reached"]) != self.t:
            return None
        event_metadata = checkpoint["facts"]["events"]
        return Aftermath.of(event_metadata["names"], event_metadata["source"], checkpoint, event_metadata["way"])

    def _position(self, task: Task) -> tuple[Progress, Segment] | None:
        """Progress and segment of the previous run, if system and method are the same and it is at its last frame."""
        checkpoint = self.checkpoint
        if isinstance(checkpoint, InMemoryCheckpoint):
            progress, segment = checkpoint.checkpoint.progress, checkpoint.segments[checkpoint.checkpoint.segment]
            same = _without_events(fingerprints(checkpoint.task)) == _without_events(fingerprints(task))
        elif checkpoint is not None:
            facts = checkpoint["facts"]
            # The method's memory of a closed contact is not for this run, which closes it itself.
            if "events-closed" in checkpoint:
                return None
            if _without_events(facts["signatures"]) != _without_events(fingerprints(task)):
                return None
            segment = segments_from_array(checkpoint["legs"], deserialise(facts["control"]))[
                int(checkpoint["stand"][0])
            ]
            alike = facts["signatures"] == fingerprints(task)
            progress, same = progress_from_arrays(checkpoint, task, segment, facts["at_times"], with_events=alike), True
        else:
            return None
        return (progress, segment) if same and float(progress.t) == self.t else None

    def has_equal_steps(self, task: Task, segment: Segment) -> bool:
        """Whether steps are like the last ones of the previous run: equal constant ones, or controlled ones."""
        position = self._position(task)
        if position is None:
            return False
        former, now = position[1].stepper.spacing, segment.stepper.spacing
        # A new grid from an instant between two steps of the old one.
        if _between_steps(*position) and float(segment.stepper.t0) == self.t:
            return False
        if former is None or now is None:
            return former is now
        # The steps before and after a breakpoint are a little shorter than their spacing.
        return abs(float(former) - float(now)) <= 1e-9 * abs(float(now))

    def extend(self, task: Task, t1: float, h: float, h_is_explicit: bool) -> list[Segment] | None:
        """More steps on the grid of the previous run, if h was requested there and t1 lies on the grid.

        Where an event has ended that run between two steps, an h of the user begins a grid there.
        """
        position = self._position(task)
        if position is None:
            return None
        n = int(position[0].n)
        # Only steps that watch events begin between steps of a grid.
        if _between_steps(*position) and (h_is_explicit or not task.events):
            return None
        stepper = position[1].stepper.until(t1, h, n, counted_from=n) if abs(self.steps.h or 0.0) == h else None
        return None if stepper is None else [Segment(stepper, False)]


def _between_steps(p: Progress, segment: Segment) -> bool:
    """Whether an event has left a run between two ends of constant steps."""
    steps = segment.stepper
    return steps.on_grid and float(p.t) != float(steps.t0 + (p.n - steps.first) * steps.spacing)


def fingerprints(task: Task) -> dict[str, str]:
    """Process-independent fingerprints of system, method, outputs and events."""
    method = serialise(task.integrator)
    return {
        "problem": fingerprint(task.system),
        "method": fingerprint(task.integrator if method is None else method),
        "set of outputs": fingerprint([sorted(task.outputs.items()), sorted(task.invariants.items())]),
        **({"set of events": fingerprint(task.events)} if task.events else {}),
    }


def _without_events(names: dict[str, str]) -> dict[str, str]:
    return {what: name for what, name in names.items() if what != "set of events"}


def start_digest(task: Task) -> str:
    """The digest of the bytes of the initial state."""
    leaves = jax.tree.leaves(task.state0)
    return digest(b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in leaves))


def metadata(run: Any) -> dict[str, Any]:
    """Metadata of a checkpoint, which a store keeps beside its arrays."""
    task, schedule = run.task, run.schedule
    return {
        "signatures": fingerprints(task),
        "start": start_digest(task),
        "method": serialise(task.integrator),
        "method_name": task.integrator_name,
        "control": serialise(run.plan.segments[0].stepper.control),
        "every": schedule.every,
        "at_times": schedule.at is not None,
        **({"events": {**describe(task.events, task.source), "way": task.t1 - task.t0}} if task.events else {}),
    }


def arrays(checkpoint: run_types.Checkpoint, run: Any) -> dict[str, np.ndarray]:
    """Arrays of a checkpoint: the progress, the segments of its run and the save times."""
    leaves = jax.tree.leaves(checkpoint.progress)
    state_arrays = {f"progress-{k}": np.asarray(leaf) for k, leaf in enumerate(leaves)}
    if run.schedule.at is not None:
        state_arrays["targets"] = run.schedule.at
    state_arrays |= checkpoint.event_arrays or {}
    events = checkpoint.progress.events
    state_arrays |= {"reached": np.asarray(checkpoint.progress.t)} | ({} if events is None else {"sides": events.signs})
    return {
        **state_arrays,
        "legs": _segments_to_array(run.plan.segments),
        "stand": np.array([checkpoint.segment, checkpoint.saved_count]),
    }


def _segments_to_array(segments: list[Segment]) -> np.ndarray:
    return np.array([[float(fresh), *map(float, stepper.numbers())] for stepper, fresh in segments])


def segments_from_array(rows: np.ndarray, control: StepControl | None) -> list[Segment]:
    """The segments from their numbers in a store."""

    def steps(numbers: list[float]) -> AbstractSegmentStepper:
        return ConstantSteps.of_numbers(numbers) if control is None else ControlledSteps.of_numbers(numbers, control)

    return [Segment(steps(numbers), bool(fresh)) for fresh, *numbers in rows]


@eager_numpy()
def progress_from_arrays(
    arrays: dict[str, Any], task: Task, segment: Segment, at_times: bool, with_events: bool = True
) -> Progress:
    """The progress from the arrays of a store; without the event state unless `with_events`.

    Raises ValueError where it does not fit the method of this version.
    """
    stepper, system = segment.stepper, task.system
    if with_events and task.events:
        events = EventHandler(task)
        events.restore_contacts(arrays)
        stepper, system = events.stepper(stepper), events.system
    start = eqx.filter_eval_shape(stepper.start, system, task.integrator, task.state0, at_times)
    templates, structure = jax.tree.flatten(start)
    leaves = [arrays[f"progress-{k}"] for k in range(len(templates)) if f"progress-{k}" in arrays]
    # The event state comes last.
    stored_count = sum(name.startswith("progress-") for name in arrays)
    fits = len(leaves) == len(templates) and (
        stored_count == len(templates) if with_events else stored_count >= len(templates)
    )
    if not fits or any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(leaves, templates, strict=True)):
        raise ValueError("the method remembers other things than this version of it does")
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])


def extend(
    segments: list[Segment], segment: int, n: int, t1: float, breakpoints: Breakpoints, h: float | None
) -> list[Segment]:
    """The segments with another end.

    `n` is the number of steps so far, `breakpoints` are those from the present end on, `h` is the requested step.
    """
    last, fresh = segments[-1]
    if t1 == float(last.t1):
        return segments
    if breakpoints == Breakpoints() and last.on_grid:
        over = segment == len(segments) - 1 and n >= last.last
        first = int(last.first)
        longer = last.until(t1, h, first if over else max(first, n), counted_from=0)
        if longer is not None:
            return [*segments[:-1], Segment(longer, fresh)]
    return [*segments, *last.extend(t1, breakpoints, h)]


def with_limit(segments: list[Segment], max_steps: int) -> list[Segment]:
    """The segments with another limit of attempted steps."""
    return [segment._replace(stepper=segment.stepper.with_limit(max_steps)) for segment in segments]
