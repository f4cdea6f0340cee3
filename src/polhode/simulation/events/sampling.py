"""Looks at the functions of events within a step, as many as it takes to lose no passage."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.simulation.events.event_functions import EventFunctions
from polhode.simulation.stepping.stepper import select
from polhode.spaces.base import AbstractSpace, Point, Vector

_CLOSE = 0.1
"""Part of the largest value nearby by which a cubic may miss a look before looks come closer."""

_NARROW = 2.0**-30
"""Part of a step within which a function that no cubic fits is taken to jump."""

_MAX_SAMPLES = 4096
"""Looks within a step, at which even functions that no cubic fits are left at the distance that was asked for."""

Values = Float[Array, " k"]
"""One number for each event."""


class Sample(NamedTuple):
    """The functions at part `s` of a step, and their rates by s."""

    s: Array
    values: Values
    rates: Values


class Curve(NamedTuple):
    """The motion within a step: a cubic through states and velocities at both ends, on the space.

    It turns evenly with the mean velocity, and cubically about that. So it is right for steps of many turns, which two
    attitudes alone don't tell.

    - `turn`: the even part, an algebra element. - `start`, `end`, `rest`: slopes of the other part, and its end.
    """

    space: AbstractSpace
    begin: Point
    turn: Vector
    start: Vector
    end: Vector
    rest: Vector

    @classmethod
    def of(cls, space: AbstractSpace, begin: Point, end: Point, before: Vector, after: Vector) -> Curve:
        """Between two states; `before` and `after` are the increments that the velocities there would make."""
        turn = 0.5 * (before + after)
        rest = space.difference(space.move(begin, turn), end)
        return cls(space, begin, turn, before - turn, space.rate(rest, after - turn), rest)

    def __call__(self, s: Array) -> Point:
        other = s * ((1 - s) ** 2 * self.start + s * (s - 1) * self.end + s * (3 - 2 * s) * self.rest)
        return self.space.move(self.space.move(self.begin, s * self.turn), other)


class Crossing(NamedTuple):
    """Findings in a step: whether an event has passed, between which parts of it, and the sides before."""

    signs: Values
    crossed: Array
    low: Array
    high: Array
    at_low: Array
    at_high: Array

    def update(self, functions: EventFunctions, s: Array, values: Values) -> Crossing:
        """With what is seen at a later part s."""
        hit = jnp.any(functions.has_crossed(self.signs, values))
        first = hit & ~self.crossed
        signs = functions.updated_signs(self.signs, values)
        # Within a step values are estimates: the bracket begins where sides have changed last, if they have.
        moved_low = jnp.any(signs != self.signs)
        low, at_low = (
            jnp.where(moved_low, s, self.low),
            jnp.where(moved_low, functions.first_crossing(signs, values), self.at_low),
        )
        after = Crossing(signs, self.crossed, low, self.high, at_low, self.at_high)
        there = self._replace(crossed=hit, high=s, at_high=functions.first_crossing(self.signs, values))
        return select(self.crossed, self, select(first, there, after))

    def update_between(self, functions: EventFunctions, a: Sample, b: Sample) -> Crossing:
        """With what is seen from one look to the next: the first turning beyond zero, and the end."""
        u = jnp.where(self.signs * _cubic(a, b, _turning_point(a, b)) < 0, _turning_point(a, b), 1.0)
        first = jnp.min(u)
        values = jnp.where(first < 1, _cubic(a, b, first), b.values)
        s = jnp.where(first < 1, a.s + first * (b.s - a.s), b.s)
        return self.update(functions, s, values).update(functions, b.s, b.values)


class _SearchState(NamedTuple):
    """Looks on their way through a step.

    - `last`: the look up to which all is seen. - `middle`: one behind it. - `spacing`: of looks ahead.
    - `closer`: whether the next look comes between those two, instead of behind them. - `count`: of looks.
    """

    crossing: Crossing
    last: Sample
    middle: Sample
    spacing: Array
    closer: Array
    count: Array


def find_crossing(
    functions: EventFunctions,
    signs: Values,
    at: Callable[[Array], Sample],
    first: Sample,
    last: Sample,
    rounding: Array,
    skip: Array,
) -> Crossing:
    """The first part of a step at whose end an event has passed.

    Looks come `inside` times, and closer where the cubic through two of them misses one between them: then the function
    changes faster than they come. The cubics tell where it turns between looks.

    `at`: a look within the step; `first` and `last` are those at its ends. `rounding`: by which values change without a
    reason. `skip`: whether not to look at all.
    """
    zero, spacing = jnp.zeros(()), jnp.asarray(1.0 / (functions.inside + 1))
    crossing = Crossing(signs, jnp.zeros((), bool), zero, jnp.ones(()), zero, zero)
    crossing = crossing._replace(at_low=functions.first_crossing(signs, first.values))

    def more(m: _SearchState) -> Array:
        return ~skip & ~m.crossing.crossed & (m.last.s < 1)

    def body(m: _SearchState) -> _SearchState:
        s = jnp.where(m.closer, 0.5 * (m.last.s + m.middle.s), m.middle.s + m.spacing)
        # A remainder that would be a tiny part is added to this one.
        s = jnp.where(s > 1 - 1e-3 * m.spacing, 1.0, s)
        sample = select(s >= 1, last, at(s))
        middle, after = select(m.closer, sample, m.middle), select(m.closer, m.middle, sample)
        narrow = (middle.s - m.last.s < _NARROW) | (m.count >= _MAX_SAMPLES)
        fits = jnp.all(_fits(m.last, middle, after, rounding)) | narrow
        # Before the first look there is nothing to be seen.
        crossing = select(middle.s > m.last.s, m.crossing.update_between(functions, m.last, middle), m.crossing)
        end = crossing.update_between(functions, middle, after)
        over = after.s >= 1
        wider = jnp.where(narrow, spacing, jnp.minimum(2 * m.spacing, spacing))
        return _SearchState(
            select(fits, select(over, end, crossing), m.crossing),
            select(fits, select(over, after, middle), m.last),
            select(fits, after, middle),
            jnp.where(fits, wider, 0.5 * (middle.s - m.last.s)),
            ~fits,
            m.count + 1,
        )

    start = _SearchState(crossing, first, first, spacing, jnp.zeros((), bool), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(more, body, start).crossing


def _cubic(a: Sample, b: Sample, u: Array) -> Values:
    """Hermite's cubic at part u between two looks."""
    width = b.s - a.s
    ends = (1 - u) ** 2 * (1 + 2 * u) * a.values + u**2 * (3 - 2 * u) * b.values
    return ends + width * u * (1 - u) * ((1 - u) * a.rates - u * b.rates)


