"""Laws of friction one by one: motions with closed forms."""

import numpy as np
import pytest
from reference_problems import DOWN, G, about_y, energy, on_floor, position, tilted, velocity
from scipy.integrate import solve_ivp

import polhode as ph
from polhode.contact.shape_contacts import ShapeContacts


def simulate(model, t1, h, method="moreau", **options):
    return ph.simulate(model.problem("SO3xR3", t1=t1, h=h), integrator=method, **options)


@pytest.mark.exhaustive
def test_what_sticks_stays_for_a_hundred_seconds():
    block = on_floor(ph.shapes.Box((0.4, 0.3, 0.2)), tilted(20), mass=3.0, position=(0, 0, 0.1), friction=0.5)
    solution = simulate(block, 100.0, 0.01)
    assert np.abs(velocity(solution)).max() < 1e-12
    assert np.abs(position(solution) - position(solution)[0]).max() < 1e-14


@pytest.mark.exhaustive
def test_drilling_friction_stops_a_ball_that_spins():
    ball = on_floor(
        ph.shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.1), angular_velocity=(0, 0, 20), friction=0.5, drilling=0.01
    )
    solution = simulate(ball, 1.0, 0.01)
    rate, loss = np.asarray(solution.bodies["body"].angular_velocity)[:, 2], 0.01 * G / 0.004
    np.testing.assert_allclose(rate, np.maximum(20 - loss * np.asarray(solution.t), 0), atol=1e-12)


@pytest.mark.exhaustive
def test_rolling_friction_stops_a_ball_that_rolls():
    ball = on_floor(
        ph.shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.1), velocity=(1, 0, 0), angular_velocity=(0, 10, 0),
        friction=0.5, rolling=0.005,
    )  # fmt: skip
    solution = simulate(ball, 4.0, 0.01)
    loss = 0.005 * G / 0.1 / 1.4
    np.testing.assert_allclose(velocity(solution)[:, 0], np.maximum(1 - loss * np.asarray(solution.t), 0), atol=1e-12)
    assert abs(position(solution)[-1, 0] - 0.5 / loss) < 1e-5


def test_elliptic_friction_takes_the_most_energy():
    """-μᵢ² uᵢ / |(μ₁u₁, μ₂u₂)|: not against the velocity, so that the path curves."""
    puck = on_floor(
        ph.shapes.Sphere(0.1),
        mass=1.0,
        inertia=(1e9,) * 3,
        position=(0, 0, 0.1),
        velocity=(3, 2, 0),
        friction=(0.2, 0.6),
    )
    squares = np.array([0.2, 0.6]) ** 2
    exact = solve_ivp(
        lambda t, v: -G * squares * v / np.sqrt(np.sum(squares * v**2)), (0, 0.3), (3, 2), rtol=1e-11, atol=1e-12
    )
    errors = [np.abs(velocity(simulate(puck, 0.3, h))[-1, :2] - exact.y[:, -1]).max() for h in (0.01, 0.005)]
    assert errors[0] < 1e-4
    assert 3.9 < errors[0] / errors[1] < 4.1


@pytest.mark.exhaustive
def test_what_sticks_from_the_start_is_not_searched_for_locks(monkeypatch):
    """A rod that falls over about its foot, with the friction that would lock it if it slid."""
    looks, of_points = [], ShapeContacts.of_points
    monkeypatch.setattr(ShapeContacts, "of_points", lambda *args: looks.append(0) or of_points(*args))
    model, r, a = ph.Model(gravity=DOWN), 0.01, np.radians(70)
    model.ground.add_shape(ph.shapes.Plane(point=(0, 0, -r), name="floor"))
    rod = model.add_body(
        mass=1.0, inertia=(1e-6, 1 / 3, 1 / 3), position=(np.cos(a), 0, np.sin(a)), rotation=about_y(a), name="body"
    )
    rod.add_shape(ph.shapes.Sphere(r, position=(1, 0, 0), name="foot"))
    model.contacts(friction=2.5)
    solution = simulate(model, 0.02, 5e-4)
    assert np.all(solution.contacts["floor", "foot"].mode[1:] == "stick")
    looks.clear()
    assert "locked it" not in str(solution.audit())
    # The start, and what finds forces that are not determined.
    assert 0 < len(looks) <= 5 < len(solution.t)


