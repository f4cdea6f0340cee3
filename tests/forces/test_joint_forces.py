"""Forces along a joint coordinate, against exact solutions of one degree of freedom."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph

MASS, RATE = 2.0, 3.0
FORMS = [("minimal", "rkmk4"), ("SO3xR3", "herk4"), ("minimal", "generalized-alpha")]
slow = pytest.mark.sampled(6)


def slider(speed: float) -> tuple[ph.Model, Any]:
    """A body on a guide along x, with that speed."""
    model = ph.Model()
    body = model.add_body(mass=MASS, inertia=(1, 1, 1), velocity=(speed, 0, 0))
    return model, model.add(ph.joints.Prismatic(model.ground, body, axis=(1, 0, 0), name="guide"))


def disc(speed: float) -> tuple[ph.Model, Any]:
    """A disc on an axle, with that angular velocity."""
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(1, 1, MASS), angular_velocity=(0, 0, speed))
    return model, model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 0, 1), name="axle"))


def values(model: ph.Model, joint: Any, formulation: str, method: str, t1: float, h: float) -> tuple[Any, ...]:
    system, state = model.assemble(formulation)
    run = ph.simulate(system, method, h=h, t1=t1, state0=state)
    end = jax.tree.map(lambda x: x[-1], run.state)
    return run, joint.value(system, run.t, run.state), joint.rate(system, run.t, run.state), system.energy(0.0, *end)


@slow
@pytest.mark.parametrize(("formulation", "method"), FORMS)
@pytest.mark.parametrize("make", [slider, disc])
@pytest.mark.exhaustive
def test_a_spring_and_damper_swing_as_in_the_textbook(make: Any, formulation: str, method: str) -> None:
    model, joint = make(RATE)
    model.add(ph.forces.JointSpring(joint, stiffness=18.0, damping=1.2, rest=0.2))
    run, s, rate, energy = values(model, joint, formulation, method, 1.0, 1e-3)
    decay, omega = 0.3, np.sqrt(9 - 0.09)
    a, b = -0.2, (RATE - 0.2 * decay) / omega
    t = np.asarray(run.t)
    wave = np.exp(-decay * t) * (a * np.cos(omega * t) + b * np.sin(omega * t))
    np.testing.assert_allclose(s, 0.2 + wave, atol=1e-5 if method == "generalized-alpha" else 1e-11)
    assert energy == pytest.approx(float(0.5 * MASS * rate[-1] ** 2 + 9.0 * (s[-1] - 0.2) ** 2), rel=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [slider, disc])
def test_a_spring_without_damper_swings_as_in_the_textbook(make: Any) -> None:
    model, joint = make(RATE)
    model.add(ph.forces.JointSpring(joint, stiffness=18.0, rest=0.2))
    run, s, _, _ = values(model, joint, "minimal", "rkmk4", 1.0, 1e-3)
    t = 3 * np.asarray(run.t)
    np.testing.assert_allclose(s, 0.2 - 0.2 * np.cos(t) + RATE / 3 * np.sin(t), atol=1e-11)


@pytest.mark.exhaustive
@slow
@pytest.mark.parametrize(("formulation", "method"), FORMS)
@pytest.mark.parametrize("make", [slider, disc])
@pytest.mark.sampled(12)
def test_stops_throw_back_in_half_a_period(make: Any, formulation: str, method: str) -> None:
    model, joint = make(RATE)
    stiffness = MASS * 100.0**2
    model.add(ph.forces.JointStops(joint, limits=(-0.1, 0.2), stiffness=stiffness))
    run, s, rate, energy = values(model, joint, formulation, method, 0.25, 1e-4)
    # Half a period π/100 in the upper stop, from 0.2/3; the lower one is reached 0.1 after the way of 0.3.
    back, again = 0.2 / RATE + np.pi / 100, 0.2 / RATE + np.pi / 100 + 0.3 / RATE
    t = np.asarray(run.t)
    free = (t > back) & (t < again)
    exact = 0.2 - RATE * (t[free] - back)
    np.testing.assert_allclose(np.asarray(s)[free], exact, atol=2e-5)
    assert np.max(s) == pytest.approx(0.2 + RATE / 100, abs=1e-5)
    assert rate[-1] == pytest.approx(RATE, abs=1e-4)
    assert energy == pytest.approx(0.5 * MASS * RATE**2, rel=1e-4)


def test_stops_push_continuously_where_a_joint_arrives_with_a_rate() -> None:
    model, joint = slider(RATE)
    model.add(ph.forces.JointStops(joint, (-0.1, 0.2), stiffness=300.0, damping=40.0, onset=1e-2))
    system, (q0, _) = model.assemble("minimal")

    def push(s: float, rate: float) -> float:
        q = jax.tree.map(lambda x: jnp.full_like(x, s), q0)
        return float(system.force(jnp.zeros(()), q, jnp.array([rate]))[0])

    rest = push(0.0, 1.0)
    assert push(0.2 + 1e-9, 1.0) - rest == pytest.approx(0.0, abs=1e-5)
    assert push(0.205, 1.0) - rest == pytest.approx(-(300 * 0.005 + 0.5 * 40), rel=1e-9)
    assert push(0.23, 1.0) - rest == pytest.approx(-(300 * 0.03 + 40), rel=1e-9)
    assert push(-0.105, -1.0) - rest == pytest.approx(300 * 0.005 + 0.5 * 40, rel=1e-9)
    assert push(0.23, -1.0) == rest


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", ["generalized-alpha", "bdf"])
def test_an_implicit_step_arrives_at_a_stop(method: str) -> None:
    """Its third step would end just behind the stop, where a damper in full force would keep it in front: nowhere."""

    def arriving(onset: float) -> Any:
        model, joint = slider(RATE)
        model.add(ph.forces.JointStops(joint, (-np.inf, 0.01799), stiffness=2e4, damping=400.0, onset=onset))
        model.add(ph.forces.JointFriction(joint, friction=0.1, stick_velocity=1e-4))
        return ph.simulate(model.problem("minimal", t1=0.4, h=2e-3), method, throw=False)

    run = arriving(1e-3)
    s = np.asarray(run.outputs["joint_positions"])[:, 0]
    assert run.stats["result"] == ph.Result.successful
    assert s.max() > 0.01799
    assert s[-1] < 0.01799
    # The control: a jump. Steps that are divided end in front of it.
    divides = ph.integrators.get(method).divisible
    assert arriving(1e-15).stats["result"] == (ph.Result.successful if divides else ph.Result.newton_not_converged)


@pytest.mark.exhaustive
def test_dampers_of_stops_never_pull() -> None:
    model, joint = slider(RATE)
    model.add(ph.forces.JointStops(joint, limits=(-np.inf, 0.0), stiffness=200.0, damping=60.0))
    _, s, rate, _ = values(model, joint, "minimal", "rkmk4", 2.0, 1e-3)
    assert np.all(np.diff(np.asarray(rate)) <= 1e-12)
    assert -RATE < rate[-1] < 0
    assert s[-1] < 0


@pytest.mark.exhaustive
@slow
@pytest.mark.parametrize(("formulation", "method"), FORMS)
@pytest.mark.parametrize("make", [slider, disc])
@pytest.mark.sampled(12)
def test_dry_friction_brakes_evenly_and_then_creeps(make: Any, formulation: str, method: str) -> None:
    model, joint = make(0.3)
    model.add(ph.forces.JointFriction(joint, friction=1.0, stick_velocity=1e-3))
    model.add(ph.forces.Actuator(joint, control=0.5))
    run, _, rate, _ = values(model, joint, formulation, method, 1.4, 5e-4)
    t = np.asarray(run.t)
    np.testing.assert_allclose(np.asarray(rate)[t < 1.1], (0.3 - 0.25 * t)[t < 1.1], atol=1e-6)
    # Under half the largest friction it ends with tanh(v/v_s) = 1/2.
    assert rate[-1] == pytest.approx(1e-3 * np.arctanh(0.5), rel=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
@pytest.mark.parametrize("make", [slider, disc])
def test_actuators_have_limits(make: Any, formulation: str) -> None:
    model, joint = make(RATE)
    actuator = ph.forces.Actuator(
        joint,
        control=lambda t: 10.0 * jnp.cos(t),
        gain=2.0,
        bias=(0.5, -3.0, -0.7),
        gear=1.5,
        control_limits=(-4.0, 4.0),
        force_limits=(-6.0, 5.0),
    )
    element = actuator.place(())
    for t, s, rate, target in (
        (0.0, 0.0, 0.0, 1.5 * 5.0),
        (0.0, 1.0, 1.0, 1.5 * (8.0 + 0.5 - 4.5 - 1.05)),
        (np.pi / 2, 2.0, 0.0, -1.5 * 6.0),
        (np.arccos(0.1), 0.2, -1.0, 1.5 * (2.0 + 0.5 - 0.9 + 1.05)),
    ):
        assert float(element.effort(jnp.asarray(t), jnp.asarray(s), jnp.asarray(rate))) == pytest.approx(target)
    model.add(actuator)
    system, (q, v) = model.assemble(formulation)
    a = system.accelerations(jnp.asarray(0.0), q, v)[0]
    # At s = 0 and the rate 3 it gives 8 + 0.5 - 3.15, more than 5.
    assert float(a[0] if formulation == "minimal" else a[3 if make is slider else 2]) == pytest.approx(7.5 / MASS)


@pytest.mark.exhaustive
def test_efforts_have_the_derivatives_that_implicit_methods_take() -> None:
    model, joint = disc(RATE)
    model.add(ph.forces.Actuator(joint, control=1.0, bias=(0.0, -3.0, -0.7)))
    model.add(ph.forces.PD(joint, 2.0, 0.3, target=10.0))
    system, (q, v) = model.assemble("minimal")
    K = np.asarray(system.stiffness(jnp.asarray(0.0), q, v)[0].values).reshape(-1)
    C = np.asarray(system.damping(jnp.asarray(0.0), q, v)[0].values).reshape(-1)
    assert pytest.approx(5.0) == K
    assert pytest.approx(1.0) == C


def test_bad_values_are_named() -> None:
    _, joint = slider(RATE)
    with pytest.raises(ValueError, match="`limits` must be a lower and a larger upper limit"):
        ph.forces.JointStops(joint, limits=(1.0, 0.0), stiffness=1.0)
    with pytest.raises(ValueError, match="`stick_velocity` must be greater than zero"):
        ph.forces.JointFriction(joint, friction=1.0, stick_velocity=0.0)
    with pytest.raises(ValueError, match="`control` of Actuator"):
        ph.forces.Actuator(joint, control=lambda t: jnp.zeros(2))


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_controllers_keep_to_their_limits(formulation: str) -> None:
    for integral, (s, rate), limits, target in (
        # P = 2 and D = 0.1; integrals are zero at the start.
        (None, (1.0, 3.0), (-1.5, np.inf), -1.5),
        (None, (-1.0, 3.0), (-1.5, 0.5), 0.5),
        (None, (0.1, 3.0), (-1.5, 0.5), -0.5),
        (None, (5.0, 3.0), None, -10.3),
        (4.0, (1.0, 3.0), (-1.5, np.inf), -1.5),
        (4.0, (0.1, 3.0), (-1.5, 0.5), -0.5),
    ):
        model, joint = slider(rate)
        gains = {"proportional": 2.0, "derivative": 0.1, "target": -s, "force_limits": limits}
        values = ph.forces.PD(joint, **gains) if integral is None else ph.forces.PID(joint, integral=integral, **gains)
        model.add(values)
        system, (q, v) = model.assemble(formulation)
        assert float(system.force(jnp.zeros(()), q, v)[0 if formulation == "minimal" else 3]) == pytest.approx(target)
    with pytest.raises(ValueError, match="`force_limits` must be a lower and a larger upper limit"):
        ph.forces.PD(joint, proportional=2.0, derivative=0.0, force_limits=(1.0, -1.0))
