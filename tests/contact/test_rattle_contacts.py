"""RATTLE with contacts against closed forms, conserved quantities and fine steps."""

import numpy as np
import pytest
from reference_problems import REFERENCES

import polhode as ph

G = 9.81
UP = (0.0, 0.0, -G)


def turn(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def on_floor(shape, gravity=UP, contacts=None, **body):
    """A model of one body and a floor."""
    model = ph.Model(gravity=gravity)
    model.add_body(shape=shape, name="body", **body)
    model.ground.add_shape(ph.shapes.Plane())
    model.contacts(**(contacts or {}))
    return model


def run(model, t1, h, formulation="SO3xR3", **options):
    return ph.simulate(model.problem(formulation, t1=t1, h=h), integrator="rattle", **options)


def energy(solution):
    return np.asarray(solution.outputs["kinetic_energy"]) + np.asarray(solution.outputs["potential_energy"])


def rotation(solution):
    return np.asarray(solution.outputs["rotations"])[:, 0]


def slope(errors):
    return np.log2(np.asarray(errors[:-1]) / np.asarray(errors[1:]))


# --- smooth motion ----------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_curved_slide_is_of_order_2():
    a, b = np.radians(25), np.radians(70)
    model = on_floor(
        ph.shapes.Sphere(0.1), (G * np.sin(a), 0, -G * np.cos(a)), {"friction": 0.7}, mass=1.0, inertia=(1e9,) * 3,
        position=(0, 0, 0.1), velocity=(3 * np.cos(b), 3 * np.sin(b), 0),
    )  # fmt: skip
    ends = [np.asarray(run(model, 1.0, h).bodies["body"].position[-1]) for h in (0.02, 0.01, 0.005)]
    errors = [np.linalg.norm(x[:2] - [0.9239419283505015, 0.8512781413404468]) for x in ends]
    assert errors[1] < 2e-4
    np.testing.assert_allclose(slope(errors), 2.0, atol=0.02)


@pytest.mark.exhaustive
def test_a_ball_whose_centre_of_mass_is_beside_its_centre_rolls_with_order_2():
    """The point of contact moves in the body, so that rows of one end of the step alone would have order 1."""
    centre = np.array([0, 0, 0.04])
    model = on_floor(
        ph.shapes.Sphere(0.1, position=centre), UP, {"friction": 2.0}, mass=1.0, inertia=(0.004, 0.004, 0.003),
        position=np.array([0, 0, 0.1]) - turn(1.0) @ centre, rotation=turn(1.0),
    )  # fmt: skip
    solutions = [run(model, 1.0, h) for h in (0.02, 0.01, 0.005, 0.00125)]
    ends = [np.asarray(solution.bodies["body"].position[-1]) for solution in solutions]
    errors = [np.abs(end - ends[-1]).max() for end in ends[:-1]]
    assert errors[1] < 1e-4
    assert np.all(slope(errors) > 1.9)
    slips = [np.abs(np.asarray(solution.contacts["ground", "body"].slip)[1:]).max() for solution in solutions]
    assert max(slips) < 1e-12


@pytest.mark.exhaustive
def test_a_billiard_ball_slides_and_then_rolls():
    model = on_floor(
        ph.shapes.Sphere(0.03), UP, {"friction": 0.2}, mass=0.17, position=(0, 0, 0.03), velocity=(2, 0.5, 0),
        angular_velocity=(10, -20, 5),
    )  # fmt: skip
    body = run(model, 1.0, 0.01).bodies["body"]
    np.testing.assert_allclose(body.velocity[-1], (1.2571428571428571, 0.2714285714285714, 0), atol=1e-13)
    np.testing.assert_allclose(body.position[-1][:2], (1.4042806104670875, 0.3167017262975654), atol=3e-5)
    assert abs((rotation(run(model, 1.0, 0.01))[-1] @ body.angular_velocity[-1])[2] - 5) < 1e-12


@pytest.mark.exhaustive
def test_a_block_on_an_incline_stops_and_does_not_creep():
    a = np.radians(20)
    model = on_floor(
        ph.shapes.Box((0.4, 0.3, 0.2)), (G * np.sin(a), 0, -G * np.cos(a)), {"friction": 0.5}, mass=3.0,
        position=(0, 0, 0.1), velocity=(2, 0, 0),
    )  # fmt: skip
    solution = run(model, 3.0, 0.01)
    body = solution.bodies["body"]
    assert abs(body.position[-1][0] - 1.5949285114815006) < 3e-5
    assert np.ptp(np.asarray(body.position)[-100:], axis=0).max() < 1e-15
    assert np.abs(body.velocity[-1]).max() < 1e-14
    force = np.asarray(solution.contacts["ground", "body"].force)[-1]
    assert abs(np.linalg.norm(force.reshape(-1, 3).sum(axis=0)) - 3 * G) < 1e-8


@pytest.mark.parametrize(
    ("formulation", "error"),
    [
        ("SO3xR3", 1e-11),
        pytest.param("SE3", 1e-3, marks=pytest.mark.exhaustive),
        pytest.param("S3xR3", 1e-11, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_a_top_keeps_jelletts_integral_and_turns_over(formulation, error):
    """A force at the point of contact has no moment along the vector to this point from the centre of mass."""
    centre, radius, inertia = np.array([0, 0, 0.003]), 0.015, (8e-7, 8e-7, 7e-7)
    model = on_floor(
        ph.shapes.Sphere(radius, position=centre), UP, {"friction": 0.01}, mass=6e-3, inertia=inertia,
        position=np.array([0, 0, radius]) - turn(0.5) @ centre, rotation=turn(0.5), angular_velocity=(0, 0, 180.0),
    )  # fmt: skip
    solution = run(model, 60.0, 0.001, formulation)
    R, w = rotation(solution), np.asarray(solution.bodies["body"].angular_velocity)
    integral = np.sum(np.einsum("tij,j,tj->ti", R, inertia, w) * (R @ centre - [0, 0, radius]), axis=1)
    assert np.ptp(integral) < error * abs(integral[0])
    assert R[0, 2, 2] > 0.8
    assert R[-1, 2, 2] < -0.5
    assert np.diff(energy(solution)).max() < 1e-8 * energy(solution)[0]


# --- impacts ----------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_ball_comes_to_rest_beyond_the_accumulation_of_its_impacts():
    model = on_floor(
        ph.shapes.Sphere(0.1), UP, {"friction": 0.0, "restitution": 0.8}, mass=1.0, position=(0, 0, 1.1)
    )  # fmt: skip
    solution = run(model, 6.0, 0.01)
    z = np.asarray(solution.bodies["body"].position)[:, 2]
    assert z.min() >= 0.1 - 1e-15
    assert abs(z[-1] - 0.1) < 1e-15
    assert np.diff(energy(solution)).max() < 1e-13


@pytest.mark.exhaustive
def test_an_elastic_ball_keeps_its_energy_under_gravity():
    model = on_floor(
        ph.shapes.Sphere(0.1), UP, {"friction": 0.0, "restitution": 1.0}, mass=1.0, position=(0, 0, 1.1)
    )  # fmt: skip
    solution = run(model, 20.0, 0.01)
    assert np.ptp(energy(solution)) < 1e-11
    speeds = np.asarray(solution.bodies["body"].velocity)[:, 2]
    assert np.sum(np.diff(np.sign(speeds)) > 0) > 15


@pytest.mark.exhaustive
def test_a_ball_that_grips_bounces_between_planes_as_its_laws_say():
    """Impulses act at its surface, wherever the ball is when the step begins."""
    R, e, grip, inertia = 0.1, 0.9, 0.7, 0.4 * 0.1**2
    model = on_floor(
        ph.shapes.Sphere(R), (0, 0, 0), {"friction": 1e4, "restitution": e, "tangential_restitution": grip},
        mass=1.0, position=(0, 0, 0.3), velocity=(1, 0.4, 2), angular_velocity=(3, -5, 2),
    )  # fmt: skip
    model.ground.add_shape(ph.shapes.Plane(normal=(0, 0, -1), position=(0, 0, 1), name="ceiling"))
    last = run(model, 1.0, 0.01).bodies["body"]
    v, w = np.array([1.0, 0.4, 2.0]), np.array([3.0, -5.0, 2.0])
    for arm in (np.array([0, 0, R]), np.array([0, 0, -R])):
        slip = (v + np.cross(w, arm)) * [1, 1, 0]
        impulse = -(1 + grip) * slip / (1 + R * R / inertia)
        v, w = (v + impulse) * [1, 1, -e], w + np.cross(arm, impulse) / inertia
    np.testing.assert_allclose(last.velocity[-1], v, rtol=0, atol=1e-12)
    np.testing.assert_allclose(last.rotation[-1] @ last.angular_velocity[-1], w, rtol=0, atol=1e-11)


def tumbling(restitution):
    model = on_floor(
        ph.shapes.Box((0.2, 0.2, 0.2)), (0, 0, 0), {"friction": 0.0, "restitution": restitution}, mass=1.0,
        position=(0, 0, 0.3), velocity=(0.1, 0, 2.0), angular_velocity=(1, 2, 0.5),
    )  # fmt: skip
    model.ground.add_shape(ph.shapes.Plane(point=(0, 0, 0.6), normal=(0, 0, -1)))
    return model


@pytest.mark.exhaustive
@pytest.mark.parametrize("t1", [20.0, 250.0])
def test_an_elastic_cube_keeps_its_energy_while_it_tumbles_between_planes(t1):
    solution = run(tumbling(1.0), t1, 0.002)
    impacts = np.sum(np.abs(np.diff(np.asarray(solution.bodies["body"].velocity)[:, 2])) > 1e-9)
    assert impacts > (50 if t1 < 100 else 1000)
    assert np.ptp(energy(solution)) < 1e-13 * t1
    # The same with restitution below 1, which must not keep it.
    assert energy(run(tumbling(0.9), 20.0, 0.002))[-1] < 0.5 * energy(solution)[0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SO3xR3", "SE3"])
def test_two_boxes_in_space_keep_both_momenta_through_an_impact_with_friction(formulation):
    model = ph.Model(gravity=(0, 0, 0))
    for i, x in enumerate(((0, 0, 0), (0.6, 0.05, 0.02))):
        model.add_body(
            mass=1.0 + i, shape=ph.shapes.Box((0.3, 0.2, 0.25)), position=x, velocity=(0.8 - 1.2 * i, 0, 0),
            angular_velocity=(0.3, 0.8 - i, 0.3 + i), name=f"b{i}",
        )  # fmt: skip
    model.contacts(friction=0.4, restitution=0.5)
    solution = run(model, 1.0, 0.005, formulation)
    for name in ("linear_momentum", "angular_momentum"):
        assert np.ptp(np.asarray(solution.invariants[name]), axis=0).max() < 1e-13
    kinetic = np.asarray(solution.outputs["kinetic_energy"])
    assert kinetic[-1] < 0.8 * kinetic[0]
    assert np.diff(kinetic).max() < 1e-8


@pytest.mark.exhaustive
def test_what_rests_far_away_has_no_part_in_impacts():
    """Nor has round-off in the forces of contacts that have opened."""
    velocities = []
    for ball in (False, True):
        model = on_floor(
            ph.shapes.Box((0.3, 0.2, 0.1)), UP, {"friction": 0.3, "restitution": 0.4}, mass=2.0, position=(0, 0, 0.2),
            rotation=ph.rotation_vector((0.3, 0.2, 0.1)), velocity=(2.0, 0.3, 0), angular_velocity=(1, 2, 3),
        )  # fmt: skip
        if ball:
            model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.05), position=(5, 0, 0.05), name="ball")
        velocities.append(run(model, 0.35, 0.005).bodies["body"].velocity)
    np.testing.assert_allclose(velocities[1], velocities[0], rtol=0, atol=1e-12)


@pytest.mark.exhaustive
def test_what_tumbles_far_away_has_no_part_in_the_energy_of_impacts():
    velocities = []
    for tumbles in (False, True):
        model = on_floor(
            ph.shapes.Sphere(0.1), UP, {"friction": 0.0, "restitution": 0.8}, mass=1.0, position=(0, 0, 0.2),
            velocity=(0.5, 0, 0),
        )  # fmt: skip
        if tumbles:
            model.add_body(mass=3.0, inertia=(0.03, 0.02, 0.012), position=(5, 0, 8), angular_velocity=(3, 20, 1))
        velocities.append(run(model, 0.3, 0.005).bodies["body"].velocity)
    assert np.max(velocities[0][:, 2]) > 0.5
    np.testing.assert_allclose(velocities[1], velocities[0], rtol=0, atol=1e-13)


@pytest.mark.exhaustive
@pytest.mark.parametrize("h", [0.01, 0.005])
def test_a_box_dropped_on_a_corner_comes_to_rest_on_a_face(h):
    axis, angle = np.array([1, 0.3, 0.2]) / np.linalg.norm([1, 0.3, 0.2]), 0.9
    K = np.cross(np.eye(3), axis).T
    R = np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
    model = on_floor(
        ph.shapes.Box((0.4, 0.3, 0.2)), UP, {"friction": 0.6, "restitution": 0.2}, mass=1.0, position=(0, 0, 0.6),
        rotation=R, velocity=(0.5, 0, 0), angular_velocity=(1, 2, 0.5),
    )  # fmt: skip
    solution = run(model, 3.0, h)
    z, E = np.asarray(solution.bodies["body"].position)[:, 2], energy(solution)
    rests = min((0.1, 0.15, 0.2), key=lambda height: abs(z[-1] - height))
    assert abs(z[-1] - rests) < 1e-15
    assert np.abs(np.asarray(solution.bodies["body"].velocity)[-1]).max() < 1e-13
    assert np.asarray(solution.contacts["ground", "body"].gap).min() > -1e-12
    assert abs(E[-1] - G * rests) < 1e-12
    assert np.diff(E).max() < 5e-6


@pytest.mark.exhaustive
def test_a_rocking_block_changes_edges_and_rocks_on():
    x = np.array([0.2, 0, 0]) - turn(0.15) @ np.array([0.2, 0, -0.6])
    model = on_floor(
        ph.shapes.Box((0.4, 0.2, 1.2)), UP, {"friction": 0.8}, mass=1.0, position=x, rotation=turn(0.15)
    )  # fmt: skip
    errors = []
    for h in (0.01, 0.0025):
        solution = run(model, 1.0, h)
        rate = np.asarray(solution.bodies["body"].angular_velocity)[:, 1]
        i = int(np.argmax(np.abs(np.diff(rate))))
        assert abs(np.asarray(solution.t)[i + 1] - 0.3649245728131797) <= h + 1e-9
        edge = np.asarray(solution.bodies["body"].position) + rotation(solution) @ np.array([0.2, 0.1, -0.6])
        assert np.ptp(edge[: i + 1], axis=0).max() < 0.01 * h**2
        errors.append(abs(rate[i + 1] + 0.7844172291799564))
    assert errors[0] < 0.06
    assert errors[1] < 0.4 * errors[0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", [ph.shapes.Box((0.2, 0.2, 0.2)), ph.shapes.Cylinder(radius=0.1, length=0.3)])
def test_bodies_that_bounce_and_tumble_come_to_rest(shape):
    """Rounds would cycle where a lying cylinder tips over within a step, and where one corner turns another back."""
    for seed in (1, 4, 5):
        random = np.random.default_rng(seed)
        tilt, velocity = random.normal(size=3), random.normal(size=3)
        model = on_floor(
            shape, UP, {"friction": 0.5, "restitution": 0.5}, mass=1.0, position=(0, 0, 0.3),
            rotation=ph.rotation_vector(tilt), velocity=velocity, angular_velocity=2 * random.normal(size=3),
        )  # fmt: skip
        solution = run(model, 2.0, 0.01)
        assert np.diff(energy(solution)).max() < 5e-5
        assert np.asarray(solution.contacts["ground", "body"].gap).min() > -1e-10


@pytest.mark.parametrize("h", [0.02, 0.0095])
@pytest.mark.exhaustive
def test_a_slender_ladder_slides_down_with_large_steps(h):
    """Rows and columns at both ends of a step have a product below zero, where its own axis has next to no inertia."""
    reference = REFERENCES["ladder-70"]
    errors = reference.errors(ph.simulate(reference.build().problem(t1=0.64, h=h), "rattle"))
    assert abs(errors["time when it leaves"]) < h
    assert abs(errors["horizontal speed then"]) < 5e-4


@pytest.mark.parametrize(("gap", "after"), [(0.0, (-1 / 3, 2 / 3, 2 / 3)), (0.02, (0, 0, 1))])
@pytest.mark.exhaustive
def test_newtons_cradle(gap, after):
    model = ph.Model(gravity=(0, 0, 0))
    for i in range(3):
        x = i * (0.1 + gap) - (0.0501 if i == 0 else 0)
        model.add_body(
            mass=1.0, shape=ph.shapes.Sphere(0.05), position=(x, 0, 0), velocity=(float(i == 0), 0, 0), name=f"b{i}"
        )
    model.contacts(friction=0.0, restitution=1.0)
    solution = run(model, 0.3, 0.01)
    np.testing.assert_allclose([solution.bodies[f"b{i}"].velocity[-1][0] for i in range(3)], after, atol=1e-14)


# --- joints -----------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", [pytest.param("SE3", marks=pytest.mark.exhaustive), "minimal"])
def test_a_pendulum_against_a_wall_keeps_its_joint(formulation):
    model = ph.Model(gravity=UP)
    body = model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.05), position=(np.sin(1), 0, -np.cos(1)), name="body")
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    normal, centre = np.array([np.cos(0.3), 0, -np.sin(0.3)]), np.array([-np.sin(0.3), 0, -np.cos(0.3)])
    model.ground.add_shape(ph.shapes.Plane(point=centre - 0.05 * normal, normal=normal))
    model.contacts(friction=0.0, restitution=0.7)
    solution = run(model, 2.2, 0.005, formulation)
    x = np.asarray(solution.bodies["body"].position)
    assert np.abs(np.linalg.norm(x, axis=1) - 1).max() < 1e-13
    assert ((x - centre) @ normal).min() > -1e-12
    assert max(np.max(values) for values in solution.residuals.values()) < 1e-12
    rate = np.asarray(solution.bodies["body"].angular_velocity)[:, 1]
    impacts = np.flatnonzero(np.diff(rate) < -0.5)
    assert len(impacts) == 2
    times = np.asarray(solution.t)[impacts + 1]
    np.testing.assert_allclose(times, (0.6366935069084052, 1.9547800689445107), atol=0.02)
    np.testing.assert_allclose(np.abs(rate[impacts + 1]), 0.7 * np.array([2.8521633613227375, 1.9965]), atol=0.01)


@pytest.mark.parametrize(
    ("between", "ground", "stands"), [(1.001, 1.001, True), (0.999, 2.0, False), (2.0, 0.999, False)]
)
@pytest.mark.exhaustive
def test_three_cylinders_stand_at_both_thresholds(between, ground, stands):
    r = 0.1
    model = ph.Model(gravity=UP)
    bodies = [
        model.add_body(mass=1.0, shape=ph.shapes.Sphere(r), inertia=(0.005,) * 3, position=x, name=f"b{i}")
        for i, x in enumerate(((-r, 0, r), (r, 0, r), (0, 0, r + np.sqrt(3) * r)))
    ]
    for body in bodies:
        model.add(ph.joints.Planar(model.ground, body, normal=(0, 1, 0)))
    model.ground.add_shape(ph.shapes.Plane())
    model.contacts(friction=0.2679491924311227 * between)
    for body in bodies[:2]:
        model.add_contact(model.ground, body, friction=0.0893163974770409 * ground)
    solution = run(model, 1.0, 0.01)
    speed = max(np.abs(np.asarray(body.velocity)).max() for body in solution.bodies.values())
    assert speed < 1e-13 if stands else speed > 1e-2


# --- one name, two forms ----------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_the_name_stands_for_the_form_that_the_system_needs():
    model = on_floor(ph.shapes.Sphere(0.1), UP, {"friction": 0.2}, mass=1.0, position=(0, 0, 0.1), velocity=(1, 0, 0))
    problem = model.problem("SO3xR3", t1=0.4, h=0.01)
    names = {row.name for row in ph.integrators.suited(problem) if row.suited}
    assert names >= {"moreau", "rattle", "generalized-alpha", "rkmk4", "rkmk54"}
    assert names & {"bdf", "eml", "stormer-verlet"} == set()
    method = ph.integrators.get("rattle", max_iterations=40)
    form = method.for_system(problem.system)
    assert type(form) is not type(method)
    assert form.max_iterations == 40
    assert form.for_system(problem.system) is form
    assert ph.integrators.name_of(ph.integrators.get("rattle").for_system(problem.system)) == "rattle"
    assert ph.integrators.name_of(ph.integrators.get("rattle")) == "rattle"
    whole = ph.simulate(problem, integrator="rattle")
    half = ph.simulate(problem, integrator="rattle", t1=0.2)
    rest = ph.simulate(problem, initial=half, t1=0.4)
    assert rest.meta["integrator"]["name"] == "rattle"
    np.testing.assert_array_equal(rest.bodies["body"].position[-1], whole.bodies["body"].position[-1])


@pytest.mark.exhaustive
def test_members_of_an_ensemble_are_single_runs():
    model = on_floor(
        ph.shapes.Sphere(0.1), UP, {"friction": 0.2, "restitution": 0.5}, mass=1.0, position=(0, 0, 0.11),
        angular_velocity=(0, 5, 0),
    )  # fmt: skip
    problem = model.problem("SO3xR3", t1=0.3, h=0.01)
    q, v = problem.state0
    speeds = np.array([0.0, 0.5, 1.0, 2.0])
    states = (
        tuple(tuple(np.stack([np.asarray(x)] * 4) for x in part) for part in q),
        np.stack([np.asarray(v)] * 4) + speeds[:, None] * np.eye(6)[3],
    )
    members = ph.ensemble(problem, "rattle", states=states).dataset["outputs.velocities"].isel(time=-1)
    for k, speed in enumerate(speeds):
        single = ph.simulate(problem, integrator="rattle", state0=(q, np.asarray(v) + speed * np.eye(6)[3]))
        np.testing.assert_array_equal(members[k].values, np.asarray(single.outputs["velocities"])[-1])


def test_coordinates_without_a_group_are_refused():
    model = on_floor(ph.shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.1))
    problem = model.problem("euler-angles-kinematic", t1=0.1, h=0.01)
    with pytest.raises(ValueError, match="`moreau` takes them"):
        ph.simulate(problem, integrator="rattle")