@pytest.mark.exhaustive
@pytest.mark.parametrize("friction", [0.5, 2.5])
def test_painleves_rod_jams_within_the_region_and_slides_outside(friction):
    """A rod pushed with its foot ahead: at 2.5 friction alone would press it, the foot stops at once."""
    model, r, a = ph.Model(gravity=DOWN), 0.01, np.radians(70)
    model.ground.add_shape(ph.shapes.Plane(point=(0, 0, -r), name="floor"))
    rod = model.add_body(
        mass=1.0, inertia=(1e-6, 1 / 3, 1 / 3), position=(np.cos(a), 0, np.sin(a)), rotation=about_y(a),
        velocity=(3, 0, 0), name="body",
    )  # fmt: skip
    rod.add_shape(ph.shapes.Sphere(r, position=(1, 0, 0), name="foot"))
    model.contacts(friction=friction)
    solution = simulate(model, 0.02, 5e-4)
    force = np.asarray(solution.contacts["floor", "foot"].force)
    assert np.all(force[:, 2] > 0)
    # By hand: effective masses at the foot, with the arm and the place where friction acts.
    arm = np.array([np.cos(a), -np.sin(a) - r])
    G_foot = np.array([[1 + 3 * arm[1] ** 2, -3 * arm[0] * arm[1]], [-3 * arm[0] * arm[1], 1 + 3 * arm[0] ** 2]])
    sliding = G_foot[1, 1] - friction * G_foot[1, 0]
    assert (sliding < 0) == (friction > 1)
    assert ("friction of ground/body locked it at t = 0" in str(solution.audit())) == (friction > 1)
    if friction < 1:
        np.testing.assert_allclose(force[1, [0, 2]], np.array([-friction, 1]) * G / sliding, rtol=1e-3)
    else:
        impulse = np.linalg.solve(G_foot, (-3.0, 0.0))
        assert abs(impulse[0]) < friction * impulse[1]
        np.testing.assert_allclose(velocity(solution)[1, [0, 2]], (3 + impulse[0], impulse[1]), atol=0.01)


@pytest.mark.exhaustive
def test_a_rattleback_reverses_in_one_direction_only():
    """Rolling does no work: its energy stays, up to O(h²), while the spin turns round."""
    spreads = []
    for spin, h, end in ((3.0, 0.002, -2.9), (3.0, 0.001, -2.9), (-3.0, 0.002, None)):
        model = on_floor(
            ph.shapes.Ellipsoid((0.2, 0.04, 0.03), rotation=ph.rotation_vector((0, 0, 0.1))), mass=1.0,
            inertia=(4e-4, 9e-3, 9.2e-3), position=(0, 0, 0.03), angular_velocity=(0.05, 0.05, spin), friction=3.0,
        )  # fmt: skip
        solution = simulate(model, 12.0, h, "rattle")
        rate = np.asarray(solution.bodies["body"].angular_velocity)[:, 2]
        assert rate.min() < end if end else rate.max() < 0
        spreads.append(np.ptp(energy(solution)) / energy(solution)[0])
    assert spreads[0] < 3e-4
    assert spreads[0] > 3.5 * spreads[1]


METHODS = [("moreau", {}, 2e-4), ("rkmk54", {"rtol": 1e-9}, 1e-8)]


def turn_of(method, options, problem):
    return ph.simulate(problem, integrator=method, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("method", "options", "error"), METHODS)