def _slope(a: Sample, b: Sample, u: Array) -> Values:
    """The rate of the cubic, by s."""
    width = b.s - a.s
    rise = (b.values - a.values) / jnp.where(width > 0, width, 1.0)
    return 6 * u * (1 - u) * rise + (1 - u) * (1 - 3 * u) * a.rates + u * (3 * u - 2) * b.rates


def _turning_point(a: Sample, b: Sample) -> Values:
    """Where each cubic turns between two looks whose rates have opposite signs; 1 if they don't."""
    width = b.s - a.s
    rise = (b.values - a.values) / jnp.where(width > 0, width, 1.0)
    # Rates along the cubic: c + b u + a u², with c of the sign -1.
    way = -jnp.sign(a.rates)
    c, linear = way * a.rates, way * (6 * rise - 4 * a.rates - 2 * b.rates)
    square = way * (3 * a.rates + 3 * b.rates - 6 * rise)
    turns = (c < 0) & (way * b.rates > 0)
    root = jnp.sqrt(jnp.where(turns, jnp.maximum(linear**2 - 4 * square * c, 0.0), 1.0))
    under = jnp.where(turns, linear + root, 1.0)
    return jnp.where(turns, jnp.clip(-2 * c / jnp.where(under > 0, under, 1.0), 0.0, 1.0), 1.0)


def _fits(a: Sample, m: Sample, b: Sample, rounding: Array) -> Bool[Array, " k"]:
    """Whether the cubic through two looks tells what lies between: whether it is about right at one between them, slope
    included, and does not turn so close to zero that it might have passed.
    """
    width = b.s - a.s
    u = (m.s - a.s) / jnp.where(width > 0, width, 1.0)
    misfit = jnp.maximum(jnp.abs(_cubic(a, b, u) - m.values), 0.125 * width * jnp.abs(_slope(a, b, u) - m.rates))
    largest = jnp.maximum(jnp.maximum(jnp.abs(a.values), jnp.abs(m.values)), jnp.abs(b.values))
    unclear = _nearly(a, m, misfit) | _nearly(m, b, misfit)
    # Without a distance there is nothing between.
    return (m.s <= a.s) | (misfit <= rounding) | ((misfit <= _CLOSE * largest) & ~unclear)


def _nearly(a: Sample, b: Sample, misfit: Values) -> Bool[Array, " k"]:
    """Whether cubics turn before zero by less than they are wrong by."""
    extremum = _cubic(a, b, _turning_point(a, b))
    before = (extremum * a.values > 0) & (extremum * b.values > 0)
    return (_turning_point(a, b) < 1) & before & (jnp.abs(extremum) <= misfit)
