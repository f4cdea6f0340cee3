"""Rigid stops and dry friction of joints, against exact solutions."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph

F, J, G = ph.forces, ph.joints, 9.81
FORMS = pytest.mark.parametrize("form", ["minimal", "SO3xR3"])


def slider(friction: Any, speed: Any = 0.0, **stops: Any) -> tuple[ph.Model, Any]:
    """A body of 2 kg on a guide with dry friction, and with stops if these are given."""
    model = ph.Model()
    body = model.add_body(mass=2.0, inertia=(1, 1, 1), velocity=(speed, 0, 0))
    guide = model.add(J.Prismatic(model.ground, body, axis=(1, 0, 0), name="guide"))
    model.add(F.JointFriction(guide, friction, name="rub"))
    if stops:
        model.add(F.JointStops(guide, name="ends", **stops))
    return model, guide


def hinged_load() -> ph.Model:
    """A load of 2 kg on an arm of 1 m that a brake holds."""
    model = ph.Model(gravity=(0, 0, -G))
    load = model.add_body(mass=2.0, inertia=(0.1, 0.1, 0.1), position=(1, 0, 0), name="load")
    hinge = model.add(J.Revolute(model.ground, load, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(F.JointFriction(hinge, 20.0, name="brake"))
    return model


def shafts() -> ph.Model:
    """Two shafts, one of which turns at 10 rad/s, with a clutch of 6 N m that closes at 0.5 s."""
    model = ph.Model()
    first = model.add_body(mass=1, inertia=(2, 2, 2), angular_velocity=(0, 0, 10), name="first")
    second = model.add_body(mass=1, inertia=(3, 3, 3), name="second")
    for body, name in ((first, "drive"), (second, "output")):
        model.add(J.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 0, 1), name=name))
    between = J.Revolute(first, second, point=(0, 0, 0), axis=(0, 0, 1))
    model.add(F.JointFriction(between, lambda t: jnp.where(t < 0.5, 0.0, 6.0), name="clutch"))
    return model


@pytest.mark.exhaustive
def test_generalized_alpha_has_stops_and_dry_friction() -> None:
    """A body that friction stops, one that a stop throws back, and one that both hold against its weight."""
    run: Any = ph.simulate(slider(6.0, 2.0)[0].problem("minimal", t1=1.0, h=0.01), "generalized-alpha")
    guide = run.joints["guide"]
    assert guide.displacement[-1] == pytest.approx(2 / 3, abs=0.4 * 0.01**2)
    assert guide.rate[-1] == 0
    np.testing.assert_allclose(guide.friction[1:60], -6.0, rtol=1e-12)
    model, _ = slider(3.0, 1.0, limits=(-0.5, 0.3), restitution=0.5)
    model.gravity = np.array([4.0, 0, 0])
    run = ph.simulate(model.problem("minimal", t1=2.0, h=0.01), "generalized-alpha")
    guide = run.joints["guide"]
    assert guide.displacement[-1] == pytest.approx(0.3, abs=1e-12)
    assert guide.friction[-1] + guide.stop_force[-1] == pytest.approx(-8.0, rel=1e-10)
    assert np.max(guide.displacement) < 0.3 + 1e-12
    # It comes at √(1 + 2·2.5·0.3) m/s.
    assert np.min(guide.rate) == pytest.approx(-0.5 * np.sqrt(2.5), rel=0.02)


@FORMS
@pytest.mark.parametrize("method", ["moreau", "rattle", "generalized-alpha"])
@pytest.mark.exhaustive
def test_a_load_that_friction_holds_does_not_creep(form: str, method: str) -> None:
    run: Any = ph.simulate(hinged_load().problem(form, t1=100.0, h=0.01), method)
    hinge = run.joints["hinge"]
    assert np.ptp(hinge.angle) < 1e-12
    np.testing.assert_allclose(hinge.friction, -2 * G, rtol=1e-12)
    assert set(hinge.mode) == {"stick"}


@pytest.mark.exhaustive
def test_friction_stops_a_body_where_its_energy_is_spent() -> None:
    model, guide = slider(3.0, 0.3)
    model.add(F.Actuator(guide, control=2.0))
    problem = model.problem(t1=1.0, h=0.01)
    assert problem.integrator == "moreau"
    run: Any = ph.simulate(problem)
    at_end = 0.3**2 * 2.0 / 2 / (3.0 - 2.0)
    joint = run.joints["guide"]
    assert joint.displacement[-1] == pytest.approx(at_end, abs=1e-14)
    np.testing.assert_array_equal(joint.mode, np.where(run.t < 0.595, "slide", "stick"))
    assert joint.dissipation[-1] == pytest.approx(3.0 * at_end, rel=1e-12)
    assert run.contacts["rub"].dissipation["sliding"][-1] == joint.dissipation[-1]
    assert run.dissipated["sliding"][-1] == joint.dissipation[-1]
    np.testing.assert_allclose(joint.effort[[10, -1]], [-1.0, 0.0], atol=1e-12)
    # A run that goes on is the same one.
    half = ph.simulate(problem, t1=0.5)
    for x, y in zip(*(jax.tree.leaves(each.state) for each in (ph.simulate(problem, initial=half), run)), strict=True):
        assert np.asarray(x[-1]).tobytes() == np.asarray(y[-1]).tobytes()


@pytest.mark.parametrize("method", ["moreau", "rattle", "generalized-alpha"])
@pytest.mark.exhaustive
def test_an_oscillator_with_dry_friction_is_of_order_two(method: str) -> None:
    """Its centre moves with every half swing: amplitudes are 2, 1.4 and 0.8, and it rests at 0.2."""

    def swing(h: float) -> tuple[float, float]:
        model = ph.Model()
        body = model.add_body(mass=1.0, inertia=(1, 1, 1))
        guide = model.add(J.Prismatic(model.ground, body, axis=(1, 0, 0), name="guide"))
        model.add(F.JointSpring(guide, stiffness=1.0, rest=2.0))
        model.add(F.JointFriction(guide, 0.3))
        run = ph.simulate(model.problem("minimal", t1=12.5, h=h), method)
        x, t = run.joints["guide"].displacement - 2.0, run.t
        first = t < 3.1
        # `generalized-alpha` forgets the accelerations of the slide within some dozen steps.
        assert np.ptp(x[t > 9.6]) <= (1e-10 if method == "generalized-alpha" else 0)
        assert np.ptp(x[t > 12]) == 0
        return np.max(np.abs(x - (-0.3 - 1.7 * np.cos(t)))[first]), abs(x[-1] - 0.2)

    (coarse, rest), (fine, near) = swing(0.04), swing(0.02)
    assert 3.9 < coarse / fine < 4.1
    assert max(rest, near) < 6e-4


@FORMS
@pytest.mark.exhaustive
def test_a_mass_on_a_belt_sticks_and_slips(form: str) -> None:
    """It slides until it is as fast as the belt, sticks until the spring pulls as much as friction, and swings on."""

    def end(h: float) -> float:
        model = ph.Model()
        belt = model.add_body(mass=1.0, inertia=(1, 1, 1), velocity=(1, 0, 0), name="belt")
        mass = model.add_body(mass=1.0, inertia=(1, 1, 1), name="mass")
        model.add(J.PrescribedTranslation(model.ground, belt, axis=(1, 0, 0), displacement=lambda t: t, name="drive"))
        slide = model.add(J.Prismatic(model.ground, mass, axis=(1, 0, 0), name="slide"))
        model.add(F.JointSpring(slide, 4.0))
        model.add(F.JointFriction(J.Prismatic(belt, mass, axis=(1, 0, 0)), 8.0, name="rub"))
        run: Any = ph.simulate(model.problem(form, t1=4.0, h=h))
        assert run.contacts["rub"].mode[round(1.0 / h)] == "stick"
        return float(run.joints["slide"].displacement[-1])

    begins = np.arcsin(0.25) / 2
    leaves = begins + 2 - (2 - 2 * np.cos(2 * begins))
    exact = 2 + 0.5 * np.sin(2 * (4 - leaves))
    errors = [abs(end(h) - exact) for h in (0.02, 0.01)]
    assert errors[0] < 1e-3
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("form", ["minimal", pytest.param("SO3xR3", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_a_clutch_locks_two_shafts(form: str) -> None:
    run: Any = ph.simulate(shafts().problem(form, t1=3.0, h=0.01))
    clutch, drive, output = run.contacts["clutch"], run.joints["drive"], run.joints["output"]
    # The speeds differ by 10 - (1/2 + 1/3) 6 (t - 0.5).
    np.testing.assert_array_equal(
        clutch.mode, np.where(run.t < 0.495, "free", np.where(run.t < 2.495, "slide", "stick"))
    )
    np.testing.assert_allclose([drive.rate[-1], output.rate[-1]], 4.0, rtol=1e-13)
    assert clutch.dissipation["sliding"][-1] == pytest.approx(0.5 * 2 * 3 / 5 * 10**2, rel=1e-12)
    np.testing.assert_allclose(clutch.friction[[20, 100, -1]], [0, 6, 0], atol=1e-10)
    assert list(run.contacts) == ["clutch"]
    assert run.audit()["joint_friction"].verdict == "kept"


@pytest.mark.parametrize("method", ["moreau", pytest.param("rattle", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_stops_throw_back_by_their_restitution(method: str) -> None:
    """Between stops at -0.1 and 0.3 with e = 1/2: speeds 1, 1/2 and 1/4 from 0.3 s and 1.1 s on."""
    model, _ = slider(0.0, 1.0, limits=(-0.1, 0.3), restitution=0.5)
    h = 0.01
    run: Any = ph.simulate(model.problem("minimal", t1=1.6, h=h), method)
    joint, t = run.joints["guide"], np.asarray(run.t)
    exact = np.where(t < 0.3, t, np.where(t < 1.1, 0.3 - 0.5 * (t - 0.3), -0.1 + 0.25 * (t - 1.1)))
    np.testing.assert_allclose(joint.displacement, exact, atol=1.5 * h)
    assert joint.rate[-1] == pytest.approx(0.25, rel=1e-12)
    assert joint.dissipation[-1] == pytest.approx(0.5 * 2.0 * (1 - 1 / 16), rel=1e-12)
    at = np.flatnonzero(joint.mode == "stop")
    assert np.all(np.min(np.abs(t[at, None] - np.array([0.3, 1.1])), axis=1) < 2.5 * h)
    assert min(joint.stop_force) < 0 < max(joint.stop_force)


@pytest.mark.exhaustive
def test_a_hinge_comes_to_rest_at_a_stop_that_carries_it() -> None:
    """Plastic, in turns of an angle that is no coordinate: the stop is at 7 rad."""
    model = ph.Model(gravity=(0, 0, -G))
    bob = model.add_body(
        mass=2.0, inertia=(0.1, 0.1, 0.1), position=(0, 0, -1), velocity=(-7, 0, 0), angular_velocity=(0, 7, 0)
    )
    pin = model.add(J.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
    model.add(F.JointStops(pin, (-np.inf, 7.0), name="end"))
    model.add(F.Actuator(pin, control=30.0))
    run: Any = ph.simulate(model.problem("SO3xR3", t1=2.0, h=0.005))
    joint = run.joints["pin"]
    assert joint.mode[-1] == "stop"
    assert joint.angle[-1] == pytest.approx(7.0, abs=1e-3)
    assert np.max(joint.angle) < 7.0 + 1e-6
    assert joint.stop_force[-1] == pytest.approx(-(30.0 - 2 * G * np.sin(joint.angle[-1])), rel=1e-9)
    assert joint.effort[-1] == pytest.approx(2 * G * np.sin(joint.angle[-1]), rel=1e-9)


@pytest.mark.exhaustive
def test_joints_of_bodies_that_touch_a_floor_have_stops_too() -> None:
    """One problem of contacts of shapes, a stop and dry friction that share a load."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    base = model.add_body(mass=5.0, shape=ph.shapes.Box((0.4, 0.4, 0.2)), position=(0, 0, 0.1), name="base")
    arm = model.add_body(mass=1.0, inertia=(0.05, 0.05, 0.05), position=(0.3, 0, 0.4), name="arm")
    hinge = model.add(J.Revolute(base, arm, point=(0, 0, 0.4), axis=(0, 1, 0), name="hinge"))
    model.add(F.JointFriction(hinge, 1.0))
    model.add(F.JointStops(hinge, (-1.0, 0.5)))
    model.contacts(friction=0.5)
    run: Any = ph.simulate(model.problem("minimal", t1=1.5, h=0.01))
    joint = run.joints["hinge"]
    assert joint.angle[-1] == pytest.approx(0.5, abs=2e-4)
    held = joint.stop_force[-1] + joint.friction[-1]
    assert held == pytest.approx(-G * 0.3 * np.cos(joint.angle[-1]), rel=1e-9)
    assert joint.effort[-1] == pytest.approx(held, rel=1e-12)
    assert run.contacts["floor", "base"].normal_force[-1] == pytest.approx(6 * G, rel=1e-9)
    np.testing.assert_allclose(joint.force[-1], [0, 0, G], atol=1e-8)


