"""Effects of events on a host run: actions, changes of the system, and records."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.numpy_jit import numpy_jit
from polhode.contact.system import UnilateralSystem
from polhode.events.event import Event, Function, function_of
from polhode.events.impacts import Impact
from polhode.integrators.compatibility import convert_for
from polhode.result_codes import Result
from polhode.results.observer import BatchedObserver, Observer
from polhode.simulation.events.contacts import AbstractContacts, RestingContacts
from polhode.simulation.events.detection import EventDetectingStepper
from polhode.simulation.events.event_functions import EventFunctions, EventState
from polhode.simulation.events.event_plan import EventPlan
from polhode.simulation.events.located_contacts import LocatedContacts
from polhode.simulation.events.records import EventRecords
from polhode.simulation.events.responses import EventResponses, EventRow, like
from polhode.simulation.events.validity import are_no_worse, differ_in_numbers, violations
from polhode.simulation.run_types import Start
from polhode.simulation.stepping.segments import AbstractSegmentStepper
from polhode.simulation.stepping.stepper import AbstractStepper
from polhode.spaces.checks import check_point
from polhode.storage import frame_layout
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical

_COMPILED_UNKNOWNS = 40
"""Velocities and constraints of a system up to which impacts are parts of compiled steps. With 33, of bodies beside a
rod, steps of generalized-alpha take 13 s to compile; with 63, some minutes and 12 GB, without the impacts 8 s."""

_OBSERVED = 64
"""Events whose invariants are evaluated at a time."""


class EventHandler:
    """The events of one run.

    - `plan`: its events. - `conversion`, `source`: the present system as the method takes it, and in the user's form.
    - `changed`: whether they differ from those at the start. - `python_events`: how often `act` had each, by name.
    """

    def __init__(self, plan: EventPlan) -> None:
        self.plan, self._events = plan, plan.events
        self.source, self.conversion = plan.run_system.source, plan.run_system.conversion
        self.changed = False
        self.contacts = _contacts(plan)
        self.records = EventRecords(plan.state0)
        self._detection: tuple[Any, EventFunctions, EventResponses | None] | None = None
        self._untraceable: list[Any] = []
        self.python_events: collections.Counter[str] = collections.Counter()
        self._structure = jax.tree.structure(plan.state0)
        # Events of contacts of shapes are those of the method: they have no limit.
        self._uncounted, self._own_records = {*range(plan.first_located, len(plan.events))}, 0

    @property
    def system(self) -> AbstractSystem:
        """The system as the method takes it."""
        return self.conversion.system

    def stepper(self, inner: AbstractSegmentStepper) -> AbstractStepper:
        """Steps that end at the events, if there are any."""
        if not self._events:
            return inner
        return EventDetectingStepper(inner, *self._detection_parts())

    def _detection_parts(self) -> tuple[EventFunctions, EventResponses | None]:
        """Event functions and responses with the present system and contacts."""
        contacts, events = self.contacts, self._events
        present = (self.source, self.conversion, *(() if contacts is None else contacts.present))
        if self._detection is None or any(a is not b for a, b in zip(present, self._detection[0], strict=True)):
            kinds = (None, None) if contacts is None else (contacts.are_forces, contacts.are_gaps)
            functions = EventFunctions.of(events, self._functions(), self.source, *kinds)
            self._detection = present, functions, self._responses()
        return self._detection[1:]

    def _responses(self) -> EventResponses | None:
        """Responses of compiled steps; None where compiling them takes longer than a few here: with closed contacts,
        and for impacts in large systems.
        """
        if self.has_closed_contacts or (self._has_impacts and _unknowns(self.source) > _COMPILED_UNKNOWNS):
            return None
        lasting = None if self.contacts is None else self.contacts.compiled_contacts
        return EventResponses.of(self._events, lasting, self.conversion, self.plan.max_events)

    @property
    def _has_impacts(self) -> bool:
        return any(isinstance(event.action, Impact) for event in self._events)

    @property
    def observer(self) -> Observer:
        """All that is reported about states of the system as it is now."""
        now = self.plan.run_system.replace(self.source, self.conversion)
        if self.contacts is not None:
            outputs = self.contacts.with_contact_outputs(now.outputs, self.source)
            now = dataclasses.replace(now, outputs=outputs)
        return now.observer

    def _functions(self) -> tuple[Function, ...]:
        contact_functions = (
            [] if self.contacts is None else [self.contacts.function(k) for k in range(len(self._events))]
        )
        outputs, back = self.plan.run_system.outputs, self.conversion.back
        event_functions = (function_of(event, outputs, back) for event in self._events)
        return tuple(
            own or other
            for own, other in zip(contact_functions or (None,) * len(self._events), event_functions, strict=True)
        )

    @property
    def has_closed_contacts(self) -> bool:
        """Whether a contact is closed, or has been."""
        return self.contacts is not None and self.contacts.holds

    def joint_multipliers(self, multipliers: Any) -> Any:
        """Multipliers of joints: those of contacts come last."""
        system = self.system
        if multipliers is None or not isinstance(system, UnilateralSystem):
            return multipliers
        return multipliers[..., : system.base.m] if system.base.m else None

    @property
    def failure(self) -> Result:
        """Why the run can't go on behind an event, if it can't."""
        return Result.successful if self.contacts is None else self.contacts.failure

    @eager_numpy()
    def begin(self, t: float, state: State) -> State:
        """The state in which the run begins, at rest on the contacts that are closed there."""
        if self.contacts is None:
            return state
        state = self.contacts.begin(jnp.asarray(t), jax.tree.map(jnp.asarray, state), self.source)
        self._convert(t, state)
        return state

    @eager_numpy()
    def act(self, t: float, state: State, event_state: EventState) -> tuple[State, bool]:
        """The state after the events that have fired, and whether the run ends there."""
        ends, state = False, jax.tree.map(jnp.asarray, state)
        self._structure = jax.tree.structure(state)
        numbers = [int(number) for number in np.flatnonzero(event_state.fired)]
        self.python_events.update(self._events[number].name for number in numbers if number not in self._uncounted)
        contact_numbers = [k for k in numbers if self.contacts is not None and self.contacts.has_event(k)]
        for number in numbers:
            event = self._events[number]
            if number in contact_numbers:
                # Contacts of the same instant respond together, at the place of the first of them.
                state = self._respond(contact_numbers, t, state) if number == contact_numbers[0] else state
                continue
            after = self._apply(event, jnp.asarray(t), state)
            self.records.append_one(t, number, state, after)
            state, ends = after, ends or event.terminal
            if self.has_closed_contacts and (event.action is not None or event.change is not None):
                state = self._respond((), t, state)
        return state, ends

    def _respond(self, fired: Sequence[int], t: float, state: State) -> State:
        """The state after the response of contacts, with a record for each of their events."""
        assert self.contacts is not None
        after, contact_events = self.contacts.act(fired, jnp.asarray(t), state, self.source)
        for number, impulse in contact_events:
            self.records.append_one(t, number, state, after, impulse)
            self._own_records += number in self._uncounted
            state = after
        self._convert(t, after)
        return after

    def _convert(self, t: float, state: State) -> None:
        """Converts the system for the method, with the contacts that are closed."""
        if self.contacts is not None and self.contacts.holds:
            self.conversion = self.contacts.convert(self.source, self.plan.integrator, t, state)

    def record(self, t: np.ndarray, before: State, rows: EventRow) -> None:
        """Records the events of rows that compiled steps have saved, with their times and the states before."""
        self._structure = jax.tree.structure(before)
        self.records.append_rows(t, before, rows, np.array([event.action is not None for event in self._events]))

    @eager_numpy()
    def count(self, t: float, event_state: EventState) -> tuple[EventState, bool]:
        """The event state with all records in its tally, and whether they accumulate or exceed the limit."""
        new = len(self.records) - self._own_records - int(event_state.tally.count)
        tally = event_state.tally.add(jnp.asarray(t), new, min(event.tolerance for event in self._events))
        return event_state._replace(tally=tally), bool(tally.is_full(self.plan.max_events))

    def _apply(self, event: Event, t: Any, state: State) -> State:
        state_at_source = self.conversion.to_source(state)
        source = self.source
        after = (
            state_at_source if event.action is None else self._call(Function(event.action), t, state_at_source, source)
        )
        if event.change is not None:
            self._change(event, t, state_at_source, after)
        if event.action is None and event.change is None:
            return state
        self._check(event, float(t), state_at_source, after)
        try:
            after = like(after, state_at_source)
        except TypeError:
            raise ValueError(
                f"The action of event `{event.name}` at t = {float(t):g} must return arrays in the places of those "
                f"that it takes, {jax.tree.structure(state_at_source)}, got {jax.tree.structure(after)}."
            ) from None
        return self.conversion.to_system(after)

    def _call(self, action: Function, *args: Any) -> State:
        """The state that an action returns: traced once, or called each time if it needs concrete numbers."""
        if not any(action.function is function for function in self._untraceable):
            try:
                return jax.tree.map(jnp.asarray, _call_traced(action, *args))
            except jax.errors.JAXTypeError:
                self._untraceable.append(action.function)
        return action(*args)

    def _change(self, event: Event, t: Any, before: State, after: State) -> None:
        assert event.change is not None
        source = event.change(t, before, self.source)
        if not differ_in_numbers(source, self.source):
            raise ValueError(
                f"The change of event `{event.name}` must return the system with other numbers in the same places. For "
                "another system, such as a model without a joint, make the event terminal and begin a second run in "
                "its last state."
            )
        self.source, self.changed = source, True
        self.conversion = convert_for(source, self.plan.integrator, float(t), after, check_state=False).converted
        self._convert(float(t), after)

    def check_gaps(self, event_state: EventState) -> None:
        """Raises ValueError for impacts whose gap is negative at the start."""
        for event, sign, value in zip(
            self._events, np.asarray(event_state.signs), np.asarray(event_state.values), strict=True
        ):
            if isinstance(event.action, Impact) and sign < 0:
                raise ValueError(
                    f"The gap of event `{event.name}` is {value:.4g} at the start: the run begins beyond what it is to "
                    "run into. Start where the gap is positive, or move the stop."
                )

    def _check(self, event: Event, t: float, before: State, state: State) -> None:
        """Raises ValueError for invalid states, and for states that violate constraints more than the one before."""
        try:
            check_point(self.source.state_space, state, "state0")
            self.source.check(t, state)
        except ValueError as error:
            # A violation that was there before is the method's, not the action's.
            was, now = (violations(self.source, jnp.asarray(t), s) for s in (before, state))
            if np.any(was) and are_no_worse(was, now):
                return
            message = str(error).replace("`state0`", "the state that it returns")
            raise ValueError(f"The action of event `{event.name}` at t = {t:g}: {message}") from None

    def table(self) -> dict[str, Any]:
        """All events as plain arrays: `t`, `number`, and the leaves of the states `before` and `after`.

        `jumps`: changes of the invariants, by name, for audits.
        """
        records = self.records.stack()._asdict()
        count = len(self.records)
        if not count or self.changed:
            return records
        structure, observer = self._structure, BatchedObserver(self.observer, min(count, _OBSERVED))
        state_pair = (jax.tree.unflatten(structure, records[part]) for part in ("before", "after"))
        before, after = (frame_layout.flatten(observer.frames(records["t"], states, None))[1] for states in state_pair)
        names = [name for name in before if name.startswith("invariants.")]
        # What contacts of the method do is a part of the motion that audits examine.
        counts = ~np.isin(records["number"], [*self._uncounted])
        differences = ((name, after[name] - before[name]) for name in names)
        return {**records, "jumps": {name: x * counts.reshape(-1, *(1,) * (x.ndim - 1)) for name, x in differences}}

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of a checkpoint: the records, and the numbers of the system if they have changed."""
        state_arrays = self.records.pack()
        if self.changed:
            leaves = jax.tree.leaves(eqx.filter(self.source, eqx.is_array))
            state_arrays |= {f"system-{k}": np.asarray(leaf) for k, leaf in enumerate(leaves)}
        return {**state_arrays, **({} if self.contacts is None else self.contacts.arrays())}

    @eager_numpy()
    def restore_contacts(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the active set of contacts; the state doesn't matter, its shape is the same for all."""
        if self.contacts is not None:
            self.contacts.restore(arrays)
            self._convert(float(self.plan.t0), self.plan.state0)

    @eager_numpy()
    def restore(self, checkpoint: Mapping[str, np.ndarray], t: float, state: State) -> None:
        """Restores what `arrays` returned, or a part of it; `state` is that at t."""
        self._structure = jax.tree.structure(state)
        if "events-t" in checkpoint:
            self.records.restore(checkpoint)
            self._own_records = int(np.isin(self.records.stack().number, [*self._uncounted]).sum())
        if "system-0" in checkpoint:
            arrays, others = eqx.partition(self.source, eqx.is_array)
            leaves, structure = jax.tree.flatten(arrays)
            new = [jnp.asarray(checkpoint[f"system-{k}"]) for k in range(len(leaves))]
            self.source, self.changed = eqx.combine(jax.tree.unflatten(structure, new), others), True
            state_at_source = self.conversion.to_source(state)
            self.conversion = convert_for(
                self.source, self.plan.integrator, t, state_at_source, check_state=False
            ).converted
        self.restore_contacts(checkpoint)


def handler_at(start: Start, plan: EventPlan | None) -> EventHandler | None:
    """The events of a run, with the records of a resumed one, or the changes of the system by earlier events."""
    if plan is None:
        return None
    arrays = None if start.aftermath is None else start.aftermath.changes
    t, state = plan.t0, plan.state0
    if start.checkpoint is not None:
        t, state = float(start.checkpoint.progress.t), start.checkpoint.progress.carry.state
        arrays = start.checkpoint.event_arrays or arrays
    if not plan.events and not arrays:
        return None
    handler = EventHandler(plan)
    if arrays:
        handler.restore(arrays, t, state)
    return handler


def _contacts(plan: EventPlan) -> AbstractContacts | None:
    """The contacts whose events change the system, if there are any."""
    if plan.first_located < len(plan.events):
        source: Any = plan.run_system.source
        return LocatedContacts(plan.first_located, source)
    return RestingContacts(plan.events) if plan.holds_contacts else None


def _unknowns(system: AbstractSystem) -> int:
    """The unknowns that an impact changes or finds: velocities and multipliers."""
    return system.n + system.m if isinstance(system, AbstractMechanical) else 0


@numpy_jit
def _call_traced(action: Function, t: Any, state: State, system: AbstractSystem) -> State:
    return action(t, state, system)
