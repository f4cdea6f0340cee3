"""Momenta and energy against the impulse and the work of loads, in audits."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import polhode as ph
from polhode.frames import Frames
from polhode.multibody.measurements.balances import balance
from polhode.results.audit.broken_loads import broken_intervals
from polhode.results.audit.quadrature import integral


def gyrostat(gravity=(0, 0, 0)):
    """A hub that a motor between it and a wheel turns; nothing acts from outside but gravity."""
    model = ph.Model(gravity=gravity)
    hub = model.add_body(mass=100.0, inertia=(20.0, 25.0, 30.0), angular_velocity=(0.02, 0.01, 0.3), name="hub")
    wheel = model.add_body(
        mass=4.0, inertia=(0.02, 0.04, 0.02), position=(0, 0, 0.2), velocity=(0.002, -0.004, 0.0),
        angular_velocity=(0.02, 90.0, 0.3), name="wheel",
    )  # fmt: skip
    axle = model.add(ph.joints.Revolute(hub, wheel, point=(0, 0, 0.2), axis=(0, 1, 0), name="axle"))
    model.add(ph.forces.JointControl([axle], lambda t, s, rates: jnp.array([jnp.sin(3 * t)]), name="motor"))
    return model


def spin(run):
    """Angular momentum of the gyrostat about its centre of mass, from results by name."""
    bodies = [(run.bodies["hub"], 100.0, (20.0, 25.0, 30.0)), (run.bodies["wheel"], 4.0, (0.02, 0.04, 0.02))]
    centre = sum(m * b.position for b, m, _ in bodies) / 104
    return sum(
        np.einsum("nij,nj->ni", b.rotation, np.array(J) * b.angular_velocity)
        + m * np.cross(b.position - centre, b.velocity)
        for b, m, J in bodies
    )


@pytest.mark.exhaustive
def test_fast_wheels_in_absolute_coordinates_lose_angular_momentum_and_the_audit_says_so():
    run = ph.simulate(gyrostat((0, 0, -9.81)).problem("SO3xR3", t1=4.0, h=0.01, repair=True), save_every=20)
    H, audit = spin(run), run.audit()
    row = audit["angular_momentum"]
    assert row.max_drift == pytest.approx(np.abs(H - H[0]).max(), rel=1e-9)
    assert row.accuracy == "wrong"
    assert not audit.accurate
    assert "angular momentum drifted by" in row.remark
    assert any("`wheel` turns by up to 1.1 rad" in r and '`formulation="minimal"`' in r for r in audit.remarks)
    assert audit["linear_momentum"].accuracy == "accurate"


def test_joint_coordinates_keep_it_and_are_said_to_be_accurate():
    audit = ph.simulate(gyrostat((0, 0, -9.81)).problem("minimal", t1=4.0, h=0.01, repair=True)).audit()
    assert {row.quantity for row in audit} >= {"linear_momentum", "angular_momentum", "energy"}
    assert audit.accurate
    assert not audit.remarks
    assert audit["angular_momentum"].relative < 1e-6


def thrown(force, **body):
    model = ph.Model(gravity=(0, 0, -9.81))
    block = model.add_body(mass=2.0, inertia=(0.3, 0.2, 0.1), angular_velocity=(0.1, 5, 0.2), **body)
    model.add(ph.forces.PointForce(block, force, point=(0.1, 0, 0.2), frame="body"))
    return model


def test_impulse_and_work_of_loads_are_taken_off():
    """What a coarse run loses is what it differs by from a fine one."""
    model = thrown(lambda t: jnp.array([jnp.sin(5 * t), 0, 20.0]))
    fine, coarse = (ph.simulate(model.problem("SE3", t1=5.0, h=h, integrator="rkmk4")) for h in (0.005, 0.05))
    names = ("linear_momentum", "angular_momentum", "energy")
    assert not fine.audit().remarks
    assert all(fine.audit()[name].relative < 1e-4 for name in names)
    lost = 2.0 * (coarse.bodies["body-1"].velocity - fine.bodies["body-1"].velocity[::10])
    row = coarse.audit()["linear_momentum"]
    assert row.accuracy == "wrong"
    assert row.max_drift == pytest.approx(np.abs(lost).max(), rel=0.3)


@pytest.mark.parametrize("formulation", ["minimal", pytest.param("SO3xR3", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_dampers_motors_and_drives_do_work(formulation):
    """A pendulum with a damper and a motor, on a support that is driven."""
    model = ph.Model(gravity=(0, 0, -9.81))
    cart = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), name="cart")
    bob = model.add_body(mass=1.0, inertia=(0.01, 0.02, 0.03), position=(1, 0, 0), name="bob")
    model.add(ph.joints.Prismatic(model.ground, cart, axis=(1, 0, 0)))
    model.add(ph.joints.PrescribedTranslation(model.ground, cart, (1, 0, 0), lambda t: 0.1 * (1 - jnp.cos(4 * t))))
    hinge = model.add(ph.joints.Revolute(cart, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    model.add(ph.forces.JointSpring(hinge, stiffness=2.0, damping=0.3))
    model.add(ph.forces.Torque(bob, lambda t: jnp.array([0.0, 3 * jnp.sin(3 * t), 0.0])))
    fine, coarse = (ph.simulate(model.problem(formulation, t1=3.0, h=h), throw=False) for h in (2.5e-3, 0.2))
    audit = fine.audit()
    assert {"linear_momentum", "angular_momentum"}.isdisjoint(row.quantity for row in audit)
    assert audit["energy"].accuracy == "accurate"
    assert audit["energy"].relative < 1e-4
    assert coarse.audit()["energy"].accuracy == "wrong"
    assert "of what is exchanged" in coarse.audit()["energy"].remark


def test_frames_that_may_miss_a_contact_are_no_ground_for_a_verdict():
    model = ph.Model(gravity=(0, 0, -9.81))
    ball = model.add_body(mass=1.0, inertia=(0.01, 0.01, 0.01), position=(0, 0, 0.5))
    model.add(ph.forces.PlaneContact(ball, (0, 0, 0), (0, 0, 1), 1e4, 0.1, 0.05))
    problem = model.problem("SO3xR3", t1=1.0, h=5e-4, integrator="rkmk4")
    every = ph.simulate(problem).audit()
    assert every["energy"].accuracy == every["linear_momentum"].accuracy == "accurate"
    assert {row.quantity for row in ph.simulate(problem, save_every=40).audit()} == {"manifold"}


@pytest.mark.exhaustive
def test_what_impacts_change_is_no_drift():
    model = ph.Model(gravity=(0, 0, -9.81))
    one = model.add_body(mass=1.0, inertia=(0.01, 0.02, 0.03), angular_velocity=(0, 20, 0), name="one")
    model.add(ph.forces.Torque(one, (0.0, 0.1, 0.0)))
    kick = ph.Event(lambda t, state: t - 0.35, lambda t, state, system: (state[0], 2 * state[1]), name="kick")
    run = ph.simulate(model.problem("SO3xR3", t1=1.0, h=0.01), events=[kick])
    assert len(run.events) == 1
    assert not run.audit().remarks
    assert np.ptp(run.bodies["one"].angular_velocity[:, 1]) > 15


@pytest.mark.exhaustive
def test_which_bodies_are_free():
    model = ph.Model()
    a, b, c, d = (model.add_body(mass=1.0, inertia=(1, 1, 1), position=(k, 0, 0), name="abcd"[k]) for k in range(4))
    model.add(ph.joints.Revolute(model.ground, a, point=(0, 0, 0), axis=(0, 0, 1)))
    model.add(ph.joints.Revolute(a, b, point=(0.5, 0, 0), axis=(0, 0, 1)))
    model.add(ph.joints.PrescribedRotation(c, d, (0, 0, 1), lambda t: t))
    model.add(ph.joints.Spherical(c, d, point=(2.5, 0, 0)))
    for formulation in ("SO3xR3", "minimal"):
        system, state = model.assemble(formulation, repair=True)
        rule = balance(system, [(0.0, state)])
        assert {system.names[row] for row in rule.free} == {"c", "d"}
    model.add(ph.joints.PrescribedRotation(model.ground, d, (0, 0, 1), lambda t: t))
    system, state = model.assemble("SO3xR3", repair=True)
    assert balance(system, [(0.0, state)]).free == ()


@pytest.mark.parametrize("count", [40, 41, 400])
@pytest.mark.parametrize("uneven", [False, True])
def test_integrals_are_as_uncertain_as_they_say(count, uneven):
    t = np.linspace(0, 2, count)
    t = t + 0.3 * np.sin(np.pi * t / 2) ** 2 if uneven else t
    smooth = integral(t, np.cos(7 * t)[:, None])
    error = np.abs(smooth.value[:, 0] - np.sin(7 * t) / 7)
    assert np.all(error <= smooth.doubt + 1e-15)
    assert smooth.doubt[-1] < 100 / count**3
    jump = integral(t, np.where(t < 0.731, 1.0, -2.0)[:, None])
    exact = np.minimum(t, 0.731) - 2 * np.maximum(t - 0.731, 0)
    assert np.all(np.abs(jump.value[:, 0] - exact) <= jump.doubt + 1e-15)
    backwards = integral(t[::-1], np.cos(7 * t[::-1])[:, None])
    np.testing.assert_allclose(backwards.value[-1, 0], -smooth.value[-1, 0], atol=1e-13)
    assert np.isinf(integral(t[:3], t[:3, None]).doubt).all()


@pytest.mark.exhaustive
def test_joints_that_follow_others_keep_the_momenta_of_the_whole():
    text = """<mujoco><option gravity="0 0 0"/><worldbody><body name="hub"><freejoint/>
      <inertial pos="0 0 0" mass="10" diaginertia="1 1.2 1.3"/>
      <body name="a" pos="0.3 0 0"><joint name="a" axis="0 0 1" damping="0.1"/>
        <inertial pos="0 0.1 0" mass="1" diaginertia="0.01 0.01 0.02"/></body>
      <body name="b" pos="-0.3 0 0"><joint name="b" axis="0 1 0"/>
        <inertial pos="0 0 0.1" mass="1" diaginertia="0.01 0.02 0.01"/></body></body></worldbody>
      <equality><joint joint1="b" joint2="a" polycoef="0 -2 0 0 0"/></equality>
      <actuator><motor joint="a" name="motor"/></actuator></mujoco>"""
    model = ph.load_model(text, controls={"motor": lambda t: jnp.cos(2 * t)})
    run = ph.simulate(model.problem(t1=2.0), h=0.01)
    audit = run.audit()
    assert np.ptp(run.joints["b"].angle) > 0.1
    assert audit["linear_momentum"].relative < 1e-6
    assert audit["angular_momentum"].relative < 1e-6
    assert audit["energy"].accuracy == "accurate"


@pytest.mark.exhaustive
def test_velocity_constraints_are_measured_by_the_speeds_of_the_run():
    """An arm that a drive spins up from rest is right to 0.2 % of its speed: coarse, and not wrong."""
    runs = []
    for formulation, h in (("SE3", 2e-3), ("minimal", 1e-3)):
        model = ph.Model(gravity=(0, 0, -9.81))
        arm = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.2), position=(0.3, 0, 0), name="arm")
        tip = model.add_body(mass=0.5, inertia=(0.01, 0.01, 0.02), position=(0.9, 0, 0), name="tip")
        model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 0, 1)))
        model.add(ph.joints.PrescribedRotation(model.ground, arm, axis=(0, 0, 1), angle=lambda t: 5 * t**2))
        model.add(ph.joints.Revolute(arm, tip, point=(0.6, 0, 0), axis=(0, 1, 0)))
        runs.append(ph.simulate(model.problem(formulation, t1=3.0, h=h, repair=True)))
    speed, fine = runs[0].bodies["tip"].velocity, runs[1].bodies["tip"].velocity[::2]
    assert np.max(np.abs(speed - fine)) < 2e-3 * np.max(np.abs(fine))
    assert runs[0].audit()["velocity"].accuracy != "wrong"
    assert runs[0].audit().accurate


def impulse(times, forces, until):
    """Of straight lines between points, of which two at one time are a jump."""
    areas = 0.5 * np.diff(times)[:, None] * (forces[1:] + forces[:-1])
    whole = np.concatenate((np.zeros((1, forces.shape[1])), np.cumsum(areas, axis=0)))
    k = np.clip(np.searchsorted(times, until, side="right") - 1, 0, len(times) - 2)
    s = ((until - times[k]) / np.diff(times)[k])[:, None]
    rise = (until - times[k])[:, None] * ((1 - 0.5 * s) * forces[k] + 0.5 * s * forces[k + 1])
    return whole[k] + rise


def pushed(times, forces, h, **how):
    model = ph.Model()
    body = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.3), velocity=(1.0, 0.0, 0.0), name="body")
    model.add(ph.forces.PointForce(body, ph.PiecewiseLinear(times, forces)))
    return ph.simulate(model.problem("SO3xR3", t1=2.0, h=h), "rkmk4", **how)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("count", "save_every"), [(12, 1), (100, 1), (100, 5)])
@pytest.mark.exhaustive
def test_kinks_of_loads_between_frames_are_no_drift_and_impulses_that_steps_miss_are(count, save_every):
    rng = np.random.default_rng(count)
    times = np.array([0.0, *np.sort(rng.uniform(0, 2, count)), 2.0])
    forces = 4 * rng.normal(size=(len(times), 3))
    fine = pushed(times, forces, 0.01 if count < 50 else 1e-3, save_every=save_every)
    coarse = pushed(times, forces, 0.1 if count > 50 else 0.03)
    assert ("kinks_within_steps" in coarse.meta) == (count > 50)
    for run in (fine, coarse):
        error = 2.0 * (run.bodies["body"].velocity - (1.0, 0.0, 0.0)) - impulse(times, forces, np.asarray(run.t))
        row = run.audit()["linear_momentum"]
        assert row.max_drift == pytest.approx(np.abs(error).max(), rel=1e-6, abs=1e-12)
    assert fine.audit().accurate
    assert (coarse.audit()["linear_momentum"].accuracy == "wrong") == (count > 50)


@pytest.mark.exhaustive
def test_jumps_of_loads_that_turn_with_the_body_are_no_drift():
    times, forces = np.array([0.0, 0.513, 0.513, 1.27, 1.27, 3.0]), np.array([1.0, 1, -2, 3, 0, 0])
    force = ph.PiecewiseLinear(times, forces[:, None] * np.array([1.0, 0, 20.0]))
    run = ph.simulate(thrown(force).problem("SE3", t1=2.0, h=0.005, integrator="rkmk4"), save_every=2)
    audit = run.audit()
    assert not audit.remarks
    assert all(audit[name].relative < 1e-5 for name in ("linear_momentum", "angular_momentum", "energy"))


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("step", [0.02, 0.04])
def test_integrals_across_kinks_and_jumps_are_of_order_four(backwards, step):
    """Of a load f(t) g(x) with kinks and a jump, between frames and in them, where x has a smooth motion."""
    table = ph.PiecewiseLinear((0.0, 0.31, 0.4, 0.4, 0.5, 0.503, 2.0), (0.0, 1, 3, -2, 1, 0, 2))
    t = np.arange(0.0, 2.0 + step / 2, step)
    t = t[::-1] if backwards else t
    rate = lambda t, x: {"rate": np.asarray(table(jnp.asarray(t))) * np.cos(3 * x)}  # noqa: E731
    blocks = [Frames(t[a:b], t[a:b], {}, {}, {}, None) for a, b in ((0, 1), (1, 9), (9, len(t)))]
    broken = broken_intervals(t, np.array(table.breakpoints), blocks, rate, ["rate"])["rate"]
    found = integral(t, rate(t, t)["rate"][:, None], broken)
    ends = np.unique(np.concatenate(([0.0, 2.0], table.breakpoints)))
    pieces = [quad(lambda s: float(rate(s, s)["rate"]), a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(ends)]
    error = abs(found.value[-1, 0] - (-1) ** backwards * sum(pieces))
    assert error < 10 * step**4
    assert error <= found.doubt[-1]
