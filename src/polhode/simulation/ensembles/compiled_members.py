"""The programs of an ensemble: one that makes the starts of its members, one for their steps, one for their outputs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from polhode.compiler import size_limits
from polhode.compiler.cache.disk_cache import Serialiser
from polhode.compiler.cache.program_cache import find_program
from polhode.compiler.fingerprint.argument_key import split_arguments
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.row_map import RowMap, RowMapResult, row_map_serialiser, try_row_map
from polhode.compiler.loops.simd_step_loop import SimdStepLoop
from polhode.compiler.loops.step_loop import StepLoop
from polhode.compiler.number_pattern import NumberPattern
from polhode.compiler.numpy_jit import numpy_jit
from polhode.integrators.base import AbstractIntegrator
from polhode.problem import Problem
from polhode.results.observer import Observation, Observer
from polhode.simulation.ensembles.members import Members
from polhode.simulation.loops import native, transitions
from polhode.simulation.run_plan import plan_steps
from polhode.simulation.save_schedule import SaveSchedule, frame_count
from polhode.simulation.step_request import StepRequest
from polhode.simulation.stepping.stepper import AbstractStepper, Progress
from polhode.simulation.task import Task
from polhode.systems.base import AbstractSystem, State

_CLOSE = 1e-9
"""How far numbers of a start may be from those of a single run, in units of the largest of an array."""
_NOISE = 64 * float(np.finfo(float).eps)
"""Rounding errors of numbers of size one."""


class MemberRequest(NamedTuple):
    """The request for all members: problem, method, span, steps and schedule."""

    problem: Problem
    integrator: Any
    t0: float | None
    t1: float | None
    steps: StepRequest
    schedule: SaveSchedule

    def prepare(self, parameters: dict[str, Any], state: Any) -> Task:
        """A member before it is run. Raises ValueError for one that can't be."""
        problem = self.problem.replace(**parameters) if parameters else self.problem
        tolerances = self.steps.has_tolerances
        return Task.prepare(problem, self.integrator, self.t0, self.t1, state, tolerances=tolerances)


class MemberArrays(NamedTuple):
    """The arrays of a member.

    - `args`, `progress`: of its steps. - `observer`: of its outputs.
    """

    args: Any
    progress: Any
    observer: Any


class PreparedMember(NamedTuple):
    """One member, ready to run: steps of a method from a state to t1, and the number of frames that they save."""

    stepper: AbstractStepper
    system: AbstractSystem
    integrator: AbstractIntegrator
    state0: State
    observer: Observer
    t1: float
    frames: int

    @property
    def steps(self) -> tuple[AbstractStepper, AbstractSystem, AbstractIntegrator]:
        """The arguments of its steps."""
        return self.stepper, self.system, self.integrator


def prepare_member(request: MemberRequest, parameters: dict[str, Any], state: Any) -> PreparedMember:
    """A member, ready to run.

    Raises ValueError for one that can't be run, `UnsupportedNativeOperation` for one that lanes can't run.
    """
    task = request.prepare(parameters, state)
    if task.events.events:
        raise UnsupportedNativeOperation("impacts that are located within steps")
    segments = plan_steps(task, request.steps).segments
    if len(segments) > 1 or segments[0].after_jump:
        raise UnsupportedNativeOperation("breakpoints")
    system, observer = task.run_system.system, task.run_system.observer
    frames = frame_count(segments, request.schedule) or 0
    return PreparedMember(segments[0].stepper, system, task.integrator, task.state0, observer, task.t1, frames)


def _parts(member: PreparedMember, progress: Progress) -> tuple[Any, ...]:
    """Arrays, the rest, shapes and identity of the programs of a member."""
    return split_arguments((member.steps, progress, member.observer, (progress.t, progress.carry.state)))


def _identity(member: PreparedMember, progress: Progress) -> Any:
    """The identity of the program of a member's steps."""
    return split_arguments((member.steps, progress))[3]


class Recipe:
    """Recipe of members. Programs are distinguished by its content, so all recipes are equal as leaves of arguments.

    - `request`: the request. - `keep`: whether the progress keeps the beginning of the last step, for interpolation.
    """

    def __init__(self, request: MemberRequest) -> None:
        # Programs don't depend on the build time of a problem.
        self.request = request._replace(problem=dataclasses.replace(request.problem, build_time=0.0))
        self.keep = request.schedule.at is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe)

    def __hash__(self) -> int:
        return hash(Recipe)

    def of_starts(self) -> Recipe:
        """Without the save schedule, which starts don't depend on."""
        recipe = copy.copy(self)
        recipe.request = self.request._replace(schedule=SaveSchedule(None, None))
        return recipe