@FORMS
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["cylindrical", "screw", "universal"])
def test_coordinates_of_all_joints_rub(form: str, kind: str) -> None:
    model, along = ph.Model(), 0.2 if kind == "screw" else 0.5
    spin = (1.0, 0, 0) if kind == "universal" else (0, 0, 1.0)
    velocity = (0, 0, 0) if kind == "universal" else (0, 0, along)
    body = model.add_body(mass=1.0, inertia=(1, 1, 1), angular_velocity=spin, velocity=velocity)
    joint = {
        "cylindrical": lambda: J.Cylindrical(model.ground, body, point=(0, 0, 0), axis=(0, 0, 1), name="joint"),
        "screw": lambda: J.Screw(
            model.ground, body, point=(0, 0, 0), axis=(0, 0, 1), lead=0.2 * 2 * np.pi, name="joint"
        ),
        "universal": lambda: J.Universal(
            model.ground, body, point=(0, 0, 0), first_axis=(1, 0, 0), second_axis=(0, 1, 0), name="joint"
        ),
    }[kind]()
    model.add(joint)
    places = {
        "cylindrical": {"angle": 0.5, "displacement": 0.125},
        "screw": {"angle": 0.5 * 1.04},
        "universal": {"first_angle": 0.5, "second_angle": 0.0},
    }[kind]
    for name in places:
        model.add(F.JointFriction(joint, 1.0, coordinate=name))
    run: Any = ph.simulate(model.problem(form, t1=1.5, h=0.01))
    for name, place in places.items():
        assert run.joints["joint"].coordinates[name][-1] == pytest.approx(place, abs=1e-13)
        assert run.joints["joint"].modes[name][-1] == "stick"


