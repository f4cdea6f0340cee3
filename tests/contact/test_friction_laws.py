"""Friction that falls from rest to sliding, and friction that grows with loads, against integration with events."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import polhode as ph
from polhode.compiler.numpy_jit import numpy_jit
from polhode.contact.frictional_response import respond_with_friction
from polhode.contact.held_contacts import HeldContacts

G, STIFFNESS, RATE = 9.81, 40.0, 8.0
AT_REST, SLIDING, SPEED = 0.4 * G, 0.2 * G, 0.1
ARM, INERTIA, BEARING, START = 0.5, 0.02, 0.08, 1.2


def friction(rate: Any) -> Any:
    """Of what slides, on a mass of 1 kg."""
    return SLIDING + (AT_REST - SLIDING) * np.exp(-((rate / SPEED) ** 2))


def stick_and_slip(end: float) -> tuple[float, float]:
    """Place and velocity of 1 kg on a spring that a force pulls which grows with the time: it moves by jerks."""
    t, x = 0.0, 0.0
    while True:
        t = (AT_REST + STIFFNESS * x) / RATE
        if t >= end:
            return x, 0.0

        def stops(s: float, y: Any, t: float = t) -> float:
            return y[1] - 1e-12 if s > t + 1e-5 else 1.0

        stops.terminal, stops.direction = True, -1
        move = lambda s, y: [y[1], RATE * s - STIFFNESS * y[0] - friction(y[1])]  # noqa: E731
        run = solve_ivp(move, (t, end), [x, 1e-9], method="DOP853", rtol=1e-11, atol=1e-12, events=stops)
        t, (x, speed) = run.t[-1], run.y[:, -1]
        if run.status == 0:
            return x, speed


def swing(end: float) -> float:
    """Angle before it turns of a pendulum whose bearing has a moment of `BEARING` times its force."""
    inertia = INERTIA + ARM**2

    def acceleration(angle: float, rate: float) -> float:
        value = 0.0
        for _ in range(60):
            force = np.hypot(ARM * rate**2 + G * np.cos(angle), ARM * value + G * np.sin(angle))
            value = (-G * ARM * np.sin(angle) + BEARING * force) / inertia
        return value

    move = lambda _, y: [y[1], acceleration(*y)]  # noqa: E731
    return solve_ivp(move, (0, end), [START, 0.0], method="DOP853", rtol=1e-10, atol=1e-11).y[0, -1]


def machine() -> ph.Model:
    """A slider that is pulled, and a pendulum in a bearing that is its only resistance."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    slider = model.add_body(mass=1.0, inertia=(1, 1, 1), name="slider")
    rail = model.add(ph.joints.Prismatic(model.ground, slider, axis=(1, 0, 0), name="rail"))
    model.add(ph.forces.JointSpring(rail, STIFFNESS))
    model.add(ph.forces.JointFriction(rail, SLIDING, static_friction=AT_REST, stribeck_speed=SPEED, name="rub"))
    model.add(ph.forces.PointForce(slider, lambda t: jnp.stack([RATE * t, 0 * t, 0 * t])))
    place = ARM * np.array([np.sin(START), 0, -np.cos(START)])
    bob = model.add_body(mass=1.0, inertia=(INERTIA,) * 3, position=place, name="bob")
    hinge = model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, -1, 0), name="hinge"))
    model.add(ph.forces.JointFriction(hinge, 0.0, load_factor=BEARING, name="bearing"))
    return model


@pytest.mark.exhaustive
def test_joints_break_away_at_the_friction_of_rest_and_bearings_rub_by_their_loads() -> None:
    run: Any = ph.simulate(machine().problem(t1=5.0, h=0.01))
    assert run.stats["result"] == ph.Result.successful
    assert run.audit().accurate
    rail, hinge = run.joints["rail"], run.joints["hinge"]
    # It sticks up to the friction at rest, and slides then.
    holds = run.t < AT_REST / RATE
    assert np.max(np.abs(rail.displacement[holds])) < 1e-17
    assert rail.rate[np.flatnonzero(~holds)[1]] > 1e-3
    place, speed = stick_and_slip(3.0)
    assert speed == 0
    np.testing.assert_allclose(rail.displacement[300], place, rtol=0, atol=2e-4)
    assert abs(rail.rate[300]) < 1e-12
    # Of order 2: 4.6e-5 at 0.6 s with this step.
    np.testing.assert_allclose(START + hinge.angle[60], swing(0.6), rtol=0, atol=6e-5)
    # It rests within the circle of friction, beside the vertical, and stays there.
    assert hinge.mode[-1] == "stick"
    assert abs(ARM * np.sin(START + hinge.angle[-1])) < BEARING
    assert np.ptp(hinge.angle[-100:]) == 0
    np.testing.assert_allclose(hinge.friction[-1], G * ARM * np.sin(START + hinge.angle[-1]), rtol=1e-10)


