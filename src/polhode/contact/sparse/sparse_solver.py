"""Solution of contact problems of many free bodies: Gauss–Seidel sweeps, and Newton's method without matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.laws import Impulses, linearise, residual
from polhode.contact.newton_solver import COMPLIANCE, CONTINUATION
from polhode.contact.sparse import krylov
from polhode.contact.sparse.body_elimination import Edges, Elimination
from polhode.contact.sparse.gauss_seidel import SweepTable, gauss_seidel
from polhode.contact.sparse.small_inverses import invert, matmul, multiply
from polhode.contact.sparse.sparse_problem import ScaledProblem, SparseProblem

_ROUND_OFF = 4e-16
_SAME = 1e-13
"""Relative residual of a guess that is the solution: that of bodies at rest, in every step."""

_LINEAR = 1e-4
"""Relative residual at which iterations for a step of Newton's method end."""

_INNER = 150
"""Most of these iterations."""

_FAR, _SOFTEST = 0.01, 1e-3
"""Compliance of the matrix relative to the residual, and its largest value."""

_HALVINGS = 6
_STAGE, _STAGE_GOAL = 10, 0.03
"""Most iterations of a stage of a continuation, and its residual in parts of the compliance."""


class _Round(NamedTuple):
    """One attempt.

    - `sweeps`: most sweeps of Gauss–Seidel's method before those of Newton's.
    - `softness`: with which that begins: more than zero for a continuation.
    - `limit`: of its iterations.
    """

    sweeps: int = 0
    softness: float = 0.0
    limit: int = 0


SOLVED, ACCEPTED = 1e-8, 1e-2
"""Relative residuals: up to the first one a step counts as solved to what its problem allows, above the second one as
not solved; those between are counted."""

_MANY, _POWER, _MOST = 500, 4, 4000
"""After n sweeps, a residual of the accepted one times (n/500)⁴ ends them, but no larger one; and so many do. Of 100
boxes that fall together, residuals are 1e-3 after 40 sweeps, 1e-4 after 100, some 1e-5 after 200, and 1e-5 after 1000.
With 1e-2 that ends after 150 sweeps with 8e-5: at rest, a velocity of 4 µm/s with h = 5 ms. Bodies that rest come to
1e-8, as sweeps of a step go on where those of the step before have ended."""

_ROUNDS = (
    _Round(sweeps=40, limit=4),
    _Round(sweeps=160, limit=6),
    _Round(sweeps=600, limit=12),
    _Round(softness=CONTINUATION, limit=50),
    _Round(sweeps=_MOST),
)
"""Attempts for rows, towers and trees. With fill, an iteration of Newton's method costs as much as some hundred
sweeps, and there is one attempt, of sweeps alone."""


class SparseSolution(NamedTuple):
    """Impulses that satisfy the laws, or the best approximation; `residual`, `solved`: as in `ContactSolution`.

    - `iterations`: of Newton's method. - `sweeps`: of Gauss–Seidel's.
    - `fills`: whether contacts are more entangled than rows, towers and trees.
    """

    impulses: Impulses
    residual: Array
    iterations: Int[Array, ""]
    sweeps: Int[Array, ""]
    solved: Bool[Array, ""]
    fills: Bool[Array, ""]


class PreparedProblem(NamedTuple):
    """A contact problem with what solutions need that does not depend on velocities and bounds."""

    scaled: ScaledProblem
    table: SweepTable
    edges: Edges

    @classmethod
    def of(cls, problem: SparseProblem) -> PreparedProblem:
        """The problem with its tables."""
        scaled = ScaledProblem.of(problem)
        return cls(scaled, SweepTable.of(scaled), Edges.of(problem.rows, problem.active, problem.order))

    def aim(self, velocity: Impulses, least: Float[Array, " k"]) -> PreparedProblem:
        """The same contacts with other velocities b and bounds of normal impulses."""
        return self._replace(scaled=self.scaled.aim(velocity, least))


class _Search(NamedTuple):
    """Where Newton's method is: impulses z, w = Az + c, the largest residual of the laws, and the softness."""

    z: Impulses
    w: Impulses
    residual: Array
    softness: Array
    since: Int[Array, ""]
    iterations: Int[Array, ""]
    stalled: Bool[Array, ""]


