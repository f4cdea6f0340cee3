"""Contacts of a host run: the active set, and the system and the event functions that follow from it."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.checks import is_concrete, short_repr
from polhode.compiler.numpy_jit import numpy_jit
from polhode.contact.response import Response, respond
from polhode.contact.system import UnilateralSystem
from polhode.contact.unilateral import gaps
from polhode.events.event import Event, Function
from polhode.events.impacts import Impact
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.compatibility import IncompatibleSystem, accepts, convert_for
from polhode.multibody.measurements.joints import EFFORTS, LOADS
from polhode.result_codes import Result
from polhode.simulation.events.responses import LastingContacts
from polhode.systems.base import AbstractSystem, Converted, State
from polhode.systems.mechanical import AbstractMechanical

SHORTEST_FLIGHT = 1e5
"""Shortest flight after a bounce, in tolerances of the event: a contact rests where it would be shorter."""

_INACTIVE = 1e30
"""The value of event functions that are inactive at present."""

_ROUNDOFF = 1e-14
"""Depth to which a contact that has opened may close, relative to the larger of 1 and the largest coordinate."""


class _OpeningFunction(eqx.Module):
    """The force of a contact while it is closed; its zero is the opening."""

    contacts: tuple[Impact, ...]
    closed: Bool[Array, " k"]
    index: int = eqx.field(static=True)

    def __call__(self, t: Array, state: State, system: Any) -> Array:
        force = UnilateralSystem(system, self.contacts, self.closed).forces(t, state)[self.index]
        return jnp.where(self.closed[self.index], force, _INACTIVE)


class _ClosingFunction(eqx.Module):
    """The gap of a contact while it is open, with a `slack` for rounding at its opening."""

    contact: Impact
    closed: Bool[Array, ""]
    slack: Float[Array, ""]

    def __call__(self, t: Array, state: State, system: Any) -> Array:
        return jnp.where(self.closed, _INACTIVE, self.contact.gap(t, state, system) + self.slack)


class _Never(eqx.Module):
    """The function of an opening as long as no contact has closed."""

    def __call__(self, t: Array, state: State) -> Array:
        del t, state
        return jnp.asarray(_INACTIVE)


class ContactMeasurements(eqx.Module):
    """Gaps and forces of contacts, and which of them are closed, as an output of states (q, v)."""

    source: AbstractSystem
    contacts: tuple[Impact, ...]
    closed: Bool[Array, " k"] | None

    def __call__(self, t: Array, state: State) -> dict[str, Array]:
        gap = gaps(self.contacts, t, state, self.source)
        if self.closed is None:
            none = jnp.zeros(len(self.contacts))
            return {"gap": gap, "force": none, "closed": none}
        force = UnilateralSystem(self.source, self.contacts, self.closed).forces(t, state)
        return {"gap": gap, "force": jnp.where(self.closed, force, 0.0), "closed": self.closed.astype(float)}


class _JointLoads(eqx.Module):
    """Loads of joints; NaN while a contact is closed, because they are computed without its force."""

    loads: Callable[[Array, State], dict[str, Array]]
    closed: Bool[Array, " k"]

    def __call__(self, t: Array, state: State) -> dict[str, Array]:
        values = self.loads(t, state)
        return {name: jnp.where(jnp.any(self.closed) & (name != EFFORTS), jnp.nan, x) for name, x in values.items()}


class ContactEvent(NamedTuple):
    """An event of a contact: its number among those of the run, and the impulse of the contact."""

    number: int
    impulse: float


def with_openings(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events, and after them one for the opening of each contact that may rest."""
    options = [
        (event.name, {"tolerance": event.tolerance, "inside": event.inside})
        for event in events
        if isinstance(event.action, Impact) and event.action.rests
    ]
    return (*events, *(Event(_Never(), direction=-1, name=f"{name} opens", **o) for name, o in options))


