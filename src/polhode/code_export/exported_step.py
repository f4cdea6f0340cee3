"""The functions of a step with constant length, recorded for other compilers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from polhode.code_export import refusals
from polhode.code_export.derivatives import step_derivatives
from polhode.code_export.equations import EquationRequest, Equations, Parts
from polhode.code_export.free_numbers import FreeNumbers, Values, dependent_results
from polhode.compiler.fingerprint.closures import frozen
from polhode.compiler.loops.single_call import SingleCall
from polhode.compiler.loops.step_loop import StepPrograms
from polhode.events.event import Event
from polhode.integrators.base import AbstractIntegrator
from polhode.problem import Problem
from polhode.simulation.events.detection import EventDetectingStepper
from polhode.simulation.events.handler import handler_at
from polhode.simulation.loops import native, transitions
from polhode.simulation.run_types import Start
from polhode.simulation.stepping.constant import constant_steps
from polhode.simulation.stepping.segments import AbstractSegmentStepper
from polhode.simulation.stepping.stepper import AbstractStepper, Progress
from polhode.simulation.task import Task

_ENDLESS = 2**62
"""Number of the step at which exported code ends: never."""

_EVENTS = 10**9
"""Events of a run at most, as large as `simulate` takes: exported code doesn't end by their number."""


class Carry(NamedTuple):
    """The numbers that exported code keeps between steps.

    - `t0`, `spacing`: the time at which it began to make steps of this length. - `progress`: that of the run.
    """

    t0: Any
    spacing: Any
    progress: Progress


class Free(NamedTuple):
    """Arrays of the model that parameters and inputs change."""

    leaves: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class ExportedStep:
    """The functions of an exported step, as programs.

    - `task`: what is run. - `free`: names of free parameters and inputs. - `numbers`: arrays of the model.
    - `begin`: what the code keeps between steps, at the start, as `simulate` has it.
    - `steps`: a block of steps. - `leaves`: the arrays of the model that parameters and inputs change, and then the
      arrays of number `free_state` of the initial state; None if nothing is free.
    - `initial`, `restart`, `observe`: the start of a run, its restart after a jump of inputs or with other steps, if
      that is needed, and outputs.
    - `derivatives`: of a step, by their direction: "along" and "back".
    - `equations`: what is behind the step, as programs; None if it isn't requested.
    """

    task: Task
    free: FreeNumbers
    h: float
    numbers: Any
    begin: Carry
    steps: StepPrograms
    leaves: SingleCall | None
    initial: SingleCall
    restart: SingleCall | None
    free_state: tuple[int, ...]
    observe: SingleCall
    derivatives: Mapping[str, SingleCall]
    equations: Equations | None

    @classmethod
    def of(
        cls,
        problem: Problem,
        method: AbstractIntegrator | str | None,
        h: float,
        free: FreeNumbers,
        events: tuple[Event, ...],
        outputs: Any,
        *,
        restarts: bool,
        derivatives: Sequence[str],
        equations: EquationRequest | None = None,
    ) -> ExportedStep:
        """Records the step, restarts if there are `restarts`, derivatives in these directions, and equations.

        Raises ValueError for what can't be exported, with the reason and a remedy.

        Raises `UnsupportedNativeOperation` where a function has no machine code.
        """
        task = _task(problem, method, events)
        refusals.check_task(task)
        if equations is not None and equations.exchange:
            refusals.check_exchange(task)
        recorder = _Recorder(problem, task, h, free, events, derivatives)
        progress = jax.tree.map(np.asarray, recorder.begin())
        return recorder.record(Carry(np.float64(task.t0), np.float64(h), progress), outputs, restarts, equations)


def _task(problem: Problem, method: AbstractIntegrator | str | None, events: tuple[Event, ...]) -> Task:
    return Task.prepare(problem, method, None, None, None, events=events, max_events=_EVENTS)


