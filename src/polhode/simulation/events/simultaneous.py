"""Events at one instant, one after the other, each with the derivatives of a time of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.simulation.events.event_functions import EventFunctions
from polhode.systems.base import AbstractSystem, State

_NEAR = 1e-9
"""Part of a step within which a function still counts as zero."""

_ROUNDING = 2.0**20 * float(jnp.finfo(float).eps)
"""Change in a step, in parts of the largest number of a state, up to which a function counts as constant."""


class EventEffects(NamedTuple):
    """Effects of each event watched at an instant, in order; those that have not fired have changed nothing.

    `t`, `before`, `after`: times and states, with leading axis k, the number of events.
    """

    t: Array
    before: State
    after: State


class SimultaneousEvents(NamedTuple):
    """Effects of the events that fire at the end of one step.

    Events that fire together have one time, but not one derivative of it: each occurs where its own function crosses
    zero, in the motion after the actions of those before. So the state advances between them by a time that is zero and
    has derivatives. Events that an earlier action delays or causes occur with that action.
    """

    system: AbstractSystem
    functions: EventFunctions
    branches: tuple[Callable[[Array, State], State], ...]

    def __call__(
        self, fired: Bool[Array, " k"], signs: Float[Array, " k"], length: Array, t: Array, state: State
    ) -> EventEffects:
        """From the time and state at the first of them.

        `signs`: those of the functions in the step that ends there, whose length is `length`.
        """
        if len(self.branches) == 1:
            after = jax.lax.cond(fired[0], self.branches[0], _same, t, state)
            return jax.tree.map(lambda x: x[None], EventEffects(t, state, after))

        def apply(now: tuple[Array, State], k: Array) -> tuple[tuple[Array, State], EventEffects]:
            follows = fired[k] & (k > jnp.argmax(fired))
            onward = functools.partial(self._onward, follows, k, -signs[k] * length)
            t, before = jax.lax.cond(follows, onward, lambda *now: now, *now)
            act = lambda t, state: jax.lax.switch(k, self.branches, t, state)  # noqa: E731
            after = jax.lax.cond(fired[k], act, _same, t, before)
            return (t, after), EventEffects(t, before, after)

        return jax.lax.scan(apply, (t, state), jnp.arange(len(self.branches)))[1]

    def no_effects(self, t: Array, state: State) -> EventEffects:
        """The effects where none has fired."""
        spread = lambda x: jnp.broadcast_to(x, (len(self.branches), *x.shape))  # noqa: E731
        return jax.tree.map(spread, EventEffects(t, state, state))

    def _onward(self, follows: Array, k: Array, way: Array, t: Array, state: State) -> tuple[Array, State]:
        """Time and state at event k after others.

        `way`: the length of the step, with the sign with which the slope of the function takes it across zero.
        """
        space, velocity = self.system.state_space, self.system.velocity(t, state)
        if velocity is None:
            return _undefined_time(follows, t, state)
        # Second derivatives need the value of the acceleration alone.
        at, here, rate = jax.lax.stop_gradient((t, state, velocity))
        along = lambda s: (at + s, space.move(here, s * rate))  # noqa: E731
        both = lambda s: (self.functions(*along(s))[k], self.system.velocity(*along(s)))  # noqa: E731
        (value, _), (slope, change) = jax.jvp(both, (jnp.zeros(()),), (jnp.ones(()),))
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=1.0) for x in jax.tree.leaves(here)]))
        comes = (slope * way > _ROUNDING * largest) & (jnp.abs(value) <= _NEAR * jnp.abs(slope * way))
        change, comes = jax.lax.stop_gradient((change, comes))
        state_after = lambda late: space.move(state, late * velocity + 0.5 * late**2 * change)  # noqa: E731
        late = root_at_zero(lambda late: self.functions(t + late, state_after(late))[k], follows & comes)
        return t + late, state_after(late)


def root_at_zero(function: Callable[[Array], Array], there: Array) -> Array:
    """Zero, with the derivatives of a root of a function by the implicit function theorem, of all orders.

    They vanish unless it is `there`, and are infinite or not a number where the function has no slope.
    """
    keep_guess = lambda _, guess: guess  # noqa: E731
    newton_step = lambda slope, value: value / slope(jnp.ones(()))  # noqa: E731
    masked = lambda x: jnp.where(there, function(x), x)  # noqa: E731
    return jax.lax.custom_root(masked, jnp.zeros(()), keep_guess, newton_step)


def _same(t: Array, state: State) -> State:
    del t
    return state


def _undefined_time(follows: Array, t: Array, state: State) -> tuple[Array, State]:
    """Time and state with derivatives that are not a number, where states have no velocity."""
    factor = jnp.where(follows, jnp.nan, 1.0)
    late = root_at_zero(lambda late: factor * (late + follows * t), follows)
    return t + late, jax.tree.map(lambda x: x + late, state)