def pulled() -> ph.Model:
    """The slider alone, which a force pulls with that much newton per second."""
    model = ph.Model(units="SI")
    slider = model.add_body(mass=1.0, inertia=(1, 1, 1), name="slider")
    rail = model.add(ph.joints.Prismatic(model.ground, slider, axis=(1, 0, 0), name="rail"))
    model.add(ph.forces.JointSpring(rail, STIFFNESS))
    model.add(ph.forces.JointFriction(rail, SLIDING, static_friction=AT_REST, stribeck_speed=SPEED))
    model.add(ph.forces.PointForce(slider, lambda t: jnp.stack([RATE * t, 0 * t, 0 * t])))
    return model


@pytest.mark.exhaustive
def test_modes_of_joint_friction_follow_from_loads() -> None:
    """What sticks carries its load up to the friction at rest; beyond, it slides by what friction leaves."""
    system, (q, _) = pulled().assemble("minimal")
    respond = numpy_jit(respond_with_friction)
    balance = numpy_jit(lambda held, t, q, v: held.balance(t, q, v))
    none = HeldContacts.of(system)
    for load, speed, force in (
        (1.0, 0.0, -1.0),
        (4.0, 0.0, -AT_REST),
        (-4.0, 0.0, AT_REST),
        (1.0, 0.3, -friction(0.3)),
    ):
        t, v = load / RATE, np.array([speed])
        modes = respond(system, t, (q, v), none.modes, 1e-7).modes
        assert bool(modes.held[0, 1]) == (force == -load)
        found = balance(HeldContacts(system, modes, none.losses), t, q, v)
        np.testing.assert_allclose(found.forces, [[0.0, force]], atol=1e-12)
        np.testing.assert_allclose(found.accelerations, [load + force], atol=1e-12)


@pytest.mark.exhaustive
def test_a_wheel_slows_down_by_its_weight_and_derivatives_know() -> None:
    """With a moment c m g, of which nothing but friction moves the wheel."""

    def rate(factor: Any) -> Any:
        model = ph.Model(gravity=(0, 0, -G), units="SI")
        wheel = model.add_body(mass=2.0, inertia=(0.5, 0.5, 0.5), angular_velocity=(0, 10.0, 0), name="wheel")
        axle = model.add(ph.joints.Revolute(model.ground, wheel, point=(0, 0, 0), axis=(0, 1, 0), name="axle"))
        model.add(ph.forces.JointFriction(axle, 0.0, load_factor=factor))
        return ph.simulate(model.problem("SO3xR3", t1=0.5, h=0.05)).bodies["wheel"].angular_velocity[-1, 1]

    value, slope = jax.value_and_grad(rate)(0.02)
    np.testing.assert_allclose([value, slope], [10.0 - 0.02 * 2 * G, -2 * G], rtol=1e-12)


@pytest.mark.exhaustive
def test_explicit_methods_hold_joints_between_changes() -> None:
    place, _ = stick_and_slip(3.0)
    run: Any = ph.simulate(pulled().problem("minimal", t1=3.0), "rkmk54", rtol=1e-9)
    assert run.audit().accurate
    np.testing.assert_allclose(run.joints["rail"].displacement[-1], place, rtol=0, atol=1e-8)
    assert run.joints["rail"].rate[-1] == 0
    # Modes change where forces are beyond their bounds by 1e-9 of these.
    np.testing.assert_allclose(run.events.t[0], AT_REST / RATE, rtol=3e-9)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rkmk4", "rkmk54"])
def test_explicit_methods_have_stops_beside_friction(method: str) -> None:
    """Thrown on a stop with friction: two flights have closed forms, and the stop carries the load in the end."""
    model = ph.Model(gravity=(4.0, 0, 0), units="SI")
    body = model.add_body(mass=2.0, inertia=(1, 1, 1), velocity=(1.0, 0, 0), name="body")
    guide = model.add(ph.joints.Prismatic(model.ground, body, axis=(1, 0, 0), name="guide"))
    model.add(ph.forces.JointFriction(guide, 1.0))
    model.add(ph.forces.JointStops(guide, (-0.5, 0.3), restitution=0.5))
    ahead, back = (8.0 - 1.0) / 2.0, (8.0 + 1.0) / 2.0
    hit = np.sqrt(1.0 + 2 * ahead * 0.3)
    first, rise = (hit - 1.0) / ahead, 0.5 * hit / back
    again = first + rise + np.sqrt((0.5 * hit) ** 2 / back / ahead)
    own: Any = {"rtol": 1e-9} if method == "rkmk54" else {}
    problem = model.problem("minimal", t1=3.0, h=0.01)
    run: Any = ph.simulate(problem, method, **own)
    np.testing.assert_allclose(run.events.t[:2], [first, again], rtol=0, atol=1e-9)
    joint = run.joints["guide"]
    np.testing.assert_allclose([joint.displacement[-1], joint.rate[-1]], [0.3, 0.0], rtol=0, atol=1e-12)
    np.testing.assert_allclose([joint.stop_force[-1], joint.friction[-1]], [-8.0, 0.0], rtol=0, atol=1e-10)