class _Recorder:
    """Records functions of one task: its arrays are `numbers`, and some of them may be free."""

    def __init__(
        self,
        problem: Problem,
        task: Task,
        h: float,
        free: FreeNumbers,
        events: tuple[Event, ...],
        derivatives: Sequence[str],
    ) -> None:
        self.problem, self.task, self.h, self.free, self.events = problem, task, h, free, events
        self.derivatives = derivatives
        self.parts = self._parts(task)
        arrays, self.rest = eqx.partition(self.parts, eqx.is_array)
        self.leaves, self.structure = jax.tree.flatten(arrays)
        self.numbers = arrays

    def _parts(self, task: Task) -> Any:
        """Stepper, system and method."""
        inner = constant_steps(task.t0, task.t1, self.h, self.h, 0, _ENDLESS, 0.0)
        handler = handler_at(Start(task.state0), task.events)
        stepper = inner if handler is None else handler.stepper(inner)
        refusals.check_events(task, stepper, handler)
        if handler is not None and self.derivatives:
            raise refusals.no_derivatives(self.problem.name)
        return frozen((stepper, task.run_system.system, task.integrator))

    def begin(self) -> Progress:
        stepper, system, integrator = self.parts
        return transitions.begin(stepper, system, integrator, self.task.state0, False)

    # --- numbers ------------------------------------------------------------------------------------------------------

    def _numbers_for(self, values: Values) -> tuple[Task, list[Any]]:
        """The task with other parameters and inputs, and its arrays."""
        names = ", ".join((*self.free.parameters, *self.free.inputs))
        try:
            task = _task(self.free.problem(self.problem, values), self.task.integrator, self.events)
        except (TypeError, ValueError) as error:
            # What JAX says of values that decide in Python, and checks of numbers that must be known.
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise ValueError(
                f"Of {names} of problem `{self.problem.name}`, not all can stay free: {reason} Leave out what decides "
                "more than numbers in the equations: what isn't named becomes a constant."
            ) from error
        leaves, structure = jax.tree.flatten(eqx.filter(self._parts(task), eqx.is_array))
        shapes = [(jnp.shape(x), jnp.result_type(x)) for x in leaves]
        if structure != self.structure or shapes != [(jnp.shape(x), jnp.result_type(x)) for x in self.leaves]:
            raise ValueError(
                f"Other values of {names} change the equations of "
                f"problem `{self.problem.name}`, and not only their numbers. Leave them out of `parameters` and "
                "`inputs`: what isn't named becomes a constant."
            )
        return task, leaves

    def _with(self, arrays: Any, at: tuple[int, ...], free: Free, t0: Any, spacing: Any) -> Any:
        """Stepper, system and method with free numbers in their places, and steps from t0 on."""
        leaves = jax.tree.leaves(arrays)
        for k, x in zip(at, free.leaves, strict=True):
            leaves[k] = x
        stepper, system, integrator = eqx.combine(jax.tree.unflatten(self.structure, leaves), self.rest)
        return _on_grid(stepper, t0, spacing), system, integrator

    def _dependence(self) -> tuple[tuple[int, ...], tuple[int, ...], SingleCall | None]:
        """Numbers of the arrays of the model, and of the initial state, that parameters and inputs change.

        The last value computes them, those of the model first; it is None if nothing is free.
        """
        if self.free.is_empty:
            return (), (), None

        def arrays(*values: Any) -> list[Any]:
            task, leaves = self._numbers_for((values[0], values[1]))
            return [*leaves, *jax.tree.leaves(task.state0)]

        at, count = dependent_results(arrays, *self.free.defaults), len(self.leaves)

        def dependent_arrays(*values: Any) -> tuple[Any, ...]:
            every = arrays(*values)
            return tuple(jnp.asarray(every[k]) for k in at)

        parameters, inputs = self.free.defaults
        call = SingleCall.of(dependent_arrays, parameters=parameters, inputs=inputs)
        return tuple(k for k in at if k < count), tuple(k - count for k in at if k >= count), call

    # --- functions ----------------------------------------------------------------------------------------------------

    def record(self, begin: Carry, outputs: Any, restarts: bool, equations: EquationRequest | None) -> ExportedStep:
        """All functions; `begin`: the carry at the start."""
        state = jax.tree.map(np.asarray, self.task.state0)
        at, state_at, leaves_call = self._dependence()
        free = Free(tuple(self.leaves[k] for k in at))

        def steps(arrays: Any, now: tuple[Free, Carry], control: Any) -> Any:
            parts = self._with(arrays, at, now[0], now[1].t0, now[1].spacing)
            progress, kind, row = native.advance_to_frame(parts, now[1].progress, control)
            return (now[0], now[1]._replace(progress=progress)), kind, row

        def more(arrays: Any, now: tuple[Free, Carry], control: Any) -> Any:
            return native.more(self._with(arrays, at, now[0], now[1].t0, now[1].spacing), now[1].progress, control)

        def initial(arrays: Any, free: Free, state: Any, t0: Any) -> Carry:
            stepper, system, integrator = self._with(arrays, at, free, t0, begin.spacing)
            return Carry(t0, begin.spacing, stepper.start(system, integrator, state, keep_previous=False))

        def restart(arrays: Any, now: tuple[Free, Carry]) -> Carry:
            stepper, system, integrator = self._with(arrays, at, now[0], now[1].t0, now[1].spacing)
            progress = stepper.restart(system, integrator, now[1].progress)
            if isinstance(stepper, EventDetectingStepper):
                progress = stepper.with_event_state(system, integrator, progress)
            return now[1]._replace(progress=progress)

        now, observe = (free, begin), self._observe(outputs)
        row = native.row_contents(self.parts, begin.progress)
        return ExportedStep(
            self.task,
            self.free,
            self.h,
            self.numbers,
            begin,
            StepPrograms.of(more, steps, self.numbers, now, row),
            leaves_call,
            SingleCall.of(initial, numbers=self.numbers, free=free, state=state, t0=begin.t0),
            SingleCall.of(restart, numbers=self.numbers, now=now) if restarts else None,
            tuple(state_at),
            SingleCall.of(
                lambda parameters, inputs, carry: observe((parameters, inputs), carry),
                parameters=self.free.defaults[0],
                inputs=self.free.defaults[1],
                carry=begin,
            ),
            step_derivatives(self.derivatives, self._one_step, self.free, begin, self.task.integrator_name),
            None if equations is None else Equations.of(equations, self.free, begin, self._parts_for, observe),
        )

    def _one_step(self, values: Values, carry: Carry) -> Carry:
        """One step without events, as a function of parameters and inputs as well."""
        stepper, system, integrator = self._parts_for(values, carry)
        return carry._replace(progress=stepper.attempt(system, integrator, carry.progress))

    def _parts_for(self, values: Values, carry: Carry) -> Parts:
        """Stepper, system and method for parameters and inputs."""
        leaves = self.leaves if self.free.is_empty else self._numbers_for(values)[1]
        every = tuple(range(len(leaves)))
        return self._with(self.numbers, every, Free(tuple(leaves)), carry.t0, carry.spacing)

    def _observe(self, outputs: Any) -> Callable[[Values, Carry], dict[str, Any]]:
        """Outputs, invariants and residuals by name, as numbers."""
        select = _Selection(outputs)

        def observe(values: Values, carry: Carry) -> dict[str, Any]:
            task = self.task if self.free.is_empty else self._numbers_for(values)[0]
            observation = task.run_system.observer(carry.progress.t, carry.progress.carry.state)
            return select({name: _flat(part) for name, part in observation._asdict().items()})

        return observe


