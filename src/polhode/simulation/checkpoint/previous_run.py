"""Previous runs, in whose last frame others begin: runs in memory, and those in stores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from polhode import integrators
from polhode.compiler.numpy.eager import eager_numpy
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.compatibility import convert_for
from polhode.integrators.serialisation import deserialise
from polhode.problem import Problem
from polhode.simulation.checkpoint.checkpoint import InMemoryCheckpoint, StoredCheckpoint
from polhode.simulation.checkpoint.identity import RunIdentity
from polhode.simulation.events.records import Aftermath
from polhode.simulation.step_request import StepRequest
from polhode.simulation.stepping.grid_steps import AbstractGridSteps
from polhode.simulation.stepping.segments import AbstractSegmentStepper, Segment
from polhode.simulation.stepping.stepper import Progress
from polhode.solution.load import load
from polhode.solution.solution import Solution
from polhode.storage.stored_run import AbstractStoredRun
from polhode.systems.base import AbstractSystem, Converted, State


@dataclasses.dataclass(frozen=True, eq=False)
class PreviousRun:
    """A previous run, in one of whose frames another one begins.

    - `t`, `state`: that frame. - `method`, `steps`: of the previous run, where they are known.
    - `checkpoint`: the end of the previous run, if that is the frame and its memory is known.
    """

    t: float
    state: State
    method: AbstractIntegrator | str | None
    steps: StepRequest
    checkpoint: InMemoryCheckpoint | StoredCheckpoint | None

    @classmethod
    @eager_numpy()
    def of_solution(cls, solution: Any, t0: Any, state0: Any) -> Self:
        """The end of a solution. Raises ValueError for anything but a run with frames, and for explicit starts."""
        if not isinstance(solution, Solution):
            raise ValueError(f"`initial` must be a Solution, got {type(solution).__name__}.")
        if t0 is not None or state0 is not None:
            raise ValueError("Give either `initial`, which says when and where to begin, or `t0` and `state0`.")
        if not len(solution.t):
            raise ValueError("`initial` has no frames to begin in.")
        meta, checkpoint, t = solution.meta, solution.checkpoint, float(solution.t[-1])
        if np.ndim(solution.t) != 1:
            raise ValueError("`initial` is a batch of runs; give one of them: jax.tree.map(lambda x: x[k], solution).")
        if checkpoint is None and not isinstance(solution.saved, Frames):
            contents = solution.saved.read_checkpoint()
            checkpoint = None if contents is None else StoredCheckpoint.of(contents)
        state = _state_after(solution.stats, t, jax.tree.map(lambda x: jnp.asarray(x[-1]), solution.state))
        if checkpoint is None:
            _check_unchanged(solution.stats, meta, t, meta.get("t1", np.inf) - meta.get("t0", 0.0))
        method = None
        if isinstance(checkpoint, InMemoryCheckpoint):
            method = checkpoint.identity.integrator
        elif meta.get("method") is not None:
            method = deserialise(meta["method"])
        return cls(t, state, method, _steps_of(meta), checkpoint)

    @classmethod
    @eager_numpy()
    def of_store(
        cls, root: AbstractStoredRun, problem: Problem | AbstractSystem, method: AbstractIntegrator | str
    ) -> Self:
        """The start of a run in a store, which is to be resumed; numbers of the state don't matter, its shape does."""
        if isinstance(problem, Problem):
            integrator = integrators.get(method) if isinstance(method, str) else method
            t0, state0 = problem.t_span[0], problem.state0
            state = convert_for(problem.system, integrator, t0, state0, check_state=False).converted.to_system(state0)
        else:
            state = jax.tree.map(lambda x: x[-1], load(root.path)[-1].state)
        return cls(root.meta["t0"], state, method, StepRequest(), None)

    def conversion(self, system: AbstractSystem, problem: Problem | None, t: float) -> Converted:
        """The conversion of the system in the previous run; `state` is one of the converted system."""
        if isinstance(self.checkpoint, InMemoryCheckpoint):
            return self.checkpoint.identity.events.run_system.conversion
        if problem is None or self.method is None:
            return Converted(system)
        method = integrators.get(self.method) if isinstance(self.method, str) else self.method
        return convert_for(system, method, t, problem.state0, check_state=False).converted

    @eager_numpy()
    def continue_as(self, identity: RunIdentity) -> Continuation:
        """The part of the previous run that another one takes up."""
        if self.checkpoint is None:
            return Continuation(self.steps)
        former, progress = self.checkpoint.aftermath_at(self.t), self.checkpoint.progress_for(identity)
        progress = None if progress is None or float(progress.t) != self.t else progress
        aftermath, same_events = None, False
        if former is not None:
            source = identity.source if former.changes else ""
            aftermath = former.for_run(identity.event_names, source, identity.duration)
            same_events = former.names == identity.event_names and former.way == np.sign(identity.duration)
        if progress is not None and not same_events:
            progress = progress._replace(events=None)
        return Continuation(self.steps, progress, self.checkpoint.segment, aftermath)