@pytest.mark.exhaustive
def test_explicit_methods_lock_clutches() -> None:
    """Two shafts of 2 and 3 kg m² at 10 and 0 rad/s lock at 4 rad/s, 2 s after a clutch of 6 N m has closed."""
    model = ph.Model(units="SI")
    shafts = [
        model.add_body(mass=1.0, inertia=(J, J, J), angular_velocity=(0, 0, rate), name=name)
        for name, J, rate in (("drive", 2.0, 10.0), ("output", 3.0, 0.0))
    ]
    for shaft in shafts:
        model.add(ph.joints.Revolute(model.ground, shaft, point=(0, 0, 0), axis=(0, 0, 1), name=f"{shaft.name} axle"))
    between = ph.joints.Revolute(*shafts, point=(0, 0, 0), axis=(0, 0, 1))
    model.add(ph.forces.JointFriction(between, lambda t: jnp.where(t < 0.5, 0.0, 6.0), name="clutch"))
    run: Any = ph.simulate(model.problem("minimal", t1=3.0), "rkmk54", rtol=1e-9)
    np.testing.assert_allclose(run.events.t, [2.5], rtol=0, atol=1e-9)
    np.testing.assert_allclose([run.joints[f"{b.name} axle"].rate[-1] for b in shafts], 4.0, rtol=1e-12)
    np.testing.assert_allclose(run.contacts["clutch"].dissipation["sliding"][-1], 60.0, rtol=1e-9)
    assert run.contacts["clutch"].mode[-1] == "stick"


