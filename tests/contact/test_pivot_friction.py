"""Dry friction of joints that turn in several directions, against exact motions and other equations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import polhode as ph

F, J, G = ph.forces, ph.joints, 9.81
INERTIA, SPIN, TORQUE = 0.1, np.array([3.0, 4.0, 0.0]), 0.5


def pivoted(friction: Any = TORQUE, **body: Any) -> ph.Model:
    """A body in a socket with friction."""
    model = ph.Model()
    ball = model.add_body(**{"mass": 2.0, "inertia": (INERTIA,) * 3, "angular_velocity": SPIN, "name": "ball", **body})
    socket = model.add(J.Spherical(model.ground, ball, point=(0, 0, 0), name="socket"))
    model.add(F.PivotFriction(socket, friction, name="rub"))
    return model


def held(share: float) -> ph.Model:
    """A load on an arm whose ball joint holds this share of the torque that it needs."""
    model, arm = ph.Model(gravity=(0, 0, -G)), np.array([0.3, 0.2, 0.5])
    load = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.3), position=arm, name="load")
    socket = model.add(J.Spherical(model.ground, load, point=(0, 0, 0), name="socket"))
    model.add(F.PivotFriction(socket, share * 2 * G * np.hypot(*arm[:2]), name="rub"))
    return model


@pytest.mark.exhaustive
def test_a_ball_stops_where_its_spin_is_spent():
    """In the time Iω/F along its own axis; all of its energy is taken, and the audit finds it within its laws."""
    run: Any = ph.simulate(pivoted().problem("SO3xR3", t1=1.2, h=0.01))
    rate, rub = np.linalg.norm(run.bodies["ball"].angular_velocity, axis=1), run.contacts["rub"]
    exact = np.maximum(np.linalg.norm(SPIN) - TORQUE / INERTIA * np.asarray(run.t), 0)
    np.testing.assert_allclose(rate, exact, atol=1e-12)
    np.testing.assert_allclose(rub.torque[1:100], np.tile(-TORQUE * SPIN / 5, (99, 1)), atol=1e-11)
    np.testing.assert_allclose(rub.slip[1:], exact[1:], atol=1e-12)
    assert [str(rub.mode[k]) for k in (50, -1)] == ["slide", "stick"]
    assert rub.dissipation[-1] == pytest.approx(0.5 * INERTIA * SPIN @ SPIN, rel=1e-12)
    assert np.all(rub.bound == TORQUE)
    audit = run.audit()
    assert audit.accurate
    assert audit["pivot_friction"].verdict == audit["held_pivots"].verdict == "kept"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pivoted(-1.0), "`friction` can't be negative, got -1"),
        (lambda: F.PivotFriction(3.0, 1.0), "must be `Spherical` or `Universal`"),
        (lambda: rolling().problem("SO3xR3", t1=1.0, h=0.1), r"joint `socket`.*drilling or rolling friction"),
        (lambda: ph.simulate(pivoted().problem("SO3xR3", t1=1.0), "bdf"), "dry friction"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def rolling() -> ph.Model:
    model = pivoted()
    model.ground.add_shape(ph.shapes.Plane(position=(0, 0, -1)))
    model.body("ball").add_shape(ph.shapes.Sphere(0.1))
    model.contacts(drilling=0.01)
    return model


METHODS = pytest.mark.parametrize("method", ["moreau", "rattle", "generalized-alpha", "rkmk54"])
FORMS = pytest.mark.parametrize("form", ["minimal", "SO3xR3"])


def simulate(model: ph.Model, form: str, method: str, t1: float, h: float = 0.01) -> Any:
    if method == "rkmk54":
        return ph.simulate(model.problem(form, t1=t1), method, rtol=1e-9)
    return ph.simulate(model.problem(form, t1=t1, h=h), method)


@METHODS
@FORMS
@pytest.mark.exhaustive
def test_all_methods_stop_a_ball_and_hold_a_load(method, form):
    run = simulate(pivoted(), form, method, 1.2)
    rate = np.linalg.norm(run.bodies["ball"].angular_velocity, axis=1)
    np.testing.assert_allclose(rate, np.maximum(5 - 5 * np.asarray(run.t), 0), atol=1e-11)
    rests = simulate(held(1.0001), form, method, 10.0)
    assert np.ptp(rests.bodies["load"].position, axis=0).max() < 1e-13
    np.testing.assert_allclose(rests.contacts["rub"].torque[-1], 2 * G * np.array([0.2, -0.3, 0]), atol=1e-9)
    assert set(rests.contacts["rub"].mode) == {"stick"}
    falls = simulate(held(0.999), form, method, 0.1)
    # What is left of the torque, over the inertia about the axis of the fall.
    axis, arm = np.array([0.2, -0.3, 0]) / np.hypot(0.2, 0.3), np.array([0.3, 0.2, 0.5])
    inertia = np.diag([0.1, 0.2, 0.3]) + 2 * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    response = np.linalg.solve(inertia, -0.001 * 2 * G * np.hypot(0.3, 0.2) * axis)
    rate = np.asarray(falls.bodies["load"].angular_velocity)[-1]
    assert 0.9 < np.linalg.norm(rate) / (0.1 * np.linalg.norm(response)) < 1.1


def tumble(t, w, moments, friction):
    return (np.cross(moments * w, w) - friction * w / np.linalg.norm(w)) / moments


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "order", "bound"),
    [("moreau", 1, 3e-2), ("rattle", 1, 3e-2), ("generalized-alpha", 1, 3e-2), ("rkmk54", None, 1e-7)],
)
def test_a_body_that_tumbles_has_friction_against_its_rate(method, order, bound):
    """The axis turns, so friction does: against Euler's equations."""
    moments = np.array([0.1, 0.2, 0.3])
    exact = solve_ivp(tumble, (0, 1.0), (2.0, 3.0, 1.0), args=(moments, 0.2), rtol=1e-11, atol=1e-12).y[:, -1]
    model = lambda: pivoted(0.2, inertia=tuple(moments), angular_velocity=(2.0, 3.0, 1.0))  # noqa: E731
    errors = []
    for h in (0.01, 0.005):
        rate = np.asarray(simulate(model(), "SO3xR3", method, 1.0, h).bodies["ball"].angular_velocity)[-1]
        errors.append(np.abs(rate - exact).max())
    assert errors[0] < bound
    if order is not None:
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.3)
    # Control: friction along the axis of the start.
    assert np.abs(exact - tumble_along((2.0, 3.0, 1.0), moments)).max() > 0.1