def _lanes(inputs: Any, rest: Any, pattern: NumberPattern) -> tuple[SimdStepLoop | None, str]:
    """Steps in lanes, or the reason why there are none; the arguments are those of `native.steps`."""
    (args, progress), others = inputs, rest[0]

    row = native.frame(progress)
    numbers = Layout(progress).size + Layout(row).size
    if numbers > size_limits.NUMBERS:
        # Known before a step is traced.
        return None, f"{numbers} numbers"

    def with_all(function: Callable) -> Callable:
        return lambda arrays, p, control: function(eqx.combine(arrays, others), p, control)

    try:
        loop = SimdStepLoop.of(
            with_all(native.more), with_all(native.advance_to_frame), args, progress, row, pattern=pattern
        )
    except UnsupportedNativeOperation as error:
        return None, str(error)
    return loop, ""


def _outputs(inputs: Any, rest: Any) -> RowMapResult:
    """Outputs of states, each with the arrays of its own observer; the arguments are an observer and an instant."""

    def observe(common: Any, row: Any) -> Observation:
        return eqx.combine(row[0], rest[0])(*row[1])

    return try_row_map(observe, (), inputs)


def _starts(inputs: Any, rest: Any) -> RowMapResult:
    """Starts of members, if possible; the arguments are a `Recipe`, and parameters and state of a member."""
    recipe: Recipe = rest[0]

    def start(common: Any, row: Any) -> MemberArrays:
        member = prepare_member(recipe.request, *row)
        progress = member.stepper.start(member.system, member.integrator, member.state0, recipe.keep)
        return MemberArrays(*_parts(member, progress)[0][:3])

    return try_row_map(start, (), inputs[1], UNTRACEABLE)


_LANES: Serialiser[tuple[SimdStepLoop | None, str]] = Serialiser(
    dump=lambda built: (built[0] and (built[0].code, built[0].width, built[0].pattern.codes), built[1]),
    load=lambda parts, like: (
        parts[0]
        and SimdStepLoop(parts[0][0], parts[0][1], like[0], like[1], native.frame(like[1]), NumberPattern(parts[0][2])),
        parts[1],
    ),
)


_OUTPUTS, _STARTS = row_map_serialiser(lambda inputs: ((), inputs)), row_map_serialiser(lambda inputs: ((), inputs[1]))

UNTRACEABLE = (UnsupportedNativeOperation, jax.errors.JAXTypeError, jax.errors.JAXIndexError, TypeError, ValueError)
"""Exceptions of a builder that needs concrete values of traced numbers. It has built the first member without any."""


@numpy_jit
def _observe(observer: Observer, t: Any, state: Any) -> Observation:
    return observer(t, state)