def on_a_belt(**law: Any) -> ph.Model:
    """A ball of 1 kg that doesn't turn, on a belt, held by a spring."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="belt"))
    ball = model.add_point(mass=1.0, position=(0, 0, 0.1), velocity=(RATE / STIFFNESS, 0, 0), name="ball")
    ball.add_shape(ph.shapes.Sphere(0.1))
    model.add_contact(model.ground, ball, surface_velocity=(RATE / STIFFNESS, 0, 0), **law)
    model.add(ph.forces.SpringDamper(model.ground, ball, (-2, 0, 0.1), (0, 0, 0.1), STIFFNESS))
    return model


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "tolerances"),
    [("moreau", (2e-4, 5e-5)), ("rattle", (2e-4, 5e-5)), ("generalized-alpha", (2e-4, 5e-5)), ("rkmk54", (1e-7,))],
)
def test_bodies_on_belts_stick_and_slip(method: str, tolerances: tuple[float, ...]) -> None:
    """The same motion seen from the belt, by all methods."""
    law = {"friction": SLIDING / G, "static_friction": AT_REST / G, "stribeck_speed": SPEED}
    place = RATE / STIFFNESS * 3.0 - stick_and_slip(3.0)[0]
    for h, tolerance in zip((0.01, 0.005), tolerances, strict=False):
        own: Any = {"rtol": 1e-9} if method == "rkmk54" else {}
        problem = on_a_belt(**law).problem("SO3xR3", t1=3.0, h=h)
        run: Any = ph.simulate(problem, method, **own)
        np.testing.assert_allclose(run.bodies["ball"].position[-1, 0], place, rtol=0, atol=tolerance)
        assert set(run.contacts["belt", "ball"].mode) == {"stick", "slide"}
        assert run.audit().accurate
    if method == "moreau":
        # Without the larger friction at rest it creeps towards the place where the spring balances friction.
        plain: Any = ph.simulate(on_a_belt(friction=SLIDING / G).problem("SO3xR3", t1=3.0, h=0.01), method)
        assert abs(plain.bodies["ball"].position[-1, 0] - place) > 1e-2


def test_senseless_numbers_are_refused() -> None:
    model, shape = ph.Model(), ph.shapes.Sphere(0.1)
    bodies = [model.add_body(mass=1.0, shape=shape, position=(k, 0, 0), name=f"ball {k}") for k in range(2)]
    axle = model.add(ph.joints.Revolute(model.ground, bodies[0], point=(0, 0, 0), axis=(0, 0, 1), name="axle"))
    falls = {"static_friction": 0.6, "stribeck_speed": 0.1}
    cases = [
        ({"static_friction": 0.3, "stribeck_speed": 0.1}, "below `friction`"),
        ({"static_friction": 0.6}, "needs `stribeck_speed`"),
        ({"stribeck_speed": 0.1}, "without one"),
        ({"static_friction": 0.6, "stribeck_speed": 0.0}, "stribeck_speed"),
        ({"static_friction": (0.6, 0.7, 0.8), "stribeck_speed": 0.1}, "as many as"),
    ]
    rub = lambda **numbers: ph.forces.JointFriction(axle, 0.5, **numbers)  # noqa: E731
    touch = lambda **numbers: model.add_contact(*bodies, friction=0.5, **numbers)  # noqa: E731
    for (numbers, message), make in itertools.product(cases, (rub, touch)):
        with pytest.raises(ValueError, match=message):
            make(**numbers)
    compliant = {"law": "compliant", "stiffness": 1e4, "slip_speed": 1e-3}
    for make, message in (
        (lambda: touch(**falls, **compliant), "have no `static_friction`"),
        (lambda: rub(stick_velocity=0.1, **falls), "leave one out"),
        (lambda: ph.forces.JointFriction(axle, lambda t: 1 + t, **falls), "not a function of time"),
        (lambda: rub(load_factor=-0.1), "can't be negative"),
        (lambda: rub(load_factor=0.1, **falls), "leave `static_friction` out"),
        (lambda: rub(load_factor=0.1, stick_velocity=0.1), "leave `stick_velocity` out"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    model.add(rub(load_factor=0.1, name="bearing"))
    with pytest.raises(ValueError, match="no multiplier in joint coordinates"):
        model.problem("minimal", t1=0.1, h=0.01)
    with pytest.raises(ValueError, match="`moreau` alone"):
        ph.simulate(model.problem(t1=0.1, h=0.01), "rattle")
    model.add(rub(name="more", **falls))
    model.add(rub(name="most", **falls))
    with pytest.raises(ValueError, match="give it one part"):
        model.problem(t1=0.1, h=0.01)


@pytest.mark.exhaustive
@pytest.mark.parametrize("impact_law", ["newton", "poisson"])
def test_restitution_of_an_impact_that_sticks(impact_law):
    """A ball off the axis of a body, held by friction: Poisson's law gives back impulses, Newton's the speed."""
    e, inertia, arm, height, slip = 0.6, 0.02, 0.1, 0.15, 0.4
    model = ph.Model()
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.add_body(
        mass=1.0, inertia=(inertia,) * 3, shape=ph.shapes.Sphere(0.05, position=(arm, 0, 0.05 - height)),
        position=(0, 0, height + 0.01), velocity=(slip, 0, -1.0), name="body",
    )  # fmt: skip
    model.contacts(friction=50.0, restitution=e, impact_law=impact_law)
    run = ph.simulate(model.problem(t1=0.02), "rkmk54")
    body = run.bodies["body"]
    v, w = body.velocity[-1], body.angular_velocity[-1, 1]
    coupling, along = arm * height / inertia, 1 + height**2 / inertia
    expected = e if impact_law == "newton" else e * (1 + coupling / along * slip)
    # The body turns on after the impact, but not its velocities.
    assert v[2] - w * arm == pytest.approx(expected, abs=1e-9)
    assert v[0] - w * height == pytest.approx(0, abs=1e-9)


def test_laws_of_impact_that_do_not_go_are_named():
    model = ph.Model()
    ball, other = (
        model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, z), name=f"ball-{z}") for z in (1, 2)
    )
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.add_contact(model.ground, ball, restitution=0.5, impact_law="poisson")
    with pytest.raises(ValueError, match="Poisson's"):
        ph.simulate(model.problem(t1=0.1), "moreau", h=1e-3)
    model.add_contact(ball, other, restitution=0.5)
    with pytest.raises(ValueError, match="one law of impact"):
        model.problem(t1=0.1)
    with pytest.raises(ValueError, match="tangential_restitution"):
        model.contacts(restitution=0.5, tangential_restitution=0.5, impact_law="poisson")
    bob = model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(3, 0, 1), name="bob")
    hinge = model.add(ph.joints.Revolute(model.ground, bob, point=(3, 0, 2), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.JointStops(hinge, (-0.5, 0.5), restitution=0.5))
    model.contacts(restitution=0.5, impact_law="poisson")
    model.add_contact(ball, other, friction=0.0)
    with pytest.raises(ValueError, match="Stops of"):
        model.problem(t1=0.1)