class _Selection:
    """The outputs that a user has named; None: all."""

    def __init__(self, names: Any) -> None:
        self._names = names

    def __call__(self, parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Numbers by name: outputs as they are, others after their kind, as in `residuals_position`."""
        every = dict(parts["outputs"])
        for kind in ("invariants", "residuals"):
            every |= {f"{kind}.{name}": x for name, x in parts[kind].items()}
        if self._names is not None:
            refusals.check_outputs(self._names, every)
            every = {name: every[name] for name in self._names}
        return {name: jnp.asarray(x, float) for name, x in every.items() if jnp.size(x)}


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by name; those of one quantity are numbered."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        leaves = jax.tree.leaves(value)
        out |= {name: leaves[0]} if len(leaves) == 1 else {f"{name}.{k}": x for k, x in enumerate(leaves)}
    return out


def _on_grid(stepper: AbstractStepper, t0: Any, spacing: Any) -> AbstractStepper:
    """The same steps, from another instant on and of another length."""
    inner: AbstractSegmentStepper | None = getattr(stepper, "inner", None)
    stepper = eqx.tree_at(lambda s: s.t0, stepper, t0)
    grid = lambda s: (s.t0, s.h, s.spacing)  # noqa: E731
    values = t0, spacing, spacing
    if inner is None:
        return eqx.tree_at(grid, stepper, values)
    return eqx.tree_at(lambda s: grid(s.inner), stepper, values)
