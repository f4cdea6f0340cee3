"""Event functions, and the event state of a run."""

from __future__ import annotations

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.events.event import Event, Function
from polhode.events.impacts import Impact, depends_on_velocities
from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.simulation.events.bracket import Bracket
from polhode.simulation.events.tally import EventTally
from polhode.simulation.stepping import counted_angles
from polhode.simulation.stepping.stepper import Progress
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical


class EventState(NamedTuple):
    """Event state of a run with k events.

    - `signs`: last nonzero sign of each event function, 0 if none yet.
    - `values`, `rates`: of the functions, now. - `velocity`: of the state. None where states don't determine them.
    - `searching`: whether an event is being located. - `final`: whether the next attempt is to end at it.
    - `bracket`: of it, in fractions of the rejected step of length `whole`. - `share`: that of the next attempt.
    - `begin`, `length`: of the last accepted step, as the method had them. - `cut`: whether it ended early.
    - `fired`: the events at which it ended, until they are dealt with. - `tally`: of the events so far.
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
    tally: EventTally


_ULPS = 64
"""Round-off of functions of a state, in units in the last place of the largest number of the state."""

CONTACT_DEPTH = 1e-9
"""Depth of a gap up to which it counts as closed at the start."""


class EventFunctions(eqx.Module):
    """The functions of all events, and which of their crossings count.

    - `source`: the system as the user gave it, for functions that take it.
    - `unilateral`: which functions are gaps of impacts, which stay positive but for round-off.
    - `forces`: which are forces of contacts: they never jump, although they have the errors of an implicit method.
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
        gaps: tuple[bool, ...] | None = None,
    ) -> EventFunctions:
        """The functions of some events."""
        forces = (False,) * len(events) if forces is None else forces
        tolerance = min(event.tolerance for event in events)
        unilateral = tuple(isinstance(event.action, Impact) for event in events) if gaps is None else gaps
        directions = tuple(event.direction for event in events)
        return cls(functions, source, directions, unilateral, tolerance, max(event.inside for event in events), forces)

    def __call__(self, t: Array, state: State) -> Float[Array, " k"]:
        return jnp.stack([jnp.asarray(function(t, state, self.source), float) for function in self.functions])

    def velocity(self, system: AbstractSystem, t: Array, state: State) -> Float[Array, " n"] | None:
        """Velocity of the state, if states determine it; without accelerations where no function depends on them."""
        velocity, source = system.velocity(t, state), self.source
        if velocity is None or self.need_accelerations(state) or not isinstance(source, AbstractMechanical):
            return velocity
        q, v = state
        return jnp.concatenate((source.kinematics(q, v), jnp.zeros(v.shape)))

    def need_accelerations(self, state: State) -> bool:
        """Whether rates of the functions depend on more of the velocity of a state than that of positions."""
        same_states = all(function.back is None for function in self.functions)
        if not same_states or not isinstance(self.source, AbstractMechanical):
            return True
        # Forces depend on velocities for certain, and take long to trace.
        return any(self.forces) or any(depends_on_velocities(f, state, self.source) for f in self.functions)

    def motion(self, system: AbstractSystem, t: Array, h: Array, state: State) -> Motion:
        """The functions, their rates along the run, which is backward in time if h is negative, and the velocity."""
        velocity = self.velocity(system, t, state)
        if velocity is None:
            return Motion(self(t, state), None, None)
        space, zero = system.state_space, jnp.zeros(())
        along = lambda s: self(t + s, space.move(state, s * velocity))  # noqa: E731
        values, rates = jax.jvp(along, (zero,), (jnp.sign(h),))
        return Motion(values, rates, velocity)

    def slopes(
        self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry
    ) -> tuple[Motion, Float[Array, " k"]]:
        """The motion, and rates of the functions, from a small step where a state has no velocity of its own."""
        motion = self.motion(system, t, h, carry.state)
        if motion.rates is not None:
            return motion, motion.rates
        short = 1e-4 * h
        after = counted_angles.step(integrator, system, t, short, carry)[0]
        return motion, (self(t + short, after.state) - motion.values) / jnp.abs(short)

    def slopes_around(
        self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, start: Progress, same_system: bool
    ) -> tuple[Float[Array, " k"], Motion, Float[Array, " k"]]:
        """Slopes before an event, and the motion and slopes after it."""
        slopes = functools.partial(self.slopes, system, integrator)
        after = start.t, start.h, start.carry
        if same_system and p.events.rates is not None:
            return p.events.rates, *slopes(*after)
        before = p.t, p.h, start.carry._replace(state=p.carry.state)
        if p.events.rates is not None:
            return slopes(*before)[1], *slopes(*after)
        # Each takes a step of the method, which is compiled once for both.
        pair = jax.tree.map(lambda *x: jnp.stack(x), before, after)
        motions, both = jax.lax.map(lambda x: slopes(*x), pair)
        return both[0], jax.tree.map(lambda x: x[1], motions), both[1]

    def may_cross(self, signs: Float[Array, " k"]) -> Bool[Array, " k"]:
        """Which crossings count, given the last signs and the watched directions."""
        directions = np.asarray(self.directions, float)
        return (signs != 0) & ((directions == 0) | (signs * directions < 0))

    def has_crossed(self, signs: Float[Array, " k"], values: Float[Array, " k"]) -> Bool[Array, " k"]:
        """Which functions have crossed zero in a direction that counts."""
        return self.may_cross(signs) & (signs * values < 0)

    def first_crossing(self, signs: Float[Array, " k"], values: Float[Array, " k"]) -> Array:
        """A continuous number that is negative after the first event."""
        return jnp.min(jnp.where(self.may_cross(signs), signs * values, jnp.inf))

    def rate_of_first(self, signs: Float[Array, " k"], values: Float[Array, " k"], rates: Float[Array, " k"]) -> Array:
        """The rate of `first_crossing` along its argument, from those of the functions."""
        is_first = self.may_cross(signs) & (signs * values == self.first_crossing(signs, values))
        return jnp.min(jnp.where(is_first, signs * rates, jnp.inf))

    def updated_signs(self, signs: Float[Array, " k"], values: Float[Array, " k"]) -> Float[Array, " k"]:
        """Signs after a step without an event. Gaps have no negative sign, and none while they open from below."""
        return jnp.where((values != 0) & ~(np.array(self.unilateral) & (values < 0)), jnp.sign(values), signs)


class Motion(NamedTuple):
    """The functions, their rates and the velocity of the state; None where states don't determine them."""

    values: Float[Array, " k"]
    rates: Float[Array, " k"] | None
    velocity: Float[Array, " n"] | None


class StepEnd(NamedTuple):
    """The end of an attempt: time, beginning and length as the method had them, and the motion."""

    t: Array
    begin: Array
    length: Array
    values: Float[Array, " k"]
    rates: Float[Array, " k"] | None
    velocity: Float[Array, " n"] | None


def roundoff(state: State) -> Array:
    """Round-off of functions of a state."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=1.0) for leaf in jax.tree.leaves(state)]))
    return _ULPS * jnp.finfo(float).eps * largest