def solve(
    problem: PreparedProblem, guess: Float[Array, "k rows"], tolerance: Any = 1e-10, accepted: float = ACCEPTED
) -> SparseSolution:
    """The impulses of a contact problem, from those of the step before or zeros; without derivatives.

    - `accepted`: the relative residual that counts as solved after many sweeps, see `_MANY`.
    """
    scaled, edges = problem.scaled, problem.edges
    z = jnp.where(scaled.present, guess / jnp.where(scaled.present, scaled.scale, 1.0), 0.0)
    z = jnp.where(jnp.isfinite(z), z, 0.0)
    alone = jnp.max(jnp.abs(scaled.step * scaled.constant), initial=0.0)
    alone = jnp.maximum(alone, jnp.max(jnp.abs(scaled.least), initial=0.0))
    size = jnp.where(alone > 0, alone, 1.0)
    table = tuple(jnp.asarray(column) for column in zip(*_ROUNDS, strict=True))
    attempts = len(_ROUNDS)

    def goal(number: Array) -> Array:
        """The residual that ends sweeps."""
        return jnp.maximum(tolerance, accepted * jnp.minimum(1.0, (number / _MANY) ** _POWER)) * size

    def more(loop: tuple[Array, Array, _Search, Impulses]) -> Array:
        count, _, search, _ = loop
        enough = jnp.where(count == 0, _SAME, tolerance)
        return (count < jnp.where(edges.fills, 1, attempts)) & (search.residual > enough * size)

    def attempt(loop: tuple[Array, Array, _Search, Impulses]) -> tuple[Array, Array, _Search, Impulses]:
        count, total, best, z = loop
        sweeps, softness, limit = (column[count] for column in table)
        # Those that Newton's method follows have only the tolerance.
        last = edges.fills | (count == attempts - 1)
        z, _, number = gauss_seidel(
            scaled, problem.table, z, jnp.where(last, _MOST, sweeps), lambda number: goal(jnp.where(last, number, 0))
        )
        begin = _begin(scaled, z, softness, best)
        end = _newton(scaled, edges, begin, size, tolerance, jnp.where(last, 0, limit))
        z = jnp.where(end.residual < begin.residual, end.z, begin.z)
        lower = end.residual < best.residual
        kept = jax.tree.map(lambda new, old: jnp.where(lower, new, old), end, best)
        return count + 1, total + number, kept._replace(iterations=end.iterations), z

    none = jnp.zeros((), int)
    start = _Search(z, z, jnp.inf * size, jnp.zeros(()), none, none, jnp.asarray(False))
    _, sweeps, search, _ = jax.lax.while_loop(more, attempt, (none, none, _begin(scaled, z, 0.0, start), z))
    solved = search.residual <= jnp.maximum(tolerance, accepted) * size
    return SparseSolution(
        scaled.scale * search.z, search.residual / size, search.iterations, sweeps, solved, edges.fills
    )


def _begin(scaled: ScaledProblem, z: Impulses, softness: Any, before: _Search) -> _Search:
    w = scaled.product(z) + scaled.constant
    left = jnp.max(jnp.abs(residual(scaled, z, w)), initial=0.0)
    none = jnp.zeros((), int)
    return before._replace(
        z=z, w=w, residual=left, softness=jnp.asarray(softness, float), since=none, stalled=jnp.asarray(False)
    )


def _newton(scaled: ScaledProblem, edges: Edges, start: _Search, size: Array, tolerance: Any, limit: Array) -> _Search:
    """At most `limit` iterations from `start`, until the residual of the laws is below the tolerance."""
    goal = tolerance * size

    def more(search: _Search) -> Array:
        unsolved = (search.residual > goal) | (search.softness > 1)
        return unsolved & (search.iterations < start.iterations + limit) & ~search.stalled

    return jax.lax.while_loop(more, lambda search: _iterate(scaled, edges, search, size, goal), start)


