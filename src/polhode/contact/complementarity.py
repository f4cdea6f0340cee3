"""Small linear complementarity problems."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.linalg.dense import lu_factor, lu_solve

_COMPLIANCE = 1e-12
"""Added to the unit diagonal before factoring, so that redundant contacts have the forces of least norm."""

_CHANCES = 3
"""Block exchanges without improvement before single members are exchanged."""

_ROUNDS = 32
"""Largest number of exchanges for each contact."""


class Complement(NamedTuple):
    """A solution: z, and which members of it are basic, that is, may be positive."""

    z: Float[Array, " k"]
    basic: Bool[Array, " k"]


def solve_basic(G: Float[Array, "k k"], b: Float[Array, " k"], basic: Bool[Array, " k"]) -> Float[Array, " k"]:
    """z with G z + b = 0 in the basic rows, and z = 0 in the others."""
    both = basic[:, None] & basic[None, :]
    inside, right = jnp.where(both, G, 0.0) + jnp.diag(jnp.where(basic, 0.0, 1.0)), jnp.where(basic, -b, 0.0)
    factors = lu_factor(inside + jnp.diag(jnp.where(basic, _COMPLIANCE, 0.0)))
    z = lu_solve(factors, right)
    # One step of refinement removes the compliance, by which impacts would lose 1e-12 of their energy.
    return z + lu_solve(factors, right - inside @ z)


def complement(
    G: Float[Array, "k k"],
    b: Float[Array, " k"],
    among: Bool[Array, " k"],
    start: Bool[Array, " k"],
    tolerance: Array,
) -> Complement:
    r"""$0 \le z \perp Gz + b \ge 0$ for the members in `among`, and z = 0 for all others.

    Principal pivoting of blocks, from the basic set `start`: of a symmetric semidefinite G with ones on its diagonal.
    A member changes only if it violates its inequality by more than `tolerance`, so that degenerate members stay as
    in `start`. The set has no derivatives; z has those at a fixed set.
    """
    fixed_G, fixed_b = jax.lax.stop_gradient((G, b))

    def wrong(basic: Bool[Array, " k"]) -> Bool[Array, " k"]:
        z = solve_basic(fixed_G, fixed_b, basic)
        w = fixed_G @ z + fixed_b
        return (basic & (z < -tolerance)) | (among & ~basic & (w < -tolerance))

    def exchange(loop: tuple[Array, ...]) -> tuple[Array, ...]:
        basic, fewest, chances, count, infeasible = loop
        number = jnp.sum(infeasible)
        better = number < fewest
        chances = jnp.where(better, _CHANCES, chances - 1)
        fewest = jnp.minimum(number, fewest)
        last = jnp.arange(len(b)) == len(b) - 1 - jnp.argmax(infeasible[::-1])
        basic = basic ^ jnp.where(chances >= 0, infeasible, infeasible & last)
        return basic, fewest, chances, count + 1, wrong(basic)

    size = len(b)
    basic = start & among
    first = basic, jnp.asarray(size + 1), jnp.asarray(_CHANCES), jnp.asarray(0), wrong(basic)
    more = lambda loop: jnp.any(loop[4]) & (loop[3] < _ROUNDS * size)  # noqa: E731
    basic = jax.lax.while_loop(more, exchange, first)[0]
    return Complement(solve_basic(G, b, basic), basic)
