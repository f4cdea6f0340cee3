"""Tasks: problem, method and start of a run, with names resolved and input checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from polhode import checks, integrators
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.numpy_jit import shapes
from polhode.events.event import Event, check_function, function_of
from polhode.events.impacts import Impact, check_impact
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.compatibility import ConvertedSystem, IncompatibleSystem, accepts, convert_for
from polhode.integrators.serialisation import serialise
from polhode.jax_context import inside_transformation
from polhode.problem import NO_CHOICE, Problem
from polhode.results import declarations
from polhode.results.observer import Observer
from polhode.simulation.events.contacts import can_hold, link_impacts, with_openings
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping import counted_angles
from polhode.systems.base import AbstractSystem, Converted, State
from polhode.systems.mechanical import AbstractMechanical


class PreviousEnd(Protocol):
    """A previous run, at whose end another one begins: time `t`, `state`, and the default `method`."""

    @property
    def t(self) -> float: ...
    @property
    def state(self) -> State: ...
    @property
    def method(self) -> AbstractIntegrator | str | None: ...

    def conversion(self, system: AbstractSystem, problem: Problem | None, t: float) -> Converted:
        """The conversion of the system in the previous run; `state` is one of the converted system."""
        ...


class Task(eqx.Module):
    """A system, a start and a method, with names resolved and input checked.

    - `source`: the user's system. - `conversion`: the same as the method takes it, of which `state0` is a state.
    - `outputs`, `invariants`: of states of `source`. - `note`: a note about the conversion; may be empty.
    - `events`, `max_events`: and their limit. - `holds_contacts`: whether contacts among them may stay closed.
    """

    conversion: Converted
    source: AbstractSystem
    integrator: AbstractIntegrator
    integrator_name: str
    state0: State
    t0: float
    t1: float
    outputs: dict[str, Callable]
    invariants: dict[str, Callable]
    problem: Problem | None
    note: str
    events: tuple[Event, ...] = ()
    max_events: int = 10_000
    holds_contacts: bool = False

    @property
    def system(self) -> AbstractSystem:
        """The system as the method takes it."""
        return self.conversion.system

    @property
    def observer(self) -> Observer:
        """The observer of states of `system`: outputs, invariants and residuals."""
        convert = self.conversion.convert_observable
        outputs, invariants = ({k: convert(f) for k, f in part.items()} for part in (self.outputs, self.invariants))
        if self.conversion.back is None:
            return Observer(self.source, outputs, invariants)
        # A system of another kind may have invariants of its own: its momenta need not follow from the velocities.
        own = {name: f for name, f in self.system.invariants().items() if name in invariants}
        return Observer(self.system, outputs, {**invariants, **own}, convert(self.source.residuals))

    @classmethod
    @eager_numpy()
    def prepare(
        cls,
        problem: Problem | AbstractSystem,
        integrator: AbstractIntegrator | str | None,
        t0: float | None,
        t1: float | None,
        state0: State,
        *,
        tolerances: bool = False,
        events: bool = False,
        previous: PreviousEnd | None = None,
    ) -> Task:
        """The task of a run. Raises ValueError for input that can't be run.

        `tolerances`: whether the error is controlled. `events`: whether there are any. `previous`: the run at whose end
        this one begins; its states are not checked as starts.
        """
        if not isinstance(problem, Problem | AbstractSystem):
            raise checks.not_a_problem(problem)
        full_problem = problem if isinstance(problem, Problem) else None
        defaults: Any = full_problem
        given_system = problem.system if isinstance(problem, Problem) else problem
        if previous is not None:
            t0, state0 = previous.t, previous.state
            integrator = previous.method if integrator is None else integrator
        if full_problem is None and (state0 is None or t1 is None or integrator is None):
            raise ValueError("A bare system needs `integrator`, `state0` and `t1`; a Problem brings its own.")
        choice = integrator if integrator is not None else _default_method(defaults, tolerances, events)
        method = integrators.get(choice) if isinstance(choice, str) else choice
        if not isinstance(method, AbstractIntegrator):
            raise ValueError(f"`integrator` must be a name or an integrator, got {short_repr(choice)}.")
        name = (
            choice if isinstance(choice, str) else defaults.integrator if integrator is None else _method_name(method)
        )
        start = plain_number("t0", t0 if t0 is not None else full_problem.t_span[0] if full_problem else 0.0)
        end = plain_number("t1", t1 if t1 is not None else defaults.t_span[1])
        if end == start:
            raise ValueError(f"`t1` must differ from t0 = {start:g}; the span is empty.")
        given_state = defaults.state0 if state0 is None else state0
        if previous is None:
            given_state = _check_state(given_system, given_state)
            previous_conversion = None
        else:
            previous_conversion = previous.conversion(given_system, full_problem, start)
            given_state = previous_conversion.to_source(given_state)
        conversion, note = _convert(given_system, method, name, start, given_state)
        # The state of the same kind of system is not converted there and back, which would round it.
        same = previous_conversion is not None and type(previous_conversion.system) is type(conversion.system)
        state = state0 if same else conversion.to_system(given_state)
        method.check(conversion.system, start, state)
        if previous is None:
            given_system.check(start, given_state)
        outputs = dict(full_problem.outputs) if full_problem else given_system.outputs()
        invariants = dict(full_problem.invariants) if full_problem else given_system.invariants()
        return cls(conversion, given_system, method, name, state, start, end, outputs, invariants, full_problem, note)

    def with_events(self, events: tuple[Event, ...], max_events: int) -> Task:
        """The task with events. Raises ValueError for invalid event functions."""
        limit = checks.count("max_events", max_events, "events of a run")
        state = shapes(_initial_state, self.system, self.integrator, self.t0, self.state0) if events else None
        for event in events:
            check_function(event, function_of(event, self.outputs, self.conversion.back), state, self.source)
            check_impact(event, _shape_at_source(self.conversion, state), self.source)
        events = link_impacts(events)
        # Inside of transformations the system, and with it the set of closed contacts, is a part of the program.
        holds_contacts = not inside_transformation() and can_hold(self.integrator, self.source, self.conversion, events)
        events = with_openings(events) if holds_contacts else events
        return dataclasses.replace(self, events=events, max_events=limit, holds_contacts=holds_contacts)

    def describe(self, plan_metadata: dict[str, Any], schedule: SaveSchedule) -> dict[str, Any]:
        """Metadata of the run, in plain values."""
        from polhode import __version__

        return {
            **self.problem_metadata(),
            **self._choice(),
            **({"written_as": self.note} if self.note else {}),
            "integrator": {
                "name": self.integrator_name,
                "class": type(self.integrator).__name__,
                "options": _options(self.integrator),
            },
            "order": self.integrator.order,
            "t0": self.t0,
            "t1": self.t1,
            **plan_metadata,
            **({} if schedule.at is None else {"between_steps": True}),
            **({"promises_at_steps": True} if self.integrator.promises_at_steps else {}),
            **({"events": [event.to_dict() for event in self.events]} if self.events else {}),
            **({"contacts": self.contacts} if self.holds_contacts else {}),
            "promises": self.integrator.promises_for(self.system, self.state0),
            "method": serialise(self.integrator),
            "newton_tolerance": self.integrator.newton_tolerance(plan_metadata.get("h")),
            "version": __version__,
            **self.names(),
            **self._scene(),
        }

    @property
    def contacts(self) -> list[str]:
        """Names of the contacts that may stay closed."""
        return [event.name for event in self.events if isinstance(event.action, Impact) and event.action.rests]

    def problem_metadata(self) -> dict[str, Any]:
        """Plain values from which the problem can be rebuilt, if it is a named one or that of a file."""
        return {
            "problem": self.problem.name if self.problem else None,
            **({"origin": self.problem.origin} if self.problem and self.problem.origin else {}),
            "parameters": _plain(dict(self.problem.parameters)) if self.problem else {},
        }

    def _choice(self) -> dict[str, Any]:
        """The reasons for these coordinates, and for this method if it is the recommended one."""
        choice = self.problem.choice if self.problem else NO_CHOICE
        is_default = self.problem is not None and self.integrator_name == self.problem.integrator
        reasons = {"coordinates": choice.coordinates, "method": choice.method if is_default else ""}
        choices = {key: reason for key, reason in reasons.items() if reason}
        return {"choice": choices} if choices else {}

    def names(self) -> dict[str, Any]:
        """Bodies and joints by name."""
        name_table = self.problem.named if self.problem else None
        if name_table is None:
            return {}
        outputs = self.outputs if name_table.outputs else ()
        dimensions = {name: list(axes) for name, axes in declarations.axes().items() if name.split(".")[0] in outputs}
        return {"names": _plain(dict(name_table.metadata)), **({"dimensions": dimensions} if dimensions else {})}

    def _scene(self) -> dict[str, Any]:
        """The description of the scene, where there is one in plain values."""
        scene = self.problem.scene if self.problem else None
        description = self.source.picture if self.problem is None else scene and scene.description
        return {} if description is None else {"scene": _plain(dict(description))}


def _initial_state(system: AbstractSystem, integrator: AbstractIntegrator, t: Any, state: State) -> State:
    """The state with which a run begins; the user's may be a plain tuple."""
    return counted_angles.init(integrator, system, jnp.asarray(t), jnp.asarray(1e-3), state).state


