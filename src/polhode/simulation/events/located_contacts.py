"""Contacts of shapes in runs that locate impacts: their modes, and the event functions that end these."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.numpy_jit import numpy_jit
from polhode.contact.frictional_response import respond_with_friction
from polhode.contact.held_contacts import INACTIVE, ContactModes, HeldContacts
from polhode.events.event import Event, Function
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.nonsmooth.contact_record import dissipation, size_of
from polhode.jax_context import warn
from polhode.result_codes import Result
from polhode.simulation.events.contacts import SHORTEST_FLIGHT, AbstractContacts, ContactEvent
from polhode.systems.base import AbstractSystem, Converted, State
from polhode.systems.mechanical import AbstractMechanical

CLOSES, CHANGES = "contact closes", "contact changes"
"""Names of the events of contacts: impacts and landings; openings, and starts and ends of sliding."""


class FrictionLockWarning(UserWarning):
    """A contact that slides has come into Painlevé's region, where friction locks it."""


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

    def __init__(self, first: int, source: AbstractMechanical) -> None:
        k, rows = size_of(source)
        self._first, self._modes, self._losses = first, ContactModes.of_open(k, rows), jnp.zeros((k, 3))
        self._last, self._changes, self._failure = np.nan, 0, Result.successful
        self._locked: set[str] = set()

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

    def begin(self, t: Any, state: State, source: AbstractMechanical) -> State:
        return self.act((), t, state, source)[0]

    def act(
        self, fired: Sequence[int], t: Any, state: State, source: AbstractMechanical
    ) -> tuple[State, list[ContactEvent]]:
        del fired
        shortest = jnp.asarray(SHORTEST_FLIGHT * _TOLERANCE)
        response = _respond(source, t, state, self._modes, self._losses, shortest)
        self._modes, self._losses = response.modes, response.losses
        self._count(float(t), bool(response.solved))
        self._warn_of_locks(float(t), np.asarray(response.locks), source)
        events = []
        if response.closes:
            events = [ContactEvent(self._first, float(response.impulse))]
        elif response.changes:
            events = [ContactEvent(self._first + 1, float("nan"))]
        return (state[0], response.velocity), events

    def _warn_of_locks(self, t: float, locks: np.ndarray, source: Any) -> None:
        """Names contacts in Painlevé's region, once each."""
        for name in dict.fromkeys(source.contact_set.name(k) for k in np.flatnonzero(locks)):
            if name not in self._locked:
                self._locked.add(name)
                warn(
                    f"At t = {t:.6g} friction of {name}, which slides, presses it more than its normal force opens it "
                    "(Painlevé's region): laws of forces have no solution, or several. The run goes on by an impact "
                    "without collision, which stops the slip. Less friction there avoids it.",
                    FrictionLockWarning,
                )

    def _count(self, t: float, solved: bool) -> None:
        """Notes why a run can't continue behind a change of modes."""
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


class _Response(NamedTuple):
    """The velocity, the modes and the losses after an event.

    - `impulse`: the sum of normal ones. - `closes`, `changes`: whether contacts have closed, and whether others have
      changed between open, sticking and sliding. - `locks`: contacts in Painlevé's region.
    - `solved`: whether the laws have been satisfied.
    """

    velocity: Array
    modes: ContactModes
    losses: Float[Array, "k 3"]
    impulse: Array
    closes: Array
    changes: Array
    locks: Array
    solved: Array


@numpy_jit
def _respond(
    source: AbstractMechanical, t: Any, state: State, modes: ContactModes, losses: Float[Array, "k 3"], shortest: Array
) -> _Response:
    response = respond_with_friction(source, t, state, modes, shortest)
    after, normal = response.modes, response.impulses[:, 0]
    was = modes.at(after.labels)
    return _Response(
        velocity=response.velocity,
        modes=after,
        losses=losses + dissipation(response.impulses, response.before, response.after),
        impulse=jnp.sum(normal),
        closes=jnp.any(normal > 0) | jnp.any(after.closed & ~was.closed),
        changes=jnp.any(was.closed != after.closed) | jnp.any(was.held != after.held),
        locks=response.locks,
        solved=response.solved,
    )
