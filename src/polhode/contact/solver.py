"""Solution of contact problems: Newton's method, from other starts where it fails, and its derivative."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.contact.admm import admm
from polhode.contact.contact_problem import ContactProblem, ContactSolution, UnitProblem, unit_problem
from polhode.contact.gauss_seidel import gauss_seidel
from polhode.contact.laws import Impulses, linearise, modes, residual, velocities
from polhode.contact.newton_solver import Search, newton, tangent_solver

_FIRST_SWEEPS = 3, 10
"""Sweeps of Gauss–Seidel's method before Newton's, for up to eight contacts and for more, where they cost less than an
iteration: of random problems from nothing they save one of five iterations, or half of them."""

_SWEEPS = (0, 0, 30, 100, 300, 1000, 0)
_PERIODS = (0, 0, 0, 0, 0, 0, 5)
_FACTORS = (1.0, 1.0, 1.0, 0.3, 3.0, 1.0, 1.0)
"""Rounds of Newton's method: from the guess for impulses of least norm, from there for any, then after sweeps of
Gauss–Seidel's method, at last after periods of the ADMM; with factors of the steps in the proximal form. Of 10,000
random problems of three to eight contacts in all directions the first two solve all but 150."""

_ROUND_OFF = 4e-16


def solve(problem: ContactProblem, guess: Float[Array, "k rows"], tolerance: float = 1e-10) -> ContactSolution:
    """The impulses of a contact problem, with derivatives at fixed modes with respect to all of its numbers.

    - `guess`: impulses to begin with, those of the step before or zeros. - `tolerance`: of `ContactSolution.residual`.
    """
    k, rows = problem.active.shape[0], problem.rows
    unit, scale = unit_problem(problem)
    start = jnp.where(unit.present, guess / jnp.where(unit.present, scale, 1.0), 0.0)
    fixed: UnitProblem = jax.lax.stop_gradient(unit)
    search, size = _search(fixed, jax.lax.stop_gradient(start), tolerance)
    z = _implicit(unit.matrix, unit.velocity, unit.least, search.z, fixed)
    return ContactSolution(
        impulses=(scale * z).reshape(k, rows),
        residual=search.residual / size,
        iterations=search.iterations,
        solved=search.residual <= tolerance * size,
        mode=modes(fixed, search.z, velocities(fixed, search.z)),
        determined=search.determined,
    )


def _search(problem: UnitProblem, start: Impulses, tolerance: float) -> tuple[Search, Array]:
    """A solution, and the size of impulses to which its residual is relative."""
    start = jnp.where(jnp.isfinite(start), start, 0.0)
    alone = jnp.max(jnp.abs(problem.step * problem.velocity.reshape(start.shape)), initial=0.0)
    alone = jnp.maximum(alone, jnp.max(jnp.abs(problem.least), initial=0.0))
    size = jnp.where(alone > 0, alone, 1.0)
    goal, floor = tolerance * size, _ROUND_OFF * size

    sweeps = jnp.asarray((_FIRST_SWEEPS[len(start) > 8], *_SWEEPS[1:]))

    def rest(z: Impulses) -> Array:
        return jnp.max(jnp.abs(residual(problem, z, velocities(problem, z))), initial=0.0)

    def more(loop: tuple[Array, Search, Impulses]) -> Array:
        count, search, _ = loop
        return (count < len(_SWEEPS)) & (search.residual > jnp.where(count == 0, floor, goal))

    def again(loop: tuple[Array, Search, Impulses]) -> tuple[Array, Search, Impulses]:
        count, best, z = loop
        z = gauss_seidel(problem, z, sweeps[count])
        z = admm(problem, z, jnp.asarray(_PERIODS)[count])
        soft = count == 0
        first = Search(z, rest(z), soft, best.iterations, jnp.asarray(True), jnp.asarray(False))
        other = problem._replace(step=jnp.asarray(_FACTORS)[count] * problem.step)
        last = newton(other, first, goal, floor)
        last = last._replace(residual=rest(last.z))
        lower = last.residual < best.residual
        best = jax.tree.map(lambda new, old: jnp.where(lower, new, old), last, best)
        return count + 1, best._replace(iterations=last.iterations), z

    first = Search(start, rest(start), jnp.asarray(True), jnp.asarray(0), jnp.asarray(True), jnp.asarray(False))
    _, search, _ = jax.lax.while_loop(more, again, (jnp.asarray(0), first, start))
    return search, size


@jax.custom_jvp
def _implicit(
    matrix: Float[Array, "r r"], velocity: Float[Array, " r"], least: Float[Array, " k"], z: Impulses, _: UnitProblem
) -> Impulses:
    """The solution z of a problem, whose derivative is that of the equations F(z) = 0."""
    return z


@_implicit.defjvp
def _derivative(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Impulses, Impulses]:
    *_, z, problem = primals
    A_dot, c_dot, least_dot, *_ = tangents
    projection = linearise(problem, z, velocities(problem, z))
    solution, _ = tangent_solver(problem, projection)
    w_dot = problem.step * (A_dot @ z.reshape(-1) + c_dot).reshape(z.shape)
    F_dot = jnp.sum(projection.derivative * w_dot[:, None], axis=2) - projection.by_bound * least_dot[:, None]
    return z, -solution(F_dot)
