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


@pytest.mark.parametrize("by", ["drive", "belt"])
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
