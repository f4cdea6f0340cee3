"""Responses to events within compiled steps: the state after all that can be traced; the host does the rest."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.contact.response import respond
from polhode.events.event import Event, Function
from polhode.events.impacts import Impact
from polhode.simulation.events.event_functions import EventState
from polhode.simulation.events.validity import are_no_worse, violations
from polhode.spaces.checks import TOLERANCE
from polhode.systems.base import AbstractSystem, Converted, State


class EventRow(NamedTuple):
    """Events at the instant of a saved row; the state before them is that of the row.

    - `is_frame`: whether the row is a frame as well. - `happened`: which events, none in rows that are frames only.
    - `after`: the state after all of them. - `impulses`: of contacts, NaN for events of other kinds.
    """

    is_frame: Array
    happened: Bool[Array, " k"]
    after: State
    impulses: Float[Array, " k"]

    @classmethod
    def empty(cls, count: int, state: State) -> EventRow:
        """Without an event among `count`."""
        no = jnp.zeros((), bool)
        return cls(no, jnp.zeros(count, bool), state, jnp.full(count, jnp.nan))


class Response(NamedTuple):
    """The state after events, which of them are recorded, impulses, and whether the response is valid."""

    state: State
    happened: Bool[Array, " k"]
    impulses: Float[Array, " k"]
    valid: Array


class LastingContacts(eqx.Module):
    """Contacts that may rest, before any has closed; `numbers`: of their impacts among the events."""

    contacts: tuple[Impact, ...]
    shortest: Float[Array, ""]
    numbers: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, fired: Bool[Array, " k"], t: Array, state: State, source: AbstractSystem) -> Response:
        """Impacts behind which all contacts are open; others are not valid here."""
        at, none = np.array(self.numbers), jnp.zeros(len(self.contacts), bool)
        response = respond(self.contacts, t, state, source, none, none, self.shortest)
        hit = response.impulses > 0
        happened = jnp.zeros(fired.shape, bool).at[at].set(hit)
        impulses = jnp.full(fired.shape, jnp.nan).at[at].set(jnp.where(hit, response.impulses, jnp.nan))
        velocity = jnp.where(jnp.any(hit), response.velocity, state[1])
        valid = ~jnp.any(response.closed) & jnp.all(jnp.isfinite(velocity))
        return Response((state[0], velocity), happened, impulses, valid)


class EventResponses(eqx.Module):
    """Actions of events as parts of compiled steps.

    - `actions`: of each event, or None. - `for_host`: which events are left to the host: those that end the run, change
      the system or open a contact. - `source`, `conversion`: the user's system, and states of the method's.
    - `max_events`: that many records end the run.
    """

    actions: tuple[Function | None, ...]
    contacts: LastingContacts | None
    source: AbstractSystem
    conversion: Converted
    max_events: Array
    for_host: tuple[bool, ...] = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        events: tuple[Event, ...],
        contacts: LastingContacts | None,
        source: AbstractSystem,
        conversion: Converted,
        max_events: int,
    ) -> EventResponses:
        """Of the events of a run, of which those of openings of contacts come last."""
        actions = tuple(None if event.action is None else Function(event.action) for event in events)
        first_opening = len(events) - (0 if contacts is None else len(contacts.contacts))
        for_host = tuple(
            event.terminal or event.change is not None or k >= first_opening for k, event in enumerate(events)
        )
        tolerance = min(event.tolerance for event in events)
        return cls(actions, contacts, source, conversion, jnp.asarray(max_events), for_host, tolerance)

    def __call__(self, w: EventState, t: Array, state: State) -> tuple[Response, EventState]:
        """The response to the events that have fired, and the event state with its tally."""
        response = self._respond(w.fired, t, state)
        tally = w.tally.add(t, jnp.sum(response.happened), self.tolerance)
        response = response._replace(valid=response.valid & ~tally.is_full(self.max_events))
        return response, w._replace(tally=tally)

    def _respond(self, fired: Bool[Array, " k"], t: Array, state: State) -> Response:
        numbers = () if self.contacts is None else self.contacts.numbers
        of_contacts = np.isin(np.arange(len(self.actions)), numbers)
        acting = np.array([action is not None for action in self.actions]) & ~of_contacts
        in_contact = jnp.any(fired & of_contacts)
        # Records have one state before and one after: at most one action, or contacts alone.
        alone = (jnp.sum(fired & acting) <= 1) & ~(in_contact & jnp.any(fired & ~of_contacts))
        valid = alone & ~jnp.any(fired & np.array(self.for_host))
        response = Response(state, fired, jnp.full(fired.shape, jnp.nan), valid)
        for k in np.flatnonzero(acting & ~np.array(self.for_host)):
            response = self._act(int(k), fired, t, response)
        if self.contacts is None:
            return response
        contacts, source = self.contacts, self.source
        touch = lambda r: contacts(fired, t, r.state, source)  # noqa: E731
        return jax.lax.cond(in_contact & valid, touch, lambda r: r, response)

    def _act(self, k: int, fired: Bool[Array, " k"], t: Array, response: Response) -> Response:
        """The response with the action of one event; invalid if it has fired and can't be traced."""

        def act(r: Response) -> Response:
            state, valid = self._apply(k, t, r.state)
            return r._replace(state=state, valid=valid)

        try:
            return jax.lax.cond(fired[k] & response.valid, act, lambda r: r, response)
        except Exception:
            # Whatever is wrong with it, the host calls it with numbers, or reports the error at its time.
            return response._replace(valid=response.valid & ~fired[k])

    def _apply(self, k: int, t: Array, state: State) -> tuple[State, Array]:
        """The state after one action, and whether it needs no closer look."""
        action, source = self.actions[k], self.source
        assert action is not None
        before = self.conversion.to_source(state)
        after = _like(action(t, before, source), before)
        new = _like(self.conversion.to_system(after), state)
        valid = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(new)]))
        if isinstance(action.function, Impact):
            return new, valid
        was, now = (violations(source, t, s) for s in (before, after))
        return new, valid & are_no_worse(was, now) & (source.state_space.residual(after) <= TOLERANCE)


def _like(state: Any, like: State) -> State:
    """A state with the structure and types of another one. Raises TypeError for one of other shapes."""
    leaves, like_leaves = jax.tree.leaves(state), jax.tree.leaves(like)
    if [jnp.shape(x) for x in leaves] != [jnp.shape(x) for x in like_leaves]:
        raise TypeError("The action returns a state of another form.")
    leaves = [jnp.asarray(x, y.dtype) for x, y in zip(leaves, like_leaves, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