@pytest.mark.exhaustive
def test_a_brake_in_a_loop_holds_all_of_it() -> None:
    """Four bars under gravity with friction in one joint, whose torque follows from the weight's power."""
    model = ph.Model(gravity=(0, 0, -G))
    places = np.array([(0, 0, 0), (0.3, 0, 0.4), (1.0, 0, 0.6), (1.2, 0, 0)])
    bars = []
    for start, end in itertools.pairwise(places):
        bars.append(model.add_body(mass=1.0, inertia=(0.02, 0.02, 0.02), position=(start + end) / 2))
    ends = [model.ground, *bars, model.ground]
    joints = [
        model.add(J.Revolute(one, other, point=at, axis=(0, 1, 0), name=f"pin {k}"))
        for k, (one, other, at) in enumerate(zip(ends[:-1], ends[1:], places, strict=True))
    ]
    model.add(F.JointFriction(joints[1], 50.0))
    run: Any = ph.simulate(model.problem("minimal", redundant="minimum-norm", t1=0.5, h=0.01))
    assert np.max(np.abs(run.state[1])) < 1e-12
    assert run.joints["pin 1"].mode[-1] == "stick"
    # Virtual power: rates of the bars in a motion of the loop with the rate 1 of the first.
    legs = np.diff(places, axis=0)[:, [0, 2]]
    turned = np.stack((legs[:, 1], -legs[:, 0]), axis=1)
    rest = np.linalg.solve(turned[1:].T, -turned[0])
    rates = np.array([1.0, *rest])
    heights = np.array([-0.5 * legs[0, 0] * rates[0], 0.0, 0.5 * legs[2, 0] * rates[2]])
    heights[1] = -legs[0, 0] * rates[0] - 0.5 * legs[1, 0] * rates[1]
    needed = -(-G * heights.sum()) / (rates[1] - rates[0])
    assert run.joints["pin 1"].friction[-1] == pytest.approx(needed, rel=1e-9)


