"""Pictures of bodies that touch: forces as arrows, quantities as charts, colours of shapes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import polhode as ph
from polhode.results import ContactResults
from polhode.solution import show
from polhode.viewing.charts import load_arrows
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
    (cone,) = [each for each in arrow_fields.of_run(scene, motion, run) if each.name == "friction cone"]
    np.testing.assert_allclose(cone.vectors[..., 2], 2 * G, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(cone.vectors[..., :2], axis=-1), 0.5 * 2 * G, atol=1e-9)
    charts = {chart.title: chart for chart in catalogue(run) if chart.group == "Contacts"}
    force = charts["ground/ball · normal force"]
    assert force.unit == "N"
    np.testing.assert_allclose(next(iter(force.curves.values())), 2 * G, atol=1e-9)
    # The colour is that of CSS.
    picture = FrameRenderer(scene, motion, (320, 240)).frame(0)
    assert np.any((picture[..., 0] > 1.3 * picture[..., 1]) & (picture[..., 1] > 2 * picture[..., 2]))


class Contact(ContactResults):
    """One point that slides and sticks, on a surface that is twice as rough along its first tangent."""

    friction = np.array([[0.6, 0.3]])
    points = np.array([[[1.0, 0, 0]]] * 2)
    normals = np.array([[[0, 0, 1.0]]] * 2)
    tangents = np.array([[[[1.0, 0, 0], [0, 1.0, 0]]]] * 2)
    forces = np.array([[[6.0, 0, 10.0]], [[0, 1.0, 10.0]]])


def test_forces_that_slide_end_on_the_edge_of_their_cone_and_others_inside():
    contact = Contact(SimpleNamespace(meta={}), "floor/foot", {})
    run = SimpleNamespace(contacts={"floor/foot": contact})
    feet, edges = load_arrows.of_cones(run, np.arange(2))
    _, forces = load_arrows.of_contacts(run, np.arange(2))
    np.testing.assert_array_equal(feet, np.broadcast_to([1.0, 0, 0], (2, 8, 3)))
    np.testing.assert_allclose(edges[..., 2], 10.0)
    np.testing.assert_allclose((edges[..., 0] / 6) ** 2 + (edges[..., 1] / 3) ** 2, 1.0)
    assert np.min(np.linalg.norm(edges[0] - forces[0], axis=-1)) < 1e-12
    assert np.min(np.linalg.norm(edges[1] - forces[1], axis=-1)) > 1.9
    contact.friction = np.zeros((1, 2))
    assert load_arrows.of_cones(run, np.arange(2)) is None


def test_colours_that_are_none_are_named():
    with pytest.raises(ValueError, match="got 'no colour' of Sphere"):
        model("no colour").problem(t1=0.1, h=0.01)