def tumble_along(start, moments):
    along = np.array(start) / np.linalg.norm(start)
    rates = lambda t, w: (np.cross(moments * w, w) - 0.2 * along) / moments  # noqa: E731
    return solve_ivp(rates, (0, 1.0), start, rtol=1e-9, atol=1e-10).y[:, -1]


@pytest.mark.exhaustive
def test_a_clutch_between_free_bodies_keeps_their_momentum():
    """A ball joint outside the model: both come to the same angular velocity; the brake closes at 0.2 s."""
    model = ph.Model()
    one = model.add_body(mass=1.0, inertia=(0.2,) * 3, angular_velocity=(0, 3, 4), name="one")
    two = model.add_body(mass=1.0, inertia=(0.3,) * 3, angular_velocity=(1, 0, 0), name="two")
    joint = J.Spherical(one, two, point=(0, 0, 0))
    model.add(F.PivotFriction(joint, lambda t: jnp.where(t < 0.2, 0.0, 2.0), name="clutch"))
    run: Any = ph.simulate(model.problem("SO3xR3", t1=1.0, h=0.01))
    bodies = [run.bodies[name] for name in ("one", "two")]
    rates = [np.einsum("nij,nj->ni", body.rotation, body.angular_velocity) for body in bodies]
    momentum = 0.2 * rates[0] + 0.3 * rates[1]
    np.testing.assert_allclose(momentum, np.tile(momentum[0], (len(momentum), 1)), atol=1e-13)
    np.testing.assert_allclose(rates[0][:20], np.tile(rates[0][0], (20, 1)), atol=1e-13)
    np.testing.assert_allclose(rates[0][-1], momentum[0] / 0.5, atol=1e-12)
    np.testing.assert_allclose(rates[1][-1], momentum[0] / 0.5, atol=1e-12)


@pytest.mark.exhaustive
def test_a_universal_joint_and_shapes_beside_friction():
    """A shaft that turns with a universal joint under one isotropic torque, while a crate slides to rest."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    crate = model.add_body(
        mass=1.0, shape=ph.shapes.Box((0.2,) * 3), position=(0, 0, 0.1), velocity=(1, 0, 0), name="crate"
    )
    model.add_contact(model.ground, crate, friction=0.5)
    shaft = model.add_body(
        mass=1.0, inertia=(INERTIA,) * 3, position=(9, 0, 1), angular_velocity=(3, 4, 0), name="shaft"
    )
    cross = J.Universal(model.ground, shaft, point=(9, 0, 1), first_axis=(1, 0, 0), second_axis=(0, 1, 0), name="cross")
    model.add(F.PivotFriction(model.add(cross), TORQUE, name="rub"))
    run: Any = ph.simulate(model.problem("SO3xR3", t1=1.2, h=0.01))
    rate = np.asarray(run.bodies["shaft"].angular_velocity)
    assert np.linalg.norm(rate[5]) < 5 - 0.2
    assert np.linalg.norm(rate[-1]) < 1e-12
    assert np.linalg.norm(run.contacts["rub"].torque[5]) == pytest.approx(TORQUE, rel=1e-9)
    assert run.bodies["crate"].position[-1, 0] == pytest.approx(1 / (2 * 0.5 * G), abs=2e-4)
    assert run.contacts["floor", "crate"].normal_force[-1] == pytest.approx(G)
    assert run.audit().accurate


@pytest.mark.exhaustive
def test_derivatives_by_friction():
    problem = pivoted(ph.Parameter("friction", TORQUE)).problem("SO3xR3", t1=0.5, h=0.01)

    def rate(friction: Any) -> Any:
        run = ph.simulate(problem.replace(friction=friction))
        return jnp.linalg.norm(run.bodies["ball"].angular_velocity[-1])

    assert float(jax.grad(rate)(TORQUE)) == pytest.approx(-0.5 / INERTIA, rel=1e-9)
    assert float(jax.jacfwd(rate)(TORQUE)) == pytest.approx(-0.5 / INERTIA, rel=1e-9)
