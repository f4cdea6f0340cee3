"""Several attempts at a step: whole, in parts, and without the rates of joints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.compiler.primitives.backend_query import is_differentiated
from polhode.integrators.base import Carry, StepInfo
from polhode.multibody.conversions.livens import LivensMultibody

_PARTS = 4
"""Number of parts into which a step is divided if the whole step fails."""


class MakesAttempts(Protocol):
    """A method as this module knows it."""

    def attempt(self, system: LivensMultibody, t: Array, h: Array, carry: Carry, keep: Array) -> tuple[Carry, StepInfo]:
        """A step of bodies whose velocities satisfy the joints' rates if `keep` is one, and need not if it is zero."""
        ...


class _Attempts(NamedTuple):
    """State of the attempts at a step: the number of the next one, whether they are over, and the results so far."""

    carry: Carry
    number: Array
    over: Array
    multipliers: Array
    result: Array
    iterations: Array
    residual: Float[Array, ""]


def _try_next(method: MakesAttempts, system: LivensMultibody, t: Array, h: Array, first: Carry) -> Any:
    """The function that makes one more attempt: a whole step, `_PARTS` shorter ones if that fails, and if these fail
    too, one that doesn't impose the joints' rates.
    """

    def attempt(so_far: _Attempts) -> _Attempts:
        k = so_far.number
        short, last = (k > 0) & (k <= _PARTS), k > _PARTS
        # Whole steps begin at the start, whatever short ones have reached.
        carry = jax.tree.map(lambda a, b: jnp.where(short, a, b), so_far.carry, first)
        start = t + jnp.where(short, (k - 1) * h / _PARTS, 0.0)
        keep = jnp.where(last, 0.0, 1.0)
        end, info = method.attempt(system, start, jnp.where(short, h / _PARTS, h), carry, keep)
        good = info.result == 0
        later = short & (k > 1)
        multipliers = jnp.where(short, 1 / _PARTS, 1.0) * jnp.asarray(end.multipliers)
        return _Attempts(
            carry=jax.tree.map(lambda a, b: jnp.where(good, a, b), end, carry),
            number=jnp.where(good | (k == 0), k + 1, _PARTS + 1),
            over=jnp.where(good, ~short | (k == _PARTS), last),
            multipliers=multipliers + jnp.where(later, so_far.multipliers, 0.0),
            result=jnp.asarray(info.result),
            iterations=so_far.iterations + jnp.asarray(info.newton_iterations),
            residual=jnp.maximum(jnp.where(later, so_far.residual, 0.0), jnp.asarray(info.residual)),
        )

    return attempt


def _no_attempts(first: Carry) -> _Attempts:
    zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    return _Attempts(first, zero, no, jnp.zeros_like(jnp.asarray(first.multipliers)), zero, zero, jnp.zeros(()))


def _outcome(so_far: _Attempts) -> tuple[Carry, StepInfo]:
    info = StepInfo(result=so_far.result, newton_iterations=so_far.iterations, residual=so_far.residual)
    return so_far.carry._replace(multipliers=so_far.multipliers), info


@eqx.filter_custom_jvp
def with_rates(
    method: MakesAttempts, system: LivensMultibody, t: Array, h: Array, first: Carry
) -> tuple[Carry, StepInfo]:
    """As many attempts as needed; in a trace to be differentiated, the largest possible number."""
    arrays, rest = eqx.partition((method, system, t, h, first), eqx.is_array)
    # Traced once for both.
    attempt = jax.jit(lambda arrays, so_far: _try_next(*eqx.combine(arrays, rest))(so_far))
    one_more = lambda so_far: attempt(arrays, so_far)  # noqa: E731
    as_needed = lambda start: jax.lax.while_loop(lambda so_far: ~so_far.over, one_more, start)  # noqa: E731
    return _outcome(
        jax.lax.cond(is_differentiated(), lambda start: _run_all(one_more, start), as_needed, _no_attempts(first))
    )


@with_rates.def_jvp
def _with_rates_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    return eqx.filter_jvp(_all_attempts, primals, tangents)


def _all_attempts(
    method: MakesAttempts, system: LivensMultibody, t: Array, h: Array, first: Carry
) -> tuple[Carry, StepInfo]:
    """The same by a loop of known length, which can be differentiated in reverse."""
    return _outcome(_run_all(_try_next(method, system, t, h, first), _no_attempts(first)))


def _run_all(attempt: Callable[[_Attempts], _Attempts], start: _Attempts) -> _Attempts:
    idle = lambda so_far: so_far  # noqa: E731
    one_more = lambda so_far, _: (jax.lax.cond(so_far.over, idle, attempt, so_far), None)  # noqa: E731
    return jax.lax.scan(one_more, start, None, length=_PARTS + 2)[0]
