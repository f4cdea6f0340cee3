"""The alternating direction method of multipliers for contact problems: slow, but it stands large mass ratios."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.contact.contact_problem import UnitProblem
from polhode.contact.elimination import eliminate
from polhode.contact.laws import Impulses, project, velocities

_ITERATIONS = 200
"""Iterations between changes of the penalty."""

_RATIO = 5.0
"""Of both residuals, from which the penalty changes by a factor of two."""

_CLOSE = 1e-9
"""Both residuals, relative to impulses, at which Newton's method goes on."""


def admm(problem: UnitProblem, z: Impulses, periods: Array) -> Impulses:
    r"""Impulses after some periods of 200 iterations, or fewer if these converge.

    With the penalty R: $(A + R) x = Ry + \lambda - c$, y the projection of $x - R^{-1}\lambda$, and
    $\lambda \leftarrow \lambda + R(y - x)$. A fixed point satisfies the laws; without friction any start leads there.
    """
    k, rows = z.shape
    size = k * rows
    natural = jnp.where(problem.present, 1 / jnp.where(problem.present, problem.step, 1.0), 1.0)

    def period(loop: tuple[Impulses, Impulses, Array, Array]) -> tuple[Impulses, Impulses, Array, Array]:
        y, multipliers, penalty, count = loop
        R = penalty * natural
        solve, _ = eliminate(problem.matrix + jnp.diag(R.reshape(size)))

        def iterate(_: Array, pair: tuple[Impulses, ...]) -> tuple[Impulses, ...]:
            y, multipliers = pair[:2]
            right = R * y + multipliers - problem.velocity.reshape(k, rows)
            x = solve(right.reshape(size)).reshape(k, rows)
            following = project(x - multipliers / R, problem)
            return following, multipliers + R * (following - x), following - x, R * (following - y)

        zero = jnp.zeros_like(y)
        y, multipliers, primal, dual = jax.lax.fori_loop(0, _ITERATIONS, iterate, (y, multipliers, zero, zero))
        first, second = jnp.max(jnp.abs(natural * primal)), jnp.max(jnp.abs(dual))
        change = jnp.where(first > _RATIO * second, 2.0, jnp.where(second > _RATIO * first, 0.5, 1.0))
        close = jnp.maximum(first, second) <= _CLOSE * jnp.max(jnp.abs(natural * y))
        return y, multipliers, penalty * change, jnp.where(close, periods, count + 1)

    start = z, velocities(problem, z), jnp.ones(()), jnp.zeros((), int)
    return jax.lax.while_loop(lambda loop: loop[3] < periods, period, start)[0]
