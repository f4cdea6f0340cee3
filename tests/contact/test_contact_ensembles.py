"""Contacts of ensembles: lanes are single runs to the last bit, and forces have names and statistics."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph
from polhode.name_errors import UnknownName

G = 9.81


def thrown_box():
    """A box that falls by a centimetre and slides on; masses, speeds and frictions differ."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    mass, speed, friction = (
        ph.Parameter(name, value) for name, value in (("mass", 2.0), ("speed", 1.0), ("friction", 0.3))
    )
    model.add_body(
        mass=mass,
        inertia=(0.01, 0.01, 0.01),
        shape=ph.shapes.Box((0.2, 0.2, 0.1), name="underside"),
        position=(0, 0, 0.06),
        velocity=(speed, 0, 0),
        name="box",
    )
    model.contacts(friction=friction)
    return model.problem(t1=0.3, h=0.01)


@pytest.mark.exhaustive
def test_contacts_in_lanes_are_those_of_single_runs():
    problem = thrown_box()
    values = {"mass": np.array([1.0, 3.0]), "speed": np.array([0.0, 2.0]), "friction": np.array([0.2, 0.8])}
    runs = ph.ensemble(problem, parameters=values, save_every=1, statistics=True)
    assert runs.stats["by"] == "lanes"
    assert not runs.failed
    contact = runs.contacts["floor", "box"]
    assert contact.normal_force.shape == (8, 31)
    assert contact.dissipation["sliding"].shape == (8, 31)
    for k in range(8):
        own = {name: float(runs.dataset[name][k]) for name in values}
        run = ph.simulate(problem.replace(**own))
        np.testing.assert_array_equal(runs.dataset["multipliers"][k], run.multipliers)
        np.testing.assert_array_equal(contact.normal_force[k], run.contacts["floor", "box"].normal_force)
        np.testing.assert_allclose(contact.normal_force[k, -1], own["mass"] * G, rtol=1e-10)
        slides = own["speed"] > own["friction"] * G * 0.3
        assert contact.mode[k, -1] == ("slide" if slides else "stick") == run.contacts["floor", "box"].mode[-1]
    # The sum of normal forces of the four corners, on average over the members.
    mean = runs.dataset["multipliers.mean"][-1, :12].values.reshape(4, 3)[:, 0].sum()
    np.testing.assert_allclose(mean, 2.0 * G, rtol=1e-10)
    with pytest.raises(UnknownName, match=r"`contact_points` of .* was not saved"):
        _ = contact.points


@pytest.mark.exhaustive
def test_members_without_contacts_say_so():
    free = ph.problems.get("heavy-top", formulation="S3")
    runs = ph.ensemble(free, "rkmk4", parameters={"mass": np.array([14.0, 15.0])}, h=1e-3, t1=0.01)
    with pytest.raises(UnknownName, match="Nothing in this run can touch"):
        _ = runs.contacts["floor"]