def test_a_belt_takes_a_ball_along_against_rolling_friction(method, options, error):
    """It slides, rolls backwards over the belt, and comes to rest on it."""
    R, friction, arm, speed = 0.1, 0.3, 0.004, 1.5
    rolls = speed / (G * (3.5 * friction - 2.5 * arm / R))
    left, loss = friction * G * rolls - speed, arm * G / (1.4 * R)
    rests = rolls - left / loss
    way = 0.5 * friction * G * rolls**2 + (rests - rolls) * (speed + 0.5 * left) + 0.5 * speed
    model = ph.Model(gravity=DOWN)
    model.ground.add_shape(ph.shapes.Plane(name="belt"))
    ball = model.add_body(mass=2.0, shape=ph.shapes.Sphere(R), position=(0, 0, R), name="ball")
    model.add_contact(model.ground, ball, friction=friction, rolling=arm, surface_velocity=(speed, 0, 0))
    end = turn_of(method, options, model.problem(t1=rests + 0.5, h=0.005)).bodies["ball"]
    np.testing.assert_allclose(end.position[-1, 0], way, rtol=0, atol=error)
    np.testing.assert_allclose(end.velocity[-1], (speed, 0, 0), rtol=0, atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("method", "options", "error"), METHODS)
def test_a_ladder_leaves_the_wall_at_two_thirds_of_its_height(method, options, error):
    """Without friction it keeps the horizontal velocity that it has then."""
    length, mass, start, rate, end = 2.0, 5.0, np.radians(70), -0.05, 0.01
    c, s = np.cos(start), np.sin(start)
    leaves = 2 / 3 * (s + rate**2 * length / (3 * G))
    speed = 0.5 * length * leaves * np.sqrt(rate**2 + 3 * G / length * (s - leaves))
    R = np.array([[-c, 0, -s], [0, 1, 0], [s, 0, -c]])
    model = ph.Model(gravity=DOWN)
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.ground.add_shape(ph.shapes.Plane(normal=(1, 0, 0), name="wall"))
    across = mass * length**2 / 12
    ladder = model.add_body(
        mass=mass, inertia=(0.1 * across, across, across), rotation=R, angular_velocity=(0, rate, 0), name="ladder",
        position=(end + 0.5 * length * c, 0, end + 0.5 * length * s),
        velocity=(-0.5 * length * s * rate, 0, 0.5 * length * c * rate),
    )  # fmt: skip
    for x in (-1, 1):
        ladder.add_shape(ph.shapes.Sphere(end, position=(0.5 * x * length, 0, 0)))
    model.contacts(friction=0.0)
    run = turn_of(method, options, model.problem(t1=0.65, h=0.002))
    np.testing.assert_allclose(run.bodies["ladder"].velocity[-1, 0], speed, rtol=0, atol=error)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SO3xR3", "SE3"])
@pytest.mark.parametrize(("method", "options", "error"), METHODS)
def test_an_ellipsoid_rocks_as_one_coordinate_does(method, options, error, formulation):
    a, c, mass, start = 0.2, 0.1, 3.0, 0.6
    inertia = mass / 5 * (a * a + c * c)

    def height(angle):
        h = np.sqrt((a * np.sin(angle)) ** 2 + (c * np.cos(angle)) ** 2)
        first = (a * a - c * c) * np.sin(angle) * np.cos(angle) / h
        return h, first, ((a * a - c * c) * np.cos(2 * angle) - first**2) / h

    def rate(t, y):
        h, first, second = height(y[0])
        lever, slope = inertia + mass * (h * h + first**2), mass * first * (h + second)
        return [y[1], -(mass * G * first + slope * y[1] ** 2) / lever]

    exact = solve_ivp(rate, (0, 1.0), [start, 0], rtol=1e-12, atol=1e-13).y[0, -1]
    model = ph.Model(gravity=DOWN)
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    shape, place = ph.shapes.Ellipsoid((a, 0.15, c)), (0, 0, height(start)[0])
    egg = model.add_body(mass=mass, shape=shape, position=place, rotation=about_y(start), name="egg")
    model.add_contact(model.ground, egg, friction=2.0)
    end = turn_of(method, options, model.problem(formulation, t1=1.0, h=0.0025)).bodies["egg"].rotation[-1]
    np.testing.assert_allclose(np.arctan2(end[0, 2], end[2, 2]), exact, rtol=0, atol=error)
