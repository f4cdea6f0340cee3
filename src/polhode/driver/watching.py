"""Steps that end at events: which functions pass zero in a step, and where."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.driver.bracketing import Bracket
from polhode.driver.stepping import AbstractStepper, Part, Progress
from polhode.driver.watched import TOUCHING, Watch, Watched
from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.results import Result
from polhode.systems.base import AbstractSystem, State

_NEAR = 1e-9
"""Part of a step within which a function counts as zero behind an event, or at the start."""

_THROUGH = 1e-9
"""Part of its rate before an event with which a function must go on behind it to have passed: less is rounding."""


_SHALLOW = 1e-6
"""Depth of a gap up to which it may close again before it was open."""

_ULPS = 64
"""Units of rounding of the largest number of a state by which functions of it change without a reason."""

_JUMP = 1e-6
"""Part of a step that a function would have taken, at its rate, from zero to where it is found if it has not jumped."""


class WatchingSteps(AbstractStepper):
    """Steps of another kind that end at events as well.

    A step in which a function passes zero is not accepted but made again, shorter, until the event is bracketed; each
    of these attempts goes through the same program as all steps. Then the progress has the result `event_reached`, and
    whoever runs it decides how to go on, with `changed`. The numbers of steps count those that end as planned.
    """

    on_grid: ClassVar[bool] = False
    t0: Any
    t1: Any
    ahead: Any
    inner: AbstractStepper
    watched: Watched

    def __init__(self, inner: AbstractStepper, watched: Watched) -> None:
        self.t0, self.t1, self.ahead = inner.t0, inner.t1, inner.ahead
        self.inner, self.watched = inner, watched

    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        return self.inner.first_step(system, integrator, state)

    def next_step(self, p: Progress) -> Array:
        return self.inner.next_step(p)

    def begun(self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry) -> Carry:
        return self.inner.begun(system, integrator, t, h, carry)

    def finished(self, p: Progress) -> Array:
        return self.inner.finished(p)

    def passed(self, p: Progress, target: Array) -> Array:
        return self.inner.passed(p, target)

    def last_step(self, p: Progress) -> tuple[Array, Array]:
        return p.watch.begin, p.watch.length

    def part(self, p: Progress, searching: Array, share: Array, whole: Array) -> Part:
        return self.inner.part(p, searching, share, whole)

    def length(self, p: Progress, new: Progress) -> Array:
        return self.inner.length(p, new)

    def start(
        self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep_previous: bool
    ) -> Progress:
        return self.watching(system, integrator, self.inner.start(system, integrator, state, keep_previous))

    def watching(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        """The progress of a run that nothing was watched in, with what is to be remembered of events."""
        values, slopes = self._rates(system, integrator, p, p.carry)
        near = jnp.abs(values) <= _NEAR * jnp.abs(p.h * slopes)
        sides = jnp.where(near, jnp.sign(slopes), jnp.sign(values))
        sides = jnp.where(np.array(self.watched.gaps) & (values >= -TOUCHING), 1.0, sides)
        rates = self._moving(system, p, p.carry)[1]
        return p._replace(watch=self._calm(p, sides, values, rates))

    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        w: Watch = p.watch
        share = jnp.where(w.searching, w.share, 1.0)
        part = self.inner.part(p, w.searching, share, w.whole)
        new = part.stepper.attempt(system, integrator, part.progress)
        accepted = (new.n > p.n) & (new.result == 0)
        short = w.searching & (share < 1)
        t = jnp.where(short, p.t + share * w.whole, new.t)
        length = part.stepper.length(p, new)
        values, rates = self._moving(system, new._replace(t=t), new.carry)
        now = _Now(t, part.begin, length, values, rates)
        found = self._seen(system, integrator, p, new, now)
        # An attempt at an event that failed says that the step was too long for other reasons.
        failed = new._replace(watch=w._replace(searching=jnp.zeros((), bool)))
        sought = p._replace(newton=new.newton, watch=self._sought(w, new.t - p.t, t, values, found))
        at_event = w.searching & w.final
        fired = at_event & self.watched.passed(w.sides, values) & ~self._jumped(w, now, new.carry.state)
        behind = jnp.where(at_event, self.watched.moved_on(w.sides, values), found.sides)
        calm = self._calm(new, self._closing(w, behind, values, rates), values, rates)
        # A gap that has jumped has no side until it is positive.
        behind_a_jump = at_event & ~fired & self.watched.passed(w.sides, values) & np.array(self.watched.gaps)
        # What has fired is still on its way: which side it comes out on is known once its action is done.
        sides = jnp.where(fired, w.sides, jnp.where(behind_a_jump, 0.0, calm.sides))
        result = jnp.where(jnp.any(fired), int(Result.event_reached), new.result).astype(jnp.int32)
        done = new._replace(
            n=jnp.where(short, p.n, new.n),
            t=t,
            h=jnp.where(w.searching, p.h, new.h),
            result=result,
            watch=calm._replace(sides=sides, begin=part.begin, length=length, cut=short, fired=fired, whole=t - p.t),
        )
        ends = jnp.where(w.searching, w.final, ~found.crossed)
        return _chosen(~accepted, failed, _chosen(ends, done, sought))

    def changed(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, state: State) -> Progress:
        """The progress with which a run goes on behind an event, in a state that may be another one.

        A function that is still about zero comes out on the side to which it moves now: that from which it came where
        the action has turned it back, the other one where it has passed.
        """
        w: Watch = p.watch
        begun = p._replace(result=jnp.zeros((), jnp.int32))
        _, ahead, begin = self.inner.part(begun, jnp.zeros((), bool), jnp.ones(()), w.whole)
        carry = integrator.restart(system, begin, ahead.h, p.carry._replace(state=state))
        begun = begun._replace(h=ahead.h, carry=self.begun(system, integrator, begin, ahead.h, carry))
        _, before = self._rates(system, integrator, p, begun.carry._replace(state=p.carry.state))
        values, slopes = self._rates(system, integrator, begun, begun.carry)
        span = jnp.maximum(jnp.abs(w.whole), jnp.abs(p.h))
        rate = jnp.maximum(jnp.abs(before), jnp.abs(slopes))
        zero = jnp.abs(values) <= (4 * self._resolution(p.t) + _NEAR * span) * rate
        # Where the rate itself vanishes, it says nothing; but what has fired was at zero before the action.
        near = zero | (w.fired & (rate > 0) & (jnp.abs(values) <= 4 * jnp.abs(w.values)))
        # One that was not even passing is an impact so soon after another that they can't be told apart.
        through = (w.sides * before < 0) & (w.sides * slopes < 0) & (jnp.abs(slopes) > _THROUGH * jnp.abs(before))
        there = self.watched.moved_on(w.sides, values)
        turned = jnp.where(through, -w.sides, w.sides)
        # Of those that have not fired, one that is at zero is about to.
        sides = jnp.where(near, jnp.where(w.fired, turned, w.sides), there)
        gaps = np.array(self.watched.gaps)
        # What an impact has sent back may still be beyond, by as much as a restart changes the state.
        sides = jnp.where(gaps & w.fired, jnp.where(near | (values >= 0), 1.0, 0.0), sides)
        rates = self._moving(system, begun, begun.carry)[1]
        return begun._replace(watch=self._calm(p, sides, values, rates))

    def _calm(
        self, p: Progress, sides: Float[Array, " k"], values: Float[Array, " k"], rates: Float[Array, " k"] | None
    ) -> Watch:
        """The memory where nothing is being looked for."""
        zero, one, no = jnp.zeros(()), jnp.ones(()), jnp.zeros((), bool)
        bracket = Bracket(zero, one, zero, zero, one, one)
        fired = jnp.zeros(len(self.watched.functions), bool)
        return Watch(sides, values, rates, no, no, bracket, one, jnp.asarray(p.h, float), p.t + zero, zero, no, fired)

    def _closing(
        self, w: Watch, sides: Float[Array, " k"], values: Float[Array, " k"], rates: Float[Array, " k"] | None
    ) -> Float[Array, " k"]:
        """With gaps that close again before they were open: the next attempt finds their impact."""
        closes = values < w.values if rates is None else rates < 0
        shallow = (values < 0) & (values > -_SHALLOW)
        return jnp.where(np.array(self.watched.gaps) & (sides == 0) & shallow & closes, 1.0, sides)

    def _seen(
        self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, new: Progress, now: _Now
    ) -> _Seen:
        """The first part of a step at whose end an event has passed."""
        w: Watch = p.watch
        seen = _Seen(w.sides, jnp.zeros((), bool), jnp.zeros(()), jnp.ones(()), jnp.zeros(()), jnp.zeros(()))
        seen = seen._replace(at_low=self.watched.merit(w.sides, w.values))
        count, span = self.watched.inside + 1, now.t - p.t
        for k in range(1, count):
            s = k / count
            if now.rates is None or w.rates is None:
                state = integrator.interpolate(system, now.begin, now.length, p.carry, new.carry, jnp.asarray(s))
                values = self.watched(p.t + s * span, state)
            else:
                values = _cubic(w.values, w.rates, now.values, now.rates, jnp.abs(span), s)
            seen = seen.then(self.watched, jnp.asarray(s), values)
        return seen.then(self.watched, jnp.ones(()), now.values)

    def _resolution(self, t: Array) -> Array:
        """Width of brackets in time."""
        return jnp.maximum(self.watched.tolerance, 4 * jnp.finfo(float).eps * jnp.abs(t))

    def _jumped(self, w: Watch, now: _Now, state: State) -> Bool[Array, " k"]:
        """Which functions have jumped across zero instead of passing it, as angles do half a turn away.

        Those that move in jumps only are taken to mean them.
        """
        if now.rates is None:
            return jnp.zeros(now.values.shape, bool)
        reach = (_JUMP * jnp.abs(w.whole) + 1e4 * self._resolution(now.t)) * jnp.abs(now.rates)
        # At rest, or nearly so, functions of the state change by its rounding.
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=1.0) for leaf in jax.tree.leaves(state)]))
        rounding = _ULPS * jnp.finfo(float).eps * largest
        jumped = (now.rates != 0) & (w.bracket.at_low - w.sides * now.values > reach + rounding)
        return jumped & ~np.array(self.watched.forces)

    def _sought(self, w: Watch, whole: Array, t: Array, values: Float[Array, " k"], found: _Seen) -> Watch:
        """The next attempt at an event, after one or at first."""
        merit = self.watched.merit(w.sides, values)
        first = Bracket.of(found.low, found.high, found.at_low, found.at_high)
        bracket = _chosen(w.searching, w.bracket.narrowed(w.share, merit), first)
        whole = jnp.where(w.searching, w.whole, whole)
        near = self._resolution(t) / jnp.abs(whole)
        final = bracket.high - bracket.low <= near
        high = jnp.where(1 - bracket.high <= near, 1.0, bracket.high)
        share = jnp.where(final, high, bracket.next())
        sides = jnp.where(w.searching, w.sides, found.sides)
        return w._replace(
            sides=sides, searching=jnp.ones((), bool), final=final, bracket=bracket, share=share, whole=whole
        )

    def _moving(
        self, system: AbstractSystem, p: Progress, carry: Carry
    ) -> tuple[Float[Array, " k"], Float[Array, " k"] | None]:
        """The functions and their rates along the run, which may be backward in time; None if a state can't tell."""
        state, way = carry.state, jnp.sign(p.h)
        velocity = system.velocity(p.t, state)
        if velocity is None:
            return self.watched(p.t, state), None
        space, zero = system.state_space, jnp.zeros(())
        return jax.jvp(lambda s: self.watched(p.t + s, space.move(state, s * velocity)), (zero,), (way,))

    def _rates(
        self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, carry: Carry
    ) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """The same, rates from a small step where a state alone does not say how it moves."""
        values, rates = self._moving(system, p, carry)
        return (values, self._probed(system, integrator, p, carry, values)) if rates is None else (values, rates)

    def _probed(
        self,
        system: AbstractSystem,
        integrator: AbstractIntegrator,
        p: Progress,
        carry: Carry,
        values: Float[Array, " k"],
    ) -> Float[Array, " k"]:
        h = 1e-4 * p.h
        after = integrator.step(system, p.t, h, carry)[0]
        return (self.watched(p.t + h, after.state) - values) / jnp.abs(h)


