"""Angles of joints are real numbers, whatever coordinates the bodies have."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph

F, J = ph.forces, ph.joints
INERTIA, END, TURNED = 0.1, 2.0, 40.0
AXIS = (0, 0, 1)


class Pulse(eqx.Module):
    """A torque that turns a wheel at rest by an angle, and brings it to rest again."""

    angle: Any

    def __call__(self, t: Any) -> Any:
        size = INERTIA * self.angle * 2 * jnp.pi / END**2
        return jnp.stack([0 * t, 0 * t, size * jnp.sin(2 * jnp.pi * t / END)])


def wheel(angle: Any = TURNED, name: str | None = "axle", spin: float = 0.0) -> tuple[ph.Model, J.Revolute]:
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(INERTIA,) * 3, angular_velocity=(0, 0, spin), name="wheel")
    axle = model.add(J.Revolute(model.ground, body, point=(0, 0, 0), axis=AXIS, name=name))
    model.add(F.Torque(body, Pulse(angle)))
    return model, axle


def end_angle(angle: Any, formulation: str = "SO3xR3", every: int | None = None) -> Any:
    problem = wheel(angle)[0].problem(formulation, t1=END, h=0.02)
    return ph.simulate(problem, "rkmk4", save_every=every).joints["axle"].angle[-1]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("formulation", "method", "error"),
    [
        ("SO3xR3", "rkmk4", 1e-6),
        ("minimal", "rkmk4", 1e-6),
        ("livens", "eml", 0.5),
        pytest.param("SE3", "herk4", 1e-6, marks=pytest.mark.exhaustive),
        pytest.param("S3xR3", "generalized-alpha", 0.1, marks=pytest.mark.exhaustive),
        pytest.param("S3|xR3", "generalized-alpha", 0.1, marks=pytest.mark.exhaustive),
        pytest.param("rotation-vector", "generalized-alpha", 0.1, marks=pytest.mark.exhaustive),
        pytest.param("euler-parameters", "generalized-alpha", 0.5, marks=pytest.mark.exhaustive),
        pytest.param("SO3xR3", "rattle", 1.0, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("every", [7, None])
def test_turns_are_those_of_the_motion_however_few_frames_are_saved(
    formulation: str, method: str, error: float, every: int | None
) -> None:
    """Between two instants of rest the rates of the frames say nothing of the turns."""
    model, axle = wheel()
    problem = model.problem(formulation, t1=END, h=0.01)
    run = ph.simulate(problem, method, h=0.01, save_every=every)
    assert run.joints["axle"].angle[-1] == pytest.approx(TURNED, abs=error)
    if method != "rattle":
        # Its states have momenta beside (q, v), and joints are read in those of the model.
        assert run.joints["axle"].angle[-1] == axle.angle(problem.system, 0.0, run.state)[-1]


@pytest.mark.exhaustive
def test_turns_inside_transformations() -> None:
    """The angle is in proportion to the torque."""
    np.testing.assert_allclose(jax.value_and_grad(end_angle)(TURNED), (TURNED, 1.0), rtol=1e-7)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:XLA compiles this derivative:polhode.CompileTimeWarning")
def test_turns_inside_compiled_transformations() -> None:
    np.testing.assert_allclose(jax.jit(jax.value_and_grad(end_angle))(TURNED), (TURNED, 1.0), rtol=1e-7)
    np.testing.assert_allclose(jax.vmap(end_angle)(jnp.array([3.2, 40.0])), (3.2, 40.0), rtol=1e-7)


@pytest.mark.exhaustive
def test_runs_that_go_on_keep_their_turns(tmp_path: Any) -> None:
    model, _ = wheel()
    problem = model.problem("SO3xR3", t1=END, h=0.02)
    whole = ph.simulate(problem, "rkmk4", save_every=10)
    first = ph.simulate(problem, "rkmk4", save_every=10, t1=1.0)
    later = ph.simulate(problem, "rkmk4", save_every=10, initial=first)
    np.testing.assert_array_equal(later.joints["axle"].angle[-1], whole.joints["axle"].angle[-1])
    ph.simulate(problem, "rkmk4", save_every=10, t1=1.0, store=tmp_path / "run.zarr")
    resumed = ph.resume(tmp_path / "run.zarr", t1=END, problem=problem)
    np.testing.assert_array_equal(resumed.joints["axle"].angle, whole.joints["axle"].angle)
    np.testing.assert_array_equal(ph.load(tmp_path / "run.zarr").joints["axle"].angle, whole.joints["axle"].angle)


@pytest.mark.exhaustive
def test_a_step_of_many_turns_is_counted_by_its_rates() -> None:
    model, _ = wheel(0.0, spin=500.0)
    run = ph.simulate(model.problem("SO3xR3", t1=1.0, h=0.02), "generalized-alpha")
    np.testing.assert_allclose(run.joints["axle"].angle, 500 * run.t, rtol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["axle", None])
def test_own_events_see_the_turns(name: str | None) -> None:
    """A joint that was given no name is known by its bodies."""
    model, axle = wheel(name=name)
    problem = model.problem("SO3xR3", t1=END, h=0.02)
    event = ph.Event(lambda t, state: axle.angle(problem.system, t, state) - 0.5 * TURNED, terminal=True)
    assert ph.simulate(problem, "rkmk4", events=[event]).t[-1] == pytest.approx(0.5 * END, abs=1e-6)


SPRING = 0.4
"""Along the axle; the wheel swings about its rest at sqrt(k/J) = 2 rad per time."""

FORCES: dict[str, Callable[[Any], Any]] = {
    "spring": lambda joint: F.JointSpring(joint, SPRING, rest=5.0),
    "servo": lambda joint: F.Actuator(joint, control=5.0, gain=SPRING, bias=(0, -SPRING, 0)),
    "pd": lambda joint: F.PD(joint, SPRING, 0.0, target=5.0),
    "control": lambda joint: F.JointControl([joint], lambda t, s, rates: -SPRING * (s - 5.0)),
    "torsional": lambda joint: F.TorsionalSpringDamper(joint.first, joint.second, AXIS, SPRING, angle=5.0),
    "combination": lambda joint: F.JointSpring(J.Combination([joint, joint], (0.5, 1.5)), SPRING / 4, rest=10.0),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("force", FORCES)
@pytest.mark.parametrize("formulation", ["SO3xR3", pytest.param("minimal", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_forces_beyond_half_a_turn(force: str, formulation: str) -> None:
    """5(1 - cos 2t) goes up to 10 rad and back; folded angles would never come back so."""
    model, axle = wheel(0.0)
    model.add(FORCES[force](axle))
    run = ph.simulate(model.problem(formulation, t1=np.pi, h=0.01), "rkmk4", save_every=20)
    np.testing.assert_allclose(run.joints["axle"].angle, 5 * (1 - np.cos(2 * run.t)), atol=2e-6)


def _spin_run(force: str, formulation: str, **options: Any) -> Any:
    """A wheel that makes 200 rad in the second in which a weak spring hardly slows it down."""
    model, axle = wheel(0.0, spin=200.0)
    model.add({**FORCES, **MOTORS}[force](axle))
    return ph.simulate(model.problem(formulation, t1=1.0, h=0.02), throw=False, **options)


MOTORS: dict[str, Callable[[Any], Any]] = {
    "friction": lambda joint: F.JointFriction(joint, 0.1, 0.1),
    "motor": lambda joint: F.Actuator(joint, control=-0.1),
    "damper": lambda joint: F.JointSpring(joint, 0.0, damping=0.0005),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "force", [pytest.param(f, marks=() if f in ("spring", "servo") else pytest.mark.exhaustive) for f in FORCES]
)
@pytest.mark.exhaustive
def test_a_step_of_more_than_half_a_turn_is_no_success_where_a_force_reads_the_angle(force: str) -> None:
    run = _spin_run(force, "SO3xR3", integrator="rkmk4")
    assert run.stats["result"] is ph.Result.half_turn_passed
    assert "`axle`" in run.stats["diagnosis"]
    assert run.t[-1] == 0.0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "force", [pytest.param(f, marks=() if f == "motor" else pytest.mark.exhaustive) for f in MOTORS]
)
def test_forces_that_read_rates_alone_take_steps_of_several_turns(force: str) -> None:
    run = _spin_run(force, "SO3xR3", integrator="rkmk4")
    expected = 200 - 0.1 / INERTIA * run.t if force != "damper" else 200 * np.exp(-0.0005 / INERTIA * run.t)
    np.testing.assert_allclose(run.joints["axle"].rate, expected, rtol=1e-6)
    total = 200 * run.t - 0.5 * 0.1 / INERTIA * run.t**2 if force != "damper" else (200 - expected) * INERTIA / 0.0005
    np.testing.assert_allclose(run.joints["axle"].angle, total, rtol=1e-6, atol=1e-9)


@pytest.mark.exhaustive
def test_controlled_steps_stay_below_half_a_turn_where_a_force_reads_the_angle() -> None:
    run = _spin_run("spring", "SO3xR3", integrator="herk54", rtol=1e-3, atol=1e-3)
    assert run.stats["result"] is ph.Result.successful
    assert run.stats["steps"] > 200 / np.pi
    swing = 5 - 5 * np.cos(2 * run.t) + 100 * np.sin(2 * run.t)
    np.testing.assert_allclose(run.joints["axle"].angle, swing, atol=0.1)


@pytest.mark.exhaustive
def test_stops_and_limits_beyond_half_a_turn() -> None:
    """Thrown at 5 rad/s against an elastic stop at 4 rad, which gives way by ω sqrt(J/k)."""
    for formulation in ("SO3xR3", "minimal"):
        model, axle = wheel(0.0, spin=5.0)
        model.add(F.JointStops(axle, (-np.inf, 4.0), 1000.0))
        run = ph.simulate(model.problem(formulation, t1=1.5, h=1e-3), "rkmk4")
        assert run.joints["axle"].angle.max() == pytest.approx(4 + 5 * np.sqrt(INERTIA / 1000), abs=1e-4)
        model, axle = wheel(0.0, spin=5.0)
        run = ph.simulate(
            model.problem(formulation, t1=1.5, h=0.02), "rkmk4", events=ph.events.stop(axle, upper=4.0, restitution=0.5)
        )
        np.testing.assert_allclose(run.events.t, 0.8, atol=1e-10)


@pytest.mark.exhaustive
def test_forces_by_name_read_the_turns() -> None:
    model, axle = wheel(0.0, spin=5.0)
    model.add(F.JointSpring(axle, 1e-9, name="weak"))
    run = ph.simulate(model.problem("SO3xR3", t1=2.0, h=0.02), "rkmk4", save_every=10)
    np.testing.assert_allclose(run.forces["weak"].deflection, 5 * run.t, rtol=1e-6)
    np.testing.assert_allclose(run.joints["axle"].torque, -5e-9 * run.t, rtol=1e-6)


def four_bar() -> ph.Model:
    """A crank of 0.2 that turns at 6 rad/s, a coupler of 0.5 and a rocker of 0.4 between pins 0.5 apart."""
    crank, pin = 0.2, np.array([0.5, 0.0])
    a = np.array([crank, 0.0])
    d = np.linalg.norm(pin - a)
    along = (0.5**2 - 0.4**2 + d**2) / (2 * d)
    u = (pin - a) / d
    b = a + along * u + np.sqrt(0.5**2 - along**2) * np.array([-u[1], u[0]])
    model = ph.Model()
    bodies, points = [], [np.zeros(2), a, b, pin]
    for k, (first, second) in enumerate(itertools.pairwise(points)):
        place = 0.5 * (first + second)
        bodies.append(model.add_body(mass=1.0, inertia=(0.01, 0.01, 0.01), position=(*place, 0.0), name=f"bar-{k}"))
    chain = [model.ground, *bodies, model.ground]
    for k, (first, second, point) in enumerate(zip(chain, chain[1:], points, strict=False)):
        model.add(J.Revolute(first, second, point=(*point, 0.0), axis=AXIS, name=f"hinge-{k}"))
    drive = J.PrescribedRotation(model.ground, bodies[0], axis=AXIS, angle=lambda t: 6.0 * t, name="drive")
    model.add(drive)
    return model


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", pytest.param("SO3xR3", marks=pytest.mark.exhaustive)])
def test_joints_that_close_loops_and_drives_count(formulation: str) -> None:
    """The hinges of a triangle of bars add up to nothing: those of the crank make turns, the rocker's make none."""
    problem = four_bar().problem(formulation, t1=3.0, h=0.01, repair=True, redundant="minimum-norm")
    run = ph.simulate(problem, "generalized-alpha", h=0.01, save_every=25)
    angles = np.stack([run.joints[f"hinge-{k}"].angle for k in range(4)])
    np.testing.assert_allclose(run.joints["drive"].angle, 6 * run.t, atol=1e-6)
    np.testing.assert_allclose(angles[0], 6 * run.t, atol=1e-6)
    np.testing.assert_allclose(angles.sum(axis=0), 0, atol=1e-6)
    assert np.ptp(angles[1]) > 10
    assert np.ptp(angles[3]) < 2