def _iterate(scaled: ScaledProblem, edges: Edges, search: _Search, size: Array, goal: Array) -> _Search:
    z, w, level = search.z, search.w, search.softness
    early = level > 1
    # Far from a solution the matrix is softer, so that steps along what hardly moves anything stay small.
    least = jnp.maximum(COMPLIANCE, jnp.minimum(_FAR * search.residual / size, _SOFTEST))
    compliance = jnp.where(early, level * COMPLIANCE, least) * scaled.softness
    soft = jnp.where(early, compliance, 0.0)
    projection = linearise(scaled, z, w + soft * z)
    F = residual(scaled, z, w + soft * z)
    d = _direction(scaled, edges, projection.derivative, compliance, F)
    d = jnp.where(jnp.isfinite(jnp.sum(d)), d, 0.0)
    change = scaled.product(d)
    F_at = lambda t: residual(scaled, z - t * d, w - t * change + soft * (z - t * d))  # noqa: E731
    t, lower, left = _line_search(F_at, F, goal)
    bold = early & (search.since < 4)
    # Along what moves nothing, residuals fall where the first contact opens or slides.
    edge = _boundary(scaled, z, d)
    meets = ~lower & ~bold & (jnp.max(jnp.abs(F_at(edge))) <= 1.01 * jnp.max(jnp.abs(F)))
    t, lower = jnp.where(meets, edge, t), lower | meets
    t = jnp.where(lower | bold, t, 0.0)
    z1 = z - t * d
    w1 = scaled.product(z1) + scaled.constant
    last = jnp.max(jnp.abs(residual(scaled, z1, w1)), initial=0.0)
    target = _STAGE_GOAL * COMPLIANCE * level * size
    over = early & ((left <= target) | (search.since >= _STAGE) | ~(lower | bold))
    following = jnp.where(over, jnp.where(level > 100, 0.01 * level, 0.0), level)
    return _Search(
        z=z1, w=w1, residual=last, softness=following, since=jnp.where(over, 0, search.since + 1),
        iterations=search.iterations + 1, stalled=~lower & ~bold & ~over,
    )  # fmt: skip


def _line_search(F_at: Any, F: Impulses, goal: Array) -> tuple[Array, Array, Array]:
    """The first of t = 1, ½, … with a lower residual, whether there is one, and the largest residual there."""
    square = jnp.sum(F * F)

    def accept(t: Array, F: Impulses) -> Array:
        return (jnp.sum(F * F) <= (1 - 0.1 * t) ** 2 * square) | (jnp.max(jnp.abs(F)) <= 1e-3 * goal)

    def more(loop: tuple[Array, Impulses]) -> Array:
        t, F = loop
        return ~accept(t, F) & (t > 0.5**_HALVINGS)

    def halve(loop: tuple[Array, Impulses]) -> tuple[Array, Impulses]:
        t = 0.5 * loop[0]
        return t, F_at(t)

    one = jnp.ones(())
    t, last = jax.lax.while_loop(more, halve, (one, F_at(one)))
    lower = accept(t, last)
    return jnp.where(lower, t, one), lower, jnp.max(jnp.abs(last))


def _boundary(scaled: ScaledProblem, z: Impulses, d: Impulses) -> Array:
    """The first t up to 1 at which z − td of some contact is at its bound of normal impulses or of friction."""
    normal, pace = z[:, 0] - scaled.least, d[:, 0]
    opens = (normal > 0) & (pace > 0)
    first = jnp.where(opens, normal / jnp.where(opens, pace, 1.0), 1.0)
    a = jnp.sum(d[:, 1:3] ** 2, axis=1) - pace**2
    b = 2 * (z[:, 0] * pace - jnp.sum(z[:, 1:3] * d[:, 1:3], axis=1))
    c = jnp.sum(z[:, 1:3] ** 2, axis=1) - z[:, 0] ** 2
    square = b * b - 4 * a * c
    below = b + jnp.sqrt(jnp.maximum(square, 0.0))
    slides = (c < -1e-12 * z[:, 0] ** 2) & (z[:, 0] > 0) & (square > 0) & (below > 0) & scaled.present[:, 1]
    second = jnp.where(slides, -2 * c / jnp.where(slides, below, 1.0), 1.0)
    return jnp.minimum(jnp.min(jnp.minimum(first, second), initial=1.0), 1.0)


def _direction(
    scaled: ScaledProblem,
    edges: Edges,
    derivative: Float[Array, "k rows rows"],
    compliance: Impulses,
    right: Impulses,
) -> Impulses:
    """J⁻¹F, where Jδ = δ - D(δ - ρ(Aδ + Cδ))."""
    eye = jnp.eye(right.shape[1])
    scaled_derivative = derivative * scaled.step[:, None, :]
    outer = eye - derivative + scaled_derivative * compliance[:, None, :]
    product = lambda d: multiply(outer, d) + multiply(scaled_derivative, scaled.product(d))  # noqa: E731
    inverse = invert(eye - derivative + scaled_derivative * compliance[:, None, :])
    stiffness = matmul(inverse, scaled_derivative)
    problem, scale = scaled.problem, scaled.scale
    inner = scale[:, :, None] * stiffness * scale[:, None, :]
    elimination = Elimination.of(problem.bodies, problem.rows, inner, edges)

    def precondition(r: Impulses) -> Impulses:
        y = multiply(inverse, r)
        moved = elimination.solve(problem.rows.spread(scale * y, len(problem.bodies.mass)))
        return y - multiply(stiffness, scale * problem.rows.slips(moved))

    return krylov.solve(product, precondition, right, _LINEAR, _INNER)[0]
