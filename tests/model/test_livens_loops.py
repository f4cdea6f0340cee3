"""Random closed loops of bodies, free in space, under the energy–momentum method."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.model import Model


def loop(kinds: str, seed: int) -> Model:
    """Bodies with random data in a ring of spherical (S), revolute (R) and universal (U) joints with random axes.

    Revolute joints with parallel axes, P, at random heights in a tilted plane: three of their components are redundant.
    """
    rng = np.random.default_rng(seed)
    count, plane = len(kinds), _turn(rng)
    angles = 2 * np.pi * np.arange(count) / count
    points = np.stack([np.cos(angles), np.sin(angles), 0.3 * rng.standard_normal(count)], axis=1) @ plane.T
    model = Model(gravity=(0, 0, 0))
    bodies = [
        model.add_body(
            mass=rng.uniform(0.5, 3),
            inertia=np.array([0.05, 0.07, 0.09]) * rng.uniform(0.5, 2),
            position=0.5 * (points[k] + points[(k + 1) % count]) + 0.1 * rng.standard_normal(3),
            rotation=_turn(rng),
            velocity=rng.standard_normal(3),
            angular_velocity=2 * rng.standard_normal(3),
        )
        for k in range(count)
    ]
    for k, kind in enumerate(kinds):
        ends, point, turn = (bodies[k - 1], bodies[k]), points[k], _turn(rng)
        if kind == "S":
            model.add(ph.joints.Spherical(*ends, point=point))
        elif kind == "U":
            model.add(ph.joints.Universal(*ends, point=point, first_axis=turn[0], second_axis=turn[1]))
        else:
            model.add(ph.joints.Revolute(*ends, point=point, axis=turn[0] if kind == "R" else plane[:, 2]))
    return model


def _turn(rng: np.random.Generator) -> np.ndarray:
    found = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    return found * np.linalg.det(found)


def run(kinds: str, seed: int, joints: str = "invariant", h: float = 0.04):
    system, state = loop(kinds, seed).assemble("livens", repair=True, redundant="minimum-norm", joints=joints)
    return system, ph.simulate(system, "eml", h=h, t1=100 * h, state0=state)


def drift(values) -> float:
    values = np.asarray(values)
    return float(np.abs(values - values[0]).max())


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("kinds", "seed"),
    [
        ("SSSS", 0),
        ("PPPPP", 1),
        pytest.param("RRRRRRRR", 2, marks=pytest.mark.exhaustive),
        pytest.param("RSURSU", 3, marks=pytest.mark.exhaustive),
        pytest.param("UUUUU", 4, marks=pytest.mark.exhaustive),
        pytest.param("SURRSPR", 5, marks=pytest.mark.exhaustive),
    ],
)
def test_energy_and_momenta_of_a_random_loop(kinds, seed):
    system, found = run(kinds, seed)
    assert bool(system.dropped) == ("P" * 5 in kinds)
    assert drift(found.invariants["energy"]) < 2e-12
    assert drift(found.invariants["angular_momentum"]) < 2e-12
    assert drift(found.invariants["linear_momentum"]) < 2e-12
    assert np.max(np.asarray(found.residuals["position"])) < 1e-13
    assert np.ptp(np.asarray(found.outputs["kinetic_energy"])) < 2e-12
    assert np.max(np.asarray(found.residuals["velocity"])) < 1e-11
    assert found.audit()["velocity"].verdict == "kept"
    # They do move against each other.
    turned = np.asarray(found.state.q)
    assert np.linalg.norm(turned[-1] - turned[0]) > 0.5
    assert found.audit().kept


@pytest.mark.exhaustive
def test_the_published_joints_do_not_keep_the_angular_momentum():
    _, found = run("SSSS", 0, joints="vector", h=0.01)
    assert drift(found.invariants["energy"]) < 2e-12
    assert drift(found.outputs["angular_momentum"]) > 1e-6
    assert np.max(np.asarray(found.residuals["velocity"])) > 1e-4


@pytest.mark.exhaustive
def test_a_step_that_is_too_long_is_divided():
    """At this step no velocities keep the joints' rates after a whole step somewhere on the way."""
    system, found = run("SSSS", 0, h=0.4)
    apart = []
    for i in range(len(found.t) - 1):
        here, there = (jax.tree.map(lambda x, k=k: np.asarray(x)[k], found.state) for k in (i, i + 1))
        quarters = ph.simulate(system, "eml", h=0.1, t1=0.4, state0=here, save_every=None)
        apart.append(np.max(np.abs(np.asarray(quarters.state.q)[-1] - there.q)))
    # Divided steps are four short ones, the others far from that.
    assert sum(a < 1e-9 for a in apart) in range(1, len(apart))
    assert all(a < 1e-9 or a > 1e-6 for a in apart), apart
    assert drift(found.invariants["energy"]) < 1e-10
    assert np.max(np.asarray(found.residuals["velocity"])) < 1e-10


@pytest.mark.exhaustive
def test_multipliers_are_those_of_the_joints_and_a_run_goes_on():
    system, first = run("SSSS", 0, h=0.01)
    last = jax.tree.map(lambda x: x[-1], first.state)
    rest = ph.simulate(system, "eml", h=0.01, t0=1.0, t1=1.1, state0=last)
    assert drift(rest.invariants["energy"]) < 1e-12
    other, half = loop("SSSS", 0).assemble("SE3", repair=True)
    peer = ph.simulate(other, "herk5", h=2e-3, t1=0.2, state0=half)
    expected = other.joint_multipliers(peer.t[50], jax.tree.map(lambda x: x[50], peer.state)[0], peer.multipliers[50])
    # Those of a step are averages over it.
    mean = 0.5 * (first.multipliers[10] + first.multipliers[11])
    at = jax.tree.map(lambda x: x[10], first.state)
    found = system.joint_multipliers(first.t[10], at, mean)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=0.02 * np.abs(value).max())


@pytest.mark.exhaustive
def test_a_whole_step_that_ends_nowhere_leaves_gradients_alone():
    """The first attempt at the second step leaves the numbers; its parts don't."""
    system, start = loop("SSSS", 0).assemble("livens", repair=True, redundant="minimum-norm")
    method, weights, h = ph.integrators.get("eml"), np.linspace(-1, 1, 28), jnp.asarray(0.4)

    @jax.jit
    def end(speed):
        state = start._replace(v=speed * start.v, p=speed * start.p)
        carry = method.init(system, jnp.zeros(()), h, state)
        carry, _ = jax.lax.scan(lambda c, t: (method.step(system, t, h, c)[0], None), carry, h * jnp.arange(2))
        return (carry.state.q + carry.state.v) @ weights

    slope = float(jax.jit(jax.grad(end))(1.0))
    assert slope == pytest.approx((float(end(1 + 1e-6)) - float(end(1 - 1e-6))) / 2e-6, rel=1e-6)