def test_states_hold_the_turns_and_methods_leave_them_alone() -> None:
    model, axle = wheel(0.0, spin=5.0)
    system, (q, v) = model.assemble("SO3xR3")
    assert system.configuration.dim == system.n == 6
    moved = system.configuration.move(q, jnp.array([0, 0, 3.0, 0, 0, 0]))
    np.testing.assert_array_equal(system.turns(moved), 0.0)
    # From there on angles are those within half a turn of what was counted.
    further = system.with_turns(moved[:-1], jnp.array([4 * np.pi + 3.1]))
    np.testing.assert_allclose(axle.angle(system, 0.0, (further, v)), 3.0 + 4 * np.pi, rtol=1e-15)


@pytest.mark.exhaustive
def test_energy_with_a_spring_of_several_turns_is_kept() -> None:
    """Control: a spring whose angle were folded would lose its energy at half a turn."""
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(INERTIA,) * 3, name="wheel")
    axle = model.add(J.Revolute(model.ground, body, point=(0, 0, 0), axis=AXIS, name="axle"))
    model.add(F.JointSpring(axle, SPRING, rest=9.0))
    run = ph.simulate(model.problem("livens", t1=6.0, h=0.02), "eml")
    assert np.ptp(run.invariants["energy"]) < 1e-10 * run.invariants["energy"][0]
    assert run.joints["axle"].angle.max() > 17