def _shape_at_source(conversion: Converted, state: State) -> State:
    """Shapes of a state of the user's system."""
    return jax.eval_shape(conversion.to_source, state)


def _check_state(system: AbstractSystem, state: State) -> State:
    try:
        return system.as_state(state, "state0")
    except ValueError as error:
        raise ValueError(f"{error} {system.state_hint}".rstrip()) from None


def _default_method(problem: Problem, tolerances: bool, events: bool) -> AbstractIntegrator | str:
    """The problem's method, or one like it that takes tolerances, or steps that events cut short."""
    method, system = integrators.get(problem.integrator), problem.system
    has_constraints = isinstance(system, AbstractMechanical) and system.m > 0
    if has_constraints and isinstance(method, integrators.GeneralizedAlpha) and (tolerances or events):
        # Velocities of index 3 depend on the step size, so its multipliers suffer at every change of step.
        return integrators.get(problem.integrator, constraint="stabilized-index-2")
    if not tolerances:
        return problem.integrator
    if method.error_order is not None:
        return problem.integrator
    return "herk54" if has_constraints else "rkmk54"


def _method_name(method: AbstractIntegrator) -> str:
    """The name of a method in the registry, or that of its class."""
    return integrators.name_of(method) or type(method).__name__


def _options(method: AbstractIntegrator) -> dict[str, Any]:
    """Numbers and words in which a method differs from the default of its class."""
    return {
        field.name: getattr(method, field.name)
        for field in dataclasses.fields(method)
        if field.default is not dataclasses.MISSING and getattr(method, field.name) != field.default
    }


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


def plain_number(name: str, value: Any) -> float:
    """A number of the run. Raises ValueError for one that is traced."""
    if isinstance(value, Tracer):
        raise ValueError(
            f"`{name}` is traced by JAX, but the number of steps is part of the program. Make it a plain number; for "
            "derivatives with respect to time, scale the vector field."
        )
    return checks.number(name, value, "of the run")


def _plain(value: Any) -> Any:
    """Values that survive JSON: arrays become lists, tracers their description."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Tracer):
        return "traced"
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return np.asarray(value).tolist()
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