@pytest.mark.exhaustive
def test_derivatives_hold_the_step_in_which_friction_stops_a_body() -> None:
    problem = slider(ph.Parameter("friction", 3.0), ph.Parameter("speed", 0.31))[0].problem("minimal", t1=0.25, h=0.01)

    def end(values: Any) -> Any:
        run = ph.simulate(problem.replace(friction=values[0], speed=values[1]))
        return run.state[0][0][-1][0]

    at = jnp.array([3.0, 0.31])
    gradient = jax.jacrev(end)(at)
    # In steps, all of which but the last ones are whole.
    differences = [(end(at + d) - end(at - d)) / 2e-5 for d in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6)
    np.testing.assert_allclose(gradient, [-(0.31**2) / 3.0**2, 2 * 0.31 / 3.0], rtol=0.06)


@pytest.mark.exhaustive
def test_members_of_ensembles_are_single_runs() -> None:
    problem = slider(ph.Parameter("friction", 3.0), 0.3)[0].problem("minimal", t1=0.3, h=0.01)
    samples = {"friction": np.array([2.0, 3.0, 4.0])}
    members = ph.ensemble(problem, samples=samples, save_every=30)
    for k, friction in enumerate(samples["friction"]):
        alone = ph.simulate(problem.replace(friction=friction), save_every=30)
        np.testing.assert_array_equal(members.dataset["state.1"][k].values, alone.to_xarray()["state.1"].values)


