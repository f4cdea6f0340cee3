"""Contacts that close, stay closed and open again, against closed forms and an independent event-driven solution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import polhode as ph

G = 9.81
STABILISED = ph.integrators.get("generalized-alpha", constraint="stabilized-index-2")


def slider(formulation, restitution, lift=0.0, velocity=0.0, t1=1.5):
    """A body of 2 kg that falls 0.2 m onto a stop, and is pulled up by `lift` times the time behind 0.5."""
    model = ph.Model(gravity=(0, 0, -G))
    body = model.add_body(mass=2.0, inertia=(0.1, 0.1, 0.1), position=(0, 0, 1), velocity=(0, 0, velocity), name="b")
    guide = model.add(ph.joints.Prismatic(model.ground, body, axis=(0, 0, 1), name="guide"))
    model.add(ph.forces.PointForce(body, lambda t: jnp.array([0.0, 0.0, lift * jnp.maximum(t - 0.5, 0.0)])))
    return model.problem(formulation, t1=t1, h=0.005), ph.events.stop(guide, lower=-0.2, restitution=restitution)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("formulation", "method", "steps"),
    [
        ("minimal", "rkmk4", {}),
        pytest.param("SO3xR3", "herk4", {}, marks=pytest.mark.exhaustive),
        pytest.param("SE3", "bdf", {"rtol": 1e-9}, marks=pytest.mark.exhaustive),
        pytest.param("SO3xR3", STABILISED, {}, marks=pytest.mark.exhaustive),
        pytest.param("minimal", "implicit-midpoint", {}, marks=pytest.mark.exhaustive),
    ],
)
def test_what_rests_on_a_stop_is_lifted_off_when_it_must(formulation, method, steps):
    problem, stop = slider(formulation, 0.0, lift=60.0)
    run = ph.simulate(problem, method, events=stop, **steps)
    off = 0.5 + 2 * G / 60
    assert run.events.name == ["stop lower", "stop lower opens"]
    np.testing.assert_allclose(run.events.t, [np.sqrt(0.4 / G), off], atol=1e-8)
    height = 60 * np.maximum(run.t - off, 0) ** 3 / 12
    behind = run.t > 0.21
    exact = 1e-8 if method in ("rkmk4", "herk4", "bdf") else 2e-4
    np.testing.assert_allclose(run.joints["guide"].displacement[behind] + 0.2, height[behind], atol=exact)
    contact = run.contacts["stop lower"]
    pressed = (run.t > 0.21) & (run.t < off - 0.01)
    assert contact.closed[pressed].all()
    np.testing.assert_allclose(contact.force[pressed], 2 * G - 60 * np.maximum(run.t[pressed] - 0.5, 0), atol=1e-7)
    np.testing.assert_allclose(contact.impulses, [2 * np.sqrt(2 * G * 0.2)], rtol=1e-6)
    assert contact.gap.min() > -1e-9


@pytest.mark.exhaustive
def test_bounces_that_accumulate_end_in_rest_and_a_resumed_run_has_equal_bytes(tmp_path):
    problem, stop = slider("minimal", 0.5, velocity=0.3, t1=2.5)
    whole = ph.simulate(problem, "rkmk4", events=stop, store=tmp_path / "whole")
    fall, speed = (0.3 + np.sqrt(0.09 + 0.4 * G)) / G, np.sqrt(0.09 + 0.4 * G)
    accumulation = fall + 2 * speed * 0.5 / G / (1 - 0.5)
    assert whole.stats["result"] == ph.Result.successful
    # Flights shorter than 1e5 tolerances of the event are rest.
    assert 0 < accumulation - whole.events.t[-1] < 4e-7
    np.testing.assert_allclose(whole.joints["guide"].displacement[-1], -0.2, atol=1e-15)
    ph.simulate(problem, "rkmk4", events=stop, t1=1.5, store=tmp_path / "part")
    assert ph.load(tmp_path / "part").contacts["stop lower"].closed[-1]
    again = ph.resume(tmp_path / "part", problem=problem, t1=2.5, events=stop)
    for a, b in zip(*(jax.tree.leaves((x.t, x.state, x.outputs, x.events.t)) for x in (whole, again)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.exhaustive
def test_a_run_that_begins_on_a_stop_rests_there_from_the_start():
    problem, stop = slider("minimal", 0.0, lift=60.0)
    first = ph.simulate(problem, "rkmk4", events=stop, t1=0.6)
    second = ph.simulate(problem, initial=first, t1=1.5, events=stop)
    assert second.contacts["stop lower"].closed[0]
    assert second.events.name == ["stop lower opens"]
    off = 0.5 + 2 * G / 60
    np.testing.assert_allclose(second.joints["guide"].displacement[-1] + 0.2, 60 * (1.5 - off) ** 3 / 12, atol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("formulation", "method"), [("livens", "eml"), ("SO3xR3", "rattle")])
def test_methods_that_can_hold_no_contact_say_so_before_they_begin(formulation, method):
    problem, stop = slider(formulation, 0.0)
    with pytest.raises(ValueError, match=r"stop lower.*can't hold a contact.*herk54.*rests_below"):
        ph.simulate(problem, method, events=stop)


# A double pendulum with stops in its elbow, angles about y, both from the horizontal.
UPPER, LOWER, LENGTH = (1.1, 0.31, 0.045), (0.8, 0.27, 0.033), 0.7


def accelerations(y, sign):
    """Both accelerations, and the force of the stop on which the elbow rests if `sign` is not 0."""
    (m1, l1, J1), (m2, l2, J2) = UPPER, LOWER
    a, b, u, w = y
    c, s = LENGTH * l2 * m2 * np.cos(b), LENGTH * l2 * m2 * np.sin(b)
    own = m2 * l2**2 + J2
    M = np.array([[m1 * l1**2 + J1 + m2 * LENGTH**2 + own + 2 * c, own + c], [own + c, own]])
    hanging = G * m2 * l2 * np.cos(a + b)
    f = np.array([G * (m1 * l1 + m2 * LENGTH) * np.cos(a) + hanging + s * (2 * u * w + w * w), hanging - s * u * u])
    if not sign:
        return np.linalg.solve(M, f), 0.0
    W = np.array([0.0, sign])
    force = -(W @ np.linalg.solve(M, f)) / (W @ np.linalg.solve(M, W))
    return np.linalg.solve(M, f + W * force) * [1, 0], force


def plastic(lower, upper, y, t1):
    """Instants of impacts and openings, and the end, with restitution 0."""
    options = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13}
    t, y, sign, instants = 0.0, np.array(y, float), 0, []

    def terminal(function):
        function.terminal, function.direction = True, -1
        return function

    while t < t1 - 1e-12:
        rhs = lambda t, y, sign=sign: np.concatenate((y[2:], accelerations(y, sign)[0]))  # noqa: E731
        if sign:
            watched = [terminal(lambda t, y, sign=sign: accelerations(y, sign)[1])]
        else:
            watched = [terminal(lambda t, y: y[1] - lower), terminal(lambda t, y: upper - y[1])]
        part = solve_ivp(rhs, (t, t1), y, events=watched, **options)
        t, y = part.t[-1], part.y[:, -1].copy()
        if part.status != 1:
            break
        instants.append(t)
        if sign:
            sign = 0
            part = solve_ivp(lambda t, y: np.concatenate((y[2:], accelerations(y, 0)[0])), (t, t + 1e-5), y, **options)
            t, y = part.t[-1], part.y[:, -1]
            continue
        sign = 1 if len(part.t_events[0]) else -1
        (_, l2, J2), m2, b = LOWER, LOWER[0], y[1]
        own, c = m2 * l2**2 + J2, LENGTH * l2 * m2 * np.cos(b)
        M = np.array([[UPPER[0] * UPPER[1] ** 2 + UPPER[2] + m2 * LENGTH**2 + own + 2 * c, own + c], [own + c, own]])
        x = np.linalg.solve(M, [0.0, 1.0])
        y[2:] -= y[3] / x[1] * x
        y[1], y[3] = (lower if sign == 1 else upper), 0.0
        if accelerations(y, sign)[1] <= 0:
            sign = 0
            part = solve_ivp(lambda t, y: np.concatenate((y[2:], accelerations(y, 0)[0])), (t, t + 1e-6), y, **options)
            t, y = part.t[-1], part.y[:, -1]
    return np.array(instants), y


def elbow(formulation, t1, rates=(0.5, 1.5), stops=(-0.4, 0.5)):
    model = ph.Model(gravity=(0, 0, -G))
    (m1, l1, J1), (m2, l2, J2) = UPPER, LOWER
    u, w = rates
    first = model.add_body(
        mass=m1, inertia=(0.03, J1, 0.05), position=(l1, 0, 0), velocity=(0, 0, -l1 * u), angular_velocity=(0, u, 0)
    )
    second = model.add_body(
        mass=m2, inertia=(0.03, J2, 0.05), position=(LENGTH + l2, 0, 0),
        velocity=(0, 0, -LENGTH * u - l2 * (u + w)), angular_velocity=(0, u + w, 0),
    )  # fmt: skip
    model.add(ph.joints.Revolute(model.ground, first, point=(0, 0, 0), axis=(0, 1, 0), name="a"))
    joint = model.add(ph.joints.Revolute(first, second, point=(LENGTH, 0, 0), axis=(0, 1, 0), name="b"))
    return model.problem(formulation, t1=t1, h=1e-3), ph.events.stop(joint, *stops, 0.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("formulation", "method", "steps", "error"),
    [
        ("minimal", "rkmk54", {"rtol": 1e-9}, 1e-7),
        ("SO3xR3", "herk54", {"rtol": 1e-9}, 1e-7),
        ("SO3xR3", STABILISED, {"h": 1e-3}, 1e-3),
    ],
)
def test_an_elbow_with_plastic_stops_closes_and_opens_in_all_coordinates(formulation, method, steps, error):
    instants, end = plastic(-0.4, 0.5, [0, 0, 0.5, 1.5], 3.0)
    problem, stop = elbow(formulation, 3.0)
    run = ph.simulate(problem, method, events=stop, **steps)
    assert run.events.name == ["stop lower", "stop upper", "stop upper opens", "stop lower", "stop lower opens"]
    np.testing.assert_allclose(run.events.t, instants, atol=error)
    result = [run.joints[name].angle[-1] for name in "ab"] + [run.joints[name].rate[-1] for name in "ab"]
    np.testing.assert_allclose(result, end, atol=10 * error)
    assert run.audit()["energy"].max_drift < error


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("rates", "stops"),
    [
        ((0.9398107176008175, 1.238266731833165), (-0.4033178878835899, 0.46474828049199923)),
        pytest.param(
            (0.1308749743962685, 1.3052172713633046),
            (-0.507926777060766, 0.10136925008507405),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_stop_that_opens_at_once_is_hit_once(rates, stops):
    """Rounding leaves the gap below zero, and a speed of 1e-17 that closes it, at an acceleration that opens it."""
    instants, _ = plastic(*stops, [0, 0, *rates], 0.6)
    problem, stop = elbow("minimal", 0.6, rates, stops)
    run = ph.simulate(problem, "rkmk54", events=stop, rtol=1e-9)
    np.testing.assert_allclose(run.events.t, instants, atol=1e-7)
