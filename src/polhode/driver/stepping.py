"""One attempt at a step, with constant or error-controlled size: the inside of every loop."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.driver.control import StepControl, Tolerances, first_step
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.results import Result
from polhode.systems.base import AbstractSystem


class Progress(NamedTuple):
    """Where a run stands.

    - `n`, `t`, `carry`: accepted steps, time and state now. - `h`: size of the next attempt.
    - `t_before`, `before`: the same at the start of the last accepted step, or None unless needed for interpolation.
    - `rejected`, `newton`: rejected attempts; Newton iterations of all attempts.
    - `error`: norm of the last accepted local error.
    - `result`: a `Result` code; once it is not 0, everything else stays as it was.
    - `watch`: what is remembered of events, or None in runs without any.
    """

    n: Array
    t: Array
    h: Array
    carry: Carry
    t_before: Any
    before: Any
    rejected: Array
    newton: Array
    error: Array
    result: Array
    watch: Any = None


class Part(NamedTuple):
    """How a part of the next step is attempted: by which steps, from which progress, and where the method begins."""

    stepper: AbstractStepper
    progress: Progress
    begin: Array


class AbstractStepper(eqx.Module):
    """Chooses step sizes. `t0` and `t1` are the ends of the run.

    `ahead`: how far its first step begins behind t0 for the method, so that loads that jump there have done so.
    `on_grid`: whether it is known beforehand where steps end.
    """

    on_grid: ClassVar[bool]
    t0: eqx.AbstractVar[Any]
    t1: eqx.AbstractVar[Any]
    ahead: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        """Size of the first attempt."""

    @abc.abstractmethod
    def next_step(self, p: Progress) -> Array:
        """Size of the attempt with which a leg goes on that others came before."""

    @abc.abstractmethod
    def begun(self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry) -> Carry:
        """The carry of a start as these steps begin with it."""

    @abc.abstractmethod
    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        """One step, accepted or not."""

    @abc.abstractmethod
    def finished(self, p: Progress) -> Array:
        """Whether the end is reached."""

    @abc.abstractmethod
    def last_step(self, p: Progress) -> tuple[Array, Array]:
        """Time and length of the last accepted step, as the method had them."""

    @abc.abstractmethod
    def passed(self, p: Progress, target: Array) -> Array:
        """Whether time has reached `target`."""

    @abc.abstractmethod
    def part(self, p: Progress, searching: Array, share: Array, whole: Array) -> Part:
        """The next step, which may begin where none has ended as planned: whole, or a share of `whole` if `searching`.

        A share is accepted whatever its error is.
        """

    @abc.abstractmethod
    def length(self, p: Progress, new: Progress) -> Array:
        """Length of the accepted step from p to `new`, as the method had it."""

    def start(
        self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep_previous: bool
    ) -> Progress:
        """The beginning of a run."""
        t, h = self.t0 + self.ahead, _strong(self.first_step(system, integrator, state))
        carry = _strong(self.begun(system, integrator, t, h, integrator.init(system, t, h, state)))
        zero = jnp.zeros((), jnp.int64)
        return Progress(
            n=zero,
            t=_strong(self.t0),
            h=h,
            carry=carry,
            t_before=_strong(self.t0) if keep_previous else None,
            before=carry if keep_previous else None,
            rejected=zero,
            newton=zero,
            error=jnp.ones((), jnp.float64),
            result=judged(system, self.t0, state, jnp.zeros((), jnp.int32)),
        )

    def again(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        """The beginning of another leg of a run, at a time at which loads may have jumped."""
        return self.resumed(system, integrator, p.t + self.ahead, self.next_step(p), p)

    def resumed(
        self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, p: Progress
    ) -> Progress:
        """The same at t, as the method sees it, with a step of size h ahead."""
        carry = self.begun(system, integrator, t, h, integrator.restart(system, t, h, p.carry))
        return p._replace(carry=_strong(carry))


class ConstantSteps(AbstractStepper):
    """Equal steps until step number `last`. Step n starts at t0 + (n - first)·spacing: equal to the last bit.

    - `t1`: the end, up to rounding. - `h`: what methods take for the step: the spacing, or a few units of round-off
      less where loads are not to see beyond t1, or before t0. - `ahead`: the same for all steps.
    """

    on_grid: ClassVar[bool] = True
    t0: Any
    t1: Any
    ahead: Any
    h: Any
    spacing: Any
    first: Any
    last: Any

    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        return self.h

    def next_step(self, p: Progress) -> Array:
        return self.h

    def begun(self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry) -> Carry:
        return carry

    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        carry, info = integrator.step(system, p.t + self.ahead, self.h, p.carry)
        result = outcome_of(carry, info)
        new = accept(p, self.t0 + (p.n + 1 - self.first) * self.spacing, self.h, carry, info, result, p.error)
        # A failure ends the run, and nothing reads its memory any more: it need not be put back.
        return new._replace(carry=new.carry._replace(memory=carry.memory))

    def finished(self, p: Progress) -> Array:
        return p.n >= self.last

    def last_step(self, p: Progress) -> tuple[Array, Array]:
        return p.t_before + self.ahead, self.h

    def passed(self, p: Progress, target: Array) -> Array:
        # A target on the grid must not be missed by round-off.
        return (p.t - target) / self.h > -1e-9

    def part(self, p: Progress, searching: Array, share: Array, whole: Array) -> Part:
        begin = self.t0 + (p.n - self.first) * self.spacing
        off = p.t != begin
        ahead = jnp.where(off, 0.0, self.ahead)
        # Behind an event the step ends where it would have ended without.
        h = jnp.where(off, begin + self.ahead + self.h - p.t, self.h)
        h = jnp.where(searching & (share < 1), share * whole - ahead, h)
        return Part(dataclasses.replace(self, h=h, ahead=ahead), p._replace(h=h), p.t + ahead)

    def length(self, p: Progress, new: Progress) -> Array:
        return self.h


class ControlledSteps(AbstractStepper):
    """Steps chosen from the local error estimate of the integrator.

    - `short`: what the last step lacks to t1 for the method, so that loads are not seen beyond.
    """

    on_grid: ClassVar[bool] = False
    t0: Any
    t1: Any
    ahead: Any
    tolerances: Tolerances
    control: StepControl
    max_steps: Any
    short: Any

    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        span = self.t1 - self.t0
        if self.control.first_step is not None:
            return jnp.sign(span) * jnp.minimum(self.control.first_step, jnp.abs(span))
        if system.velocity(self.t0, state) is None:
            return span * 1e-4
        return jnp.sign(span) * first_step(
            self.control,
            system.state_space,
            system.velocity,
            self.t0,
            span,
            state,
            integrator.first_order,
            self.tolerances,
        )

    def next_step(self, p: Progress) -> Array:
        return p.h

    def begun(self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry) -> Carry:
        return integrator.controlled(system, t, h, carry)

    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        left = self.t1 - p.t
        h = p.h
        if self.control.max_step is not None:
            h = jnp.clip(h, -self.control.max_step, self.control.max_step)
        # The last step ends exactly at t1; a remainder that would be a tiny step is stretched into this one.
        last = jnp.abs(h) * (1 + 1e-9) >= jnp.abs(left)
        h = jnp.where(last, left - self.short, h)
        ahead = jnp.where(p.t == self.t0, self.ahead, 0.0)
        carry, info = integrator.step(system, p.t + ahead, h - ahead, p.carry)
        result = outcome_of(carry, info)
        space = system.state_space
        error = self.control.measure(space, info.error, p.carry.state, carry.state, self.tolerances)
        good = (result == 0) & (error <= 1)
        order = min(integrator.order, integrator.error_order or integrator.order) if info.order is None else info.order
        factor = shrinking = self._factor(error, p.error, order, result)
        kept = p.carry
        if info.others:
            others = tuple(
                self._factor(
                    self.control.measure(space, e, p.carry.state, carry.state, self.tolerances), p.error, k, result
                )
                for e, k in info.others
            )
            carry, factor = integrator.chosen(carry, (factor, *others), accepted=True)
            kept, shrinking = integrator.chosen(kept, (shrinking, *others), accepted=False)
        # A step that was cut short for the end says nothing against longer ones after it.
        following = jnp.where(last & (jnp.abs(p.h) > jnp.abs(h)), p.h, h * factor)
        moved = accept(p, jnp.where(last, self.t1, p.t + h), following, carry, info, jnp.zeros_like(result), error)
        shrunk = h * jnp.minimum(shrinking, self.control.safety)
        retry = p._replace(h=shrunk, carry=kept, rejected=p.rejected + 1, newton=_with_iterations(p, info))
        new = _select(good, moved, retry)
        resolution = 16 * jnp.finfo(jnp.float64).eps * jnp.maximum(jnp.abs(p.t), jnp.abs(self.t1 - self.t0))
        code = jnp.where(
            ~good & (jnp.abs(new.h) < resolution),
            jnp.where(result == 0, jnp.int32(Result.step_too_small), result),
            jnp.where(
                (new.n + new.rejected >= self.max_steps) & ~self.finished(new),
                jnp.int32(Result.max_steps_reached),
                jnp.int32(0),
            ),
        )
        return new._replace(result=code.astype(jnp.int32))

    def _factor(self, error: Array, previous: Array, order: Any, result: Array) -> Array:
        """Change of the step after an error that a method of that order made."""
        return jnp.where(result == 0, self.control.factor(error, previous, order), self.control.min_factor)

    def finished(self, p: Progress) -> Array:
        return p.t == self.t1

    def last_step(self, p: Progress) -> tuple[Array, Array]:
        ahead = jnp.where(p.t_before == self.t0, self.ahead, 0.0)
        dt = p.t - p.t_before
        h = dt - ahead - jnp.where(p.t == self.t1, self.short, 0.0)
        # Before the first step there is none.
        return p.t_before + ahead, jnp.where(dt != 0, h, self.t1 - self.t0)

    def passed(self, p: Progress, target: Array) -> Array:
        return (p.t - target) * jnp.sign(self.t1 - self.t0) >= 0

    def part(self, p: Progress, searching: Array, share: Array, whole: Array) -> Part:
        tolerances = self.tolerances._replace(atol=jnp.where(searching, 1e300, self.tolerances.atol))
        begin = p.t + jnp.where(p.t == self.t0, self.ahead, 0.0)
        attempt = p._replace(h=jnp.where(searching, share * whole, p.h))
        return Part(dataclasses.replace(self, tolerances=tolerances), attempt, begin)

    def length(self, p: Progress, new: Progress) -> Array:
        ahead = jnp.where(p.t == self.t0, self.ahead, 0.0)
        return new.t - p.t - ahead - jnp.where(new.t == self.t1, self.short, 0.0)


def accept(p: Progress, t: Array, h: Array, carry: Carry, info: StepInfo, result: Array, error: Array) -> Progress:
    """Progress after an accepted step; if `result` is a failure only the code is taken over."""
    moved = p._replace(
        n=p.n + 1,
        t=t,
        h=h,
        carry=carry,
        t_before=None if p.before is None else p.t,
        before=None if p.before is None else p.carry,
        newton=_with_iterations(p, info),
        error=error,
    )
    return _select(result == 0, moved, p)._replace(result=result)


def judged(system: AbstractSystem, t: Array, state: Any, result: Array) -> Array:
    """The result after a step, or what the system finds wrong with a state although the step went well."""
    failure = system.failure(t, state)
    return result if failure is None else jnp.where(result == 0, failure, result)


def _with_iterations(p: Progress, info: StepInfo) -> Array:
    return p.newton if info.newton_iterations is None else p.newton + info.newton_iterations


def outcome_of(carry: Carry, info: StepInfo) -> Array:
    """The method's own code, or `nonfinite_state`."""
    by_shape: dict[Any, Any] = {}
    for x in jax.tree.leaves(carry.state):
        key = jnp.shape(x)
        by_shape[key] = by_shape[key] + x if key in by_shape else x
    total = sum(jnp.sum(x) for x in by_shape.values())
    code = jnp.where(jnp.isfinite(total), 0, int(Result.nonfinite_state)).astype(jnp.int32)
    return code if info.result is None else jnp.where(info.result != 0, info.result, code).astype(jnp.int32)


