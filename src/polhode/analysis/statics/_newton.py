"""Newton's method on the configuration space, along a path of loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from polhode.analysis.statics._branches import (
    End,
    compare,
    continuous,
    displacement_floor,
    has_no_flipped_joint,
    middle,
    sensitivity,
    slope,
)
from polhode.analysis.statics._equations import Balance, Load, Tangent, largest
from polhode.compiler.native_jit import native_jit
from polhode.compiler.numpy_jit import shapes
from polhode.jax_context import inside_transformation
from polhode.linalg.blocks import Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import AbstractMechanical, Multipliers

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
    """State of Newton's method at one load.

    - `excess`: the stresses that the last correction promised, less those that it made.
    - `corrections`: |θ|∞ of each iteration, NaN after the last; `before` is the last of them.
    """

    q: Point
    multipliers: Multipliers
    excess: Any
    iterations: Int[Array, ""]
    corrections: Float[Array, " max_iterations"]
    before: Float[Array, ""]
    converged: Array
    failed: Array


class StepProgress(NamedTuple):
    """Progress within one load step.

    - `q`, `multipliers`: the last of them; `fraction`: of the step, 1 at its end.
    - `iterations`: of all attempts; `corrections`: of the last one.
    - `elsewhere`: whether the last attempt found an equilibrium on another branch.
    """

    q: Point
    multipliers: Multipliers
    fraction: Float[Array, ""]
    iterations: Int[Array, ""]
    corrections: Float[Array, " max_iterations"]
    elsewhere: Bool[Array, ""]


class _Path(NamedTuple):
    """State of the path following; `slope`: displacement over the whole step, zero if branches are not compared."""

    progress: StepProgress
    length: Float[Array, ""]
    slope: Vector


class Programs:
    """Compiled functions of Newton's method, for one set of equations and limits."""

    def __init__(self, balance: Balance, limits: Limits) -> None:
        self.balance = balance
        self.equations = native_jit(equations, balance)
        self.apply_correction = native_jit(_apply_correction, balance, limits)
        self.sensitivity = native_jit(sensitivity, balance)
        self.residual = native_jit(_residual, balance)
        self.middle = native_jit(middle, balance)
        self.compare = native_jit(compare, balance.system.configuration)
        self.has_no_flipped_joint = native_jit(has_no_flipped_joint, balance.system)
        self.count_turns = native_jit(_count_turns, balance.system)


def advance(
    programs: Programs,
    solver: AbstractKKT,
    limits: Limits,
    q: Point,
    multipliers: Multipliers,
    loads: tuple[Load, Load],
    follow: bool,
    loop: Callable[..., Any] = jax.lax.while_loop,
) -> StepProgress:
    """Equilibria from one load to the next; a step is halved where Newton's method fails, and then grows again.

    `follow`: whether a step must stay on its branch, and is halved otherwise too; without that any equilibrium will do
    in which no joint is half a turn off. `loop` is `jax.lax.while_loop`, or `on_host` for solvers that need numbers.
    """
    whole: Load = jax.tree.map(lambda a, b: b - a, *loads)

    def more(path: _Path) -> Array:
        return (path.progress.fraction < 1) & (path.length >= _SHORTEST)

    def body(path: _Path) -> _Path:
        progress, (fraction, load) = path.progress, _next(path, loads)
        attempt = _newton(programs, solver, limits, progress, load, loop)
        same, slope_there = programs.has_no_flipped_joint(load.t, attempt.q), path.slope
        if follow:
            start = End(_between(loads, progress.fraction), progress.q, progress.multipliers, path.slope)
            length = fraction - progress.fraction
            smooth, slope_there = _follows(programs, solver, limits, start, attempt, load, length, whole)
            same = same & smooth
        if programs.balance.system.counts:
            attempt = attempt._replace(q=programs.count_turns(progress.q, attempt.q))
        return _after(path, attempt, fraction, same, slope_there)

    unknown = jnp.full(limits.max_iterations, jnp.nan, float)
    first = StepProgress(q, multipliers, jnp.zeros(()), jnp.zeros((), jnp.int32), unknown, jnp.zeros((), bool))
    slope_here = jnp.zeros(programs.balance.system.configuration.dim)
    if follow:
        slope_here = slope(solver, programs.sensitivity(loads[0], whole, q, multipliers))[1]
    return loop(more, body, _Path(first, jnp.ones(()), slope_here)).progress


