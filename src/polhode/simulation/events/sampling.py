"""Samples of event functions within a step, as many as it takes to miss no crossing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.simulation.events.event_functions import EventFunctions
from polhode.simulation.stepping.stepper import select
from polhode.spaces.base import AbstractSpace, Point, Vector

_CLOSE = 0.1
"""Relative error of a cubic at a sample, in parts of the largest value nearby, above which samples are refined."""

_CALM = 20.0
"""How many times its change from one sample to the next a function is away from zero where neither a crossing nor a
finer sample can lie between: what follows from `_CLOSE` for cubics is 16."""

_BEND = 4 / 27
"""Largest value of u (1-u)², by which each end of a cubic bends it away from the line between them."""

_NARROW = 2.0**-30
"""Part of a step within which a function that no cubic fits counts as discontinuous."""

_MAX_SAMPLES = 4096
"""Samples within a step after which samples of functions that no cubic fits are not refined any more."""

Values = Float[Array, " k"]
"""One number for each event."""


class Sample(NamedTuple):
    """The functions at fraction `s` of a step, and their derivatives with respect to s."""

    s: Array
    values: Values
    rates: Values


class Curve(NamedTuple):
    """The motion within a step: a cubic through states and velocities at both ends, on the space.

    A constant velocity, the mean of both, is composed with a cubic. So it is right for steps of many turns, which two
    attitudes alone don't determine.

    - `turn`: the constant part, an algebra element. - `start`, `end`, `rest`: slopes of the cubic, and its end.
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
    """The first crossing in a step: whether there is one, its bracket in fractions of the step, and signs before it."""

    signs: Values
    crossed: Array
    low: Array
    high: Array
    at_low: Array
    at_high: Array

    def update(self, functions: EventFunctions, s: Array, values: Values) -> Crossing:
        """Updated with the values at a later fraction s."""
        hit = jnp.any(functions.has_crossed(self.signs, values))
        first = hit & ~self.crossed
        signs = functions.updated_signs(self.signs, values)
        # Within a step values are estimates: the bracket begins where signs have changed last, if they have.
        moved_low = jnp.any(signs != self.signs)
        low, at_low = (
            jnp.where(moved_low, s, self.low),
            jnp.where(moved_low, functions.first_crossing(signs, values), self.at_low),
        )
        after = Crossing(signs, self.crossed, low, self.high, at_low, self.at_high)
        there = self._replace(crossed=hit, high=s, at_high=functions.first_crossing(self.signs, values))
        return select(self.crossed, self, select(first, there, after))

    def update_between(self, functions: EventFunctions, a: Sample, b: Sample) -> Crossing:
        """Updated from one sample to the next: at the first extremum beyond zero of the cubics, and at the end."""
        u = jnp.where(self.signs * _cubic(a, b, _turning_point(a, b)) < 0, _turning_point(a, b), 1.0)
        first = jnp.min(u)
        values = jnp.where(first < 1, _cubic(a, b, first), b.values)
        s = jnp.where(first < 1, a.s + first * (b.s - a.s), b.s)
        return self.update(functions, s, values).update(functions, b.s, b.values)


