"""Actions of events inside jit, grad and vmap, as expressions of JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.events.event import Function
from polhode.simulation.events.event_plan import EventPlan
from polhode.systems.base import AbstractSystem, Converted, State


class EventActions(NamedTuple):
    """Actions at events: a function for each, or None, and whether it ends the run."""

    actions: tuple[Function | None, ...]
    terminal: tuple[bool, ...]
    conversion: Converted
    source: AbstractSystem

    @classmethod
    def of(cls, plan: EventPlan) -> EventActions:
        """Raises ValueError for what has no place in an expression."""
        events, run_system = plan.events, plan.run_system
        for event in events:
            if event.change is not None:
                raise ValueError(
                    f"Event `{event.name}` changes the system, which runs on the host can do only; take the run out of "
                    "jit, grad and vmap, or make what changes a part of the state."
                )
        actions = tuple(None if event.action is None else Function(event.action) for event in events)
        return cls(actions, tuple(event.terminal for event in events), run_system.conversion, run_system.source)

    def __call__(self, fired: Array, t: Array, state: State) -> State:
        """The state after the events that have fired."""
        for k in range(len(self.actions)):
            state = jax.lax.cond(fired[k], self.branches[k], lambda t, s: s, t, state)
        return state

    @property
    def branches(self) -> tuple[Callable[[Array, State], State], ...]:
        """The action of each event, which leaves states as they are where there is none."""
        same = lambda t, state: state  # noqa: E731
        return tuple(same if action is None else functools.partial(self._apply, action) for action in self.actions)

    def _apply(self, action: Function, t: Array, state: State) -> State:
        new = self.conversion.to_system(action(t, self.conversion.to_source(state), self.source))
        leaves = zip(jax.tree.leaves(new), jax.tree.leaves(state), strict=True)
        return jax.tree.unflatten(jax.tree.structure(state), [jnp.asarray(a, b.dtype) for a, b in leaves])

    def ends(self, fired: Array) -> Array:
        """Whether the run ends there."""
        return jnp.any(fired & np.array(self.terminal))
