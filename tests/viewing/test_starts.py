"""Problems before they run: their start as a run of one frame, on a page; and curves of runs with matplotlib."""

import pickle

import numpy as np
import pytest

import polhode as ph
from polhode.solution.show import scene_of
from polhode.viewing.page.payload import payload


@pytest.fixture(scope="module")
def model():
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    box = ph.shapes.Box((1, 0.1, 0.1), colour="orange")
    spin = {"angular_velocity": (0, 3.0, 0), "velocity": (0, 0, -1.5)}
    arm = model.add_body(mass=2.0, shape=box, **spin, position=(0.5, 0, 1), name="arm")
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 1), axis=(0, 1, 0), name="hinge"))
    return model


@pytest.fixture(scope="module")
def problem(model):
    return model.problem("minimal", t1=0.1, h=0.01)


def test_a_start_has_bodies_joints_and_energies(problem):
    start = problem.start
    np.testing.assert_allclose(start.bodies["arm"].position, [[0.5, 0, 1]], atol=1e-15)
    np.testing.assert_allclose(start.joints["hinge"].rate, [3.0])
    about_the_hinge = 2.0 * (1 + 0.1**2) / 12 + 2.0 * 0.5**2
    assert start.invariants["energy"][0] == pytest.approx(0.5 * about_the_hinge * 3.0**2 + 2.0 * 9.81 * 1.0)


def test_a_start_is_a_picture_without_curves(problem):
    start = problem.start
    description, _ = payload([(start, scene_of(start))])
    (run,) = description["runs"]
    assert run["charts"] == []
    assert [body["name"] for body in run["scene"]["bodies"] if body["colour"] == "#ffa500"] == ["arm"]


def test_models_and_problems_are_shown(model, problem):
    for thing in (model, problem):
        server = thing.show(block=False, browser=False)
        try:
            assert server.url.startswith("http://127.0.0.1:")
        finally:
            server.close()


def test_a_start_that_does_not_fit_is_shown_as_it_was_given():
    model = ph.Model()
    body = model.add_body(mass=1, inertia=(1, 1, 1), position=(1, 0, 0), velocity=(0, 0, 1), name="wheel")
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 0, 1), name="axle"))
    with pytest.warns(UserWarning, match="`axle`"):
        server = model.show(block=False, browser=False)
    assert server.answer(f"{server.url.split('/', 3)[3]}data", f"127.0.0.1:{server.port}")[0] == 200
    server.close()


@pytest.mark.exhaustive
def test_starts_of_all_kinds_of_problems_are_pictures():
    for name in ("heavy-top", "torus", "rattleback"):
        start = ph.problems.get(name).start
        description, _ = payload([(start, scene_of(start))])
        assert description["runs"][0]["scene"]


def test_columns_are_drawn_against_each_other(problem):
    run = ph.simulate(problem)
    axes = run.plot("hinge.rate", against="hinge.angle")
    (line,) = axes.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), run.joints["hinge"].angle)
    np.testing.assert_array_equal(line.get_ydata(), run.joints["hinge"].rate)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("hinge.angle in rad", "hinge.rate in rad/s")
    assert run.plot("arm.x", "arm.z", axes=axes) is axes
    assert [line.get_label() for line in axes.get_lines()] == ["hinge.rate", "arm.x", "arm.z"]
    with pytest.raises(ValueError, match="Name the columns"):
        run.plot()
    with pytest.raises(KeyError, match=r"hinge\.angle"):
        run.plot("hinge.angel")
    with pytest.raises(ValueError, match="one column"):
        run.plot("hinge.rate", against="arm")


def test_copies_of_runs_in_other_processes_have_their_scene():
    run = pickle.loads(pickle.dumps(ph.simulate(ph.problems.get("heavy-top"), t1=0.01)))
    assert scene_of(run) is not None
