"""The events of a run, checked before it begins."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from polhode import checks
from polhode.compiler.numpy_jit import shapes
from polhode.events.event import Event, check_function, function_of
from polhode.events.impacts import Impact, check_impact
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.registry import name_of
from polhode.jax_context import inside_transformation
from polhode.simulation.events.contacts import can_hold, link_impacts, with_openings
from polhode.simulation.events.located_contacts import contact_events
from polhode.simulation.run_system import RunSystem
from polhode.simulation.stepping import counted_angles
from polhode.systems.base import AbstractSystem, State


@dataclasses.dataclass(frozen=True, eq=False)
class EventPlan:
    """The events of a run, which may be none, and what they act on: a system and the start of the run.

    - `max_events`: their limit. - `holds_contacts`: whether contacts among them may stay closed.
    - `first_located`: number of the first one of contacts of shapes whose modes the method holds; these come last.
    """

    run_system: RunSystem
    integrator: AbstractIntegrator
    t0: float
    state0: State
    events: tuple[Event, ...]
    max_events: int
    holds_contacts: bool
    first_located: int

    @classmethod
    def of(
        cls,
        run_system: RunSystem,
        integrator: AbstractIntegrator,
        t0: float,
        state0: State,
        events: tuple[Event, ...],
        max_events: int,
        *,
        backward: bool,
    ) -> EventPlan:
        """Raises ValueError for invalid functions, contacts that the method can't hold, and impacts back in time."""
        limit = checks.count("max_events", max_events, "events of a run")
        system, conversion, source = run_system.system, run_system.conversion, run_system.source
        state = shapes(_initial_state, system, integrator, t0, state0) if events else None
        for event in events:
            check_function(event, function_of(event, run_system.outputs, conversion.back), state, source)
            # Shapes of a state of the user's system.
            check_impact(event, jax.eval_shape(conversion.to_source, state), source)
            if source.has_contacts and isinstance(event.action, Impact):
                raise ValueError(
                    f"Bodies of the system touch each other, and event `{event.name}` is an impact, whose impulse "
                    "knows nothing of these contacts. Let shapes touch instead, `model.add_contact`, or take "
                    "`polhode.forces.JointStops` for stops of joints."
                )
            if backward and isinstance(event.action, Impact):
                raise ValueError(
                    f"The run goes back in time, and `{event.name}` is an impact, whose law gives the velocities after "
                    "it from those before. Begin at the earlier time, or leave the impact out."
                )
        events = link_impacts(events)
        # Inside of transformations the system, and with it the set of closed contacts, is a part of the program.
        holds_contacts = not inside_transformation() and can_hold(integrator, source, conversion, events)
        events = with_openings(events) if holds_contacts else events
        first_located = len(events)
        if integrator.locates_contacts:
            events = (*events, *_contact_events(integrator))
        return cls(run_system, integrator, t0, state0, events, limit, holds_contacts, first_located)

    def describe(self) -> dict[str, Any]:
        """Metadata of the events, and names of the contacts that may stay closed."""
        resting = [event.name for event in self.events if isinstance(event.action, Impact) and event.action.rests]
        return {
            **({"events": [self._describe_event(k) for k in range(len(self.events))]} if self.events else {}),
            **({"contacts": resting} if self.holds_contacts else {}),
        }

    def _describe_event(self, number: int) -> dict[str, Any]:
        """An event in plain values; those of the method's own contacts are marked."""
        of_contacts = {"of_contacts": True} if number >= self.first_located else {}
        return {**self.events[number].to_dict(), **of_contacts}


def _contact_events(method: AbstractIntegrator) -> tuple[Event, ...]:
    """The events of contacts whose modes the method holds. Raises ValueError inside of transformations."""
    if inside_transformation():
        name = name_of(method) or type(method.plain).__name__
        raise ValueError(
            f"`{name}` locates impacts, which runs outside of jit, grad and vmap can do only, because the modes of "
            "contacts change from one to the other. Take `moreau`, whose steps go across impacts, or take the run out "
            "of the transformation."
        )
    return contact_events()


def _initial_state(system: AbstractSystem, integrator: AbstractIntegrator, t: Any, state: State) -> State:
    """The state with which a run begins; the user's may be a plain tuple."""
    return counted_angles.init(integrator, system, jnp.asarray(t), jnp.asarray(1e-3), state).state
