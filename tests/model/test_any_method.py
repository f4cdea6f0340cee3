"""Models with methods for other kinds of systems: the motion is that of the model, and what they promise is kept."""

import jax
import numpy as np
import pytest

import polhode as ph
from polhode.integrators.compatibility import accepts

H = 0.01


def tree(damping=0.0, ball=False):
    """Two bodies on joints that turn about different axes, and a spring between the second and the ground."""
    model = ph.Model(gravity=(0, 0, -9.81))
    arm = model.add_body(
        mass=1.0, inertia=(0.02, 0.1, 0.11), position=(0.5, 0, 0), angular_velocity=(0, 1, 0), velocity=(0, 0, -0.5)
    )
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
    bob = model.add_body(
        mass=0.7,
        inertia=(0.05, 0.07, 0.02),
        position=(1.0, 0.3, 0),
        angular_velocity=(0.5, 1.0, 0),
        velocity=(0, 0, -0.85),
    )
    joint = ph.joints.Spherical if ball else ph.joints.Revolute
    model.add(joint(arm, bob, point=(1.0, 0, 0), **({} if ball else {"axis": (1, 0, 0)})))
    ends = model.ground, bob, (0, 1, 0), (1.0, 0.3, 0)
    model.add(ph.forces.SpringDamper(*ends, stiffness=20.0, damping=damping, length=0.5))
    return model


def loop(planar=False):
    """A closed chain of three bodies."""
    model = ph.Model(gravity=(0, 0, -9.81))
    points = np.array([(0, 0, 0), (0, 0, 1.0), (1.2, 0, 1.4), (1.5, 0, 0)], dtype=float)
    bodies = [
        model.add_body(mass=1.0 + k, inertia=(0.1, 0.12, 0.05), position=0.5 * (points[k] + points[k + 1]))
        for k in range(3)
    ]
    axis = {"axis": (0, 1, 0)}
    model.add(ph.joints.Revolute(model.ground, bodies[0], point=points[0], **axis))
    for k in (1, 2):
        ends = bodies[k - 1], bodies[k]
        model.add(
            (ph.joints.Revolute if planar else ph.joints.Spherical)(*ends, point=points[k], **(axis if planar else {}))
        )
    model.add(ph.joints.Revolute(model.ground, bodies[2], point=points[3], **axis))
    return model


def free():
    """Two bodies in space, held together by a spring off their centres."""
    model = ph.Model()
    a = model.add_body(mass=1.0, inertia=(0.02, 0.1, 0.11), angular_velocity=(0.3, 1, 2))
    b = model.add_body(mass=2.0, inertia=((0.2, 0.03, 0), (0.03, 0.3, 0), (0, 0, 0.4)), position=(1, 0, 0))
    ends = a, b, (0.1, 0.2, 0), (1, 0.1, 0.3)
    model.add(ph.forces.SpringDamper(*ends, stiffness=30.0, damping=0.0, length=0.5))
    return model


def problem(model, formulation, **options):
    return model.problem(formulation, t1=0.4, h=H, **options)


def end(problem, method, h):
    run = ph.simulate(problem, method, h=h, save_every=None)
    return np.concatenate([run.outputs[name][-1].ravel() for name in ("positions", "rotations", "velocities")])


CASES = [
    pytest.param(tree(), "minimal", "symplectic", 2, marks=pytest.mark.exhaustive),
    pytest.param(tree(), "minimal", "symplectic4", 4, marks=pytest.mark.exhaustive),
    pytest.param(tree(ball=True), "minimal", "symplectic", 2, marks=pytest.mark.exhaustive),
    pytest.param(tree(), "minimal", "eml", 2, marks=pytest.mark.exhaustive),
    pytest.param(tree(), "minimal", "mpl", 2, marks=pytest.mark.exhaustive),
    (tree(damping=3.0), "minimal", "eml", 2),
    pytest.param(tree(damping=3.0), "SE3", "mpl", 2, marks=pytest.mark.exhaustive),
    pytest.param(loop(), "SE3", "rattle", 2, marks=pytest.mark.exhaustive),
    pytest.param(loop(), "euler-parameters", "rattle", 2, marks=pytest.mark.exhaustive),
    pytest.param(loop(), "SO3xR3", "eml", 2, marks=pytest.mark.exhaustive),
    pytest.param(loop(), "SE3", "rkmk4", 4, marks=pytest.mark.exhaustive),
    (free(), "SE3", "rigid-verlet", 2),
    pytest.param(free(), "SO3xR3", "symplectic", 2, marks=pytest.mark.exhaustive),
    pytest.param(free(), "rotation-vector", "eml", 2, marks=pytest.mark.exhaustive),
]