def _count_turns(system: AbstractMechanical, before: Point, after: Point) -> Point:
    """A position with the turns of its joints counted from another one."""
    still = jnp.zeros(system.n)
    return system.count_turns((before, still), (after, still), 0.0)[0]


def _follows(
    programs: Programs,
    solver: AbstractKKT,
    limits: Limits,
    start: End,
    attempt: Attempt,
    load: Load,
    length: Array,
    whole: Load,
) -> tuple[Array, Vector]:
    """Whether an attempt stayed on the branch, and the slope where it ended."""
    there = slope(solver, programs.sensitivity(load, whole, attempt.q, attempt.multipliers))[1]
    first = start._replace(slope=length * start.slope)
    last = End(load, attempt.q, attempt.multipliers, length * there)
    centre = programs.middle(first, last)
    K, B, along = centre.tangent
    off = solver.solve(solver.factor((*K, *centre.excess), B, along), -centre.r, -centre.gap)[0]
    here = programs.sensitivity(start.load, whole, start.q, start.multipliers).tangent
    r, gap = programs.residual(load, start.q, start.multipliers)
    jump = solver.solve(solver.factor(*here), -r, -gap)[0]
    comparison = programs.compare(first, last, jnp.asarray(jump), jnp.asarray(off))
    return continuous(comparison, length, displacement_floor(limits.rtol, limits.atol, start.q)), there


def _between(loads: tuple[Load, Load], fraction: Array) -> Load:
    """The load at a fraction of a step; at the end itself not to round-off."""
    return Load(*(jnp.where(fraction < 1, a + fraction * (b - a), b) for a, b in zip(*loads, strict=True)))


def _next(path: _Path, loads: tuple[Load, Load]) -> tuple[Array, Load]:
    fraction = jnp.minimum(path.progress.fraction + path.length, 1.0)
    return fraction, _between(loads, fraction)


def _after(path: _Path, attempt: Attempt, fraction: Array, same: Array, slope_there: Vector) -> _Path:
    progress, good = path.progress, attempt.converged & same
    iterations, elsewhere = progress.iterations + attempt.iterations, attempt.converged & ~same
    new = StepProgress(attempt.q, attempt.multipliers, fraction, iterations, attempt.corrections, elsewhere)
    old = new._replace(q=progress.q, multipliers=progress.multipliers, fraction=progress.fraction)
    length = jnp.where(good, 2 * path.length, path.length / 2)
    after, before = (new, slope_there), (old, path.slope)
    next_progress, slope_here = jax.tree.map(lambda a, b: jnp.where(good, a, b), after, before)
    return _Path(next_progress, length, slope_here)


def corrected_solution(
    balance: Balance, solver: AbstractKKT, load: Load, q: Point, multipliers: Multipliers
) -> tuple[Point, Multipliers]:
    """A solution with one more correction, whose derivative is that of the solution.

    By the implicit function theorem: the tangent and the solution are held fixed, the residual is not.
    """
    q, multipliers = jax.lax.stop_gradient((q, multipliers))
    still = stop_gradients(balance)
    tangent = still.tangent(stop_gradients(load), q, multipliers)
    r, gap = balance.residual(load, q, multipliers)
    theta, change = solver.solve(solver.factor(*tangent), -r, -gap)
    return balance.system.configuration.move(q, theta), multipliers + change


