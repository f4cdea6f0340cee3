"""Models on Livens' principle: energy, momenta, orders, and agreement with other formulations."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.model import Model
from polhode.systems import LivensState


def loop(free: bool = True, seed: int = 3) -> Model:
    """Three bodies in a ring of spherical joints, at rest, and a spring with damper; or hung up under gravity."""
    rng = np.random.default_rng(seed)
    model = Model(gravity=(0, 0, 0) if free else (0, 0, -9.81))
    corners = np.array([[1.0, 0, 0], [-0.5, 0.8, 0.2], [-0.4, -0.9, -0.1]])
    bodies = [
        model.add_body(mass=1 + k, inertia=0.2 + 0.1 * rng.random(3), position=corners[k], name=f"body-{k}")
        for k in range(3)
    ]
    for a, b in ((0, 1), (1, 2), (2, 0)):
        model.add(ph.joints.Spherical(bodies[a], bodies[b], point=0.5 * (corners[a] + corners[b])))
    if not free:
        model.add(ph.joints.Spherical(model.ground, bodies[0], point=(0, 0, 1)))
    spring = {"stiffness": 30.0, "length": 1.0, "first_point": corners[0] + 0.2, "second_point": corners[1] + 0.3}
    model.add(ph.forces.SpringDamper(bodies[0], bodies[1], **spring))
    return model


def kicked_model(joints: str, free: bool = True):
    """The ring with velocities that its joints allow."""
    system, state = loop(free).assemble("livens", joints=joints)
    q, v = system.to_base(state)
    rng = np.random.default_rng(1)
    q, v = system.base.repaired(0.0, (q, jnp.asarray(rng.standard_normal(v.shape))))
    return system, system.start(q, v)


@cache
def run(joints: str, h: float, t1: float, free: bool = True):
    system, state = kicked_model(joints, free)
    return system, ph.simulate(system, "eml", h=h, t1=t1, state0=state)


def increments(values) -> float:
    return float(np.abs(np.diff(np.asarray(values), axis=0)).max())


@pytest.mark.exhaustive
@pytest.mark.parametrize("joints", ["invariant", "vector"])
def test_energy_is_kept_and_angular_momentum_with_invariant_joints_only(joints):
    _, found = run(joints, 0.05, 1.0)
    energy = np.asarray(found.invariants["energy"])
    assert increments(energy) < 1e-12 * np.abs(energy).max() + 1e-13
    assert np.ptp(np.asarray(found.outputs["kinetic_energy"])) > 0.1
    assert increments(found.outputs["linear_momentum"]) < 1e-12
    drift = increments(found.outputs["angular_momentum"])
    assert drift < 1e-12 if joints == "invariant" else drift > 1e-6
    assert max(float(np.max(found.residuals[name])) for name in ("position", "manifold")) < 1e-13


@pytest.mark.exhaustive
def test_velocities_belong_to_momenta_with_invariant_joints_only():
    gaps = []
    for joints in ("invariant", "vector"):
        system, found = run(joints, 0.05, 1.0)
        end = LivensState(*(np.asarray(x)[-1] for x in found.state))
        gaps.append(np.abs(system.start(*system.to_base(end)).p - end.p).max())
    assert gaps[0] < 1e-13
    assert gaps[1] > 1e-6


@pytest.mark.exhaustive
def test_four_times_the_step_of_the_paper():
    problem = ph.problems.get("four-bar-loop")
    found = ph.simulate(problem, "eml", h=0.4, t1=20.0)
    # Round-off in units of an energy of 1,932 and a momentum of 288, which steps that long magnify.
    energy, momentum = (np.asarray(found.outputs[name])[3:] for name in ("generalised_energy", "angular_momentum"))
    assert increments(energy) < 1e-13 * np.abs(energy).max()
    assert increments(momentum) < 1e-12 * np.abs(momentum).max()
    with pytest.raises(ph.SimulationError, match="Newton"):
        ph.simulate(problem.replace(joints="vector"), "eml", h=0.4, t1=20.0)


@pytest.mark.exhaustive
def test_vertical_momentum_of_a_hanging_loop():
    _, found = run("invariant", 0.02, 0.4, free=False)
    energy, momentum = np.asarray(found.invariants["energy"]), np.asarray(found.outputs["angular_momentum"])
    assert increments(energy) < 1e-12 * np.abs(energy).max() + 1e-12
    assert increments(momentum[:, 2]) < 1e-12
    assert increments(momentum[:, 0]) > 1e-3


@pytest.mark.exhaustive
@pytest.mark.parametrize("joints", ["invariant", pytest.param("vector", marks=pytest.mark.exhaustive)])
def test_order_2_towards_another_formulation(joints):
    system, state = kicked_model(joints)
    exact = ph.simulate(system.base, "herk5", h=2e-3, t1=0.4, state0=system.to_base(state))
    errors = []
    for h in (0.02, 0.01, 0.005):
        _, found = run(joints, h, 0.4)
        rows = [
            np.abs(np.asarray(found.outputs[name])[-1] - np.asarray(exact.outputs[name])[-1]).max()
            for name in ("positions", "rotations", "velocities", "angular_velocities")
        ]
        errors.append(rows)
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert np.all(np.abs(orders[-1] - 2) < 0.25), orders


@pytest.mark.exhaustive
def test_damper_takes_the_energy_that_its_force_works():
    model = Model()
    a, b = (model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.3), position=(x, 0, 0)) for x in (0.0, 1.0))
    spring = {"stiffness": 50.0, "damping": 2.0, "length": 0.5, "first_point": (0.0, 0.1, 0), "second_point": (1, 0, 0)}
    model.add(ph.forces.SpringDamper(a, b, **spring))
    system, state = model.assemble("livens")
    found = ph.simulate(system, "eml", h=0.01, t1=1.0, state0=state)
    other, start = model.assemble("S3xR3")
    exact = ph.simulate(other, "rkmk4", h=1e-3, t1=1.0, state0=start)
    for name, allowed in (("positions", 2e-4), ("rotations", 2e-3)):
        np.testing.assert_allclose(
            np.asarray(found.outputs[name])[-1], np.asarray(exact.outputs[name])[-1], atol=allowed
        )
    energy = np.asarray(found.outputs["generalised_energy"])
    assert energy[-1] < 0.5 * energy[0]
    assert increments(found.outputs["angular_momentum"]) < 1e-13
    assert "energy" not in found.invariants


@pytest.mark.exhaustive
def test_gradient_of_a_run_is_that_of_differences():
    problem = ph.problems.get("heavy-top-constrained", formulation="livens")
    method = ph.integrators.get("eml")

    def height(speed):
        system, state = problem.system, problem.state0
        state = LivensState(state.q, speed * state.v, speed * state.p)
        return ph.simulate(system, method, h=1e-3, t1=5e-3, state0=state).outputs["positions"][-1, 0, 2]

    slope = float(jax.grad(height)(1.0))
    step = 1e-5
    assert slope == pytest.approx(float(height(1 + step) - height(1 - step)) / (2 * step), rel=1e-6)


def _above_a_floor(mass=1.3) -> Model:
    """Two bodies that share a potential which isn't one of their relative pose."""
    model = Model(gravity=(0, 0, -9.81))
    low = model.add_body(mass=mass, inertia=(0.1, 0.2, 0.25), position=(0.5, 0, 0.3))
    high = model.add_body(mass=1.5, inertia=(0.15, 0.12, 0.2), position=(-0.5, 0, 0.8))
    model.add(ph.forces.Potential((low, high), lambda t, p: 500.0 * sum(jnp.minimum(x.x[2], 0.0) ** 2 for x in p)))
    return model