KEEPING = [
    (tree(), "minimal", "symplectic"),
    (tree(), "minimal", "eml"),
    (loop(), "SE3", "rattle"),
    pytest.param(loop(), "SO3xR3", "eml", marks=pytest.mark.exhaustive),
    (free(), "SE3", "rigid-verlet"),
    pytest.param(free(), "SO3xR3", "symplectic", marks=pytest.mark.exhaustive),
]


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("model", "formulation", "method", "order"), CASES)
def test_the_motion_is_that_of_the_model(model, formulation, method, order):
    made = problem(model, formulation)
    exact = end(made, "herk5", H / 8)
    errors = [np.abs(end(made, method, h) - exact).max() for h in (H, H / 2)]
    assert errors[0] < (2e-3 if order == 2 else 1e-6)
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.15


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("model", "formulation", "method"), KEEPING)
def test_promises_are_kept(model, formulation, method):
    table = ph.simulate(problem(model, formulation), method).audit()
    assert table.kept, str(table)


# The page on choosing a method checks the same of a pendulum with every change.
@pytest.mark.exhaustive
def test_the_energy_of_eml_is_that_of_the_model_where_others_lose_it():
    made = problem(tree(), "minimal")
    drift = {name: np.ptp(ph.simulate(made, name).invariants["energy"]) for name in ("eml", "lie-midpoint", "mpl")}
    assert drift["eml"] < 1e-12
    assert min(drift["lie-midpoint"], drift["mpl"]) > 1e-6


@pytest.mark.exhaustive
def test_constraints_that_only_accelerations_keep_drift_by_the_error_of_the_method():
    made = problem(loop(), "SE3")
    run = ph.simulate(made, "rkmk4")
    assert 1e-13 < run.residuals["position"].max() < 1e-7
    assert "accelerations" in run.meta["written_as"]
    assert ph.simulate(made, "herk4").residuals["velocity"].max() < 1e-13
    assert "written_as" not in ph.simulate(made, "herk4").meta


@pytest.mark.exhaustive
def test_redundant_constraints_stay_closed():
    made = problem(loop(planar=True), "SE3", redundant="minimum-norm")
    assert made.system.dropped
    run = ph.simulate(made, "rattle")
    assert run.residuals["position"].max() < 1e-9
    exact = ph.simulate(made, "herk5", h=H / 8, save_every=8).outputs["positions"]
    assert np.abs(run.outputs["positions"] - exact).max() < 1e-3


@pytest.mark.exhaustive
def test_runs_go_on_and_change_methods():
    made = problem(tree(), "minimal")
    whole = ph.simulate(made, "symplectic")
    half = ph.simulate(made, "symplectic", t1=0.2)
    on = ph.simulate(made, initial=half, t1=0.4)
    for a, b in zip(on.state[1][-1], whole.state[1][-1], strict=True):
        assert a == b
    other = ph.simulate(made, "rkmk6", initial=half, t1=0.4)
    assert np.abs(other.outputs["positions"][-1] - whole.outputs["positions"][-1]).max() < 1e-4
    back = ph.simulate(made, "eml", initial=other, t1=0.5)
    assert np.ptp(np.concatenate((other.invariants["energy"], back.invariants["energy"]))) < 1e-9


@pytest.mark.exhaustive
def test_stored_runs_are_resumed_to_the_bytes(tmp_path):
    made = problem(loop(), "SE3")
    whole = ph.simulate(made, "rattle")
    ph.simulate(made, "rattle", t1=0.2, store=tmp_path / "run.zarr")
    on = ph.simulate(made, "rattle", t1=0.4, store=tmp_path / "run.zarr", resume=True)
    assert np.array_equal(np.asarray(on.state[0]), np.asarray(whole.state[0]))
    loaded = ph.load(tmp_path / "run.zarr")
    other = ph.simulate(made, "herk5", initial=loaded, t1=0.5)
    assert other.residuals["position"].max() < 1e-9


@pytest.mark.exhaustive
def test_every_method_says_whether_it_takes_a_problem_and_why_not():
    of_tree, of_loop = (ph.integrators.suited(problem(m, f)) for m, f in ((tree(), "minimal"), (loop(), "SE3")))
    assert sorted(row.name for row in of_tree) == sorted(ph.integrators.names())
    # A conservative model is taken by most methods.
    assert sum(row.suited for row in of_tree) >= 35
    assert sum(row.suited for row in of_loop) >= 20
    assert all(row.reason for table in (of_tree, of_loop) for row in table if not row.suited)
    reasons = {row.name: row.reason for row in of_loop}
    assert "constraints" in reasons["symplectic"]
    assert "constraints" in reasons["rigid-verlet"]
    assert "changes with q" in {row.name: row.reason for row in of_tree}["rattle"]
    assert "rattle " in str(of_loop)