class Continuation(NamedTuple):
    """The part of a previous run that another one takes up.

    - `steps`: the request for its steps. - `progress`: at its end, if system and method are the same.
    - `segment`: that of its last step. - `aftermath`: the state of its events, if this run begins at its end.
    """

    steps: StepRequest
    progress: Progress | None = None
    segment: Segment | None = None
    aftermath: Aftermath | None = None

    @property
    @eager_numpy()
    def start(self) -> Progress | None:
        """The progress that the method starts from, with counts from zero; None without one."""
        if self.progress is None:
            return None
        zero = jnp.zeros((), jnp.int64)
        return self.progress._replace(n=zero, rejected=zero, newton=zero, result=jnp.zeros((), jnp.int32))

    def has_equal_steps(self, segment: Segment) -> bool:
        """Whether steps are like the last ones of the previous run: equal constant ones, or controlled ones."""
        if self.progress is None or self.segment is None:
            return False
        steps = self.segment.stepper
        former, now = steps.spacing, segment.stepper.spacing
        # A new grid from an instant between two steps of the old one.
        if _is_between_steps(self.progress, steps) and float(segment.stepper.t0) == float(self.progress.t):
            return False
        if former is None or now is None:
            return former is now
        # The steps before and after a breakpoint are a little shorter than their spacing.
        return abs(float(former) - float(now)) <= 1e-9 * abs(float(now))

    def extend(self, t1: float, h: float, h_is_explicit: bool, has_events: bool) -> list[Segment] | None:
        """More steps on the grid of the previous run, if h was requested there and t1 lies on the grid.

        Where an event has ended that run between two steps, an h of the user begins a grid there.
        """
        if self.progress is None or self.segment is None or abs(self.steps.h or 0.0) != h:
            return None
        # Only steps that watch events begin between steps of a grid.
        if _is_between_steps(self.progress, self.segment.stepper) and (h_is_explicit or not has_events):
            return None
        n = int(self.progress.n)
        stepper = self.segment.stepper.until(t1, h, n, counted_from=n)
        return None if stepper is None else [Segment(stepper, False)]


def _is_between_steps(p: Progress, steps: AbstractSegmentStepper) -> bool:
    """Whether an event has left a run between two ends of constant steps."""
    return isinstance(steps, AbstractGridSteps) and float(p.t) != float(steps.instants(p.n))


def _steps_of(meta: Mapping[str, Any]) -> StepRequest:
    """The request for the steps of a run, from its metadata."""
    request = {**{name: meta.get(name) for name in ("h", "rtol", "atol")}, **meta.get("asked", {})}
    return StepRequest(request["h"], request["rtol"], request["atol"], breakpoints=request.get("breakpoints", ()))


def _state_after(stats: Mapping[str, Any], t: float, state: State) -> State:
    """The state in which a run continues from a frame: after the events at that instant, where the frame is before."""
    table = stats.get("events")
    if table is None or isinstance(table["t"], Tracer):
        return state
    at = np.flatnonzero(np.asarray(table["t"], float) == t)
    if not len(at):
        return state
    leaves, structure = jax.tree.flatten(state)
    after = [jnp.asarray(np.asarray(x)[at[-1]], leaf.dtype) for x, leaf in zip(table["after"], leaves, strict=True)]
    return jax.tree.unflatten(structure, after)


def _check_unchanged(stats: Mapping[str, Any], meta: Mapping[str, Any], t: float, duration: float) -> None:
    """Raises ValueError where events have changed the system before a frame, which has no record of the changes."""
    table, events = stats.get("events"), meta.get("events", ())
    numbers = [k for k, event in enumerate(events) if event.get("changes")]
    times = [] if table is None or not numbers else np.asarray(table["t"], float)[np.isin(table["number"], numbers)]
    if meta.get("changed_by_events") or any((time - t) * duration <= 0 for time in times):
        raise ValueError(
            f"Events have changed the system before t = {t:.6g}, and this frame alone doesn't tell how. Begin in the "
            "end of the whole run, which knows: `initial=run`; or in this state with the system as it is given, by "
            "`t0` and `state0`."
        )