def link_impacts(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events, with the other impacts as an attribute of each impact."""
    impacts = [event.action for event in events if isinstance(event.action, Impact)]
    if len(impacts) < 2:
        return events

    def with_others(event: Event) -> Event:
        if not isinstance(event.action, Impact):
            return event
        beside = tuple(other for other in impacts if other is not event.action)
        return dataclasses.replace(event, action=dataclasses.replace(event.action, beside=beside))

    return tuple(with_others(event) for event in events)


def can_hold(
    method: AbstractIntegrator, source: AbstractSystem, conversion: Converted, events: Sequence[Event]
) -> bool:
    """Whether a run can hold contacts closed.

    Raises ValueError, before a run begins, where one must be held and the method can't.
    """
    resting_events = [event for event in events if isinstance(event.action, Impact) and event.action.rests]
    if not resting_events:
        return False
    if isinstance(source, AbstractMechanical) and conversion.back is None:
        contacts = tuple(event.action for event in resting_events if isinstance(event.action, Impact))
        if accepts(method, UnilateralSystem(source, contacts, jnp.zeros(len(contacts), bool))):
            return True
    for event in resting_events:
        assert isinstance(event.action, Impact)
        e = event.action.restitution
        if is_concrete(e) and float(e) == 0:
            raise ValueError(
                f"Event `{event.name}` has the restitution 0, behind which its contact stays closed, and this method "
                "can't hold a contact: it takes another kind of system than one with unilateral constraints. Take "
                '`herk54`, `bdf` or `generalized-alpha` in other coordinates than "livens", or give `rests_below`, '
                f"with which the run ends where the contact comes to rest; got `{short_repr(type(method).__name__)}`."
            )
    return False


class AbstractContacts(abc.ABC):
    """Contacts of a run whose events change the system of its method, and what handles these events."""

    @property
    @abc.abstractmethod
    def holds(self) -> bool:
        """Whether the system of the method is another one than the user's: it has, or has had, closed contacts."""

    @property
    def failure(self) -> Result:
        """Why the run can't go on, if it can't."""
        return Result.successful

    @property
    @abc.abstractmethod
    def present(self) -> tuple[Any, ...]:
        """The things on which event functions and responses depend: other objects after each change."""

    @property
    def compiled_contacts(self) -> LastingContacts | None:
        """The contacts for compiled steps, as long as these can respond to them."""
        return None

    @property
    @abc.abstractmethod
    def are_forces(self) -> tuple[bool, ...]:
        """Which of all events have forces as functions, or others that never jump."""

    @property
    @abc.abstractmethod
    def are_gaps(self) -> tuple[bool, ...]:
        """Which of all events have gaps as functions, that stay positive but for round-off."""

    @abc.abstractmethod
    def has_event(self, number: int) -> bool:
        """Whether an event is of one of the contacts."""

    @abc.abstractmethod
    def function(self, number: int) -> Function | None:
        """The present function of an event of a contact; None for events of other kinds."""

    @abc.abstractmethod
    def convert(self, source: AbstractSystem, method: AbstractIntegrator, t: float, state: State) -> Converted:
        """The system with its closed contacts, as the method takes it."""

    @abc.abstractmethod
    def begin(self, t: Any, state: State, source: AbstractSystem) -> State:
        """The state in which a run begins, with resting contacts closed."""

    @abc.abstractmethod
    def act(
        self, fired: Sequence[int], t: Any, state: State, source: AbstractSystem
    ) -> tuple[State, list[ContactEvent]]:
        """The state after events of contacts, and those to record."""

    @abc.abstractmethod
    def with_contact_outputs(self, outputs: Mapping[str, Any], source: AbstractSystem) -> dict[str, Any]:
        """The outputs of a run, with those of contacts."""

    @abc.abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of a checkpoint."""

    @abc.abstractmethod
    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores what `arrays` returned."""


class RestingContacts(AbstractContacts):
    """The contacts of one run that may rest.

    - `numbers`: of their impacts among the events; the openings follow all of these in the same order.
    - `closed`: the active set; None as long as none has closed, so that the system is the one that was given.
    """

    def __init__(self, events: tuple[Event, ...]) -> None:
        self.numbers = [k for k, event in enumerate(events) if isinstance(event.action, Impact) and event.action.rests]
        self._gaps = {k for k, event in enumerate(events) if isinstance(event.action, Impact)}
        resting_events = [events[k] for k in self.numbers]
        # Each is evaluated alone here, and all of them are solved together.
        self.contacts = tuple(dataclasses.replace(cast(Impact, event.action), beside=()) for event in resting_events)
        self._first_opening = len(events) - len(resting_events)
        self._shortest = SHORTEST_FLIGHT * min(event.tolerance for event in resting_events)
        self.closed: np.ndarray | None = None
        self._slack = np.zeros(len(resting_events))

    @property
    def holds(self) -> bool:
        return self.closed is not None

    def function(self, number: int) -> Function | None:
        if number >= self._first_opening:
            if self.closed is None:
                return Function(_Never())
            return Function(_OpeningFunction(self.contacts, jnp.asarray(self.closed), number - self._first_opening))
        if number not in self.numbers or self.closed is None:
            return None
        k = self.numbers.index(number)
        return Function(_ClosingFunction(self.contacts[k], jnp.asarray(self.closed[k]), jnp.asarray(self._slack[k])))

    @property
    def present(self) -> tuple[Any, ...]:
        return self.closed, self._slack

    @property
    def compiled_contacts(self) -> LastingContacts:
        return LastingContacts(self.contacts, jnp.asarray(self._shortest), tuple(self.numbers))

    @property
    def are_gaps(self) -> tuple[bool, ...]:
        return tuple(k in self._gaps for k in range(self._first_opening + len(self.contacts)))

    @property
    def are_forces(self) -> tuple[bool, ...]:
        return tuple(k >= self._first_opening for k in range(self._first_opening + len(self.contacts)))

    def has_event(self, number: int) -> bool:
        return number in self.numbers or number >= self._first_opening

    def convert(self, source: AbstractSystem, method: AbstractIntegrator, t: float, state: State) -> Converted:
        system = UnilateralSystem(source, self.contacts, jnp.asarray(self.closed))
        try:
            return convert_for(system, method, t, state, check_state=False).converted
        except IncompatibleSystem as error:
            raise ValueError(f"The method can't hold a contact: {error}.") from None

    def begin(self, t: Any, state: State, source: AbstractSystem) -> State:
        response = self._response(t, state, source, np.zeros(len(self.contacts), bool), begins=True)
        return (state[0], response.velocity) if np.any(self.update_active_set(response)) else state

    def update_active_set(self, response: Response) -> np.ndarray:
        """Adopts the active set of a response, unless no contact is closed or has been, and returns it."""
        closed = np.asarray(response.closed)
        if self.closed is not None or np.any(closed):
            self.closed = closed
        return closed

    def act(
        self, fired: Sequence[int], t: Any, state: State, source: AbstractSystem
    ) -> tuple[State, list[ContactEvent]]:
        before = np.zeros(len(self.contacts), bool) if self.closed is None else self.closed
        is_opening = np.isin(self._first_opening + np.arange(len(before)), list(fired))
        response = self._response(t, state, source, is_opening)
        impulses, after = np.asarray(response.impulses), self.update_active_set(response)
        self._add_slack(before & ~after, t, state, source)
        hit = (impulses > 0) & (~before | np.isin(self.numbers, list(fired)))
        contact_events = [
            ContactEvent(self.numbers[k], float(impulses[k])) for k in np.flatnonzero(hit | (after & ~before))
        ]
        newly_open = np.flatnonzero(before & ~after)
        contact_events += [ContactEvent(self._first_opening + int(k), float("nan")) for k in newly_open]
        return (state[0], response.velocity) if contact_events else state, contact_events

    def _add_slack(self, mask: np.ndarray, t: Any, state: State, source: AbstractSystem) -> None:
        """Adds a slack where rounding has left a gap below zero, so that it doesn't close again at once."""
        if np.any(mask):
            apart = np.asarray(_apart(self.contacts, t, state, source))
            sizes = [float(np.max(np.abs(np.asarray(x)), initial=1.0)) for x in jax.tree.leaves(state[0])]
            self._slack = np.where(mask, 2 * np.maximum(-apart, 0.0) + _ROUNDOFF * max(sizes), self._slack)

    def _response(
        self, t: Any, state: State, source: AbstractSystem, is_opening: np.ndarray, *, begins: bool = False
    ) -> Response:
        closed = np.zeros(len(self.contacts), bool) if self.closed is None else self.closed
        sets = jnp.asarray(closed), jnp.asarray(is_opening)
        return _respond(self.contacts, t, state, source, *sets, jnp.asarray(self._shortest), begins)

    def with_contact_outputs(self, outputs: Mapping[str, Any], source: AbstractSystem) -> dict[str, Any]:
        closed = None if self.closed is None else jnp.asarray(self.closed)
        result = {**outputs, "contacts": ContactMeasurements(source, self.contacts, closed)}
        if closed is not None and LOADS in result:
            result[LOADS] = _JointLoads(result[LOADS], closed)
        return result

    def arrays(self) -> dict[str, np.ndarray]:
        return {} if self.closed is None else {"events-closed": self.closed, "events-slack": self._slack}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        if "events-closed" in arrays:
            self.closed = np.asarray(arrays["events-closed"], bool)
            self._slack = np.asarray(arrays["events-slack"], float)


@numpy_jit
def _apart(contacts: tuple[Impact, ...], t: Any, state: State, source: AbstractSystem) -> Array:
    return gaps(contacts, t, state, source)


@numpy_jit
def _respond(
    contacts: tuple[Impact, ...],
    t: Any,
    state: State,
    source: AbstractSystem,
    closed: Array,
    is_opening: Array,
    shortest: Array,
    begins: bool,
) -> Response:
    return respond(contacts, t, state, source, closed, is_opening, shortest, begins=begins)
