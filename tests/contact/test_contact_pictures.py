"""Pictures of bodies that touch: forces as arrows, quantities as charts, colours of shapes."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph
from polhode.solution import show
from polhode.viewing.charts.chart_series import catalogue
from polhode.viewing.film.frame_renderer import FrameRenderer
from polhode.viewing.scene import arrow_fields
from polhode.viewing.scene.sampled_motion import sample

G = 9.81


def model(colour):
    made = ph.Model(gravity=(0, 0, -G), units="SI")
    made.ground.add_shape(ph.shapes.Plane(name="floor"))
    made.add_body(mass=2.0, shape=ph.shapes.Sphere(0.1, colour=colour), position=(0.3, 0, 0.1), name="ball")
    made.contacts()
    return made


@pytest.mark.exhaustive
def test_contact_forces_are_arrows_and_charts():
    run = ph.simulate(model("orange").problem(t1=0.1, h=0.01))
    scene = show.scene_of(run)
    assert scene is not None
    motion = sample(scene, run)
    (field,) = [each for each in arrow_fields.of_run(scene, motion, run) if each.name == "contact force"]
    np.testing.assert_allclose(field.feet[:, 0], [[0.3, 0, 0]] * len(run.t), atol=1e-12)
    np.testing.assert_allclose(field.vectors[:, 0], [[0, 0, 2 * G]] * len(run.t), atol=1e-9)
    charts = {chart.title: chart for chart in catalogue(run) if chart.group == "Contacts"}
    force = charts["ground/ball · normal force"]
    assert force.unit == "N"
    np.testing.assert_allclose(next(iter(force.curves.values())), 2 * G, atol=1e-9)
    # The colour is that of CSS.
    picture = FrameRenderer(scene, motion, (320, 240)).frame(0)
    assert np.any((picture[..., 0] > 1.3 * picture[..., 1]) & (picture[..., 1] > 2 * picture[..., 2]))


def test_colours_that_are_none_are_named():
    with pytest.raises(ValueError, match="got 'no colour' of Sphere"):
        model("no colour").problem(t1=0.1, h=0.01)