@pytest.mark.exhaustive
def test_what_one_would_try_first_comes_first():
    of_tree, of_loop = (problem(m, f) for m, f in ((tree(), "minimal"), (loop(), "SE3")))
    rows = ph.integrators.suited(of_tree)
    assert (rows[0].name, rows[0].why) == ("rkmk4", f"the default: {of_tree.choice.method.partition(': ')[2]}")
    assert (rows[1].name, rows[1].why) == ("rkmk54", "explicit, order 5, error control")
    place = {row.name: k for k, row in enumerate(rows)}
    # Then by order and cost; those that keep the energy, those of the other kind, and classical ones at last.
    assert place["rkmk6"] < place["rkmk5"] < place["herk5"] < place["lie-euler"] < place["symplectic4"] < place["bdf"]
    assert place["bdf"] < place["dopri5"] < place["rk4"] < min(place[row.name] for row in rows if not row.suited)
    rows = ph.integrators.suited(of_loop)
    assert [row.name for row in rows][:2] == ["generalized-alpha", "bdf"]
    assert {row.name: row.why for row in rows}["eml"] == "implicit, order 2, energy to round-off"
    # With constraints it is a drift off them that puts explicit methods for vector fields behind half-explicit ones.
    assert [row.name for row in rows].index("herk1") < [row.name for row in rows].index("rkmk6")


@pytest.mark.exhaustive
def test_of_damped_motions_no_method_keeps_the_energy():
    rows = ph.integrators.suited(problem(tree(damping=3.0), "minimal"))
    assert not [row for row in rows if "energy" in row.why]
    assert "what speaks for it" in rows._repr_html_()


def test_the_table_agrees_with_runs():
    made = problem(tree(damping=3.0), "minimal")
    for row in ph.integrators.suited(made):
        if row.suited:
            continue
        with pytest.raises(ValueError, match=f"{row.name}|`unknowns='null-space'`"):
            ph.simulate(made, row.name)
    assert not accepts(ph.integrators.get("symplectic"), made.system)
    with pytest.raises(ValueError, match=r"`symplectic` can't take this MultibodySystem: some loads have no potential"):
        ph.simulate(made, "symplectic")


@pytest.mark.exhaustive
def test_quasi_velocities_are_in_the_table():
    made = problem(free(), "euler-angles-kinematic")
    rows = {row.name: row for row in ph.integrators.suited(made)}
    for name in ("generalized-alpha", "bdf"):
        assert not rows[name].suited
        assert "quasi-velocities" in rows[name].reason
    assert rows["herk4"].suited


@pytest.mark.exhaustive
def test_refusals_name_the_methods_that_take_the_problem():
    made = problem(loop(), "SE3")
    with pytest.raises(ValueError, match="Integrators for it: ") as refused:
        ph.simulate(made, "rigid-verlet")
    named = str(refused.value).partition("Integrators for it: ")[2].rstrip(".").split(", ")
    assert sorted(named) == sorted(row.name for row in ph.integrators.suited(made) if row.suited)
    # That its form in rotation matrices has constraints shows only once the model is written that way.
    assert "rattle" in named
    assert "stormer-verlet" not in named
    with pytest.raises(ValueError, match=r"Integrators for it: .*rattle"):
        jax.jit(lambda state: ph.simulate(made, "rigid-verlet", state0=state).state)(made.state0)


def test_a_bare_system_needs_a_state():
    made = problem(tree(), "minimal")
    of_system, of_problem = (ph.integrators.suited(*of) for of in ((made.system, made.state0), (made,)))
    assert sorted(row[:3] for row in of_system) == sorted(row[:3] for row in of_problem)
    with pytest.raises(ValueError, match="state0"):
        ph.integrators.suited(made.system)


def test_a_model_or_a_name_is_told_how_it_becomes_a_problem():
    with pytest.raises(ValueError, match=r"a Problem or a system, got Model\. Pass `model\.problem\(\.\.\.\)`"):
        ph.integrators.suited(ph.Model())
    with pytest.raises(ValueError, match=r"got str\. For a name use `problems\.get\('slider-crank'\)`"):
        ph.integrators.suited("slider-crank")
    with pytest.raises(ValueError, match=r"got int\.$"):
        ph.integrators.suited(3)
