"""Contact problems in which friction has bounds of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.contact.contact_problem import STICK, ContactProblem
from polhode.contact.solver import solve


@jax.jit
def solution(problem):
    return solve(problem, jnp.zeros((2, 2)))


def dry_problem(hold):
    """Two coordinates with dry friction that are coupled; the second one has a stop, closed, in the same slot."""
    G = np.array([[2.0, 0.5], [0.5, 1.0]])
    W = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    b = W @ np.array([1.0, -2.0])
    return ContactProblem(
        *map(jnp.asarray, (W @ G @ W.T, b, np.ones((2, 1)), np.array([False, True]))), hold=jnp.asarray(hold)
    )


@pytest.mark.exhaustive
def test_dry_friction_has_a_bound_of_its_own():
    """The first coordinate slides: friction is at its bound. Stop and friction of the second one share its load."""
    P = solution(dry_problem(np.array([0.2, 0.3]))).impulses
    np.testing.assert_allclose([P[0, 0], P[0, 1], P[1].sum()], [0, -0.2, 2 + 0.5 * 0.2], atol=1e-12)
    assert abs(P[1, 1]) <= 0.3 < 1.8 <= P[1, 0]
    # Without the stop, friction is at its bound.
    open_stop = dry_problem(np.array([0.2, 0.3]))._replace(active=jnp.zeros(2, bool))
    np.testing.assert_allclose(solution(open_stop).impulses, [[0, -0.2], [0, 0.3]], atol=1e-12)
    # With more friction than needed the first one sticks.
    held = solution(dry_problem(np.array([5.0, 0.3])))
    total = np.linalg.solve([[2.0, 0.5], [0.5, 1.0]], [-1.0, 2.0])
    np.testing.assert_allclose([held.impulses[0, 1], held.impulses[1].sum()], total, atol=1e-10)
    assert held.mode[0] == STICK


@pytest.mark.exhaustive
def test_bounds_of_dry_friction_have_derivatives():
    def second_velocity(hold):
        problem = dry_problem(hold)._replace(active=jnp.zeros(2, bool))
        P = solve(problem, jnp.zeros((2, 2))).impulses
        return (problem.delassus @ P.reshape(-1) + problem.velocity)[3]

    at = jnp.array([0.2, 0.3])
    # u = b + G P with P = (-0.2, 0.3).
    np.testing.assert_allclose(jax.jit(jax.grad(second_velocity))(at), [-0.5, 1.0], atol=1e-12)
