"""Steppers: one attempt at a step, of constant or error-controlled size, as all loops use it."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.modules import Module
from polhode.result_codes import Result
from polhode.simulation.stepping import counted_angles
from polhode.systems.base import AbstractSystem


class Progress(NamedTuple):
    """The progress of a run: the carry of its loop.

    - `n`, `t`, `carry`: accepted steps, time and state now. - `h`: size of the next attempt.
    - `t_before`, `before`: the same at the start of the last accepted step, or None unless needed for interpolation.
    - `rejected`, `newton`: rejected attempts; Newton iterations of all attempts.
    - `error`: norm of the last accepted local error.
    - `result`: a `Result` code; once it is not 0, everything else stays as it was.
    - `events`: the event state, or None in runs without events.
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
    result: Any
    events: Any = None


class TrialStep(NamedTuple):
    """A trial step: its stepper, the progress from which it is attempted, and where the method begins."""

    stepper: AbstractStepper
    progress: Progress
    begin: Array


class AbstractStepper(Module):
    """Chooses step sizes. `t0` and `t1` are the ends of the run.

    `right_limit_offset`: offset by which the method evaluates the right limit of discontinuous loads at t0.
    `on_grid`: whether the ends of steps are fixed beforehand.
    """

    on_grid: ClassVar[bool]
    t0: eqx.AbstractVar[Any]
    t1: eqx.AbstractVar[Any]
    right_limit_offset: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def first_step(self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any) -> Array:
        """Size of the first attempt."""

    @abc.abstractmethod
    def next_step(self, p: Progress) -> Array:
        """Size of the first attempt of a later segment."""

    @abc.abstractmethod
    def initial_carry(
        self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry
    ) -> Carry:
        """The carry with which these steps begin, from that of the method's start or restart."""

    @abc.abstractmethod
    def attempt(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        """One step, accepted or not."""

    @abc.abstractmethod
    def is_finished(self, p: Progress) -> Array:
        """Whether the end is reached."""

    @abc.abstractmethod
    def last_step(self, p: Progress) -> tuple[Array, Array]:
        """Time and length of the last accepted step, as the method had them."""

    @abc.abstractmethod
    def has_passed(self, p: Progress, target: Array) -> Array:
        """Whether time has reached `target`."""

    @abc.abstractmethod
    def trial_step(self, p: Progress, searching: Array, share: Array, whole: Array) -> TrialStep:
        """Trial step: the full step, or while an event is located the fraction `share` of the rejected step `whole`.

        Fractions are accepted whatever their error is.
        """

    @abc.abstractmethod
    def length(self, p: Progress, new: Progress) -> Array:
        """Length of the accepted step from p to `new`, as the method had it."""

    def start(
        self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep_previous: bool
    ) -> Progress:
        """The progress at the beginning of a run."""
        t, h = self.t0 + self.right_limit_offset, _strong(self.first_step(system, integrator, state))
        carry = self.initial_carry(system, integrator, t, h, counted_angles.init(integrator, system, t, h, state))
        return self._start_with(system, state, h, carry, keep_previous)

    def start_trial(
        self, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep_previous: bool
    ) -> Progress:
        """The progress from which a trial step is taken, by a method that starts by one."""
        h, carry = self.first_step(system, integrator, state), counted_angles.before_trial(integrator, system, state)
        return self._start_with(system, state, _strong(h), carry, keep_previous)

    def _start_with(self, system: AbstractSystem, state: Any, h: Array, carry: Carry, keep_previous: bool) -> Progress:
        carry = _strong(carry)
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
            result=with_state_check(system, self.t0, state, jnp.zeros((), jnp.int32)),
        )

    def restart(self, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
        """The progress at the beginning of a later segment, at a time at which loads may have jumped."""
        return self.restart_at(system, integrator, p.t + self.right_limit_offset, self.next_step(p), p)

    def restart_at(
        self, system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, p: Progress
    ) -> Progress:
        """The same at the method's time t, for a next step of size h."""
        carry = self.initial_carry(system, integrator, t, h, counted_angles.restart(integrator, system, t, h, p.carry))
        return p._replace(carry=_strong(carry))


def restart_after_jump(
    system: AbstractSystem, integrator: AbstractIntegrator, t: Array, h: Array, carry: Carry, after_jump: Any
) -> Carry:
    """The carry with which a step begins: where loads have jumped, with the memory of the method rebuilt.

    `after_jump`: whether they have; None if they never do. Methods that remember nothing need no restart.
    """
    if after_jump is None or carry.memory is None:
        return carry
    restart = lambda carry: _strong(counted_angles.restart(integrator, system, t, h, carry))  # noqa: E731
    return jax.lax.cond(after_jump, restart, lambda carry: carry, carry)


def accept(p: Progress, t: Array, h: Array, carry: Carry, info: StepInfo, result: Array, error: Array) -> Progress:
    """Progress after an accepted step; if `result` is a failure only the code changes."""
    new = p._replace(
        n=p.n + 1,
        t=t,
        h=h,
        carry=carry,
        t_before=None if p.before is None else p.t,
        before=None if p.before is None else p.carry,
        newton=with_iterations(p, info),
        error=error,
    )
    return select(result == 0, new, p)._replace(result=result)


def with_state_check(system: AbstractSystem, t: Array, state: Any, result: Array) -> Array:
    """The result of a step, or the failure that the system's check of the state reports after a successful step."""
    failure = system.failure(t, state)
    return result if failure is None else jnp.where(result == 0, failure, result)


def with_iterations(p: Progress, info: StepInfo) -> Array:
    """Newton iterations with those of another attempt."""
    return p.newton if info.newton_iterations is None else p.newton + info.newton_iterations


def outcome_of(carry: Carry, info: StepInfo) -> Array:
    """The method's own code, or `nonfinite_state`."""
    by_shape: dict[Any, list[Any]] = {}
    for x in jax.tree.leaves(carry.state):
        by_shape.setdefault(jnp.shape(x), []).append(x)
    total = sum(_total(arrays) for arrays in by_shape.values())
    code = jnp.where(jnp.isfinite(total), 0, int(Result.nonfinite_state)).astype(jnp.int32)
    return code if info.result is None else jnp.where(info.result != 0, info.result, code).astype(jnp.int32)


def _total(arrays: Sequence[Any]) -> Array:
    """The sum of all elements of arrays of one shape; of many arrays by a loop over all of them."""
    return jnp.sum(jnp.stack(arrays) if len(arrays) > _MANY else sum(arrays[1:], start=arrays[0]))


_MANY = 8


def _strong(tree: Any) -> Any:
    """Arrays without JAX's weak types, so that a loop's carry has one type from the start and nothing recompiles."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.asarray(x).dtype), tree)


def select(condition: Array, a: Any, b: Any) -> Any:
    """One of two trees of the same structure."""
    return jax.tree.map(lambda x, y: x if x is y else jnp.where(condition, x, y), a, b)


def advance(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    n_stop: Array,
    target: Array | None,
) -> Progress:
    """Steps until `n_stop` accepted steps, until time reaches `target`, the end or a failure."""

    def more(p: Progress) -> Array:
        go = (p.n < n_stop) & ~stepper.is_finished(p) & (p.result == 0)
        # Events that are not dealt with yet come before the next step.
        go = go if p.events is None else go & ~jnp.any(p.events.fired)
        return go if target is None else go & ~stepper.has_passed(p, target)

    def step(p: Progress) -> Progress:
        p = stepper.attempt(system, integrator, p)
        return p._replace(result=with_state_check(system, p.t, p.carry.state, p.result))

    return jax.lax.while_loop(more, step, p)


def dense_output(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, target: Array
) -> tuple[Any, Any]:
    """The state and the multipliers at `target`, within the last accepted step; exactly those of its end if it ends
    there."""
    dt = p.t - p.t_before
    s = jnp.where(dt != 0, (target - p.t_before) / jnp.where(dt != 0, dt, 1.0), 1.0)
    place = integrator, system, *stepper.last_step(p), p.before, p.carry, s
    inside = counted_angles.interpolate(*place), counted_angles.multipliers_within(*place)
    return select(jnp.abs(s - 1) < 1e-9, (p.carry.state, p.carry.multipliers), inside)