class _SearchState(NamedTuple):
    """State of the search through a step.

    - `last`: the sample up to which the search is complete. - `middle`: the one after it. - `spacing`: of later ones.
    - `closer`: whether the next sample lies between those two, instead of after them. - `count`: of samples.
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
    """The first crossing in a step.

    There are `inside` samples, and more where the cubic through two of them misses one between them: then the function
    changes faster than they resolve. Extrema of the cubics are checked as well.

    `at`: the sample at a fraction; `first` and `last` are those at the ends. `rounding`: round-off of the values.
    `skip`: whether to search at all.
    """
    zero, spacing = jnp.zeros(()), jnp.asarray(1.0 / (functions.inside + 1))
    skip = skip | _is_calm(functions, signs, at, (first, last), skip)
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
        # Before the first sample there is nothing to update.
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


def _is_calm(
    functions: EventFunctions, signs: Values, at: Callable[[Array], Sample], ends: tuple[Sample, Sample], skip: Array
) -> Array:
    """Whether a search can't find anything, because all functions stay far from zero, as in nearly all steps.

    It would take the same samples, find that cubics fit, and leave the signs as they are.
    """
    (first, last), spacing = ends, 1.0 / (functions.inside + 1)

    def more(loop: tuple[Sample, Sample, Array, Array]) -> Array:
        _, sample, _, calm = loop
        return calm & (sample.s + 0.5 * spacing < 1)

    def body(loop: tuple[Sample, Sample, Array, Array]) -> tuple[Sample, Sample, Array, Array]:
        before, sample, far_before, _ = loop
        s = sample.s + spacing
        after = select(s + 0.5 * spacing < 1, at(s), last)
        far = _are_far(signs, sample, after)
        passes = functools.partial(_passes, signs)
        calm = jax.lax.cond(far & far_before, lambda *_: far, passes, before, sample, after)
        return sample, after, far, calm

    return jax.lax.while_loop(more, body, (first, first, ~skip, ~skip))[3]


def _passes(signs: Values, a: Sample, m: Sample, b: Sample) -> Array:
    """Whether cubics fit three samples, and neither they nor their errors reach zero."""
    misfit = _misfit(a, m, b)
    room = jnp.minimum(_room(signs, a, m), _room(signs, m, b))
    return jnp.all((room > misfit) & (misfit <= _CLOSE * jnp.abs(m.values)))


def _room(signs: Values, a: Sample, b: Sample) -> Values:
    """A lower bound of the distance from zero of the cubics between two samples; negative beyond zero."""
    width, rise = b.s - a.s, b.values - a.values
    bend = jnp.abs(width * a.rates - rise) + jnp.abs(width * b.rates - rise)
    return jnp.minimum(signs * a.values, signs * b.values) - _BEND * bend


def _are_far(signs: Values, a: Sample, b: Sample) -> Array:
    """Whether all functions are much farther from zero at two samples than they change between them."""
    distance = jnp.minimum(signs * a.values, signs * b.values)
    change = jnp.maximum(jnp.abs(b.values - a.values), (b.s - a.s) * jnp.maximum(jnp.abs(a.rates), jnp.abs(b.rates)))
    return jnp.all(distance > _CALM * change)


def _cubic(a: Sample, b: Sample, u: Array) -> Values:
    """Hermite's cubic at fraction u between two samples."""
    width = b.s - a.s
    ends = (1 - u) ** 2 * (1 + 2 * u) * a.values + u**2 * (3 - 2 * u) * b.values
    return ends + width * u * (1 - u) * ((1 - u) * a.rates - u * b.rates)


def _slope(a: Sample, b: Sample, u: Array) -> Values:
    """The rate of the cubic, by s."""
    width = b.s - a.s
    rise = (b.values - a.values) / jnp.where(width > 0, width, 1.0)
    return 6 * u * (1 - u) * rise + (1 - u) * (1 - 3 * u) * a.rates + u * (3 * u - 2) * b.rates


def _turning_point(a: Sample, b: Sample) -> Values:
    """The fraction at which each cubic has an extremum, where the rates of the samples have opposite signs; else 1."""
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
    """Whether the cubic through two samples is accurate: about right at a sample between them, slope included, and
    without an extremum so close to zero that it might have crossed.
    """
    misfit = _misfit(a, m, b)
    largest = jnp.maximum(jnp.maximum(jnp.abs(a.values), jnp.abs(m.values)), jnp.abs(b.values))
    unclear = _nearly(a, m, misfit) | _nearly(m, b, misfit)
    # Without a distance there is nothing between.
    return (m.s <= a.s) | (misfit <= rounding) | ((misfit <= _CLOSE * largest) & ~unclear)


def _misfit(a: Sample, m: Sample, b: Sample) -> Values:
    """The error of cubics at a sample between two others, that of their slope included."""
    width = b.s - a.s
    u = (m.s - a.s) / jnp.where(width > 0, width, 1.0)
    return jnp.maximum(jnp.abs(_cubic(a, b, u) - m.values), 0.125 * width * jnp.abs(_slope(a, b, u) - m.rates))


def _nearly(a: Sample, b: Sample, misfit: Values) -> Bool[Array, " k"]:
    """Whether cubics have an extremum before zero, closer to it than their error."""
    extremum = _cubic(a, b, _turning_point(a, b))
    before = (extremum * a.values > 0) & (extremum * b.values > 0)
    return (_turning_point(a, b) < 1) & before & (jnp.abs(extremum) <= misfit)
