"""The search for crossings in a step whose velocities may jump within it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.simulation.events.event_functions import EventFunctions
from polhode.simulation.events.sampling import Crossing, Sample, find_crossing
from polhode.simulation.stepping.stepper import select
from polhode.systems.base import State

Signs = Float[Array, " k"]


class PartEnd(NamedTuple):
    """An end of a part of a step: the state, the time, event functions and their rates, and the velocity.

    Rates and velocity are None where states don't determine them.
    """

    state: State
    t: Array
    values: Float[Array, " k"]
    rates: Float[Array, " k"] | None
    velocity: Float[Array, " n"] | None


def find_in_part(
    functions: EventFunctions,
    signs: Signs,
    states: Callable[[Array], State],
    begin: PartEnd,
    end: PartEnd,
    rounding: Array,
    skip: Array,
) -> Crossing:
    """The first crossing in a part of smooth motion, in fractions of the part; `states`: those at such fractions."""
    span = end.t - begin.t

    def at(s: Array) -> Sample:
        return Sample(s, *jax.jvp(lambda s: functions(begin.t + s * span, states(s)), (s,), (jnp.ones(()),)))

    first, last = (
        Sample(s, side.values, at(s).rates if side.rates is None else jnp.abs(span) * side.rates)
        for s, side in ((jnp.zeros(()), begin), (jnp.ones(()), end))
    )
    return find_crossing(functions, signs, at, first, last, rounding, skip)


def find_in_parts(
    find: Callable[[Signs, PartEnd, PartEnd, Array], Crossing],
    signs: Signs,
    share: Array,
    first: tuple[PartEnd, PartEnd],
    last: tuple[PartEnd, PartEnd],
    skip: Array,
) -> Crossing:
    """The first crossing in a step of two parts, in fractions of the step, by the search in one.

    `share`: where the first part ends. If it is the whole step, that part ends with the last one.
    """
    whole = share >= 1
    first = first[0], select(whole, last[1], first[1])
    unlimited = jnp.ones(())
    none = Crossing(signs, jnp.zeros((), bool), jnp.zeros(()), unlimited, jnp.zeros(()), jnp.zeros(()))

    def more(loop: tuple[Array, Crossing]) -> Array:
        number, crossing = loop
        return (number < jnp.where(whole, 1, 2)) & ~crossing.crossed

    def body(loop: tuple[Array, Crossing]) -> tuple[Array, Crossing]:
        number, before = loop
        begin, end = select(number == 0, first, last)
        a, b = jnp.where(number == 0, 0.0, share), jnp.where((number == 0) & ~whole, share, 1.0)
        there = find(before.signs, begin, end, skip)
        # Shorter steps may have the jump earlier: brackets begin where a sign has changed, and not at the jump.
        moved = (number == 0) | (there.low > 0)
        low, at_low = (
            jnp.where(moved, a + (b - a) * there.low, before.low),
            jnp.where(moved, there.at_low, before.at_low),
        )
        return number + 1, there._replace(low=low, high=a + (b - a) * there.high, at_low=at_low)

    return jax.lax.while_loop(more, body, (jnp.asarray(0), none))[1]
