"""Laws of impact for contact problems: restitution by Newton and by Poisson."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.contact.contact_problem import ContactProblem, ContactSolution, slip_rows
from polhode.contact.solver import solve


def newton_restitution(
    before: Float[Array, "k rows"], normal: Float[Array, " k"], tangential: Float[Array, " k"] | None = None
) -> Float[Array, " r"]:
    r"""The terms that Newton's law adds to the velocity b of a contact problem: $e \min(u_N^-, 0)$ and $e_T u_T^-$.

    Contacts that separate before have no restitution, which would pull them back. Without friction equal coefficients
    of all contacts never add energy; with friction they may.

    - `before`: velocities u⁻ before the impact. - `normal`, `tangential`: coefficients e and e_T; None for zeros.
    """
    terms = jnp.zeros_like(before).at[:, 0].set(normal * jnp.minimum(before[:, 0], 0.0))
    if tangential is not None:
        along = slip_rows(before.shape[1])
        terms = terms.at[:, along].set(tangential[:, None] * before[:, along])
    return terms.reshape(-1)


def solve_poisson(
    problem: ContactProblem,
    guess: Float[Array, "k rows"],
    restitution: Float[Array, " k"],
    tolerance: float = 1e-10,
) -> ContactSolution:
    r"""Poisson's law: compression without restitution, then expansion by at least e times its normal impulses.

    `problem.velocity` has no term of restitution. Each phase has friction of its own; impulses are those of both.
    """
    compression = solve(problem, guess, tolerance)
    between = problem.delassus @ compression.impulses.reshape(-1) + problem.velocity
    least = restitution * compression.impulses[:, 0]
    start = restitution[:, None] * compression.impulses
    expansion = solve(problem._replace(velocity=between, least=least), start, tolerance)
    return ContactSolution(
        impulses=compression.impulses + expansion.impulses,
        residual=jnp.maximum(compression.residual, expansion.residual),
        iterations=compression.iterations + expansion.iterations,
        solved=compression.solved & expansion.solved,
        mode=expansion.mode,
        determined=compression.determined & expansion.determined,
        misses=compression.misses | expansion.misses,
    )
