"""Exact friction of compliant contacts against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph

G = 9.81
ANGLE = np.radians(20)
ALONG, ACROSS = G * np.sin(ANGLE), G * np.cos(ANGLE)


def ball(method: str, friction: float = 0.1):
    """A ball that slides until it rolls."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.add_body(
        mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, 0.1 - G / 1e5), velocity=(1.0, 0, 0), name="ball"
    )
    model.contacts(friction=friction, law="compliant", stiffness=1e5, exponent=1.0, damping=2.0)
    return ph.simulate(model.problem(t1=0.5), method, h=5e-3)


def block(method: str, friction: float, speed: float = 0.0):
    """A block on an incline, pressed as deep as it will be."""
    model = ph.Model(gravity=(ALONG, 0, -ACROSS), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.add_body(
        mass=1.0, shape=ph.shapes.Box((0.2, 0.2, 0.1)), position=(0, 0, 0.05 - ACROSS / 4e4),
        velocity=(speed, 0, 0), name="box",
    )  # fmt: skip
    model.contacts(friction=friction, law="compliant", stiffness=1e4, exponent=1.0, damping=5.0)
    # Explicit steps have to resolve the damping.
    return ph.simulate(model.problem(t1=1.0, h=4e-4 if method == "rkmk54" else 2e-3), method)


@pytest.mark.exhaustive
def test_a_ball_slides_until_it_rolls():
    run = ball("moreau")
    contact = run.contacts["ground", "ball"]
    # It slides for 2v/7μg.
    assert contact.mode[10] == "slide"
    assert contact.mode[-1] == "stick"
    assert run.bodies["ball"].velocity[-1, 0] == pytest.approx(5 / 7, abs=1e-3)
    assert contact.dissipation[-1] == pytest.approx(1 / 7, rel=1e-2)
    assert contact.slip[-1] < 1e-14
    assert contact.normal_force[-1] == pytest.approx(G, rel=1e-6)
    assert run.contacts["ball", "ground"].bodies == ("ground", "ball")
    assert list(run.contacts) == ["ground/ball"]
    assert run.audit().accurate


def test_methods_that_have_no_exact_friction_say_what_to_do():
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, 0.1), name="ball")
    model.contacts(law="compliant", stiffness=1e5)
    with pytest.raises(ValueError, match="slip_speed"):
        ph.simulate(model.problem(t1=0.01), "generalized-alpha", h=1e-3)
    with pytest.raises(ValueError, match="slip_speed"):
        model.problem(t1=0.01, formulation="livens")


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "rattle", "rkmk54"])
def test_a_block_on_an_incline(method):
    holds = block(method, 0.5)
    contact = holds.contacts["ground/box"]
    # It tips back by what the friction under it presses.
    assert abs(holds.bodies["box"].position[-1, 0]) < 1e-4
    assert contact.slip[-1] < 1e-11
    assert contact.dissipation[-1] < 1e-5
    assert np.allclose(contact.force[-1], (-ALONG, 0, ACROSS), rtol=0, atol=1e-3)
    slides = block(method, 0.2)
    way = 0.5 * (ALONG - 0.2 * ACROSS)
    assert slides.bodies["box"].position[-1, 0] == pytest.approx(way, rel=1e-4)
    assert slides.contacts["ground/box"].dissipation[-1] == pytest.approx(0.2 * ACROSS * way, rel=1e-4)
    stops = block(method, 0.5, speed=1.0)
    assert stops.bodies["box"].position[-1, 0] == pytest.approx(0.5 / (0.5 * ACROSS - ALONG), rel=2e-3)
    assert stops.contacts["ground/box"].mode[-1] == "stick"
    # Waves of the contact shake it.
    assert stops.contacts["ground/box"].slip[-1] < 1e-6


@pytest.mark.exhaustive
def test_a_rope_on_an_incline_sticks_or_slides():
    def rope(friction: float):
        model = ph.Model(gravity=(ALONG, 0, -ACROSS), units="SI")
        model.ground.add_shape(ph.shapes.Plane(name="floor"))
        x = np.linspace(0, 0.3, 4)
        rod = model.add_rod(
            points=np.stack([x, 0 * x, 0 * x + 0.01], axis=1),
            section=ph.rods.circular(0.01, youngs_modulus=1e7, density=1000), name="rope",
        )  # fmt: skip
        model.add_contact(rod, model.ground, law="compliant", stiffness=1e5, exponent=1, friction=friction, damping=5)
        return ph.simulate(model.problem(t1=0.3, h=2e-3), "moreau")

    weight = 1000 * np.pi * 0.01**2 * 0.3
    run = rope(0.5)
    contact = run.contacts["ground", "rope"]
    assert contact.mode[-1] == "stick"
    assert contact.slip[-1] < 1e-15
    # Waves along the rope are not damped.
    assert np.mean(contact.force[30:, 0]) == pytest.approx(-weight * ALONG, rel=0.05)
    run = rope(0.1)
    moved = run.bodies["rope-node-2"].position[-1, 0] - 0.2
    assert moved == pytest.approx(0.5 * 0.3**2 * (ALONG - 0.1 * ACROSS), rel=1e-3)


def test_friction_between_rods_needs_a_speed():
    model = ph.Model()
    section = ph.rods.circular(0.01, youngs_modulus=1e7, density=1000)
    rods = [model.add_rod(points=[(0, y, 0), (1, y, 0)], section=section, name=f"rod-{y}") for y in (0, 1)]
    with pytest.raises(ValueError, match="between rods"):
        model.add_contact(*rods, law="compliant", stiffness=1e5, friction=0.5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("exponent", [1.0, 1.5])
def test_a_box_that_friction_holds_against_a_push_is_in_equilibrium(exponent):
    """Its weight presses every corner, and the moment of the push those in front of it, in closed form."""
    mass, push, stiffness = 2.0, 3.0, 3e4 if exponent == 1.0 else 3e5
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    box = model.add_body(mass=mass, shape=ph.shapes.Box((0.3, 0.5, 0.16)), position=(0, 0, 0.08), name="box")
    model.add(ph.forces.PointForce(box, (0, push, 0)))
    model.contacts(friction=0.4, law="compliant", stiffness=stiffness, exponent=exponent)
    rest = ph.equilibrium(model.problem(t1=1.0, h=2e-3))
    z, R = rest.bodies["box"].position[2], np.asarray(rest.bodies["box"].rotation)
    corners = z + (np.array([(x, y, -0.08) for x in (-0.15, 0.15) for y in (-0.25, 0.25)]) @ R.T)[:, 2]
    weight, moment = mass * G / 4, push * z / (4 * 0.25)
    depths = (np.array([weight - moment, weight + moment] * 2) / stiffness) ** (1 / exponent)
    np.testing.assert_allclose(-corners, depths, rtol=2e-3)
    assert rest.residual < 1e-8 * mass * G
