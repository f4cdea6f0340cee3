"""Results of contacts by name, loads of joints under their forces, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from touching_models import G, arm_on_table, box_on_floor, pendulum_at_wall, puck_on_floor

import polhode as ph
from polhode.name_errors import UnknownName


@pytest.fixture(scope="module")
def slide():
    """A box that slides at 1 m/s: after t = 1 / (μg) it sticks."""
    return ph.simulate(box_on_floor(velocity=(1.0, 0, 0)).problem("SO3xR3", t1=0.4, h=0.01))


def test_forces_are_those_of_a_sliding_box(slide):
    contact = slide.contacts["floor", "box"]
    weight = 2.0 * G
    slides = slide.t < 1 / (0.3 * G) - 0.02
    np.testing.assert_allclose(contact.normal_force, weight, rtol=1e-10)
    np.testing.assert_allclose(contact.friction_force[slides], 0.3 * weight, rtol=1e-10)
    np.testing.assert_allclose(contact.force[slides], np.tile((-0.3 * weight, 0, weight), (slides.sum(), 1)), atol=1e-8)
    # The centre of pressure moves forward until the moment of friction about the centre is balanced.
    np.testing.assert_allclose(contact.moment, 0, atol=1e-9)
    np.testing.assert_allclose(
        np.cross(contact.points - slide.bodies["box"].position[:, None], contact.forces).sum(1), 0, atol=1e-9
    )
    assert {*contact.mode[slides]} == {"slide"}
    assert contact.mode[-1] == "stick"
    np.testing.assert_allclose(contact.slip[1:][slides[1:]], slide.bodies["box"].speed[1:][slides[1:]], rtol=1e-10)
    np.testing.assert_allclose(contact.gap, 0, atol=1e-12)
    assert contact.points.shape == (len(slide.t), 4, 3)
    np.testing.assert_allclose(contact.normals, np.broadcast_to((0, 0, 1.0), contact.points.shape), atol=1e-12)


def test_dissipation_is_the_kinetic_energy(slide):
    assert slide.dissipated["sliding"][-1] == pytest.approx(1.0, rel=1e-10)
    assert slide.contacts["box"].dissipation["sliding"][-1] == pytest.approx(1.0, rel=1e-10)
    assert abs(slide.dissipated["impact"]).max() < 1e-14


def test_two_names_give_the_force_on_the_second_one_the_force_on_it(slide):
    on_box = slide.contacts["ground", "box"].force
    for key in (("floor", "cube"), ("floor", "box"), "box", "cube", "ground/box"):
        np.testing.assert_array_equal(slide.contacts[key].force, on_box)
    for key in (("box", "ground"), ("cube", "floor"), "ground", "floor"):
        np.testing.assert_array_equal(slide.contacts[key].force, -on_box)
        np.testing.assert_array_equal(slide.contacts[key].normal_force, slide.contacts["box"].normal_force)
    np.testing.assert_array_equal(slide.contacts["box", "ground"].normals, -slide.contacts["box"].normals)
    assert list(slide.contacts) == ["ground/box"]
    assert "contacts: ground/box" in repr(slide)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("puk", "Did you mean `puck`"),
        ("loose", "'loose' touches nothing"),
        (("puck", "loose"), "'loose' touches nothing"),
        (("puck", "left"), r"No rule lets 'puck' and 'left' touch; 'puck' may touch ground"),
        (("puck",), "one name or two"),
    ],
)
def test_unknown_names(key, message):
    model = puck_on_floor()
    left = model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(2.0, 0, 0.1), name="left")
    model.add_body(mass=1.0, inertia=(1, 1, 1), position=(3.0, 0, 0.1), name="loose")
    model.contact_rules.clear()
    model.contacts(without=[(left, model.register.find("puck"))])
    run = ph.simulate(model.problem("SO3xR3", t1=0.01, h=0.01))
    with pytest.raises(UnknownName, match=message):
        run.contacts[key]


@pytest.mark.exhaustive
def test_rules_have_names():
    model = puck_on_floor()
    puck = model.register.find("puck")
    for name, message in ((3, "must be a text"), ("", "must be a text"), ("puck", "a body or a shape")):
        with pytest.raises(ValueError, match=message):
            model.add_contact(model.ground, puck, friction=0.1, name=name)
    model.add_contact(model.ground, puck, friction=0.1, name="skid")
    run = ph.simulate(model.problem("SO3xR3", t1=0.02, h=0.01))
    assert list(run.contacts) == ["skid"]
    np.testing.assert_array_equal(run.contacts["skid"].force, run.contacts["puck"].force)
    assert "skid.normal_force" in run.to_pandas("skid")


def test_tables_and_data_sets_have_contacts(slide, tmp_path):
    table = slide.to_pandas("ground/box")
    np.testing.assert_array_equal(table["ground/box.force_z"], slide.contacts["box"].force[:, 2])
    assert list(table["ground/box.mode"])[-1] == "stick"
    assert not [name for name in slide.to_pandas() if name.startswith("multipliers")]
    data = slide.to_xarray()
    assert data["contacts.force"].dims == ("time", "contact", "component")
    assert data["contacts.force"].attrs["units"] == "N"
    assert float(data["contacts.dissipation"].sel(dissipation_kind="sliding")[-1, 0]) == pytest.approx(1.0)
    single = data["multipliers"].sel(multiplier=[f"ground/box.{k} force normal" for k in range(4)])
    np.testing.assert_allclose(single.sum("multiplier"), 2.0 * G, rtol=1e-10)
    ph.export(slide, tmp_path / "run.csv", columns=["ground/box.slip"])
    assert (tmp_path / "run.csv").read_text().startswith("time,ground/box.slip")


def test_stores_have_what_needs_no_problem(tmp_path):
    problem = box_on_floor(velocity=(1.0, 0, 0)).problem("SO3xR3", t1=0.1, h=0.01)
    run = ph.simulate(problem, store=tmp_path / "run.zarr")
    bare = ph.load(tmp_path / "run.zarr")
    np.testing.assert_array_equal(bare.contacts["box"].normal_force, run.contacts["box"].normal_force)
    assert bare.contacts["box"].mode[-1] == "slide"
    with pytest.raises(UnknownName, match=r"save=\[polhode.results.ContactResults.points\]"):
        _ = bare.contacts["box"].force
    whole = ph.load(tmp_path / "run.zarr", problem=problem)
    np.testing.assert_array_equal(whole.contacts["box"].force, run.contacts["box"].force)
    saving = box_on_floor(velocity=(1.0, 0, 0)).problem(
        "SO3xR3", t1=0.1, h=0.01, save=[ph.results.ContactResults.points]
    )
    ph.simulate(saving, store=tmp_path / "places.zarr")
    saved = ph.load(tmp_path / "places.zarr")
    np.testing.assert_allclose(saved.contacts["box"].force, run.contacts["box"].force, atol=1e-12)
    assert saved.to_xarray()["outputs.contact_places.contact_points"].dims == ("time", "contact_point", "component")


@pytest.mark.exhaustive
def test_runs_that_go_on_go_on_counting():
    problem = puck_on_floor(velocity=(1.0, 0, 0)).problem("SO3xR3", t1=0.2, h=0.01)
    whole = ph.simulate(problem)
    rest = ph.simulate(problem, initial=ph.simulate(problem, t1=0.1))
    np.testing.assert_array_equal(rest.multipliers[-1], whole.multipliers[-1])
    # Methods restart at breakpoints, and count on.
    broken = ph.simulate(problem, breakpoints=[0.055])
    kinetic = broken.outputs["kinetic_energy"]
    np.testing.assert_allclose(broken.dissipated["sliding"], kinetic[0] - kinetic, atol=1e-13)


@pytest.mark.exhaustive
def test_traced_runs_have_contacts():
    def force(friction):
        problem = puck_on_floor(friction=friction, velocity=(1.0, 0, 0)).problem(
            "SO3xR3", t1=0.03, h=0.01, save=[ph.results.ContactResults.points]
        )
        contact = ph.simulate(problem).contacts["puck"]
        return contact.force[-1], contact.slip[-1], contact.dissipation["sliding"][-1]

    on_puck, slip, taken = jax.jit(force)(0.25)
    np.testing.assert_allclose(on_puck, (-0.25 * 2 * G, 0, 2 * G), atol=1e-9)
    assert slip == pytest.approx(1 - 0.25 * G * 0.03)
    assert taken == pytest.approx(1 - slip**2)


@pytest.mark.exhaustive
def test_ensembles_label_contact_forces():
    problem = puck_on_floor(velocity=(1.0, 0, 0)).problem("SO3xR3", t1=0.03, h=0.01)
    states = jax.tree.map(lambda x: np.stack([np.asarray(x)] * 2), problem.state0)
    states[1][1, 3] = 0.5
    data = ph.ensemble(problem, states=states, save_every=1).dataset
    taken = data["multipliers"].sel(multiplier="ground/puck.0 dissipation sliding").isel(time=-1)
    kinetic = data["outputs.kinetic_energy"]
    np.testing.assert_allclose(taken, kinetic.isel(time=0) - kinetic.isel(time=-1), rtol=1e-10)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SO3xR3", "minimal"])
def test_joint_loads_balance_the_pendulum_at_a_wall(formulation):
    run = ph.simulate(pendulum_at_wall().problem(formulation, t1=0.05, h=0.01))
    pin, wall = run.joints["pin"], run.contacts["wall", "bob"]
    # Moments about the pin: m g x = N z.
    normal = 2 * G * 0.3 / np.sqrt(1 - 0.3**2)
    np.testing.assert_allclose(wall.force, np.tile((normal, 0, 0), (len(run.t), 1)), atol=1e-10)
    np.testing.assert_allclose(pin.force + wall.force, np.tile((0, 0, 2 * G), (len(run.t), 1)), atol=1e-10)
    np.testing.assert_allclose(pin.moment, 0, atol=1e-10)
    assert abs(run.bodies["bob"].velocity).max() < 1e-13


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SO3xR3", "minimal"])
def test_joint_loads_balance_the_arm_on_a_table(formulation):
    run = ph.simulate(arm_on_table().problem(formulation, t1=0.05, h=0.01))
    shoulder, elbow, hand = run.joints["shoulder"], run.joints["elbow"], run.contacts["table", "hand"]
    assert {*hand.mode} == {"stick"}
    up = np.array((0, 0, 1.0))
    np.testing.assert_allclose(shoulder.force + hand.force, np.tile(3.0 * G * up, (len(run.t), 1)), atol=1e-10)
    np.testing.assert_allclose(elbow.force + hand.force, np.tile(1.5 * G * up, (len(run.t), 1)), atol=1e-10)
    # Moments about the elbow and about the shoulder, along y.
    arm = lambda point, force: np.cross(np.asarray(point), force)[..., 1]  # noqa: E731
    own = arm((0.25, 0, -0.15), -1.5 * G * up) + arm((0.5, 0, -0.35), hand.force)
    np.testing.assert_allclose(own, 0, atol=1e-10)


def test_shapes_that_overlap_are_named_before_anything_runs():
    problem = box_on_floor(height=0.08).problem("SO3xR3", t1=0.1, h=0.01)
    with pytest.raises(ValueError, match=r"`ground` \(floor\) and `box` \(cube\) by 0.02.*without="):
        ph.simulate(problem)


def test_shapes_without_a_rule_are_said():
    model = box_on_floor()
    model.contact_rules.clear()
    problem = model.problem("SO3xR3", t1=0.01, h=0.01)
    assert "ground, box have shapes: `model.contacts()`" in repr(problem)
    run = ph.simulate(problem)
    assert "ground, box have shapes" in repr(run)
    with pytest.raises(UnknownName, match="no rule lets them touch"):
        run.contacts["box"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"integrator": "moreau", "rtol": 1e-6}, "no error estimate.*Give `h`.*rkmk54"),
        ({"h": -0.01}, "`h` must be positive"),
        ({"t0": 0.1, "t1": 0.0}, "goes back in time"),
        ({"integrator": "herk4", "h": 0.01}, "no contacts with friction.*moreau"),
        (
            {"events": [ph.events.impact(lambda t, s: s[0][0][1][0, 2], restitution=0.5, name="hit")]},
            "knows nothing",
        ),
    ],
)
def test_what_no_run_with_contacts_can_do(options, message):
    problem = box_on_floor().problem("SO3xR3", t1=0.1, h=0.01)
    with pytest.raises(ValueError, match=message):
        ph.simulate(problem, **options)


def test_what_knows_nothing_of_contacts_says_so():
    model = box_on_floor()
    problem = model.problem("SO3xR3", t1=0.1, h=0.01)
    for act in (ph.modes, ph.linearise):
        with pytest.raises(ValueError, match="touch each other"):
            act(problem)
    with pytest.raises(ValueError, match="Leave `save_loads`"):
        model.problem("SO3xR3", t1=0.1, h=0.01, save_loads=True)


@pytest.mark.exhaustive
def test_events_end_and_change_runs_with_contacts():
    problem = puck_on_floor(velocity=(1.0, 0, 0)).problem("SO3xR3", t1=0.2, h=0.01)
    position = lambda t, state: state[0][0][1][0, 0] - 0.1  # noqa: E731
    brake = ph.Event(position, action=lambda t, state: (state[0], 0.5 * state[1]), name="brake")
    run = ph.simulate(problem, events=[brake])
    # x = t − ½μg t² = 0.1
    exact = (1 - np.sqrt(1 - 0.2 * 0.3 * G)) / (0.3 * G)
    assert run.events.t[0] == pytest.approx(exact, abs=1e-3)
    kinetic = run.outputs["kinetic_energy"]
    jump = 0.75 * run.events.before[1][0, 3] ** 2
    assert kinetic[0] - kinetic[-1] == pytest.approx(run.dissipated["sliding"][-1] + jump, rel=1e-10)


@pytest.mark.exhaustive
def test_frames_between_steps_are_read():
    problem = puck_on_floor(velocity=(1.0, 0, 0)).problem("SO3xR3", t1=0.1, h=0.01)
    run = ph.simulate(problem, save_at=[0.013, 0.05, 0.1])
    assert run.contacts["puck"].force[-1] == pytest.approx((-0.6 * G, 0, 2 * G), abs=1e-9)
    assert run.audit()["energy"].relative < 1e-10


def test_a_failed_step_names_its_contacts():
    system = box_on_floor(friction=4.0, height=0.15, rotation=ph.rotation_vector((0, 0.6, 0))).problem(
        "SO3xR3", t1=0.1, h=0.01
    )
    lowest = 0.1 * (np.cos(0.6) + np.sin(0.6))
    q, v = system.state0
    q = jax.tree.map(jnp.asarray, q)
    q = ((q[0][0], q[0][1].at[0, 2].set(lowest)),)
    said = system.system.diagnose(0.05, (q, v))
    assert "in touch are `ground` (floor) and `box` (cube)" in said
    assert "Painlevé" in said
    calm = box_on_floor(friction=0.1).problem("SO3xR3", t1=0.1, h=0.01)
    assert "Painlevé" not in calm.system.diagnose(0.0, calm.state0)
