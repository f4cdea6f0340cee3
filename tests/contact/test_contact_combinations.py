"""Contacts beside drives and belts, and shapes on several bodies."""

from __future__ import annotations

import numpy as np
import pytest
from touching_models import G, box_on_floor

import polhode as ph


def two_balls_of_one_shape() -> tuple[ph.Model, ph.shapes.Sphere]:
    """Two balls on a floor that share their shape."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    shape = ph.shapes.Sphere(0.1)
    for k, name in enumerate(("left", "right")):
        model.add_body(mass=1.0, shape=shape, position=(k, 0, 0.1), name=name)
    return model, shape


@pytest.mark.exhaustive
def test_a_shape_on_two_bodies_touches_with_both():
    model, _ = two_balls_of_one_shape()
    model.contacts()
    run = ph.simulate(model.problem("SO3xR3", t1=0.1, h=0.01))
    assert set(run.contacts) == {"ground/left", "ground/right", "left/right"}
    for name in ("left", "right"):
        np.testing.assert_allclose(run.contacts["ground", name].force[-1], (0, 0, G), atol=1e-12)


def test_a_shape_on_two_bodies_names_neither():
    model, shape = two_balls_of_one_shape()
    with pytest.raises(ValueError, match="several bodies, 'left', 'right': name the body"):
        model.add_contact(model.ground, shape)


@pytest.mark.exhaustive
@pytest.mark.parametrize("by", [pytest.param("drive", marks=pytest.mark.exhaustive), "belt"])
def test_what_moves_contacts_has_no_wrong_balance(by):
    """A drive gives what friction takes, and a belt twice what the box gets."""
    model = box_on_floor(velocity=(0.5, 0, 0) if by == "drive" else (0, 0, 0))
    box = model.register.find("box")
    if by == "drive":
        model.add(ph.joints.PrescribedTranslation(model.ground, box, axis=(1, 0, 0), displacement=lambda t: 0.5 * t))
    else:
        model.add_contact(model.ground, box, friction=0.3, surface_velocity=(0.5, 0, 0))
    run = ph.simulate(model.problem("SO3xR3", integrator="moreau", t1=0.2, h=0.01))
    lost = 0.3 * 2.0 * G * 0.5 * 0.2 if by == "drive" else 0.5 * 2.0 * 0.5**2
    assert run.contacts["box"].dissipation["sliding"][-1] == pytest.approx(lost, rel=1e-9)
    audit = run.audit()
    assert audit.kept
    assert audit.accurate, audit


@pytest.mark.exhaustive
@pytest.mark.parametrize("gap", [1e-8, 1e-3])
@pytest.mark.parametrize("method", ["moreau", pytest.param("rattle", marks=pytest.mark.exhaustive)])
def test_bodies_that_fall_together_stop_one_above_the_other(method, gap):
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    for name, height in (("lower", 0.13), ("upper", 0.33 + gap)):
        model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, height), velocity=(0, 0, -5), name=name)
    model.contacts(friction=0.3)
    run = ph.simulate(model.problem("SO3xR3", integrator=method, t1=0.05, h=0.01))
    assert run.contacts["lower", "upper"].gap.min() > -1e-15
    np.testing.assert_allclose(run.bodies["upper"].position[-1], (0, 0, 0.3), atol=1e-14)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "rattle"])
@pytest.mark.parametrize("side", [1, -1])
def test_a_belt_does_not_move_across_itself(method, side):
    """A ball leans on either end of a block whose surface moves along x."""
    model = ph.Model(gravity=(-side, 0, 0))
    model.ground.add_shape(ph.shapes.Box((1, 1, 1)))
    ball = model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0.6 * side, 0, 0), name="ball")
    model.add_contact(model.ground, ball, friction=0.3, surface_velocity=(0.5, 0, 0))
    run = ph.simulate(model.problem("SO3xR3", integrator=method, t1=0.1, h=0.01))
    np.testing.assert_allclose(run.bodies["ball"].position[-1], (0.6 * side, 0, 0), atol=1e-14)


@pytest.mark.exhaustive
def test_room_to_spare_leaves_the_slip_of_the_first_contact():
    """A box slides and spins below others that turn in the air and have one point each, of four slots."""
    slips = []
    for room in (33, 40):
        model = ph.Model(gravity=(0, 0, -G))
        model.ground.add_shape(ph.shapes.Box((50, 50, 1), position=(0, 0, -0.5)))
        box = ph.shapes.Box((0.2, 0.2, 0.2))
        model.add_body(
            mass=1.0, shape=box, position=(-3, 0, 0.1), velocity=(1, 0, 0), angular_velocity=(0, 0, 0.3), name="slides"
        )
        for k in range(3):
            model.add_body(mass=1.0, shape=box, position=(2 * k - 1, 0, 2 + k), angular_velocity=(1, 2, 3))
        model.contacts(friction=0.1)
        model.limit_contacts(room)
        run = ph.simulate(model.problem("SO3xR3", integrator="moreau", t1=0.02, h=0.01))
        slips.append(np.asarray(run.contacts["ground", "slides"].slip)[-1])
    np.testing.assert_allclose(*slips, atol=1e-6)


@pytest.mark.exhaustive
def test_a_ball_rolls_down_a_heightfield_as_down_a_plane():
    slope = np.deg2rad(10)
    normal = np.array([-np.sin(slope), 0, np.cos(slope)])
    model = ph.Model(gravity=(0, 0, -G))
    heights = np.tan(slope) * np.linspace(-2, 2, 41)[:, None] * np.ones(41)
    model.ground.add_shape(ph.shapes.Heightfield(heights, (4, 4)))
    start = 0.12 * normal + (0, 0.017, 0)
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.12), position=start, name="ball")
    model.contacts(friction=0.8)
    run = ph.simulate(model.problem("SO3xR3", t1=0.4, h=0.01))
    way = np.linalg.norm(run.bodies["ball"].position[-1] - start)
    np.testing.assert_allclose(way, 5 / 14 * G * np.sin(slope) * 0.4**2, rtol=1e-10)


@pytest.mark.exhaustive
def test_points_have_shapes_and_coordinates_have_none():
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    point = model.add_point(mass=1.0, position=(0, 0, 0.2), name="point")
    point.add_shape(ph.shapes.Sphere(0.1))
    model.contacts()
    run = ph.simulate(model.problem(t1=0.3, h=0.01))
    np.testing.assert_allclose(run.bodies["point"].position[-1], (0, 0, 0.1), atol=1e-12)
    with pytest.raises(ValueError, match="without a place in space"):
        model.add_shape(model.add_coordinate(name="valve"), ph.shapes.Sphere(0.1))


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "generalized-alpha"])
def test_the_end_of_a_rod_on_a_floor_carries_what_a_propped_beam_leaves_to_it(method):
    """3/8 of the weight of a clamped beam, on average over its undamped vibration, whose period is 13 ms."""
    radius, density, length = 0.01, 7850.0, 1.0
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(point=(0, 0, -0.05), name="floor"))
    steel = ph.rods.circular(radius, youngs_modulus=2.1e11, density=density)
    rod = model.add_rod(points=np.linspace(0, length, 5)[:, None] * (1.0, 0, 0), section=steel, clamped="first")
    rod.last.add_shape(ph.shapes.Sphere(0.05, name="tip"))
    model.contacts(friction=0.0)
    run = ph.simulate(model.problem(t1=0.2, h=1e-3), method)
    tip, weight = run.contacts["floor", "tip"], density * np.pi * radius**2 * length * G
    np.testing.assert_allclose(np.mean(tip.normal_force[60:]), 0.375 * weight, rtol=0.02)
    assert np.min(tip.gap) > -1e-12


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "options", "error"),
    [("rkmk54", {"rtol": 1e-9}, 1e-12), ("rkmk4", {}, 1e-12), *((m, {}, 1e-5) for m in ("moreau", "rattle"))],
)
def test_a_belt_carries_along_what_slides_askew_to_it(method, options, error):
    """Friction has the direction of the slip at the start, since both parts of that fall alike."""
    friction, slip = 0.35, np.array([-2.0, 0.5])
    model = box_on_floor(velocity=(0, 0.5, 0))
    model.add_contact(model.ground, model.register.find("box"), friction=friction, surface_velocity=(2.0, 0, 0))
    h = {} if options else {"h": 0.01}
    run = ph.simulate(model.problem("SO3xR3", t1=1.0, **h), method, **options)
    speed, start = np.linalg.norm(slip), np.asarray(run.bodies["box"].position[0, :2])
    end = speed / (friction * G)
    place = np.array([0, 0.5]) * end - 0.5 * friction * G * end**2 * slip / speed + np.array([2.0, 0]) * (1 - end)
    np.testing.assert_allclose(run.bodies["box"].position[-1, :2] - start, place, rtol=0, atol=error)
    np.testing.assert_allclose(run.bodies["box"].velocity[-1], (2, 0, 0), rtol=0, atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "options", "error"),
    [("rkmk54", {"rtol": 1e-9}, 1e-11), *((m, {"h": 0.01}, 1e-4) for m in ("moreau", "rattle"))],
)
def test_an_event_sends_a_sliding_body_back(method, options, error):
    model = box_on_floor(friction=0.4, velocity=(3.0, 0, 0))
    back = ph.Event(
        lambda t, state, system: system.motion(state[0]).poses.x[0, 0] - 0.5,
        lambda t, state: (state[0], -state[1]),
        direction=1,
        name="turns",
    )
    run = ph.simulate(model.problem("SO3xR3", t1=1.5), method, events=[back], **options)
    slowing, start = 0.4 * G, run.bodies["box"].position[0, 0]
    instant = (3 - np.sqrt(9 - 2 * slowing * (0.5 - start))) / slowing
    assert run.events.name[0] == "turns"
    np.testing.assert_allclose(run.events.t[0], instant, rtol=0, atol=1e-11)
    way = (3 - slowing * instant) ** 2 / (2 * slowing)
    np.testing.assert_allclose(run.bodies["box"].position[-1, 0], 0.5 - way, rtol=0, atol=error)


def test_bodies_that_take_no_shapes_say_what_to_do():
    with pytest.raises(ValueError, match="takes no shapes: rigid bodies, points and nodes of rods of a model do"):
        ph.Model().add_coordinate(name="x").add_shape(ph.shapes.Sphere(0.1))
