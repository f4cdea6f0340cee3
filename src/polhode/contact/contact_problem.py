"""The contact problem of a step: impulses and relative velocities of all contacts, coupled by Delassus' matrix."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

OPEN, STICK, SLIDE = 0, 1, 2
"""Modes of a contact. One without friction slides."""


class ContactProblem(NamedTuple):
    r"""$u = GP + b$ with the laws of Signorini and Coulomb between P and u, for k contacts in fixed slots.

    Each contact has the rows n, t₁, t₂ and, if there are six, drilling and two of rolling; or n and t; or n alone; or n
    and three of a turn in any direction. With
    $u = (G + R)P + b$, lower bounds m of the normal impulses, m = 0 as a rule, and $P_T = Sp$, S = diag(μ₁, μ₂):

    $$0 \le u_N \perp P_N - m \ge 0, \qquad |p| \le P_N, \qquad -S u_T \in N_{|p| \le P_N}(p)$$

    and the same for drilling and for rolling, whose coefficients are lengths. Dry friction that no normal impulse
    bounds has |p| ≤ H instead, whether its contact is active or not.

    - `delassus`: G, not necessarily symmetric. - `velocity`: b, with the terms of the impact law.
    - `friction`: coefficients along the tangents.
    - `active`: which slots hold a contact; the others have no impulse.
    - `drilling`, `rolling`: lengths; None for none. - `compliance`: R, on the diagonal; None for rigid contacts.
    - `least`: m; None for zeros. - `hold`: H, negative where normal impulses bound friction; None where all do.
    - `smoothing`: an energy κ > 0 that products of impulses and velocities have where laws say zero; None for the laws.
    """

    delassus: Float[Array, "r r"]
    velocity: Float[Array, " r"]
    friction: Float[Array, "k tangents"]
    active: Bool[Array, " k"]
    drilling: Float[Array, " k"] | None = None
    rolling: Float[Array, " k"] | None = None
    compliance: Float[Array, " r"] | None = None
    least: Float[Array, " k"] | None = None
    hold: Float[Array, " k"] | None = None
    smoothing: Float[Array, ""] | None = None

    @property
    def rows(self) -> int:
        """Rows of each contact."""
        return self.velocity.shape[0] // max(self.active.shape[0], 1)


class ContactSolution(NamedTuple):
    """Impulses that satisfy the laws, or the best approximation.

    - `residual`: of the laws in proximal form, relative to the impulses that stop each contact alone.
    - `iterations`: of Newton's method. - `solved`: whether the residual is within the tolerance.
    - `mode`: `OPEN`, `STICK` or `SLIDE` of each contact.
    - `determined`: whether single impulses are unique; if not, they are those of least norm.
    - `misses`: contacts whose laws do not hold.
    """

    impulses: Float[Array, "k rows"]
    residual: Float[Array, ""]
    iterations: Int[Array, ""]
    solved: Bool[Array, ""]
    mode: Int[Array, " k"]
    determined: Bool[Array, ""]
    misses: Bool[Array, " k"]


class UnitProblem(NamedTuple):
    r"""A contact problem in which every contact has friction 1 and an effective mass of about 1: w = Az + c.

    - `matrix`, `velocity`: A and c. - `least`: lower bounds of normal impulses.
    - `present`: rows that can have an impulse. - `step`: factors ρ of velocities in the proximal form.
    - `softness`: compliances that distribute undetermined impulses, relative to each other.
    - `hold`: bounds of friction, negative where normal impulses bound it; None where all do.
    - `smoothing`: the energy κ of smoothed laws; None for the laws themselves.
    """

    matrix: Float[Array, "r r"]
    velocity: Float[Array, " r"]
    least: Float[Array, " k"]
    present: Bool[Array, "k rows"]
    step: Float[Array, "k rows"]
    softness: Float[Array, "k rows"]
    hold: Float[Array, " k"] | None = None
    smoothing: Float[Array, ""] | None = None


def unit_problem(problem: ContactProblem) -> tuple[UnitProblem, Float[Array, "k rows"]]:
    """The problem for z, and the scale of impulses P = scale·z, both differentiable."""
    k, rows = problem.active.shape[0], problem.rows
    G = problem.delassus
    if problem.compliance is not None:
        G = G + jnp.diag(problem.compliance)
    coefficients = _coefficients(problem, rows)
    first = slip_rows(rows).stop
    own, counts = jnp.diag(G).reshape(k, rows)[:, :first], coefficients[:, :first] > 0
    active, held, hold = problem.active & (own[:, 0] > 0), jnp.zeros(k, bool), None
    # Rows and columns at different positions of slender bodies have products below zero too.
    counts = counts & (own > 0) if problem.hold is not None else counts
    own = jnp.sum(jnp.where(counts, jnp.maximum(own, 0.0), 0.0), axis=1) / jnp.maximum(jnp.sum(counts, axis=1), 1)
    if problem.hold is not None:
        held = (problem.hold >= 0) & (own > 0)
    acts = active | held
    mass = jax.lax.stop_gradient(jnp.where(acts, 1 / jnp.where(acts, own, 1.0), 0.0))
    if problem.hold is not None:
        hold = jnp.where(held, problem.hold / jnp.sqrt(jnp.where(held, mass, 1.0)), -1.0)
    # Without a normal impulse, friction with a bound of its own goes on.
    rows_act = jnp.stack((active, *(acts,) * (rows - 1)), axis=1)
    scale = jnp.where(rows_act, coefficients, 0.0) * jnp.sqrt(mass)[:, None]
    flat = scale.reshape(-1)
    A, c = flat[:, None] * G * flat, flat * problem.velocity
    present = scale > 0
    least = jnp.zeros(k) if problem.least is None else problem.least
    # In units of the normal impulse; slots without a contact have no bound.
    least = jnp.where(active, least / jnp.where(active, scale[:, 0], 1.0), 0.0)
    squares = jax.lax.stop_gradient(jnp.where(present, coefficients**2, 0.0))
    step = jnp.where(present, _steps(jax.lax.stop_gradient(A), rows, present), 0.0)
    return UnitProblem(A, c, least, present, step, squares, hold, problem.smoothing), scale


def is_paradoxical(problem: ContactProblem) -> Bool[Array, " k"]:
    """Whether friction of a contact alone can press it more than its normal force opens it (Painlevé's region).

    There, forces have several solutions or none; impulses still exist.
    """
    k, rows = problem.active.shape[0], problem.rows
    if rows == 1:
        return jnp.zeros(k, bool)
    blocks = jnp.stack([problem.delassus[rows * i, rows * i : rows * i + slip_rows(rows).stop] for i in range(k)])
    coupling = jnp.sqrt(jnp.sum((problem.friction * blocks[:, 1:]) ** 2, axis=1))
    presses = problem.active if problem.hold is None else problem.active & (problem.hold < 0)
    return presses & (blocks[:, 0] <= coupling)


def _coefficients(problem: ContactProblem, rows: int) -> Float[Array, "k rows"]:
    """1 of normal rows, and the factors of P_N that bound the others."""
    k = problem.active.shape[0]
    none = jnp.zeros(k)
    drilling = none if problem.drilling is None else problem.drilling
    rolling = none if problem.rolling is None else problem.rolling
    columns = [jnp.ones(k), *problem.friction.T, drilling, rolling, rolling]
    return jnp.stack(columns[:rows], axis=1)


def _steps(A: Float[Array, "r r"], rows: int, present: Bool[Array, "k rows"]) -> Float[Array, "k rows"]:
    """Reciprocals of mean diagonal elements of each part of a contact."""
    own = jnp.where(present, jnp.diag(A).reshape(-1, rows), 0.0)
    parts = []
    for part in (slice(0, 1), *discs(rows)):
        count = jnp.sum(present[:, part], axis=1)
        total = jnp.sum(own[:, part], axis=1)
        usable = total > 0
        value = jnp.where(usable, count / jnp.where(usable, total, 1.0), 1.0)
        parts += [value] * (part.stop - part.start)
    return jnp.stack(parts, axis=1)


def discs(rows: int) -> tuple[slice, ...]:
    """Rows of sliding, drilling and rolling, each in a disc of its own; those of turns in any direction in a ball."""
    return {
        1: (), 2: (slice(1, 2),), 3: (slice(1, 3),), 4: (slice(1, 4),), 6: (slice(1, 3), slice(3, 4), slice(4, 6)),
    }[rows]  # fmt: skip


def slip_rows(rows: int) -> slice:
    """Rows of sliding, or of turns."""
    return (*discs(rows), slice(1, 1))[0]