def test_other_methods_and_senseless_numbers_are_refused() -> None:
    model, guide = slider(1.0)
    with pytest.raises(ValueError, match="dry friction"):
        ph.simulate(model.problem("minimal", t1=0.1, h=0.01), "bdf")
    with pytest.raises(ValueError, match="dry friction"):
        model.problem("livens", t1=0.1)
    with pytest.raises(ValueError, match="negative"):
        F.JointFriction(guide, -1.0)
    with pytest.raises(ValueError, match="from 0"):
        F.JointStops(guide, (-1, 1), restitution=1.5)
    with pytest.raises(ValueError, match="elastic"):
        F.JointStops(guide, (-1, 1), damping=1.0)
    with pytest.raises(ValueError, match="rigid"):
        F.JointStops(guide, (-1, 1), 100.0, restitution=0.5)
    model.add(F.JointStops(guide, (0.5, 1.0)))
    with pytest.raises(ValueError, match=r"joint `guide` by 0\.5"):
        ph.simulate(model.problem("minimal", t1=0.1, h=0.01))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", [jnp.nan, -1.0], ids=["no number", "negative"])
@pytest.mark.parametrize(
    "method", ["moreau", *(pytest.param(m, marks=pytest.mark.exhaustive) for m in ("rattle", "generalized-alpha"))]
)
def test_a_brake_that_is_negative_or_no_number_ends_the_run(method: str, value: float) -> None:
    model, guide = slider(1.0)
    model.add(F.JointFriction(guide, lambda t: jnp.where(t > 0.05, value, 1.0), name="brake"))
    with pytest.raises(ph.SimulationError, match="invalid_friction"):
        ph.simulate(model.problem("minimal", t1=0.1, h=0.01), method)


@pytest.mark.exhaustive
def test_stops_take_room_as_they_come_near() -> None:
    """Eight bodies fall along guides, and three come to rest on stops."""
    model = ph.Model(gravity=(0, 0, -G))
    for k in range(8):
        body = model.add_body(mass=1.0 + k, inertia=(1, 1, 1), name=f"body {k}")
        guide = model.add(J.Prismatic(model.ground, body, axis=(0, 0, 1), name=f"guide {k}"))
        model.add(F.JointStops(guide, (-0.1 if k % 3 == 1 else -5.0, 1.0), name=f"stop {k}"))
    problem = model.problem("minimal", t1=0.5, h=0.01)
    contacts: Any = problem.system.contact_set
    assert (contacts.count, contacts.capacity) == (8, 6)
    run: Any = ph.simulate(problem)
    for k in range(8):
        guide = run.joints[f"guide {k}"]
        rests = k % 3 == 1
        assert guide.displacement[-1] == pytest.approx(-0.1 if rests else -G / 8, abs=1e-12 if not rests else 2e-3)
        assert guide.stop_force[-1] == pytest.approx((1.0 + k) * G if rests else 0.0, rel=1e-12)
        assert guide.rate[-1] == pytest.approx(0.0 if rests else -G / 2, abs=1e-12)
    # With less room the nearest stops have it, and a step knows how far the others are.
    few = dataclasses.replace(contacts, stop_room=2)
    last = jax.tree.map(lambda x: x[-1], run.state[0])
    present = few.present(problem.system, jnp.zeros(()), last)
    assert sorted(present.number.tolist()) == [1, 4]
    np.testing.assert_allclose(present.kinematics.gap, 0.0, atol=2e-3)
    np.testing.assert_array_equal(present.left_out, contacts.gaps(problem.system, 0.0, last)[7])


@pytest.mark.exhaustive
def test_dry_friction_of_a_hinge_by_rattle():
    # Zeros of forces of contacts that have opened took the first half of each step's friction with them.
    model = ph.Model()
    wheel = model.add_body(mass=1.0, inertia=(1, 1, 1), angular_velocity=(0, 0, 2.0), name="wheel")
    hinge = model.add(ph.joints.Revolute(model.ground, wheel, point=(0, 0, 0), axis=(0, 0, 1), name="hinge"))
    model.add(ph.forces.JointFriction(hinge, friction=1.0))
    run = ph.simulate(model.problem(t1=1.0), "rattle", h=1e-2)
    assert run.joints["hinge"].angle[-1] == pytest.approx(1.5, abs=1e-12)