@pytest.mark.exhaustive
def test_free_bodies_with_a_torsional_spring_on_their_cotangent_bundle() -> None:
    """Two equal bodies wind up against each other at twice the stiffness."""
    model = ph.Model()
    first, second = (model.add_body(mass=1.0, inertia=(INERTIA,) * 3, name=name) for name in ("a", "b"))
    model.add(F.TorsionalSpringDamper(first, second, AXIS, 0.5 * SPRING, angle=5.0, name="spring"))
    problem = model.problem("S3xR3", t1=np.pi, h=0.01)
    run = ph.simulate(problem, "symplectic", h=0.01, save_every=20)
    deflection = run.forces["spring"].deflection
    np.testing.assert_allclose(deflection, -5 * np.cos(2 * run.t), atol=2e-2)


class Lever(eqx.Module):
    """A torque towards 5 rad that grows with the angle from there."""

    stiffness: Any

    def __call__(self, t: Any, s: Any, rates: Any) -> Any:
        del t, rates
        return -self.stiffness * (s - 5.0)


@pytest.mark.exhaustive
def test_members_of_ensembles_count_their_turns() -> None:
    """5(1 - cos ωt) at half a period of the first member, which is a whole one of the second."""
    model, axle = wheel(0.0)
    model.add(F.JointControl([axle], Lever(ph.Parameter("stiffness", SPRING))))
    problem = model.problem("SO3xR3", t1=np.pi / 2, h=0.02)
    members = ph.ensemble(problem, "rkmk4", parameters={"stiffness": np.array([SPRING, 4 * SPRING])}, h=0.02)
    ends = np.asarray(members.dataset["outputs.joint_positions"])[:, -1].ravel()
    np.testing.assert_allclose(ends, (10.0, 0.0), atol=2e-6)
