"""Contacts of shapes in runs that locate impacts: their modes, and the event functions that end these."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.numpy_jit import numpy_jit
from polhode.contact.frictional_response import FrictionalResponse, respond_with_friction
from polhode.contact.held_contacts import INACTIVE, ContactModes, HeldContacts
from polhode.events.event import Event, Function
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.nonsmooth.contact_record import dissipation, size_of
from polhode.result_codes import Result
from polhode.simulation.events.contacts import SHORTEST_FLIGHT, AbstractContacts, ContactEvent
from polhode.systems.base import AbstractSystem, Converted, State

CLOSES, CHANGES = "contact closes", "contact changes"
"""Names of the events of contacts: impacts and landings; openings, and starts and ends of sliding."""

_SAMPLES = 3
"""Instants within a step at which their functions are evaluated besides its ends."""

_TOLERANCE = 1e-12

_AT_ONCE = 1e4
"""Distance of two instants, in tolerances, up to which they count as one."""

_MOST_CHANGES = 64
"""Changes of modes at one instant after which none of them lasts."""


class _Never(eqx.Module):
    """The function of an event before the modes are known."""

    def __call__(self, t: Array, state: State) -> Array:
        del t, state
        return jnp.asarray(INACTIVE)


class _GapMargin(eqx.Module):
    """The smallest gap of open contacts."""

    modes: ContactModes
    losses: Float[Array, "k 3"]

    def __call__(self, t: Array, state: State, system: Any) -> Array:
        return HeldContacts(system, self.modes, self.losses).gap_margin(t, state[0])


class _ModeMargin(eqx.Module):
    """How far closed contacts are from opening, sliding or sticking."""

    modes: ContactModes
    losses: Float[Array, "k 3"]

    def __call__(self, t: Array, state: State, system: Any) -> Array:
        return HeldContacts(system, self.modes, self.losses).mode_margin(t, *state)


def contact_events() -> tuple[Event, ...]:
    """The events of contacts, in the order of `LocatedContacts`."""
    options: dict[str, Any] = {"direction": -1, "tolerance": _TOLERANCE, "inside": _SAMPLES}
    return tuple(Event(_Never(), name=name, **options) for name in (CLOSES, CHANGES))


class LocatedContacts(AbstractContacts):
    """The modes of all contacts of a run.

    - `first`: number of the first of their two events, which come last.
    """

    def __init__(self, first: int, source: AbstractSystem) -> None:
        k, rows = size_of(source)  # pyright: ignore[reportArgumentType]
        self._first, self._modes, self._losses = first, ContactModes.of_open(k, rows), jnp.zeros((k, 3))
        self._last, self._changes, self._failure = np.nan, 0, Result.successful

    @property
    def holds(self) -> bool:
        return True

    @property
    def failure(self) -> Result:
        return self._failure

    @property
    def present(self) -> tuple[Any, ...]:
        return (self._modes,)

    @property
    def are_forces(self) -> tuple[bool, ...]:
        return (False,) * self._first + (True, True)

    @property
    def are_gaps(self) -> tuple[bool, ...]:
        return (False,) * self._first + (True, False)

    def has_event(self, number: int) -> bool:
        return number >= self._first

    def function(self, number: int) -> Function | None:
        if number < self._first:
            return None
        kind = (_GapMargin, _ModeMargin)[number - self._first]
        return Function(kind(self._modes, self._losses))

    def convert(self, source: AbstractSystem, method: AbstractIntegrator, t: float, state: State) -> Converted:
        del method, t, state
        return Converted(HeldContacts(source, self._modes, self._losses))

    def begin(self, t: Any, state: State, source: AbstractSystem) -> State:
        return self.act((), t, state, source)[0]

    def act(
        self, fired: Sequence[int], t: Any, state: State, source: AbstractSystem
    ) -> tuple[State, list[ContactEvent]]:
        del fired
        shortest = jnp.asarray(SHORTEST_FLIGHT * _TOLERANCE)
        response = _respond(source, t, state, self._modes, shortest)
        self._count(float(t), bool(response.solved))
        impulses = np.asarray(response.impulses)[:, 0]
        closes = bool(np.any(impulses > 0)) or bool(np.any(~np.asarray(self._modes.closed) & response.modes.closed))
        changes = _differ(self._modes, response.modes)
        self._modes = response.modes
        self._losses = self._losses + dissipation(response.impulses, response.before, response.after)
        events = []
        if closes:
            events = [ContactEvent(self._first, float(impulses.sum()))]
        elif changes:
            events = [ContactEvent(self._first + 1, float("nan"))]
        return (state[0], response.velocity), events

    def _count(self, t: float, solved: bool) -> None:
        """Notes why a run can't go on from an instant at which modes have changed."""
        if not solved:
            self._failure = Result.contact_unsolved
        near = _AT_ONCE * max(_TOLERANCE, np.finfo(float).eps * abs(t))
        self._changes = self._changes + 1 if abs(t - self._last) <= near else 0
        self._last = t
        if self._changes > _MOST_CHANGES:
            self._failure = Result.contact_modes_unsettled

    def with_contact_outputs(self, outputs: Mapping[str, Any], source: AbstractSystem) -> dict[str, Any]:
        del source
        return dict(outputs)

    def arrays(self) -> dict[str, np.ndarray]:
        parts = {field.name: getattr(self._modes, field.name) for field in dataclasses.fields(self._modes)}
        return {f"events-contact-{name}": np.asarray(x) for name, x in {**parts, "losses": self._losses}.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        parts = {
            field.name: jnp.asarray(arrays[f"events-contact-{field.name}"])
            for field in dataclasses.fields(self._modes)
            if f"events-contact-{field.name}" in arrays
        }
        if parts:
            self._modes, self._losses = ContactModes(**parts), jnp.asarray(arrays["events-contact-losses"])


def _differ(before: ContactModes, after: ContactModes) -> bool:
    """Whether contacts have changed between open, sticking and sliding."""
    was = before.at(after.labels)
    return bool(jnp.any(was.closed != after.closed) | jnp.any(was.held != after.held))


@numpy_jit
def _respond(
    source: AbstractSystem, t: Any, state: State, modes: ContactModes, shortest: Array
) -> FrictionalResponse:
    return respond_with_friction(source, t, state, modes, shortest)  # pyright: ignore[reportArgumentType]