def stop_gradients(tree: Tree) -> Tree:
    """A tree whose arrays are held fixed in differentiation."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def on_host(more: Callable[[Any], Array], body: Callable[[Any], Any], start: Any) -> Any:
    """A loop like `jax.lax.while_loop` that is not compiled."""
    while more(start):
        start = body(start)
    return start


def _newton(
    programs: Programs,
    solver: AbstractKKT,
    limits: Limits,
    progress: StepProgress,
    load: Load,
    loop: Callable[..., Any],
) -> Attempt:
    def more(a: Attempt) -> Array:
        return ~a.converged & ~a.failed

    def body(a: Attempt) -> Attempt:
        linear = programs.equations(load, a.q, a.multipliers, a.excess)
        K, B, along = linear.tangent
        factors = solver.factor((*K, *linear.excess), B, along)
        low = linear.r, linear.gap, linear.noise
        return programs.apply_correction(load, a, low, *solver.solve(factors, -linear.r, -linear.gap))

    false = jnp.zeros((), bool)
    nothing = jnp.full(limits.max_iterations, jnp.nan, float)
    zero, far = jnp.zeros((), jnp.int32), jnp.full((), jnp.inf, float)
    excess = no_excess(programs.balance, load, progress.q)
    start = Attempt(progress.q, progress.multipliers, excess, zero, nothing, far, false, false)
    return loop(more, body, start)


def no_excess(balance: Balance, load: Load, q: Point) -> Any:
    """Zero excess stresses."""
    if inside_transformation():
        return jax.tree.map(jnp.zeros_like, balance.system.stresses(load.t, q))
    return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes(_stresses, balance.system, load.t, q))


def _residual(balance: Balance, load: Load, q: Point, multipliers: Multipliers) -> tuple[Vector, Multipliers]:
    return balance.residual(load, q, multipliers)


def _stresses(system: AbstractMechanical, t: Array, q: Point) -> Any:
    return system.stresses(t, q)


class Equations(NamedTuple):
    """Residuals and their round-off, the tangent, and the part of K from excess stresses."""

    r: Vector
    gap: Multipliers
    noise: tuple[Vector, Multipliers]
    tangent: Tangent
    excess: Matrix


def equations(balance: Balance, load: Load, q: Point, multipliers: Multipliers, excess: Any) -> Equations:
    """The linearised equations at one place."""
    r, gap = balance.residual(load, q, multipliers)
    tangent = balance.tangent(load, q, multipliers)
    noise = balance.roundoff(load, q, multipliers, tangent)
    return Equations(r, gap, noise, tangent, balance.system.stress_stiffness(load.t, q, excess))


def _apply_correction(
    balance: Balance, limits: Limits, load: Load, a: Attempt, residuals: Any, theta: Vector, change: Multipliers
) -> Attempt:
    """The iterate after a correction; `residuals`: r, gap and their round-off."""
    system, step = balance.system, jnp.max(jnp.abs(theta), initial=0.0)
    low = [jnp.all(jnp.abs(x) <= y) for x, y in zip(residuals[:2], residuals[2], strict=True)]
    # Corrections that no longer shrink come from round-off if the residual they answer to does.
    stagnant = low[0] & low[1] & (step > 0.25 * a.before)
    curve = lambda s: system.stresses(load.t, system.configuration.move(a.q, s * theta))  # noqa: E731
    stress, rate = jax.jvp(curve, (jnp.zeros(()),), (jnp.ones(()),))
    q = system.configuration.move(a.q, theta)
    excess = jax.tree.map(lambda x, dx, y: x + dx - y, stress, rate, system.stresses(load.t, q))
    iterations = a.iterations + 1
    converged = (step <= limits.rtol * largest(a.q) + limits.atol) | stagnant
    failed = ~jnp.isfinite(step + jnp.sum(change)) | (iterations >= limits.max_iterations)
    corrections = jnp.where(jnp.arange(limits.max_iterations) == a.iterations, step, a.corrections)
    multipliers = a.multipliers + change
    return Attempt(q, multipliers, excess, iterations, corrections, step, converged, failed)
