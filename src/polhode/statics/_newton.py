"""Newton's method on the configuration space, along a path of loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from polhode.linalg.kkt import AbstractKKT
from polhode.spaces.base import Point, Vector
from polhode.statics._balance import Balance, Load, Tangent, largest
from polhode.systems.mechanical import Multipliers

Tree = TypeVar("Tree")

_SHORTEST = 2.0**-10
"""Fraction of a load step below which it is not halved again."""


class Limits(eqx.Module):
    """When Newton's method has converged, and when it gives up.

    - `rtol`, `atol`: a correction of at most rtol times the largest coordinate plus atol is the last.
    - `max_iterations`: in one attempt.
    """

    rtol: float = eqx.field(static=True)
    atol: float = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)


class Attempt(NamedTuple):
    """Where Newton's method got at one load.

    `corrections` holds |θ|∞ of each iteration, NaN after the last; `tangent` belongs to the last of them.
    """

    q: Point
    multipliers: Multipliers
    iterations: Int[Array, ""]
    corrections: Float[Array, " max_iterations"]
    tangent: Tangent
    before: Float[Array, ""]
    converged: Array
    failed: Array


class Reached(NamedTuple):
    """How far along one load step equilibria were found.

    - `q`, `multipliers`: the last of them; `done`: the fraction of the step, 1 at its end.
    - `iterations`: of all attempts; `corrections`: of the last one; `tangent`: of its last iteration.
    """

    q: Point
    multipliers: Multipliers
    done: Float[Array, ""]
    iterations: Int[Array, ""]
    corrections: Float[Array, " max_iterations"]
    tangent: Tangent


class _Way(NamedTuple):
    reached: Reached
    length: Float[Array, ""]


def advance(
    balance: Balance,
    solver: AbstractKKT,
    limits: Limits,
    q: Point,
    multipliers: Multipliers,
    legs: tuple[Load, Load],
    loop: Callable[..., Any] = jax.lax.while_loop,
) -> Reached:
    """Equilibria from one load to the next; a step is halved where Newton's method fails, and then grows again.

    `loop` is `jax.lax.while_loop` or `on_host`.
    """
    start, end = legs

    def more(way: _Way) -> Array:
        return (way.reached.done < 1) & (way.length >= _SHORTEST)

    def body(way: _Way) -> _Way:
        reached = way.reached
        done = jnp.minimum(reached.done + way.length, 1.0)
        # The end itself, not to round-off.
        load = Load(*(jnp.where(done < 1, a + done * (b - a), b) for a, b in zip(start, end, strict=True)))
        tried = _newton(balance, solver, limits, reached, load, loop)
        good = tried.converged
        iterations = reached.iterations + tried.iterations
        new = Reached(tried.q, tried.multipliers, done, iterations, tried.corrections, tried.tangent)
        old = new._replace(q=reached.q, multipliers=reached.multipliers, done=reached.done)
        length = jnp.where(good, 2 * way.length, way.length / 2)
        return _Way(jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old), length)

    first = nowhere(balance, limits, q, multipliers, start)
    return loop(more, body, _Way(first, jnp.ones(()))).reached


def nowhere(balance: Balance, limits: Limits, q: Point, multipliers: Multipliers, load: Load) -> Reached:
    """What is known before the first attempt."""
    tangent = jax.tree.map(lambda x: jnp.zeros(x.shape), jax.eval_shape(balance.tangent, load, q, multipliers))
    unknown = jnp.full(limits.max_iterations, jnp.nan)
    return Reached(q, multipliers, jnp.zeros(()), jnp.zeros((), jnp.int32), unknown, tangent)


def corrected(
    balance: Balance, solver: AbstractKKT, load: Load, q: Point, multipliers: Multipliers
) -> tuple[Point, Multipliers]:
    """A solution with one more correction, whose derivative is that of the solution.

    By the implicit function theorem: the tangent and the solution are held fixed, the residual is not.
    """
    q, multipliers = jax.lax.stop_gradient((q, multipliers))
    still = stopped(balance)
    tangent = still.tangent(stopped(load), q, multipliers)
    r, gap = balance.residual(load, q, multipliers)
    theta, change = solver.solve(solver.factor(*tangent), -r, -gap)
    return balance.system.configuration.move(q, theta), multipliers + change


def stopped(tree: Tree) -> Tree:
    """A tree whose arrays are held fixed in differentiation."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def on_host(more: Callable[[Any], Array], body: Callable[[Any], Any], start: Any) -> Any:
    """A loop like `jax.lax.while_loop` that is not compiled: XLA takes long for loops around large systems."""
    while more(start):
        start = body(start)
    return start


def _newton(
    balance: Balance, solver: AbstractKKT, limits: Limits, reached: Reached, load: Load, loop: Callable[..., Any]
) -> Attempt:
    def more(a: Attempt) -> Array:
        return ~a.converged & ~a.failed

    false = jnp.zeros((), bool)
    nothing = jnp.full(limits.max_iterations, jnp.nan)
    zero, far = jnp.zeros((), jnp.int32), jnp.full((), jnp.inf)
    start = Attempt(reached.q, reached.multipliers, zero, nothing, reached.tangent, far, false, false)
    return loop(more, lambda a: _iteration(balance, solver, limits, load, a), start)


@eqx.filter_jit
def _iteration(balance: Balance, solver: AbstractKKT, limits: Limits, load: Load, a: Attempt) -> Attempt:
    r, gap = balance.residual(load, a.q, a.multipliers)
    tangent = balance.tangent(load, a.q, a.multipliers)
    theta, change = solver.solve(solver.factor(*tangent), -r, -gap)
    step = _size(theta)
    noise = balance.roundoff(load, a.q, a.multipliers, tangent)
    low = [jnp.all(jnp.abs(x) <= y) for x, y in zip((r, gap), noise, strict=True)]
    # Corrections that no longer shrink come from round-off if the residual they answer to does.
    stagnant = low[0] & low[1] & (step > 0.25 * a.before)
    moved, iterations = balance.system.configuration.move(a.q, theta), a.iterations + 1
    converged = (step <= limits.rtol * largest(a.q) + limits.atol) | stagnant
    failed = ~jnp.isfinite(step + jnp.sum(change)) | (iterations >= limits.max_iterations)
    corrections = a.corrections.at[a.iterations].set(step)
    return Attempt(moved, a.multipliers + change, iterations, corrections, tangent, step, converged, failed)


def _size(theta: Vector) -> Float[Array, ""]:
    return jnp.max(jnp.abs(theta), initial=0.0)
