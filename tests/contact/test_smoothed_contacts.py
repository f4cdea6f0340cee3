"""Smoothed laws of contact: products that are κ, their limit, and optimisation where the laws have no slope."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_contact_solver import assemble, contact_rows, solution

import polhode as ph
from polhode.spaces import Rn
from polhode.systems.mechanical import FunctionContacts, Mechanical

G = 9.81
MASS, FRICTION, SPAN = 2.0, 0.5, 1.0


def leaning(v):
    """A box of 3 kg on a floor and against a wall, at two points, with the velocity v."""
    rows = [
        contact_rows((0.1, 0.0, -0.2), (0, 0, 1), (1, 0, 0), 0, 1),
        contact_rows((-0.2, 0.05, 0.1), (1, 0, 0), (0, 1, 0), 0, 1),
    ]
    return assemble(rows, np.array([3.0, 3.0, 3.0, 0.05, 0.06, 0.07]), np.array(v), [0.6, 0.3])


def test_products_of_impulses_and_velocities_are_the_smoothing():
    hard = solution(leaning((-0.2, 0.3, -1.0, 0.1, 0.0, 0.5)))
    before = np.inf
    for kappa in (1e-2, 1e-5, 1e-8):
        problem = leaning((-0.2, 0.3, -1.0, 0.1, 0.0, 0.5))._replace(smoothing=np.asarray(kappa))
        soft = solution(problem)
        u = (problem.delassus @ soft.impulses.ravel() + problem.velocity).reshape(2, 3)
        np.testing.assert_allclose(soft.impulses[:, 0] * u[:, 0], kappa, rtol=1e-6, atol=1e-14)
        friction = np.linalg.norm(soft.impulses[:, 1:], axis=1)
        assert np.all(friction < problem.friction[:, 0] * soft.impulses[:, 0])
        assert np.all(np.sum(soft.impulses[:, 1:] * u[:, 1:], axis=1) < 0)
        far = np.max(np.abs(soft.impulses - hard.impulses))
        assert soft.solved
        assert far < 0.1 * before
        before = far
    assert before < 1e-5


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_smoothing_that_is_no_energy_is_named(bad):
    with pytest.raises(ValueError, match="`smoothing` must be an energy"):
        ph.integrators.get("moreau", smoothing=bad)


def pushed(force, method):
    """The way of a block on a floor in 1 s under a constant push."""
    contacts = FunctionContacts(lambda t, q: q[1:], lambda t, q, v: v[:1], number=1, friction=FRICTION)
    weight = -MASS * G
    load = lambda t, q, v: jnp.stack([force, weight + 0 * q[0]])  # noqa: E731
    system = Mechanical(Rn(2), MASS * np.eye(2), load, contact_set=contacts)
    run = ph.simulate(system, method, t1=SPAN, h=0.01, state0=(jnp.zeros(2), jnp.zeros(2)))
    return run.state[0][-1, 0]


def struck(speed, method):
    """Where a puck comes to rest 1 m from another that is thrown at it, both of 1 kg."""
    contacts = FunctionContacts(
        lambda t, q: jnp.stack([q[1], q[3], q[2] - q[0]]),
        lambda t, q, v: jnp.stack([v[0], v[2], 0 * v[0]]),
        number=3,
        friction=np.array([0.3, 0.3, 0.0]),
    )
    weight = np.array([0.0, -G, 0.0, -G])
    system = Mechanical(Rn(4), np.eye(4), lambda t, q, v: weight + 0 * q, contact_set=contacts)
    start = jnp.array([0.0, 0, 1.0, 0]), jnp.stack([speed, 0.0 * speed, 0.0 * speed, 0.0 * speed])
    return ph.simulate(system, method, t1=2.0, h=0.01, state0=start).state[0][-1, 2]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("place", "start", "target", "exact"),
    [
        # Below the limit of friction, 9.81 N, the block stays where it is.
        (pushed, 4.0, 0.5, MASS * (2 * 0.5 / SPAN**2 + FRICTION * G)),
        # At 2 m/s the puck stops before the other.
        (struck, 2.0, 1.3, np.sqrt(2 * 0.3 * G * (1 + 4 * 0.3))),
    ],
)
def test_an_optimiser_finds_what_the_laws_show_no_way_to(place, start, target, exact):
    rigid = ph.integrators.get("moreau")
    assert abs(jax.grad(lambda x: place(x, rigid))(jnp.asarray(start))) < 1e-12
    x = jnp.asarray(start)
    for kappa in (1e-1, 1e-3, 1e-5):
        method = ph.integrators.get("moreau", smoothing=kappa)
        slope = jax.value_and_grad(lambda x, method=method: place(x, method))
        for _ in range(12):
            value, rate = slope(x)
            x = x + jnp.clip((target - value) / rate, -0.5, 0.5)
    assert abs(place(x, rigid) - target) < 0.02
    np.testing.assert_allclose(x, exact, rtol=0.01)