@pytest.mark.exhaustive
def test_potentials_of_two_bodies_may_be_any():
    found = ph.simulate(_above_a_floor().problem("livens", t1=1.0), "eml", h=0.005)
    peer = ph.simulate(_above_a_floor().problem("SE3", t1=1.0), "rkmk4", h=1e-3, save_every=None)
    heights = np.asarray(found.outputs["positions"])[:, :, 2]
    assert heights.min() < -0.05
    np.testing.assert_allclose(heights[-1], np.asarray(peer.outputs["positions"])[-1, :, 2], atol=2e-3)
    energy = np.asarray(found.invariants["energy"])
    assert np.ptp(energy) < 1e-12 * np.abs(energy).max()
    assert set(found.invariants) == {"energy"}


@pytest.mark.exhaustive
def test_traced_models_move_as_others_do():
    def end(mass):
        problem = _above_a_floor(mass).problem("livens", t1=0.5)
        return ph.simulate(problem, "eml", h=0.01, save_every=None).state.q[-1]

    np.testing.assert_allclose(jax.jit(end)(1.3), end(1.3), atol=1e-11)


@pytest.mark.exhaustive
def test_potentials_of_users_keep_momenta_where_they_are_told_to_be_relative():
    model = Model()
    a = model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.25), position=(0.5, 0, 0), angular_velocity=(1, -2, 0.5))
    b = model.add_body(mass=1.5, inertia=(0.15, 0.12, 0.2), position=(-0.5, 0.2, 0.4), velocity=(0.2, 0.5, 0))
    stretch = lambda t, p: 3.0 * jnp.sum((p[0].x - p[1].x - p[1].R[:, 0]) ** 2)  # noqa: E731
    model.add(ph.forces.Potential((a, b), stretch, relative=True))
    found = ph.simulate(model.problem("livens", t1=2.0), "eml", h=0.02)
    for name in ("energy", "linear_momentum", "angular_momentum"):
        values = np.asarray(found.invariants[name])
        assert np.max(np.abs(values - values[0])) < 1e-12


