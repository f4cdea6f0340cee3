"""Tasks: problem, method, start and events of a run, with names resolved and input checked."""

from __future__ import annotations

import dataclasses
from typing import Any

from polhode import checks, integrators
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.events.event import Event
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.compatibility import ConvertedSystem, IncompatibleSystem, accepts, convert_for
from polhode.jax_context import inside_transformation
from polhode.problem import Problem
from polhode.simulation.checkpoint.previous_run import PreviousRun
from polhode.simulation.events.event_plan import EventPlan
from polhode.simulation.run_system import RunSystem
from polhode.simulation.step_request import plain_number
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """The request for a run, with names resolved and input checked.

    - `state0`: a state of the system as the method takes it. - `note`: about the conversion; may be empty.
    """

    run_system: RunSystem
    integrator: AbstractIntegrator
    integrator_name: str
    state0: State
    t0: float
    t1: float
    problem: Problem | None
    note: str
    events: EventPlan

    @classmethod
    def prepare(
        cls,
        problem: Problem | AbstractSystem,
        integrator: AbstractIntegrator | str | None,
        t0: float | None,
        t1: float | None,
        state0: State,
        *,
        tolerances: bool = False,
        events: tuple[Event, ...] = (),
        max_events: int = 10_000,
        previous: PreviousRun | None = None,
    ) -> Task:
        """The task of a run. Raises ValueError for input that can't be run.

        `tolerances`: whether the error is controlled. `previous`: the run at whose end this one begins; its states are
        not checked as starts.
        """
        if not isinstance(problem, Problem | AbstractSystem):
            raise checks.not_a_problem(problem)
        if previous is not None:
            t0, state0 = previous.t, previous.state
            integrator = previous.method if integrator is None else integrator
        full_problem = problem if isinstance(problem, Problem) else None
        if full_problem is None and (state0 is None or t1 is None or integrator is None):
            raise ValueError("A bare system needs `integrator`, `state0` and `t1`; a Problem brings its own.")
        start, end = _span(full_problem, t0, t1)
        _check_contacts(problem, backward=end < start)
        method, name = _choose_method(full_problem, integrator, tolerances)
        system = problem.system if isinstance(problem, Problem) else problem
        method = method.for_system(system)
        if tolerances or events:
            method = method.for_changing_steps(system)
        run_system, state, note = _convert_start(problem, method, name, start, state0, previous)
        event_plan = EventPlan.of(run_system, method, start, state, events, max_events, backward=end < start)
        return cls(run_system, method, name, state, start, end, full_problem, note, event_plan)


def _check_contacts(problem: Problem | AbstractSystem, *, backward: bool) -> None:
    """Raises ValueError for what no run with contacts can do."""
    system = problem.system if isinstance(problem, Problem) else problem
    if not system.has_contacts:
        return
    if backward:
        raise ValueError(
            "The run goes back in time, and bodies touch, or joints have rigid stops or dry friction: impacts and "
            "friction give the velocities after them from those before. Begin at the earlier time, or leave the "
            "contacts out of the model."
        )


@eager_numpy()
def _choose_method(
    problem: Problem | None, choice: AbstractIntegrator | str | None, tolerances: bool
) -> tuple[AbstractIntegrator, str]:
    """The method and its name; by default that of the problem, or one like it."""
    default: Any = problem
    selection = choice if choice is not None else _default_method(default, tolerances)
    method = integrators.get(selection) if isinstance(selection, str) else selection
    if not isinstance(method, AbstractIntegrator):
        raise ValueError(f"`integrator` must be a name or an integrator, got {short_repr(selection)}.")
    if isinstance(selection, str):
        return method, selection
    return method, default.integrator if choice is None else integrators.name_of(method) or type(method).__name__


def _default_method(problem: Problem, tolerances: bool) -> str:
    """The problem's method, or one like it that takes tolerances."""
    if not tolerances or integrators.get(problem.integrator).error_order is not None:
        return problem.integrator
    system = problem.system
    has_constraints = isinstance(system, AbstractMechanical) and system.m > 0
    # Where bodies touch, states are moved onto joints and closed contacts, so that no other method is needed.
    return "herk54" if has_constraints and not system.has_contacts else "rkmk54"


def _span(problem: Problem | None, t0: float | None, t1: float | None) -> tuple[float, float]:
    default_start, default_end = (0.0, t1) if problem is None else problem.t_span
    start = plain_number("t0", default_start if t0 is None else t0)
    end = plain_number("t1", default_end if t1 is None else t1)
    if end == start:
        raise ValueError(f"`t1` must differ from t0 = {start:g}; the span is empty.")
    return start, end


@eager_numpy()
def _convert_start(
    problem: Problem | AbstractSystem,
    method: AbstractIntegrator,
    name: str,
    t: float,
    state0: State,
    previous: PreviousRun | None,
) -> tuple[RunSystem, State, str]:
    """The system as the method takes it, a state of it, and a note about the conversion."""
    full_problem = problem if isinstance(problem, Problem) else None
    source = problem.system if isinstance(problem, Problem) else problem
    state = full_problem.state0 if state0 is None and full_problem is not None else state0
    former = None
    if previous is None:
        state = _check_state(source, state)
    else:
        former = previous.conversion(source, full_problem, t)
        state = former.to_source(state)
    conversion, note = _convert(source, method, name, t, state)
    # The state of the same kind of system is not converted there and back, which would round it.
    same = former is not None and type(former.system) is type(conversion.system)
    converted_state = state0 if same else conversion.to_system(state)
    method.check(conversion.system, t, converted_state)
    if previous is None:
        source.check(t, state)
    outputs = dict(full_problem.outputs) if full_problem else source.outputs()
    invariants = dict(full_problem.invariants) if full_problem else source.invariants()
    return RunSystem(source, conversion, outputs, invariants, full_problem is not None), converted_state, note


def _check_state(system: AbstractSystem, state: State) -> State:
    try:
        return system.as_state(state, "state0")
    except ValueError as error:
        raise ValueError(f"{error} {system.state_hint}".rstrip()) from None


def _convert(system: AbstractSystem, method: AbstractIntegrator, name: str, t: float, state: State) -> ConvertedSystem:
    """`system`, or the conversion of it that the method takes."""
    try:
        return convert_for(system, method, t, state, check_state=False)
    except IncompatibleSystem as error:
        able = _compatible_methods(system, state)
        raise ValueError(
            f"Integrator `{name}` can't take this {type(system).__name__}: {error}. Integrators for it: "
            f"{', '.join(able) or 'none'}."
        ) from None


def _compatible_methods(system: AbstractSystem, state: State) -> list[str]:
    """Names of the methods that take a system; inside of transformations, of those that may."""
    if inside_transformation():
        return [name for name in integrators.names() if accepts(integrators.get(name), system)]
    return [row.name for row in integrators.suited(system, state) if row.suited]
