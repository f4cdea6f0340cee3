"""Functions that events watch, and what a run with events remembers."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.events.event import Event, Function
from polhode.events.impacts import Impact
from polhode.simulation.events.bracket import Bracket
from polhode.systems.base import AbstractSystem, State


class EventState(NamedTuple):
    """Memory of a run with events; k is their number.

    - `sides`: sign that each function has, or is leaving; 0 if it has had none.
    - `values`, `rates`: of the functions, now. - `velocity`: of the state. None for what states don't tell.
    - `searching`: whether an event is being located. - `final`: whether the next attempt is to end at it.
    - `bracket`: of it, in parts of the step that was too long, whose length is `whole`. - `share`: of the next attempt.
    - `begin`, `length`: of the last accepted step, as the method had them. - `cut`: whether it ended early.
    - `fired`: the events at which it ended.
    """

    signs: Float[Array, " k"]
    values: Float[Array, " k"]
    rates: Float[Array, " k"] | None
    velocity: Float[Array, " n"] | None
    searching: Array
    final: Array
    bracket: Bracket
    share: Array
    whole: Array
    begin: Array
    length: Array
    cut: Array
    fired: Bool[Array, " k"]


_ULPS = 64
"""Units of rounding of the largest number of a state by which functions of it change without a reason."""

CONTACT_DEPTH = 1e-9
"""Depth of a gap up to which it is closed at the start, but for rounding."""


class EventFunctions(eqx.Module):
    """The functions that are watched: one for each event, and which of its passages count.

    - `source`: the system as it was given, for functions that look at it.
    - `gaps`: which functions are gaps of impacts, which are positive and never pass, whatever rounding makes of them.
    - `forces`: which are forces of contacts, which never jump, however much an implicit method's tolerance shakes them.
    """

    functions: tuple[Function, ...]
    source: AbstractSystem
    directions: tuple[int, ...] = eqx.field(static=True)
    unilateral: tuple[bool, ...] = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    inside: int = eqx.field(static=True)
    forces: tuple[bool, ...] = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        events: tuple[Event, ...],
        functions: tuple[Function, ...],
        source: AbstractSystem,
        forces: tuple[bool, ...] | None = None,
    ) -> EventFunctions:
        """For some events."""
        forces = (False,) * len(events) if forces is None else forces
        tolerance = min(event.tolerance for event in events)
        unilateral = tuple(isinstance(event.action, Impact) for event in events)
        directions = tuple(event.direction for event in events)
        return cls(functions, source, directions, unilateral, tolerance, max(event.inside for event in events), forces)

    def __call__(self, t: Array, state: State) -> Float[Array, " k"]:
        return jnp.stack([jnp.asarray(function(t, state, self.source), float) for function in self.functions])

    def may_cross(self, signs: Float[Array, " k"]) -> Bool[Array, " k"]:
        """Whether a passage from these sides would be an event."""
        directions = np.asarray(self.directions, float)
        return (signs != 0) & ((directions == 0) | (signs * directions < 0))

    def has_crossed(self, signs: Float[Array, " k"], values: Float[Array, " k"]) -> Bool[Array, " k"]:
        """Whether each function has passed zero in a way that counts."""
        return self.may_cross(signs) & (signs * values < 0)

    def first_crossing(self, signs: Float[Array, " k"], values: Float[Array, " k"]) -> Array:
        """A continuous number, negative behind the first event."""
        return jnp.min(jnp.where(self.may_cross(signs), signs * values, jnp.inf))

    def updated_signs(self, signs: Float[Array, " k"], values: Float[Array, " k"]) -> Float[Array, " k"]:
        """Sides behind a step without an event. Gaps have one side only, and none while they open from below."""
        return jnp.where((values != 0) & ~(np.array(self.unilateral) & (values < 0)), jnp.sign(values), signs)


class Motion(NamedTuple):
    """The functions, their rates and the velocity of the state, where states tell that; otherwise None."""

    values: Float[Array, " k"]
    rates: Float[Array, " k"] | None
    velocity: Float[Array, " n"] | None


class StepEnd(NamedTuple):
    """The end of an attempt: time, beginning and length as the method had them, and how functions and state move."""

    t: Array
    begin: Array
    length: Array
    values: Float[Array, " k"]
    rates: Float[Array, " k"] | None
    velocity: Float[Array, " n"] | None


def roundoff(state: State) -> Array:
    """By how much functions of a state change by its rounding."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=1.0) for leaf in jax.tree.leaves(state)]))
    return _ULPS * jnp.finfo(float).eps * largest