def test_potentials_that_are_not_relative_are_found_out():
    model = _above_a_floor()
    with pytest.raises(ValueError, match="Leave `relative` out"):
        model.add(ph.forces.Potential(model.bodies, lambda t, p: p[0].x[2] ** 2, relative=True))


def test_driven_joints_do_work():
    model = Model()
    crank = model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.25), position=(0.5, 0, 0))
    model.add(ph.joints.Revolute(model.ground, crank, point=(0, 0, 0), axis=(0, 0, 1)))
    model.add(ph.joints.PrescribedRotation(model.ground, crank, axis=(0, 0, 1), angle=lambda t: t**2))
    system, _ = model.assemble("livens", redundant="minimum-norm")
    assert system.rheonomic
    assert not system.conservative
    assert not system.invariants()


@pytest.mark.exhaustive
def test_bodies_that_never_move_are_no_trouble():
    model = Model(gravity=(0, 0, -9.81))
    a = model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.25), position=(1, 0, 0), angular_velocity=(0, 1, 2))
    b = model.add_body(mass=1.5, inertia=(0.15, 0.12, 0.2), position=(0, 0, 0))
    model.add(ph.joints.Fixed(model.ground, b))
    model.add(ph.forces.SpringDamper(a, b, (1, 0.1, 0), (0, 0.1, 0), stiffness=20.0, length=0.6))
    found = ph.simulate(model.problem("livens", t1=2.0), "eml", h=0.01)
    assert found.audit().kept
    assert found.stats["newton_iterations"] < 20


@pytest.mark.exhaustive
def test_where_no_impulses_keep_the_rates_a_step_is_made_without_them():
    """The loop of Bennett passes a place where its constraints lose rank."""
    found = ph.simulate(ph.problems.get("bennett", formulation="livens"), "eml", h=0.01, t1=2.0)
    energy = np.asarray(found.invariants["energy"])
    assert np.ptp(energy) < 5e-13 * np.abs(energy).max()
    assert np.max(found.residuals["position"]) < 1e-13
    assert found.audit()["velocity"].verdict == "broken"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "h", "steps"),
    [
        ("heavy-top-constrained", 1e-3, 100),
        pytest.param("bennett", 5e-3, 50, marks=pytest.mark.exhaustive),
        pytest.param("slender-ring", 5e-3, 20, marks=pytest.mark.exhaustive),
    ],
)
def test_any_model_keeps_its_energy(name, h, steps):
    options = {"n": 10} if name == "slender-ring" else {}
    problem = ph.problems.get(name, formulation="livens", **options)
    found = ph.simulate(problem, "eml", h=h, t1=steps * h)
    energy = np.asarray(found.invariants["energy"])
    assert increments(energy) < 1e-13 * max(1.0, float(np.abs(energy).max())), name
    assert np.ptp(np.asarray(found.outputs["generalised_energy"])) <= 10 * steps * 1e-14 * np.abs(energy).max()


def test_refusals():
    model = loop()
    with pytest.raises(ValueError, match="`joints` must be one of"):
        model.assemble("livens", joints="soft")
    system, state = model.assemble("livens")
    with pytest.raises(ValueError, match=r"shape \(21,\)"):
        ph.simulate(system, "eml", h=0.1, t1=1.0, state0=LivensState(state.q[:7], state.v[:7], state.p[:7]))
    with pytest.raises(ValueError, match="eml"):
        ph.simulate(system, "rkmk4", h=0.1, t1=1.0, state0=state)
    other = Model()
    other.add_body(mass=1.0, inertia=(1, 2, 3), formulation="euler-angles")
    with pytest.raises(ValueError, match="coordinates of its own"):
        other.assemble("livens")


def test_integrals_of_controllers_are_refused_in_words():
    """They have no kinetic energy, on which the balance of a step would be singular."""
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0), name="arm")
    hinge = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 0, 1), name="hinge"))
    model.add(ph.forces.PID(hinge, 50.0, 60.0, 15.0, target=2.0))
    with pytest.raises(ValueError, match="integral of a controller"):
        ph.simulate(model.problem("livens", t1=1.0, h=0.01), "eml")
