"""States as different kinds of systems write them: named, not mixed up, and gone on with from stores."""

import jax
import numpy as np
import pytest

import polhode as ph


def hinged_model(formulation="minimal"):
    model = ph.Model(gravity=(0, 0, -9.81))
    arm = model.add_body(mass=2.0, inertia=(0.01, 0.2, 0.2), position=(0.5, 0, 0), name="arm")
    hinge = model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    return model.problem(formulation, t1=0.1, h=0.01), hinge


def free():
    model = ph.Model()
    model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.25), angular_velocity=(1, 2, 3), name="body")
    return model.problem("SE3", t1=0.1, h=0.01)


def last(run):
    return jax.tree.map(lambda x: x[-1], run.state)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "method",
    ["symplectic", "eml", *(pytest.param(m, marks=pytest.mark.exhaustive) for m in ("mpl", "rattle", "rkmk4", "bdf"))],
)
def test_runs_in_stores_go_on_in_the_form_in_which_their_method_writes_states(method, tmp_path):
    problem = free() if method == "rattle" else hinged_model()[0]
    ph.simulate(problem, method, store=tmp_path / "run.zarr")
    on = ph.resume(tmp_path / "run.zarr", t1=0.2, problem=problem)
    whole = ph.simulate(problem, method, t1=0.2)
    assert on.t[-1] == pytest.approx(0.2)
    for a, b in zip(jax.tree.leaves(on.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.exhaustive
def test_named_problems_go_on_in_another_form_as_well(tmp_path):
    ph.simulate(ph.problems.get("rotor"), "mpl", t1=0.002, store=tmp_path / "run.zarr")
    assert ph.resume(tmp_path / "run.zarr", t1=0.004).t[-1] == pytest.approx(0.004)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", ["symplectic", "eml"])
def test_states_of_another_form_are_not_taken_for_positions_and_velocities(method, tmp_path):
    problem, hinge = hinged_model()
    run = ph.simulate(problem, method, store=tmp_path / "run.zarr")
    for other in (last(run), last(ph.load(tmp_path / "run.zarr"))):
        for act in (
            lambda state=other: hinge.angle_rate(problem.system, 0.1, state),
            lambda state=other: problem.system.pose_in(state, "arm"),
        ):
            with pytest.raises(ValueError, match=r"Read them from the run: `run.joints"):
                act()
        for act in (
            lambda state=other: ph.simulate(problem, "rkmk4", t0=0.1, t1=0.2, state0=state),
            lambda state=other: ph.simulate(problem, method, t0=0.1, t1=0.2, state0=state),
            lambda state=other: ph.linearise(problem, state=state),
        ):
            with pytest.raises(ValueError, match=r"begin in that run: `initial=run`"):
                act()
    plain = ph.simulate(problem, "rkmk4")
    assert hinge.angle_rate(problem.system, 0.1, last(plain)) == pytest.approx(run.joints["hinge"].rate[-1], rel=1e-4)
    on = ph.simulate(problem, "rkmk4", t1=0.2, initial=run)
    assert on.joints["hinge"].rate[-1] == pytest.approx(
        ph.simulate(problem, "rkmk4", t1=0.2).joints["hinge"].rate[-1], rel=1e-4
    )


@pytest.mark.exhaustive
def test_rows_of_outputs_are_in_the_order_of_the_model_in_any_coordinates():
    for formulation in ("minimal", "SO3xR3"):
        model = ph.Model()
        tip = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(2, 0, 0), name="tip")
        load = model.add_point(mass=1.0, position=(3, 0, 0), name="load")
        base = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(1, 0, 0), name="base")
        model.add(ph.joints.Revolute(model.ground, base, point=(0, 0, 0), axis=(0, 0, 1)))
        model.add(ph.joints.Revolute(base, tip, point=(1.5, 0, 0), axis=(0, 0, 1)))
        problem = model.problem(formulation, t1=0.1)
        assert problem.system.shown == (tip.name, load.name, base.name)
        positions = problem.outputs["positions"](0.0, problem.state0)
        np.testing.assert_allclose(positions[:, 0], (2, 3, 1), atol=1e-12)


@pytest.mark.exhaustive
def test_refusals_say_what_stands_in_the_way_and_what_would_do():
    ball = ph.Model()
    body = ball.add_body(mass=1.0, inertia=(0.1, 0.2, 0.25), position=(0.3, 0, 0), name="body")
    ball.add(ph.joints.Spherical(ball.ground, body, point=(0, 0, 0)))
    end = ball.add_body(mass=1.0, inertia=(0.1, 0.2, 0.25), position=(0.9, 0, 0), name="end")
    ball.add(ph.joints.Spherical(body, end, point=(0.6, 0, 0)))
    with pytest.raises(ValueError, match=r"in absolute coordinates, formulation 'SO3xR3'"):
        ph.simulate(ball.problem("minimal", t1=0.1), "eml")
    allowed = {row.name: row.suited for row in ph.integrators.suited(ball.problem("SO3xR3", t1=0.1))}
    assert allowed["eml"]
    reasons = {row.name: row.reason for row in ph.integrators.suited(hinged_model("SE3")[0])}
    assert "turns about a point" not in reasons["rattle"] + reasons["stormer-verlet"]
    assert "turns about a point" in reasons["emh"]
