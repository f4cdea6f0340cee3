"""Starts: inconsistent ones are named or repaired, redundant constraints are named or left out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode.linalg.blocks import to_dense

ZERO = jnp.zeros(())


def pendulum(position=(0.0, 1.0, 0.0), velocity=(0.0, 0.0, 0.0), twice=False):
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=2.0, inertia=(0.3, 0.4, 0.5), position=position, velocity=velocity)
    model.add(ph.joints.Spherical(model.ground, body, point=(0, 0, 0), name="hinge"))
    if twice:
        model.add(ph.joints.Spherical(body, model.ground, point=(0, 0.5, 0), name="latch"))
    return model


def test_wrong_velocities_are_named_with_their_joint():
    with pytest.raises(ValueError, match=r"initial velocities.*`hinge` by 3.*repair=True"):
        pendulum(velocity=(0, 3, 0)).assemble()


@pytest.mark.parametrize("formulation", ["SE3", "minimal", "livens"])
def test_everything_that_is_wrong_is_said_at_once(formulation):
    model = ph.Model(gravity=(0, 0, -9.81))
    arms = [
        model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5 + k, 0, 0), velocity=(3.0 + k, 0, 0))
        for k in range(2)
    ]
    model.add(ph.joints.Revolute(model.ground, arms[0], point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.joints.Revolute(*arms, point=(1, 0, 0), axis=(0, 1, 0), name="elbow"))
    model.add(ph.joints.Distance(model.ground, arms[1], (1.5, 0, 1), (1.5, 0, 0), length=1.25, name="rope"))
    words = (
        r"initial positions do not fit the joints: `rope` by 0\.\d+\. "
        r"The initial velocities do not fit the joints in these positions: `hinge` by 3, `elbow` by 1\. "
        r"Correct them, .*`repair=True`.* the nearest positions and velocities that fit"
    )
    with pytest.raises(ValueError, match=words):
        model.assemble(formulation)


@pytest.mark.exhaustive
def test_repair_takes_the_nearest_velocity_in_the_metric_of_the_mass():
    model = pendulum(velocity=(1.0, 2.0, 3.0))
    system, (q, v) = model.assemble("SE3", repair=True)
    assert float(system.residuals(ZERO, (q, v))["velocity"]) < 1e-12
    M, B = to_dense(system.mass(ZERO, q), (6, 6)), to_dense(system.jacobian(ZERO, q), (3, 6))
    given = jnp.array([0, 0, 0, 1.0, 2.0, 3.0])
    # What is taken away is a constraint impulse: M (v - given) lies in the range of Bᵀ.
    impulse = np.asarray(M @ (v - given))
    np.testing.assert_allclose(B.T @ np.linalg.lstsq(B.T, impulse, rcond=None)[0], impulse, atol=1e-10)


def loop(lengths, gap=0.0):
    """A spatial chain of bars between two fixed points, the last one displaced by `gap`."""
    model = ph.Model()
    previous, at = model.ground, 0.0
    bodies = []
    for length in lengths:
        bodies.append(
            model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(at + length / 2, 0, gap if bodies else 0.0))
        )
        at += length
    at = 0.0
    for k, (body, length) in enumerate(zip(bodies, lengths, strict=True)):
        model.add(ph.joints.Spherical(previous, body, point=(at, 0, 0), name=f"ball-{k}"))
        previous, at = body, at + length
    return model


@pytest.mark.exhaustive
def test_points_that_are_given_once_always_fit():
    system, state = loop((1.0, 2.0), gap=0.1).assemble("SO3xR3")
    assert float(system.residuals(ZERO, state)["position"]) < 1e-14


def test_redundant_joints_are_named():
    with pytest.raises(ValueError, match=r"1 of 6 constraints.*`latch` follow from `hinge`.*minimum-norm"):
        pendulum(twice=True).assemble()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "formulation", ["SE3", *(pytest.param(f, marks=pytest.mark.exhaustive) for f in ("SO3xR3", "S3|xR3"))]
)
def test_redundant_components_are_left_out_and_multipliers_spread(formulation):
    system, (q, v) = pendulum(twice=True).assemble(formulation, redundant="minimum-norm")
    assert (system.m, system.complete.m) == (5, 6)

    def evaluate(v):
        vdot, multipliers = system.accelerations(ZERO, q, v)
        force = system.constraint_force(ZERO, q, multipliers)
        B = to_dense(system.complete.jacobian(ZERO, q), (6, 6))
        return vdot, system.joint_multipliers(ZERO, q, multipliers), force, B

    vdot, by_joint, force, B = evaluated(evaluate, v)
    spread = np.concatenate([by_joint["hinge"], by_joint["latch"]])
    np.testing.assert_allclose(B.T @ spread, force, atol=1e-10)
    # Least norm: no part of it lies in the kernel of Bᵀ.
    kernel = np.linalg.svd(B.T)[2][5]
    np.testing.assert_allclose(kernel @ spread, 0.0, atol=1e-10)
    # Only the turn about the line through both points is free: gravity acts at the centre of mass on that line.
    np.testing.assert_allclose(vdot, 0.0, atol=1e-10)


def test_the_choice_can_be_repeated_where_numbers_are_traced():
    system, state = pendulum(twice=True).assemble("SE3", redundant="minimum-norm")

    def multipliers(g):
        model = pendulum(twice=True)
        model.gravity = g * jnp.array([0, 0, -1.0])
        traced, _ = model.assemble("SE3", redundant=system.dropped)
        return traced.accelerations(ZERO, *state)[1]

    expected = evaluated(lambda v: system.accelerations(ZERO, state[0], v)[1], state[1])
    np.testing.assert_allclose(evaluated(multipliers, 9.81), expected, atol=1e-10)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("dropped", "message"),
    [
        ({"hnge": (0,)}, r"'hnge', which has no constraints.*`hinge`, `latch` have"),
        ({"latch": (3,)}, r"`latch` once, as whole numbers from 0 to 2, got \(3,\)"),
        ({"latch": (-1,)}, "whole numbers"),
        ({"latch": 0.5}, "whole numbers"),
        ({"latch": (1, 1)}, "once"),
        ({"latch": (0,)}, "1 of 5 constraints still depend"),
        ({}, "1 of 6 constraints still depend"),
        ({"latch": (0, 1)}, "drops 2 components, but 1 follow"),
    ],
)
def test_a_choice_that_does_not_fit_is_refused(dropped, message):
    with pytest.raises(ValueError, match=message):
        pendulum(twice=True).assemble("SE3", redundant=dropped)


def test_traced_models_can_not_be_repaired():
    def energy(x):
        system, (q, v) = pendulum(velocity=(x, 0.0, 0.0)).assemble("SE3", repair=True)
        return system.energy(ZERO, q, v)

    with pytest.raises(ValueError, match="Inside jit, grad or vmap"):
        jax.grad(energy)(1.0)


@pytest.mark.exhaustive
def test_the_energy_of_a_model_can_be_differentiated_by_its_data():
    def energy(x):
        system, (q, v) = pendulum(velocity=(x, 0.0, 0.0)).assemble("SE3")
        return system.energy(ZERO, q, v)

    np.testing.assert_allclose(jax.grad(energy)(1.5), 2.0 * 1.5, rtol=1e-14)


@pytest.mark.exhaustive
def test_long_chains_are_analysed_too():
    model = loop((1.0,) * 220)
    system, _ = model.assemble("SO3xR3")
    assert system.m == 660
    model.add(ph.joints.Spherical(model.bodies[-1], model.bodies[-2], point=(219, 0, 0), name="extra"))
    with pytest.raises(ValueError, match=r"3 of 663 constraints are redundant.*(extra|ball-219)"):
        model.assemble("SO3xR3")


@pytest.mark.exhaustive
def test_diagnosis_names_bodies_and_joints():
    system, (q, v) = pendulum().assemble("SE3")
    moved = system.configuration.move(q, jnp.array([0, 0, 0, 0, 0.25, 0]))
    said = system.diagnose(0.5, (moved, v + 1.0))
    assert "`hinge` by 0.25" in said
    assert "`body-1`" in said


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ratio", [1e-6, 1e6])
def test_masses_of_very_different_size_are_repaired(ratio):
    rng = np.random.default_rng(2)
    model = ph.Model(gravity=(0, 0, 0))
    corners = np.array([[1.0, 0, 0], [0, 1.0, 0.2], [-1.0, 0, 0.1], [0, -1.0, -0.2]])
    bodies = [
        model.add_body(
            mass=ratio ** (k % 2),
            inertia=np.array([0.3, 0.4, 0.5]) * ratio ** (k % 2),
            position=corner,
            velocity=rng.standard_normal(3),
            angular_velocity=rng.standard_normal(3),
        )
        for k, corner in enumerate(corners)
    ]
    for k in range(4):
        model.add(ph.joints.Spherical(bodies[k - 1], bodies[k], point=0.5 * (corners[k - 1] + corners[k])))
    system, state = model.assemble("SE3", repair=True)
    assert np.abs(system.constraint_rate(ZERO, *state)).max() < 1e-8
