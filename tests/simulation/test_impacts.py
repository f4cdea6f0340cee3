"""Impacts and stops of joints against exact solutions and laws of conservation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipk

import polhode as ph
from polhode import events

G = 9.81


def pendulum(formulation: str, angle: float = 2.0):
    """A physical pendulum about y, at rest at `angle` from its lowest position: model, joint, ω."""
    model = ph.Model(gravity=(0, 0, -G))
    down = np.array([np.sin(angle), 0.0, -np.cos(angle)])
    inertia = np.diag([0.1, 0.2, 0.15])
    body = model.add_body(name="bar", mass=2.0, inertia=inertia, position=tuple(0.5 * down))
    joint = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, -1, 0), name="hinge"))
    omega = np.sqrt(2.0 * G * 0.5 / (0.2 + 2.0 * 0.25))
    return model.problem(formulation=formulation, t1=6.0, h=0.01), joint, omega


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("minimal", "rkmk54", {"rtol": 1e-11}),
    ("minimal", "rkmk54", {"h": 0.005}),
    ("SE3", "herk54", {"rtol": 1e-11}),
    ("SE3", "herk5", {"h": 0.005}),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("formulation", "method", "steps"), CASES)
def test_a_hinge_with_a_stop_bounces_when_it_must(formulation, method, steps):
    problem, joint, omega = pendulum(formulation)
    stop = events.stop(joint, lower=-2.0, restitution=0.6)
    run = ph.simulate(problem, method, events=stop, **steps)
    moduli = np.sin(2.0 / 2) * 0.6 ** np.arange(20)
    times = (ellipk(moduli[0] ** 2) + np.concatenate(([0], np.cumsum(2 * ellipk(moduli[1:] ** 2))))) / omega
    times = times[times < 6]
    assert len(times) >= 4
    assert run.events.name == ["stop lower"] * len(times)
    np.testing.assert_allclose(run.events.t, times, atol=1e-9)
    for residual in run.residuals.values():
        assert np.max(residual) < 1e-8


def double_pendulum(formulation: str):
    """Two bars that fall from a bent position: problem, elbow and shoulder."""
    model = ph.Model(gravity=(0, 0, -G))
    inertia = np.diag([0.01, 0.08, 0.08])
    upper = model.add_body(name="upper", mass=1.0, inertia=inertia, position=(0.5, 0, 0))
    lower = model.add_body(name="lower", mass=0.7, inertia=inertia, position=(1.5, 0, 0))
    model.add(ph.joints.Revolute(model.ground, upper, point=(0, 0, 0), axis=(0, -1, 0), name="shoulder"))
    elbow = model.add(ph.joints.Revolute(upper, lower, point=(1, 0, 0), axis=(0, -1, 0), name="elbow"))
    return model.problem(formulation=formulation, t1=1.5, h=1e-3), elbow


def about_the_shoulder(system: Any, state: Any) -> float:
    """Angular momentum about the y axis."""
    total = 0.0
    for name, mass in (("upper", 1.0), ("lower", 0.7)):
        pose, twist = system.pose(state[0], name), system.twist(*state, name)
        total += mass * np.cross(pose.x, twist.u)[1] + 0.08 * twist.omega[1]
    return float(total)


@pytest.mark.exhaustive
@pytest.mark.sampled(12)
@pytest.mark.parametrize("restitution", [1.0, 0.3])
@pytest.mark.parametrize(("formulation", "method"), [("minimal", "rkmk54"), ("SO3xR3", "herk54"), ("SE3", "bdf")])
def test_a_stop_within_a_model_keeps_what_it_must(formulation, method, restitution):
    problem, elbow = double_pendulum(formulation)
    stop = events.stop(elbow, lower=-0.2, upper=0.3, restitution=restitution)
    run = ph.simulate(problem, method, events=stop, rtol=1e-10 if method != "bdf" else 1e-7, t1=0.6)
    assert {"stop lower", "stop upper"} & {*run.events.name}
    system: Any = problem.system
    for k in range(len(run.events)):
        before, after = (jax.tree.map(lambda x, k=k: x[k], s) for s in (run.events.before, run.events.after))
        # The impulse in the elbow is an inner one: it has no moment about the shoulder.
        momenta = [about_the_shoulder(system, s) for s in (before, after)]
        np.testing.assert_allclose(momenta[1], momenta[0], rtol=1e-12)
        rates = [float(elbow.rate(system, 0.0, s)) for s in (before, after)]
        np.testing.assert_allclose(rates[1], -restitution * rates[0], rtol=1e-10, atol=1e-12)
        energies = [float(system.energy(0.0, *s)) for s in (before, after)]
        assert energies[1] <= energies[0] + 1e-12
        if restitution == 1:
            np.testing.assert_allclose(energies[1], energies[0], atol=1e-12)
        np.testing.assert_allclose(system.constraint_rate(0.0, *after), 0, atol=1e-9)


@pytest.mark.exhaustive
def test_stops_are_alike_in_all_coordinates():
    runs = []
    for formulation, method in (("minimal", "rkmk54"), ("SO3xR3", "herk54")):
        problem, elbow = double_pendulum(formulation)
        stop = events.stop(elbow, lower=-0.2, upper=0.3, restitution=0.5)
        runs.append(ph.simulate(problem, method, events=stop, rtol=1e-11, t1=1.2))
    assert len(runs[0].events) == len(runs[1].events) > 1
    np.testing.assert_allclose(runs[0].events.t, runs[1].events.t, atol=1e-8)


@pytest.mark.exhaustive
def test_a_body_comes_to_rest_on_its_stop():
    model = ph.Model(gravity=(0, 0, -G))
    body = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(0, 0, 1))
    guide = model.add(ph.joints.Prismatic(model.ground, body, axis=(0, 0, 1), name="guide"))
    stop = events.stop(guide, lower=-1.0, restitution=0.5, rests_below=1e-3)
    run = ph.simulate(model.problem("minimal", t1=3.0, h=0.01), "rkmk54", events=stop)
    assert run.stats["result"] == ph.Result.event_reached
    assert run.events.name[-2:] == ["stop lower at rest", "stop lower"]
    first, bounces = np.sqrt(2 / G), len(run.events) - 1
    np.testing.assert_allclose(run.t[-1], first * (1 + 2 * np.sum(0.5 ** np.arange(1, bounces))), atol=1e-9)
    assert G * first * 0.5 ** (bounces - 1) < 1e-3 < G * first * 0.5 ** (bounces - 2)


@pytest.mark.exhaustive
def test_a_joint_is_released_with_its_momenta():
    def two_bodies(held: bool):
        model = ph.Model()
        a = model.add_body(name="a", mass=1.0, inertia=(0.1, 0.2, 0.3), angular_velocity=(0.3, 0.1, 2.0))
        moving = np.cross((0.3, 0.1, 2.0), (0.5, 0, 0)) + np.cross((0.3, 0.1, 1.0), (0.5, 0, 0))
        b = model.add_body(
            name="b",
            mass=0.5,
            inertia=(0.2, 0.1, 0.1),
            position=(1, 0, 0),
            velocity=moving,
            angular_velocity=(0.3, 0.1, 1),
        )
        if held:
            model.add(ph.joints.Revolute(a, b, point=(0.5, 0, 0), axis=(0, 0, 1), name="pin"))
        return model.problem("SO3xR3", t1=4.0, h=1e-3)

    together, apart = two_bodies(True), two_bodies(False)
    system: Any = together.system
    folded = ph.Event(lambda t, s: system.pose(s[0], "b").R[1, 0] + 0.5, terminal=True, name="released")
    first = ph.simulate(together, "herk54", rtol=1e-10, events=folded)
    assert first.events.name == ["released"]
    state = jax.tree.map(lambda x: x[-1], first.events.after)
    second = ph.simulate(apart, "rkmk54", rtol=1e-10, t0=first.events.t[-1], t1=4.0, state0=state)
    for momentum in ("linear_momentum", "angular_momentum"):
        kept = np.concatenate((first.invariants[momentum], second.invariants[momentum]))
        np.testing.assert_allclose(kept, np.broadcast_to(kept[0], kept.shape), atol=1e-9)
    # Free bodies go straight on.
    velocities = second.outputs["velocities"]
    np.testing.assert_allclose(velocities, np.broadcast_to(velocities[0], velocities.shape), atol=1e-12)
    assert np.ptp(first.outputs["velocities"], axis=0).max() > 0.1


def test_wrong_stops_are_explained():
    _, elbow = double_pendulum("minimal")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"lower": 1.0, "upper": 0.0}, "`lower` must be below `upper`"),
        ({}, "needs `lower` or `upper`"),
        ({"lower": 0.0, "restitution": 1.5}, "from 0 to 1"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            events.stop(elbow, **options)
    with pytest.raises(ValueError, match="must be a joint"):
        events.stop("elbow", lower=0.0)


def test_impacts_are_refused_in_runs_back_in_time():
    problem, elbow = double_pendulum("minimal")
    stop = events.stop(elbow, lower=-0.2, restitution=1.0, name="rest")
    with pytest.raises(ValueError, match=r"goes back in time, and `rest.*` is an impact"):
        ph.simulate(problem, "rkmk4", events=stop, t0=0.0, t1=-1.0, h=1e-3)


@pytest.mark.exhaustive
def test_an_audit_measures_drifts_between_impacts(tmp_path):
    problem, joint, _ = pendulum("minimal")
    stop = events.stop(joint, lower=-2.0, restitution=0.6)
    run = ph.simulate(problem, "rkmk54", h=0.005, events=stop, store=tmp_path / "run")
    energy = run.invariants["energy"]
    assert np.ptp(energy) > 1
    for each in (run, ph.load(tmp_path / "run")):
        assert each.audit()["energy"].max_drift < 1e-8
        assert each.audit().accurate


METHODS = [
    ("minimal", "generalized-alpha", 3e-4),
    ("SE3", "generalized-alpha", 3e-4),
    ("SE3", "bdf", 1e-6),
    ("minimal", "implicit-midpoint", 1e-4),
    ("minimal", "cf4", 1e-7),
    ("livens", "eml", 4e-4),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize(("formulation", "method", "error"), METHODS)
def test_methods_of_all_kinds_end_steps_at_events(formulation, method, error):
    problem, joint, omega = pendulum(formulation, 1.4)
    bottom = ph.Event(lambda t, s, system: joint.value(system, t, s) + 1.4, name="bottom")
    runs = [ph.simulate(problem, method, h=h, t1=1.5, events=bottom) for h in (0.01, 0.005)]
    quarter = ellipk(np.sin(0.7) ** 2) / omega
    for run, share in zip(runs, (1, 0.5), strict=True):
        assert len(run.events) == 2
        np.testing.assert_allclose(run.events.t, [quarter, 3 * quarter], atol=share * error)
        # The step behind an event ends where it would have ended without.
        np.testing.assert_allclose(run.t, np.linspace(0, 1.5, len(run.t)), atol=1e-13)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("formulation", "method"), [("minimal", "rkmk54"), ("SE3", "herk5")])
def test_an_angle_beyond_half_a_turn_has_one_event_a_crossing(formulation, method):
    problem, joint, omega = pendulum(formulation)
    bottom = ph.Event(lambda t, s, system: joint.value(system, t, s) + 2.0, name="bottom")
    run = ph.simulate(problem, method, h=0.005, t1=2.5, events=bottom)
    angle = joint.value(problem.system, run.t, run.state)
    np.testing.assert_allclose([np.max(angle), np.min(angle)], [0, -4], atol=1e-5)
    quarter = ellipk(np.sin(1.0) ** 2) / omega
    np.testing.assert_allclose(run.events.t, [quarter, 3 * quarter], atol=1e-8)


def test_a_function_that_moves_in_jumps_only_has_events():
    field = ph.VectorField(ph.spaces.Rn(1), lambda t, y: jnp.ones(1))
    step = ph.Event(lambda t, y: jnp.where(y[0] > 0.53, 1.0, -1.0))
    run = ph.simulate(field, "rkmk4", state0=jnp.zeros(1), h=0.25, t1=1.0, events=step)
    np.testing.assert_allclose(run.events.t, [0.53], atol=1e-11)


@pytest.mark.exhaustive
def test_an_impulse_on_livens_principle_keeps_the_joint_and_turns_its_rate():
    problem, joint, _ = pendulum("livens")
    system: Any = problem.system
    q, _ = system.to_base(problem.state0)
    omega = np.array([0.0, 1.5, 0.0])
    moving = system.start(
        q, jnp.asarray(np.concatenate((omega, np.cross(omega, 0.5 * np.array([np.sin(2), 0, -np.cos(2)])))))
    )
    (stop,) = events.stop(joint, lower=-2.0, restitution=0.3)
    action: Any = stop.action
    after = jax.jit(lambda s: action(jnp.zeros(()), s, system))(moving)
    rates = [float(joint.rate(system, 0.0, s)) for s in (moving, after)]
    np.testing.assert_allclose(rates, [-1.5, 0.45], atol=1e-12)
    np.testing.assert_allclose(system.base.constraint_rate(0.0, *system.to_base(after)), 0, atol=1e-12)
    np.testing.assert_allclose(after.p, -0.3 * moving.p, atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["eml", "null-eml"])
def test_a_hinge_on_livens_principle_bounces_when_it_must(method):
    problem, joint, omega = pendulum("livens", 1.4)
    stop = events.stop(joint, lower=-1.4, restitution=0.6, rests_below=1e-3)
    runs = [ph.simulate(problem, method, h=h, t1=3.0, events=stop) for h in (0.02, 0.01)]
    moduli = np.sin(0.7) * 0.6 ** np.arange(20)
    times = (ellipk(moduli[0] ** 2) + np.concatenate(([0], np.cumsum(2 * ellipk(moduli[1:] ** 2))))) / omega
    times = times[times < 3]
    errors = [np.abs(run.events.t - times).max() for run in runs]
    assert errors[1] < 1e-3
    # The method has order 2.
    assert errors[1] < 0.3 * errors[0]
    rates = [
        np.asarray(joint.rate(problem.system, runs[1].events.t, s))
        for s in (runs[1].events.before, runs[1].events.after)
    ]
    np.testing.assert_allclose(rates[1], -0.6 * rates[0], atol=1e-10)


def test_gaps_of_velocities_and_systems_without_mass_are_refused():
    problem, *_ = pendulum("minimal")
    wrong: list[tuple[Any, str]] = [
        (lambda t, state: state[1][0] + 9.0, "depends on velocities"),
        (lambda t, q: q[7], r"state is \(q, v\) with arrays of shapes"),
    ]
    for gap, message in wrong:
        with pytest.raises(ValueError, match=message):
            ph.simulate(problem, events=events.impact(gap))
    ball = ph.VectorField(ph.spaces.Rn(2), lambda t, y: jnp.array([y[1], -G]))
    with pytest.raises(ValueError, match="is an impact, which is for models"):
        ph.simulate(ball, "rkmk4", h=0.1, t1=1.0, state0=jnp.array([1.0, 0.0]), events=events.impact(lambda t, y: y[0]))
