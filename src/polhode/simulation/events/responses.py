"""Responses to events within compiled steps: the state after all that can be traced; the host does the rest."""

from __future__ import annotations

from collections.abc import Callable
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

    - `actions`: those that steps apply, by event. - `into`, `back`: maps of states for them, as in `Converted`.
    - `contacts`: those that may rest, if there are any. - `max_events`: that many records end the run.
    - `for_host`: which events are left to the host: those that end the run, change the system or open a contact.

    It holds no system, so that the arrays of programs remain few: those of systems are in their other arguments.
    """

    actions: tuple[Function | None, ...]
    into: Callable[[State], State] | None
    back: Callable[[State], State] | None
    contacts: LastingContacts | None
    max_events: Array
    for_host: tuple[bool, ...] = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    @classmethod
    def of(
        cls, events: tuple[Event, ...], contacts: LastingContacts | None, conversion: Converted, max_events: int
    ) -> EventResponses:
        """Of the events of a run, of which those of openings of contacts come last."""
        numbers, openings = ((), 0) if contacts is None else (contacts.numbers, len(contacts.contacts))
        for_host = tuple(
            event.terminal or event.change is not None or k >= len(events) - openings for k, event in enumerate(events)
        )
        actions = tuple(
            None if event.action is None or for_host[k] or k in numbers else Function(event.action)
            for k, event in enumerate(events)
        )
        maps = (conversion.into, conversion.back) if any(actions) else (None, None)
        tolerance = min(event.tolerance for event in events)
        return cls(actions, *maps, contacts, jnp.asarray(max_events), for_host, tolerance)

    def trace_error(self, k: int, t: Array, state: State, system: AbstractSystem, source: AbstractSystem) -> str:
        """Why the action of an event can't be a part of steps; "" if it can, or if it has none."""
        action, conversion = self.actions[k], Converted(system, self.into, self.back)
        if action is None:
            return ""
        try:
            jax.eval_shape(lambda t, state: _apply(action, t, state, conversion, source), t, state)
        except Exception as error:
            return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        return ""

    def __call__(
        self, w: EventState, t: Array, state: State, system: AbstractSystem, source: AbstractSystem
    ) -> tuple[Response, EventState]:
        """The response to the events that have fired, and the event state with its tally.

        `source`: the system as the user gave it.
        """
        fired, conversion = w.fired, Converted(system, self.into, self.back)
        of_contacts = np.isin(np.arange(len(fired)), () if self.contacts is None else self.contacts.numbers)
        acting = np.array([action is not None for action in self.actions])
        in_contact = jnp.any(fired & of_contacts)
        # Records have one state before and one after: at most one action, or contacts alone.
        alone = (jnp.sum(fired & acting) <= 1) & ~(in_contact & jnp.any(fired & ~of_contacts))
        valid = alone & ~jnp.any(fired & np.array(self.for_host))
        response = Response(state, fired, jnp.full(fired.shape, jnp.nan), valid)
        for k, action in enumerate(self.actions):
            if action is not None:
                response = _act(action, fired[k], t, response, conversion, source)
        if self.contacts is not None:
            contacts = self.contacts
            touch = lambda r: contacts(fired, t, r.state, source)  # noqa: E731
            response = jax.lax.cond(in_contact & response.valid, touch, lambda r: r, response)
        tally = w.tally.add(t, jnp.sum(response.happened), self.tolerance)
        response = response._replace(valid=response.valid & ~tally.is_full(self.max_events))
        return response, w._replace(tally=tally)


def _act(
    action: Function, fired: Array, t: Array, response: Response, conversion: Converted, source: AbstractSystem
) -> Response:
    """The response with an action, if it has fired; invalid if it can't be traced."""

    def act(r: Response) -> Response:
        state, valid = _apply(action, t, r.state, conversion, source)
        return r._replace(state=state, valid=valid)

    try:
        return jax.lax.cond(fired & response.valid, act, lambda r: r, response)
    except Exception:
        # Whatever is wrong with it, the host calls it with numbers, or reports the error at its time.
        return response._replace(valid=response.valid & ~fired)


def _apply(
    action: Function, t: Array, state: State, conversion: Converted, source: AbstractSystem
) -> tuple[State, Array]:
    """The state after one action, and whether it needs no closer look."""
    before = conversion.to_source(state)
    after = like(action(t, before, source), before)
    new = like(conversion.to_system(after), state)
    valid = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(new)]))
    if isinstance(action.function, Impact):
        return new, valid
    was, now = (violations(source, t, s) for s in (before, after))
    return new, valid & are_no_worse(was, now) & (source.state_space.residual(after) <= TOLERANCE)


def like(state: Any, example: State) -> State:
    """A state with the structure and types of another one. Raises TypeError for one of other shapes."""
    leaves, example_leaves = jax.tree.leaves(state), jax.tree.leaves(example)
    if [jnp.shape(x) for x in leaves] != [jnp.shape(x) for x in example_leaves]:
        raise TypeError("The action returns a state of another form.")
    leaves = [jnp.asarray(x, y.dtype) for x, y in zip(leaves, example_leaves, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(example), leaves)
