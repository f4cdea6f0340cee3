"""Steps in parts where loads come into force within a short way, such as those of stops.

A joint that runs into a stop with 13 rad/s passes the way over which its damper comes into force in 0.1 ms. Steps of
2 ms of any method would see all of it or nothing, and have errors of order 1 there. So a step of a method that is
`divisible` goes as far as the touch, through this way in a few parts, and on to its end. Others are whole, to the
last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.compiler.primitives.backend_query import is_differentiated
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.simulation.stepping import counted_angles
from polhode.systems.base import AbstractSystem

_MOST = 24
"""Parts of a step at most: enough for four touches within it. The last one goes to its end."""


_LEAST = 1e-6
"""The shortest part of a step: positions have round-off, which methods that impose constraints there divide by its
length, and nothing comes in within it."""


_Step = Callable[[Array, Array, Carry], tuple[Carry, StepInfo]]


class _Parts(NamedTuple):
    """State of the parts of a step: the time that they have taken, their number, whether the step is over."""

    carry: Carry
    elapsed: Array
    number: Array
    over: Array
    info: StepInfo


def step(
    integrator: AbstractIntegrator, system: AbstractSystem, t: Array, h: Array, carry: Carry
) -> tuple[Carry, StepInfo]:
    """One step from t to t + h, in parts if the method can be divided and loads of the system ask for it."""
    if not (integrator.divisible and system.has_onsets):
        return counted_angles.step(integrator, system, t, h, carry)
    return _in_parts(integrator, system.without_slope(), t, h, carry)


@eqx.filter_custom_jvp
def _in_parts(
    integrator: AbstractIntegrator, system: AbstractSystem, t: Array, h: Array, carry: Carry
) -> tuple[Carry, StepInfo]:
    """As many parts as needed; in a trace to be differentiated, the largest possible number."""
    arrays, rest = eqx.partition((integrator, system), eqx.is_array)

    # Traced once for the start, which needs the types of a step, and once for both loops.
    @jax.jit
    def whole(arrays: Any, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        own: Any = eqx.combine(arrays, rest)
        return counted_angles.step(own[0], own[1], t, h, carry)

    @jax.jit
    def part(arrays: Any, t: Array, h: Array, so_far: _Parts) -> _Parts:
        own: Any = eqx.combine(arrays, rest)
        return _next_part(own[0], own[1], partial(whole, arrays), t, h)(so_far)

    one_more = partial(part, arrays, t, h)
    as_needed = lambda start: jax.lax.while_loop(lambda so_far: ~so_far.over, one_more, start)  # noqa: E731
    start = _start(partial(whole, arrays), t, h, carry)
    end = jax.lax.cond(is_differentiated(), lambda start: _run_all(one_more, start), as_needed, start)
    return end.carry, end.info


@_in_parts.def_jvp
def _in_parts_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    return eqx.filter_jvp(_all_parts, primals, tangents)


def _all_parts(
    integrator: AbstractIntegrator, system: AbstractSystem, t: Array, h: Array, carry: Carry
) -> tuple[Carry, StepInfo]:
    """The same by a loop of known length, which can be differentiated in reverse."""
    whole = partial(counted_angles.step, integrator, system)
    end = _run_all(_next_part(integrator, system, whole, t, h), _start(whole, t, h, carry))
    return end.carry, end.info


def _run_all(part: Callable[[_Parts], _Parts], start: _Parts) -> _Parts:
    idle = lambda so_far: so_far  # noqa: E731
    one_more = lambda so_far, _: (jax.lax.cond(so_far.over, idle, part, so_far), None)  # noqa: E731
    return jax.lax.scan(one_more, start, None, length=_MOST)[0]


def _start(whole: _Step, t: Array, h: Array, carry: Carry) -> _Parts:
    _, shapes = jax.eval_shape(whole, t, h, carry)
    info = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return _Parts(carry, jnp.zeros(()), jnp.zeros((), jnp.int32), jnp.zeros((), bool), info)


def _next_part(
    integrator: AbstractIntegrator, system: AbstractSystem, whole: _Step, t: Array, h: Array
) -> Callable[[_Parts], Any]:
    """The function that makes one more part; `whole` makes a step of any length."""

    def part(so_far: _Parts) -> _Parts:
        left = h - so_far.elapsed
        sense = jnp.sign(h)
        least = _LEAST * jnp.abs(h)
        rate = system.onset_rate(so_far.carry.state, sense)
        divide = (rate * (jnp.abs(left) - least) > 1) & (so_far.number < _MOST - 1)
        # The end of a part is where a force comes in, so its length has derivatives; those of what isn't taken are 0.
        length = jnp.where(divide, sense * jnp.maximum(1 / jnp.where(divide, rate, 1.0), least), left)
        carry, info = whole(t + so_far.elapsed, length, so_far.carry)
        elapsed = so_far.elapsed + length
        renew = lambda carry: counted_angles.after_part(integrator, system, t + elapsed, carry)  # noqa: E731
        carry = jax.lax.cond(divide | (so_far.number > 0), renew, lambda carry: carry, carry)
        info = _together(so_far.info, info)
        over = ~divide if info.result is None else ~divide | (info.result != 0)
        return _Parts(carry, elapsed, so_far.number + 1, over, info)

    return part


def _together(before: StepInfo, info: StepInfo) -> StepInfo:
    """Information on several parts: the last code, the sum of their errors and iterations, the largest residual."""

    def both(function: Callable[[Array, Array], Array], a: Array | None, b: Array | None) -> Array | None:
        return None if a is None or b is None else function(a, b)

    return info._replace(
        error=both(lambda a, b: a + jnp.abs(b), before.error, info.error),
        newton_iterations=both(jnp.add, before.newton_iterations, info.newton_iterations),
        residual=both(jnp.maximum, before.residual, info.residual),
    )