def _strong(tree: Any) -> Any:
    """Arrays without JAX's weak types, so that a loop's carry has one type from the start and nothing recompiles."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.asarray(x).dtype), tree)


def _select(condition: Array, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: x if x is y else jnp.where(condition, x, y), a, b)


def march(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    n_stop: Array,
    target: Array | None,
) -> Progress:
    """Steps until `n_stop` accepted steps, until time reaches `target`, the end or a failure."""

    def more(p: Progress) -> Array:
        go = (p.n < n_stop) & ~stepper.finished(p) & (p.result == 0)
        return go if target is None else go & ~stepper.passed(p, target)

    def step(p: Progress) -> Progress:
        p = stepper.attempt(system, integrator, p)
        return p._replace(result=judged(system, p.t, p.carry.state, p.result))

    return jax.lax.while_loop(more, step, p)


def between(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, target: Array
) -> Any:
    """The state at `target`, within the last accepted step; exactly the end point if the step ends there."""
    dt = p.t - p.t_before
    s = jnp.where(dt != 0, (target - p.t_before) / jnp.where(dt != 0, dt, 1.0), 1.0)
    inside = integrator.interpolate(system, *stepper.last_step(p), p.before, p.carry, s)
    return _select(jnp.abs(s - 1) < 1e-9, p.carry.state, inside)