class _Now(NamedTuple):
    """The end of an attempt: time, beginning and length as the method had them, the functions and their rates."""

    t: Array
    begin: Array
    length: Array
    values: Float[Array, " k"]
    rates: Float[Array, " k"] | None


def _cubic(
    values: Float[Array, " k"],
    rates: Float[Array, " k"],
    after: Float[Array, " k"],
    rates_after: Float[Array, " k"],
    span: Array,
    s: float,
) -> Float[Array, " k"]:
    """At part s of a step, Hermite's cubic through functions and rates at both ends."""
    left, right = (1 - s) ** 2, s**2
    ends = left * (1 + 2 * s) * values + right * (3 - 2 * s) * after
    return ends + span * s * (1 - s) * ((1 - s) * rates - s * rates_after)


class _Seen(NamedTuple):
    """Findings in a step: whether an event has passed, between which parts of it, and the sides before."""

    sides: Float[Array, " k"]
    crossed: Array
    low: Array
    high: Array
    at_low: Array
    at_high: Array

    def then(self, watched: Watched, s: Array, values: Float[Array, " k"]) -> _Seen:
        """With what is seen at a later part s."""
        hit = jnp.any(watched.passed(self.sides, values))
        first = hit & ~self.crossed
        sides = watched.moved_on(self.sides, values)
        # Between the ends values are estimates: the bracket begins where sides have changed last, if they have.
        passed = jnp.any(sides != self.sides)
        low, at_low = jnp.where(passed, s, self.low), jnp.where(passed, watched.merit(sides, values), self.at_low)
        after = _Seen(sides, self.crossed, low, self.high, at_low, self.at_high)
        there = self._replace(crossed=hit, high=s, at_high=watched.merit(self.sides, values))
        return _chosen(self.crossed, self, _chosen(first, there, after))


def _chosen(condition: Array, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: x if x is y else jnp.where(condition, x, y), a, b)
