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
_HALVINGS = 6
_BOLD = 8
"""Iterations that may raise the residual where no step along the direction lowers it."""

CONTINUATION = 1e6
"""Factor of the compliance with which a continuation begins; each stage divides it by 100. Of impulses of least norm of
bodies that rest on many contacts, some are at the limit of friction: their modes are hard to guess at once."""

_STAGE = 12
"""Most iterations of a stage before the last."""

_STAGE_GOAL = 0.03
"""Its residual, in parts of its compliance."""


class Search(NamedTuple):
    """Where Newton's method is.

    - `residual`: the largest of the laws themselves.
    - `softness`: factor of `COMPLIANCE`; 1 for impulses of least norm, 0 at the end.
    - `since`: iterations with it.
    - `determined`: whether no pivot was about as small as the compliance.
    """

    z: Impulses
    residual: Float[Array, ""]
    softness: Float[Array, ""]
    since: Int[Array, ""]
    iterations: Int[Array, ""]
    determined: Bool[Array, ""]
    stalled: Bool[Array, ""]

    @classmethod
    def begin(cls, z: Impulses, residual: Array, softness: Array | float, iterations: Array | int) -> Search:
        """A search that begins at z."""
        none = jnp.asarray(0)
        return cls(
            z, residual, jnp.asarray(softness, float), none, none + iterations, jnp.asarray(True), jnp.asarray(False)
        )


def newton(
    problem: UnitProblem,
    start: Search,
    size: Array,
    tolerance: float,
    floor: Array,
    limit: Array | int,
    stiffness: Array | float = 1.0,
) -> Search:
    """At most `limit` iterations from `start`, until the residual is below the tolerance times `size`.

    While compliance counts, until it is below `floor`. At the end, linear equations have it divided by `stiffness`.
    """
    goal = tolerance * size

    def more(search: Search) -> Array:
        unsolved = search.residual > jnp.where(search.softness > 0, floor, goal)
        return unsolved & (search.iterations < start.iterations + limit) & ~search.stalled

    return jax.lax.while_loop(more, lambda search: _iterate(problem, search, size, goal, floor, 1 / stiffness), start)


def tangent_solver(
    problem: UnitProblem, projection: Projection, softness: Array | float = 1.0
) -> tuple[Callable[..., Impulses], Array]:
    """F ↦ J⁻¹F with the derivative J of the residual, and whether J is regular.

    Corrections take out the compliance with which J is inverted; the function of none has it.
    """
    shape = projection.value.shape
    compliance = jnp.diag(softness * COMPLIANCE * problem.softness.reshape(-1))
    scaled = problem.step.reshape(-1)[:, None] * (problem.matrix + compliance)
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

    return solve, smallest > 30 * softness * COMPLIANCE


def _apply_tangent(problem: UnitProblem, projection: Projection, d: Impulses) -> Impulses:
    """Jd, without the compliance."""
    change = d - problem.step * (problem.matrix @ d.reshape(-1)).reshape(d.shape)
    return d - jnp.sum(projection.derivative * change[:, None], axis=2)


def _iterate(
    problem: UnitProblem, search: Search, size: Array, goal: Array, floor: Array, least: Array | float
) -> Search:
    z, level = search.z, search.softness
    compliance = level * COMPLIANCE * problem.softness
    soft_velocities = lambda z: velocities(problem, z) + compliance * z  # noqa: E731
    F_at = lambda z: residual(problem, z, soft_velocities(z))  # noqa: E731
    projection = linearise(problem, z, soft_velocities(z))
    F = F_at(z)
    solve, determined = tangent_solver(problem, projection, jnp.where(level > 0, jnp.maximum(level, 1.0), least))
    z1, F1, lower = _line_search(F_at, z, F, solve(F, 0), goal)
    bold = search.since < _BOLD
    z1, left = jnp.where(lower | bold, z1, z), jnp.max(jnp.abs(F1))
    early = level > 1
    target = jnp.where(early, _STAGE_GOAL * COMPLIANCE * level * size, jnp.maximum(1e-3 * goal, floor))
    over = (left <= target) | ((left <= goal) & ~lower) | (early & ((search.since >= _STAGE) | ~(lower | bold)))
    z2, last = _without_compliance(problem, solve, z1, (level <= 1) & ((level <= 0) | over))
    return Search(
        z=z2,
        residual=last,
        softness=jnp.where(over, jnp.where(early, 0.01 * level, 0.0), level),
        since=jnp.where(over, 0, search.since + 1),
        iterations=search.iterations + 1,
        determined=determined,
        stalled=~lower & ~bold & ~over,
    )


def _without_compliance(
    problem: UnitProblem, solve: Callable[[Impulses], Impulses], z: Impulses, due: Array
) -> tuple[Impulses, Array]:
    """The impulses without the compliance at the same modes, if that is due and better; their largest residual."""
    F = residual(problem, z, velocities(problem, z))
    other = z - solve(F)
    before = jnp.max(jnp.abs(F))
    after = jnp.max(jnp.abs(residual(problem, other, velocities(problem, other))))
    better = due & (after < before) & jnp.isfinite(after)
    return jnp.where(better, other, z), jnp.where(better, after, before)


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
