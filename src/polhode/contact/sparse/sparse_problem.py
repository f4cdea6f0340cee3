"""Contact problems of many free bodies, and their scaled form, by products instead of matrices."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.contact.contact_problem import discs
from polhode.contact.laws import Impulses
from polhode.contact.sparse.free_bodies import ContactRows, FreeBodies, Spatial


class SparseProblem(NamedTuple):
    r"""$u = W M^{-1} W^T P + b$ with the laws of `ContactProblem`, for free bodies.

    - `rows`: W.
    - `velocity`: b. - `friction`: coefficients along both tangents. - `active`: slots that hold a contact.
    - `least`: lower bounds of normal impulses. - `drilling`, `rolling`: lengths, or None.
    - `order`: places of the bodies along the heap, in which they are eliminated.
    """

    bodies: FreeBodies
    rows: ContactRows
    velocity: Float[Array, "k rows"]
    friction: Float[Array, "k 2"]
    active: Bool[Array, " k"]
    least: Float[Array, " k"]
    drilling: Float[Array, " k"] | None
    rolling: Float[Array, " k"] | None
    order: Array


class ScaledProblem(NamedTuple):
    """The problem in units in which friction is 1 and effective masses are about 1: w = Az + c, P = scale·z.

    - `own`: diagonal blocks of A. - `least`, `present`, `step`, `softness`, `hold`, `smoothing`: as in `UnitProblem`.
    """

    problem: SparseProblem
    scale: Impulses
    own: Float[Array, "k rows rows"]
    constant: Impulses
    least: Float[Array, " k"]
    present: Bool[Array, "k rows"]
    step: Impulses
    softness: Impulses
    hold: Float[Array, " k"] | None = None
    smoothing: Float[Array, ""] | None = None

    @classmethod
    def of(cls, problem: SparseProblem) -> ScaledProblem:
        """The scaled problem."""
        G = problem.rows.own_blocks(problem.bodies)
        k, rows = problem.velocity.shape
        own = (G[:, 0, 0] + G[:, 1, 1] + G[:, 2, 2]) / 3
        active = problem.active & (own > 0)
        mass = jnp.where(active, 1 / jnp.where(active, own, 1.0), 0.0)
        coefficients = _coefficients(problem, k, rows)
        scale = jnp.where(active[:, None], coefficients, 0.0) * jnp.sqrt(mass)[:, None]
        A, present = scale[:, :, None] * G * scale[:, None, :], scale > 0
        step = jnp.where(present, _steps(A, present), 0.0)
        softness = jnp.where(present, coefficients**2, 0.0)
        none = jnp.zeros(k)
        return cls(problem, scale, A, scale, none, present, step, softness).aim(problem.velocity, problem.least)

    def aim(self, velocity: Impulses, least: Float[Array, " k"]) -> ScaledProblem:
        """The same contacts with other velocities b and bounds of normal impulses."""
        scale = self.scale[:, 0]
        return self._replace(
            problem=self.problem._replace(velocity=velocity, least=least),
            constant=self.scale * velocity,
            least=jnp.where(scale > 0, least / jnp.where(scale > 0, scale, 1.0), 0.0),
        )

    def response(self, z: Impulses) -> Spatial:
        """Changes of velocities by impulses."""
        problem = self.problem
        return problem.bodies.respond(problem.rows.spread(self.scale * z, problem.bodies.mass.shape[0]))

    def product(self, z: Impulses) -> Impulses:
        """Az."""
        return self.scale * self.problem.rows.slips(self.response(z))


def _coefficients(problem: SparseProblem, k: int, rows: int) -> Impulses:
    """Bounds of parts of impulses by normal ones."""
    columns = [jnp.ones(k), problem.friction[:, 0], problem.friction[:, 1]]
    if rows == 6:
        assert problem.drilling is not None
        assert problem.rolling is not None
        columns += [problem.drilling, problem.rolling, problem.rolling]
    return jnp.stack(columns, axis=1)


def _steps(A: Float[Array, "k rows rows"], present: Bool[Array, "k rows"]) -> Impulses:
    """Reciprocals of mean diagonal elements of each part of a contact."""
    rows = A.shape[1]
    own = jnp.where(present, jnp.stack([A[:, i, i] for i in range(rows)], axis=1), 0.0)
    parts = []
    for part in (slice(0, 1), *discs(rows)):
        count = jnp.sum(jnp.where(present[:, part], 1.0, 0.0), axis=1)
        total = jnp.sum(own[:, part], axis=1)
        usable = total > 0
        parts += [jnp.where(usable, count / jnp.where(usable, total, 1.0), 1.0)] * (part.stop - part.start)
    return jnp.stack(parts, axis=1)
