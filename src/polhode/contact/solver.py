"""Solution of contact problems: Newton's method, from other starts where it fails, and its derivative."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.contact.admm import admm
from polhode.contact.contact_problem import ContactProblem, ContactSolution, UnitProblem, unit_problem
from polhode.contact.gauss_seidel import gauss_seidel
from polhode.contact.laws import Impulses, linearise, modes, residual, velocities
from polhode.contact.newton_solver import COMPLIANCE, CONTINUATION, Search, newton, tangent_solver

_FIRST_SWEEPS = 3, 10
"""Sweeps of Gauss–Seidel's method before Newton's, for up to eight contacts and for more, where they cost less than an
iteration: of random problems from nothing they save one of five iterations, or half of them."""


class _Round(NamedTuple):
    """One attempt of Newton's method.

    - `sweeps`, `periods`: of Gauss–Seidel's method and of the ADMM before it.
    - `softness`: with which it begins: 1 for impulses of least norm, more for a continuation to them, 0 for any.
    - `factor`: of the steps in the proximal form. - `limit`: of iterations.
    - `stiffness`: by which the compliance of linear equations is divided.
    - `smoothing`: the energy κ of smoothed laws, relative to that of impulses; the next round begins at their solution.
    """

    sweeps: int = 0
    periods: int = 0
    softness: float = 0.0
    factor: float = 1.0
    limit: int = 40
    stiffness: float = 1.0
    smoothing: float = 0.0


_STIFF = 1e4
"""Slips far below the compliance decide which of redundant contacts slide: a correction by its reciprocal finds them,
where round-off of linear equations, larger by the same factor, is still small."""

_SMOOTHING_STAGES = tuple(_Round(limit=6, stiffness=_STIFF, smoothing=10.0**-k) for k in range(16))
"""A path on which all contacts act on each other from the start. Of bodies wedged between others, Newton's method with
the laws alone finds the solution from one start in a hundred, at its end from nearly every one."""


_ROUNDS = (
    _Round(softness=1.0, limit=8),
    _Round(softness=CONTINUATION, limit=60),
    _Round(),
    _Round(stiffness=_STIFF, limit=20),
    *_SMOOTHING_STAGES,
    _Round(stiffness=_STIFF),
    _Round(sweeps=30),
    _Round(sweeps=100, factor=0.3),
    _Round(sweeps=300, factor=3.0),
    _Round(sweeps=1000),
    _Round(periods=30),
)
"""Of 10,000 random problems of three to eight contacts in all directions the first three solve all but 150. The fourth
is for corners of a face whose gaps differ by round-off: one of them opens, far along impulses that change no velocity.
If there is a guess, the first has few iterations, and the second and third change places: a solution close to the guess
takes one."""

_WARM_LIMIT = 3

_ROUND_OFF = 4e-16

INCONSISTENT = 1e-8
"""Relative residual up to which a problem counts as solved whose impulses are not determined. Points of one body that
stick ask for velocities that no rigid body has where their gaps differ: what is left then has no impulses to remove it.
"""

_BLURRED = COMPLIANCE
"""The same after all rounds: slips that are less than what the compliance of impulses moves are found neither as slips
nor as sticking. Corners of a block that rocks on an edge have such slips, by the turning within a step."""

_EXACT_ROUNDS = 4
"""Rounds after which such a residual ends the search: not before, nor on the path of smoothed laws."""
SAME = 1e-13
"""Relative residual of a guess that is the solution: that of bodies at rest, in every step."""


def solve(
    problem: ContactProblem,
    guess: Float[Array, "k rows"],
    tolerance: float = 1e-10,
    keep: Array | float = SAME,
    noise: Array | float = 0.0,
) -> ContactSolution:
    """The impulses of a contact problem, with derivatives at fixed modes with respect to all of its numbers.

    - `guess`: impulses to begin with, those of the step before or zeros. - `tolerance`: of `ContactSolution.residual`.
    - `keep`: residual with which the guess is the solution, at most that which all rounds may leave. Of problems that
      have several, or none but for round-off, another search may find another one.
    - `noise`: round-off of relative velocities, up to which the guess is the solution as well.
    """
    k, rows = problem.active.shape[0], problem.rows
    unit, scale = unit_problem(problem)
    size = _size(jax.lax.stop_gradient(unit))
    blur = jnp.max(jnp.abs(jnp.sqrt(unit.softness) * unit.step * scale * noise), initial=0.0) / size
    keep = jnp.minimum(jnp.maximum(keep, jax.lax.stop_gradient(blur)), _BLURRED)
    start = jnp.where(unit.present, guess / jnp.where(unit.present, scale, 1.0), 0.0)
    fixed: UnitProblem = jax.lax.stop_gradient(unit)
    search = _search(fixed, jax.lax.stop_gradient(start), size, tolerance, keep)
    z = _implicit(unit.matrix, unit.velocity, unit.least, unit.hold, search.z, fixed)
    w, goal = velocities(fixed, search.z), jnp.maximum(_goal(search, tolerance, _BLURRED), keep) * size
    return ContactSolution(
        impulses=(scale * z).reshape(k, rows),
        residual=search.residual / size,
        iterations=search.iterations,
        solved=search.residual <= goal,
        mode=modes(fixed, search.z, w),
        determined=search.determined & (search.residual <= tolerance * size),
        misses=jnp.max(jnp.abs(residual(fixed, search.z, w)), axis=1) > goal,
    )


def _size(problem: UnitProblem) -> Array:
    """The size of impulses to which residuals are relative."""
    # Of rows with small coefficients, in the units of all others: what stops them alone is many times what may act.
    coefficients = jnp.sqrt(problem.softness)
    alone = jnp.max(jnp.abs(coefficients * problem.step * problem.velocity.reshape(coefficients.shape)), initial=0.0)
    alone = jnp.maximum(alone, jnp.max(jnp.abs(problem.least), initial=0.0))
    return jnp.where(alone > 0, alone, 1.0)


def _search(problem: UnitProblem, start: Impulses, size: Array, tolerance: float, keep: Array | float) -> Search:
    """A solution; `size`: of impulses, to which residuals are relative."""
    start = jnp.where(jnp.isfinite(start), start, 0.0)
    goal, floor = tolerance * size, _ROUND_OFF * size
    table = [jnp.asarray(column) for column in zip(*_ROUNDS, strict=True)]
    # Without any, smoothed laws are the laws themselves.
    own_smoothing = jnp.zeros(()) if problem.smoothing is None else problem.smoothing
    first, warm = _FIRST_SWEEPS[len(start) > 8], jnp.any(start != 0)

    def rest(z: Impulses) -> Array:
        return jnp.max(jnp.abs(residual(problem, z, velocities(problem, z))), initial=0.0)

    def more(loop: tuple[Array, Search, Impulses]) -> Array:
        count, search, _ = loop
        on_path = (count > _EXACT_ROUNDS) & (count <= _EXACT_ROUNDS + len(_SMOOTHING_STAGES))
        exact = (count < _EXACT_ROUNDS) | on_path
        later = jnp.where(exact, goal, _goal(search, tolerance, INCONSISTENT) * size)
        return (count < len(_ROUNDS)) & (search.residual > jnp.where(count == 0, keep * size, later))

    def attempt(loop: tuple[Array, Search, Impulses]) -> tuple[Array, Search, Impulses]:
        count, best, z = loop
        place = jnp.where(warm & ((count == 1) | (count == 2)), 3 - count, count)
        sweeps, periods, softness, factor, limit, stiffness, smoothing = (column[place] for column in table)
        z = gauss_seidel(problem, z, jnp.where(count == 0, first, sweeps))
        z = admm(problem, z, periods)
        begin = Search.begin(z, rest(z), softness, best.iterations)
        end = newton(
            problem._replace(step=factor * problem.step, smoothing=own_smoothing + smoothing * size**2),
            begin,
            size,
            tolerance,
            floor,
            jnp.where(warm & (count == 0), _WARM_LIMIT, limit),
            stiffness,
        )
        z = jnp.where((smoothing > 0) & jnp.all(jnp.isfinite(end.z)), end.z, z)
        end = end._replace(residual=rest(end.z))
        lower = end.residual < best.residual
        best = jax.tree.map(lambda new, old: jnp.where(lower, new, old), end, best)
        determined = best.determined & end.determined
        return count + 1, best._replace(iterations=end.iterations, determined=determined), z

    _, search, _ = jax.lax.while_loop(more, attempt, (jnp.asarray(0), Search.begin(start, rest(start), 1.0, 0), start))
    return search


def _goal(search: Search, tolerance: float, undetermined: float) -> Array:
    """The relative residual with which a problem is solved; `undetermined`: where its impulses are."""
    return jnp.where(search.determined, tolerance, jnp.maximum(tolerance, undetermined))


@jax.custom_jvp
def _implicit(
    matrix: Float[Array, "r r"],
    velocity: Float[Array, " r"],
    least: Float[Array, " k"],
    hold: Float[Array, " k"] | None,
    z: Impulses,
    _: UnitProblem,
) -> Impulses:
    """The solution z of a problem, whose derivative is that of the equations F(z) = 0."""
    return z


@_implicit.defjvp
def _derivative(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Impulses, Impulses]:
    *_, z, problem = primals
    A_dot, c_dot, least_dot, hold_dot, *_ = tangents
    projection = linearise(problem, z, velocities(problem, z))
    solution, _ = tangent_solver(problem, projection)
    w_dot = problem.step * (A_dot @ z.reshape(-1) + c_dot).reshape(z.shape)
    F_dot = jnp.sum(projection.derivative * w_dot[:, None], axis=2) - projection.by_bound * least_dot[:, None]
    if hold_dot is not None:
        F_dot = F_dot - projection.by_hold * hold_dot[:, None]
    return z, -solution(F_dot)