class Program:
    """All members' programs.

    Raises `UnsupportedNativeOperation` where they can't be machine code, or where members are not alike.

    - `steps`: of several members in lanes, or else of one. - `why_no_lanes`: the reason, if they are of one.
    - `frames`: how many each member saves besides its start.
    - `starts_compiled`: whether starts are made by machine code, rather than one after the other.
    """

    def __init__(self, request: MemberRequest, members: Members) -> None:
        self._request, self._members = request, members
        first = prepare_member(request, *members.of_members(0))
        self.first, self.frames = first, first.frames
        progress = self._progress = self._start_progress(first)
        self._inputs, _, self._shapes, _ = _parts(first, progress)
        self._key, self._checked = _identity(first, progress), members.extremes()[:CHECK_LIMIT]
        instant = progress.t, progress.carry.state
        (observe, no_observe_reason), _ = find_program(_outputs, first.observer, instant, serialiser=_OUTPUTS)
        if observe is None:
            raise UnsupportedNativeOperation(no_observe_reason)
        self._observe_rows = observe
        extremes = self._extremes()
        pattern, layout = native.pattern_of(self._inputs), Layout(self._inputs[0])
        for arrays in extremes.values():
            pattern = pattern if isinstance(arrays, ValueError) else pattern.common(layout.pack(arrays.args))
        self.steps, self.why_no_lanes = self._find_steps(pattern)
        self._starts = self._all_starts()
        self._check_extremes(extremes)

    @property
    def starts_compiled(self) -> bool:
        """Whether starts are made by machine code."""
        return self._starts is not None

    def starts(self, which: slice) -> MemberArrays:
        """The arrays of some members, stacked."""
        parameters, states = self._members.of_members(which)
        if self._starts is not None:
            return self._starts((), (parameters, states))
        singles = [self._member_arrays(k) for k in range(*which.indices(self._members.count))]
        leaves = zip(*map(jax.tree.leaves, singles), strict=True)
        return jax.tree.unflatten(jax.tree.structure(singles[0]), [np.stack(x) for x in leaves])

    def steps_for(self, args: np.ndarray) -> SimdStepLoop | StepLoop:
        """Steps of members with these packed arguments: numbers in which they differ from others are arguments."""
        # Threads may replace the common ones meanwhile by others that are not for these members.
        steps = self.steps
        pattern = steps.pattern.common(args)
        if pattern is steps.pattern:
            return steps
        steps, self.why_no_lanes = self._find_steps(pattern)
        self.steps = steps
        return steps

    def _find_steps(self, pattern: NumberPattern) -> tuple[SimdStepLoop | StepLoop, str]:
        """Steps with these constants, and why they are not in lanes, if so."""
        members = self.first.steps, self._progress
        (lanes, reason), _ = find_program(_lanes, *members, serialiser=_LANES, pattern=lambda _: pattern)
        steps = native.steps(*members[0], members[1], pattern=lambda _: pattern)[0] if lanes is None else lanes
        if steps is None:
            raise UnsupportedNativeOperation(reason)
        return steps, reason

    def observe(self, observer: Any, t: Any, state: Any) -> Observation:
        """Outputs, invariants and residuals of stacked states, each with the arrays of its own observer."""
        return self._observe_rows((), (observer, (t, state)))

    def _start_progress(self, member: PreparedMember) -> Progress:
        return transitions.begin(*member.steps, member.state0, self._request.schedule.at is not None)

    def _member_arrays(self, k: int) -> MemberArrays:
        member = prepare_member(self._request, *self._members.of_members(k))
        progress = self._start_progress(member)
        inputs, _, shapes, _ = _parts(member, progress)
        if shapes != self._shapes or _identity(member, progress) != self._key:
            raise UnsupportedNativeOperation("members of different structure")
        arrays = MemberArrays(*jax.tree.map(np.asarray, inputs[:3]))
        if k in self._checked:
            self._check_outputs(member, arrays)
        return arrays

    def _check_outputs(self, member: PreparedMember, arrays: MemberArrays) -> None:
        """Raises `UnsupportedNativeOperation` if outputs of a member differ from others in more than array values."""
        instant = arrays.progress.t, arrays.progress.carry.state
        row = jax.tree.map(lambda x: np.asarray(x)[None], (arrays.observer, instant))
        observation = self.observe(row[0], *row[1])
        if not _alike(jax.tree.map(lambda x: x[0], observation), _observe(member.observer, *instant)):
            raise UnsupportedNativeOperation("outputs that differ in more than numbers")

    def _all_starts(self) -> RowMap | None:
        row = jax.tree.map(np.asarray, self._members.of_members(0))
        (starts, _), _ = find_program(_starts, Recipe(self._request).of_starts(), row, serialiser=_STARTS)
        # Functions in the structure are other objects for each member; the checks have shown that they agree.
        if starts is None or not starts.has_result_like(MemberArrays(*self._inputs[:3])):
            return None
        arrays = starts((), jax.tree.map(lambda x: x[None], row))
        return starts if _alike(jax.tree.map(lambda x: x[0], arrays), MemberArrays(*self._inputs[:3])) else None

    def _extremes(self) -> dict[int, MemberArrays | ValueError]:
        """The members at the ends as single runs have them, or why they can't be run."""
        extremes: dict[int, MemberArrays | ValueError] = {}
        for k in self._checked:
            try:
                extremes[k] = self._member_arrays(k)
            except ValueError as error:
                extremes[k] = error
        return extremes

    def _check_extremes(self, extremes: dict[int, MemberArrays | ValueError]) -> None:
        """Raises ValueError for a member at the ends that can't be run; with starts that differ, takes single ones."""
        for k, single in extremes.items():
            if isinstance(single, ValueError):
                raise ValueError(f"Member {k}: {single}") from None
            if self._starts is not None:
                arrays = self.starts(slice(k, k + 1))
                if not _alike(jax.tree.map(lambda x: x[0], arrays), single):
                    self._starts = None


CHECK_LIMIT = 8
"""Members that are built one by one, checked as single runs, and compared with the results of machine code."""


def _alike(a: Any, b: Any) -> bool:
    """Whether arrays agree up to rounding, relative to their largest entry.

    Entries that are themselves rounding errors of numbers of size one, such as an angle that starts at 0, may differ.
    """
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(
        np.allclose(x, y, rtol=0, atol=max(_CLOSE * _size(y), _NOISE if _size(y) < _NOISE else 0.0)) for x, y in pairs
    )


def _size(x: Any) -> float:
    return float(np.max(np.abs(x), initial=0.0))
