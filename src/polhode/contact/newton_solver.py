"""Semi-smooth Newton method for contact problems in proximal form."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import UnitProblem
from polhode.contact.elimination import eliminate
from polhode.contact.laws import Impulses, Projection, linearise, residual, velocities

COMPLIANCE = 1e-7
"""Of undetermined impulses, relative to effective masses. Round-off over it, 1e-9, is the error of their least norm; it
over the smallest eigenvalue, 1e-5 for mass ratios of 1e4, is what each correction leaves of the error that it makes."""

_CORRECTIONS = 2
_ITERATIONS = 40
_HALVINGS = 6
_BOLD = 8
"""Iterations that may raise the residual where no step along the direction lowers it."""


class Search(NamedTuple):
    """Where Newton's method is.

    - `residual`: the largest of the laws themselves.
    - `soft`: whether `COMPLIANCE` counts, so that impulses have the least norm; at the end it does not.
    - `determined`: whether no pivot was about as small as the compliance.
    """

    z: Impulses
    residual: Float[Array, ""]
    soft: Bool[Array, ""]
    iterations: Int[Array, ""]
    determined: Bool[Array, ""]
    stalled: Bool[Array, ""]


def newton(problem: UnitProblem, start: Search, goal: Array, floor: Array) -> Search:
    """Iterates from `start` until the residual is below `goal`, or `floor` to begin with."""

    def more(search: Search) -> Array:
        unsolved = search.residual > jnp.where(search.soft, floor, goal)
        return unsolved & (search.iterations < start.iterations + _ITERATIONS) & ~search.stalled

    return jax.lax.while_loop(more, lambda search: _iterate(problem, search, start.iterations, goal, floor), start)


def tangent_solver(problem: UnitProblem, projection: Projection) -> tuple[Callable[..., Impulses], Array]:
    """F ↦ J⁻¹F with the derivative J of the residual, and whether J is regular.

    Corrections take out the compliance with which J is inverted; the function of none has it.
    """
    shape = projection.value.shape
    scaled = problem.step.reshape(-1)[:, None] * (problem.matrix + jnp.diag(COMPLIANCE * problem.softness.reshape(-1)))
    eye = jnp.eye(scaled.shape[0])
    inner = (eye - scaled).reshape(*shape, -1)
    J = eye - jnp.sum(projection.derivative[:, :, :, None] * inner[:, None], axis=2).reshape(scaled.shape)
    solve_once, smallest = eliminate(J)

    def solve(F: Impulses, corrections: int = _CORRECTIONS) -> Impulses:
        d = solve_once(F.reshape(-1)).reshape(shape)
        for _ in range(corrections):
            rest = F - _apply_tangent(problem, projection, d)
            d = d + solve_once(rest.reshape(-1)).reshape(shape)
        return d

    return solve, smallest > 30 * COMPLIANCE


def _apply_tangent(problem: UnitProblem, projection: Projection, d: Impulses) -> Impulses:
    """Jd, without the compliance."""
    change = d - problem.step * (problem.matrix @ d.reshape(-1)).reshape(d.shape)
    return d - jnp.sum(projection.derivative * change[:, None], axis=2)


def _iterate(problem: UnitProblem, search: Search, begin: Array, goal: Array, floor: Array) -> Search:
    z = search.z
    softness = jnp.where(search.soft, COMPLIANCE, 0.0) * problem.softness
    soft_velocities = lambda z: velocities(problem, z) + softness * z  # noqa: E731
    F_at = lambda z: residual(problem, z, soft_velocities(z))  # noqa: E731
    w = soft_velocities(z)
    projection = linearise(problem, z, w)
    F = z - projection.value
    solve, determined = tangent_solver(problem, projection)
    z1, F1, lower = _line_search(F_at, z, F, solve(F, 0), goal)
    z1, size = jnp.where(lower | (search.iterations - begin < _BOLD), z1, z), jnp.max(jnp.abs(F1))
    # Without the compliance, at the same modes.
    rigid = residual(problem, z1, velocities(problem, z1))
    z2 = z1 - solve(rigid)
    left = jnp.max(jnp.abs(residual(problem, z2, velocities(problem, z2))))
    right = jnp.max(jnp.abs(rigid))
    better = (left < right) & jnp.isfinite(left)
    hard = ~search.soft | (size <= jnp.maximum(1e-3 * goal, floor)) | ((size <= goal) & ~lower)
    take = hard & better
    stalled = ~lower & (search.iterations - begin >= _BOLD) & ~(search.soft & hard)
    return Search(
        jnp.where(take, z2, z1),
        jnp.where(take, left, right),
        ~hard,
        search.iterations + 1,
        determined,
        stalled,
    )


def _line_search(
    F_at: Callable[[Impulses], Impulses], z: Impulses, F: Impulses, d: Impulses, goal: Array
) -> tuple[Impulses, Impulses, Array]:
    """The first of z − td, t = 1, ½, …, with a lower residual; that of t = 1, where none has, and whether one has."""
    square = jnp.sum(F * F)
    d = jnp.where(jnp.isfinite(jnp.sum(d)), d, 0.0)

    def accept(t: Array, F: Impulses) -> Array:
        return (jnp.sum(F * F) <= (1 - 0.1 * t) ** 2 * square) | (jnp.max(jnp.abs(F)) <= 1e-3 * goal)

    def more(loop: tuple[Array, Impulses]) -> Array:
        t, F = loop
        return ~accept(t, F) & (t > 0.5**_HALVINGS)

    def halve(loop: tuple[Array, Impulses]) -> tuple[Array, Impulses]:
        t = 0.5 * loop[0]
        return t, F_at(z - t * d)

    first = F_at(z - d)
    t, last = jax.lax.while_loop(more, halve, (jnp.ones(()), first))
    lower = accept(t, last)
    return z - jnp.where(lower, t, 1.0) * d, jnp.where(lower, last, first), lower
