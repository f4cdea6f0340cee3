"""Quantities of results: each declared once, and what follows from the declaration."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from test_forces_by_name import arm
from test_results import pendulum

import polhode as ph
from polhode.results import BodyResults, ContactResults, ForceResults, JointResults, Quantity
from polhode.results.declarations import QUANTITIES, axes, kinds
from polhode.results.grips import GripResults
from polhode.results.joint_contacts import JointContactResults
from polhode.results.pivots import PivotResults
from polhode.results.quantity import declarations
from polhode.units import unit_of
from polhode.viewing.charts.chart_series import catalogue

MASS, MOMENTS, SPEED, RATE, SLIDE = 2.0, np.array([2.0, 2.0, 3.0]), 0.7, 4.0, 1.5


@pytest.fixture(scope="module")
def tumbling():
    """A symmetric top that tumbles freely beside a point that flies on, so that both energies are constant."""
    model = ph.Model(units="SI")
    model.add_body(
        mass=MASS, inertia=MOMENTS, velocity=(SLIDE, 0, 0), angular_velocity=(SPEED, 0, RATE), position=(0, 1, 0),
        name="top",
    )  # fmt: skip
    model.add_point(mass=0.5, position=(0, 0, 2), velocity=(0, 0, 3), name="point")
    problem = model.problem("SE3", t1=1.0, h=1e-2)
    return problem, ph.simulate(problem, "rkmk4", save_every=10)


def test_energies_of_a_tumbling_top_are_those_of_its_closed_form(tumbling):
    _, run = tumbling
    energy = 0.5 * MASS * SLIDE**2 + 0.5 * (MOMENTS[0] * SPEED**2 + MOMENTS[2] * RATE**2)
    np.testing.assert_allclose(run.bodies["top"].kinetic_energy, energy, rtol=1e-7)
    np.testing.assert_allclose(run.bodies["point"].kinetic_energy, 0.5 * 0.5 * 3**2, rtol=1e-13)
    assert np.ptp(run.bodies["top"].spatial_angular_velocity[:, 0]) > 0.4


def total(run):
    return sum(body.kinetic_energy for body in run.bodies.values())


@pytest.mark.parametrize("formulation", ["minimal", pytest.param("SO3xR3", marks=pytest.mark.exhaustive)])
def test_energies_of_bodies_add_up_to_that_of_the_system(formulation):
    run = ph.simulate(arm(formulation), "rkmk4" if formulation == "minimal" else "herk4", t1=0.05)
    assert np.ptp(run.outputs["kinetic_energy"]) > 1e-3
    np.testing.assert_allclose(total(run), run.outputs["kinetic_energy"], rtol=1e-12)


@pytest.mark.exhaustive
def test_energies_of_flexible_bodies_and_rods_add_up():
    problem = ph.problems.get("flexible-slider-crank")
    own = problem.system.outputs()["kinetic_energy"]
    run = ph.simulate(problem, t1=5 * problem.h)
    whole = [own(t, state) for t, state in instants(run)]
    np.testing.assert_allclose(total(run), whole, rtol=1e-12)
    roll = ph.problems.get("roll-up")
    rod = ph.simulate(roll, t1=3 * roll.h)
    assert len(rod.bodies) > 5
    np.testing.assert_allclose(total(rod), rod.outputs["kinetic_energy"], rtol=1e-12)


def test_a_quantity_is_in_tables_charts_units_and_lists(tumbling, tmp_path):
    _, run = tumbling
    table = run.to_pandas(["top.kinetic_energy", "*.kinetic_energy"])
    assert list(table) == ["time", "top.kinetic_energy", "point.kinetic_energy"]
    np.testing.assert_array_equal(table["top.kinetic_energy"], run.bodies["top"].kinetic_energy)
    path = ph.export(run, tmp_path / "run.csv")
    assert "top.omega_z,top.kinetic_energy,point.x" in path.read_text().splitlines()[0]
    chart = next(chart for chart in catalogue(run) if chart.title == "top · kinetic energy")
    assert (chart.group, chart.unit, chart.first) == ("Bodies", "J", False)
    assert "kinetic_energy" in repr(run.bodies["top"])
    assert "`kinetic_energy` (n,)" in BodyResults.__doc__
    assert "translation and rotation" in BodyResults.kinetic_energy.__doc__


def test_stores_compute_a_quantity_or_have_it_saved(tumbling, tmp_path):
    problem, run = tumbling
    run.save(tmp_path / "run.zarr")
    with pytest.raises(KeyError, match=r"`body_kinetic_energies` of body 'top' was not saved.*save=\["):
        ph.load(tmp_path / "run.zarr").bodies["top"].kinetic_energy  # noqa: B018
    later = ph.load(tmp_path / "run.zarr", problem=problem)
    np.testing.assert_array_equal(later.bodies["top"].kinetic_energy, run.bodies["top"].kinetic_energy)
    assert "top.kinetic_energy" not in ph.load(tmp_path / "run.zarr").to_pandas()

    model, _ = pendulum("SI")
    saving = model.problem("minimal", t1=0.05, h=5e-3, save=[BodyResults.kinetic_energy, BodyResults.position])
    ph.simulate(saving, store=tmp_path / "saved.zarr")
    saved = ph.load(tmp_path / "saved.zarr")
    np.testing.assert_allclose(saved.bodies["rod"].kinetic_energy, saved.outputs["kinetic_energy"], rtol=1e-12)
    data = saved.to_xarray()["outputs.body_kinetic_energies"]
    assert (data.dims, data.attrs["units"], list(data.body)) == (("time", "body"), "J", ["rod"])
    titles = [chart.title for chart in catalogue(saved)]
    assert titles.count("rod · kinetic energy") == 1
    assert "body kinetic energies" not in titles
    with pytest.raises(ValueError, match="`save` takes quantities"):
        model.problem("minimal", t1=1.0, save=["kinetic_energy"])
    with pytest.raises(ValueError, match="`orientation` is not saved"):
        model.problem("minimal", t1=1.0, save=[BodyResults.orientation])


@pytest.mark.exhaustive
def test_ensembles_have_saved_quantities_with_names_and_units():
    model, _ = pendulum("SI")
    problem = model.problem("minimal", t1=0.05, h=5e-3, save=[BodyResults.kinetic_energy])
    angles = problem.state0[0][0] + np.zeros((2, 1))
    runs = ph.ensemble(problem, states=((angles,), np.array([[0.0], [1.0]])), t1=0.05, h=5e-3)
    energies = runs.dataset["outputs.body_kinetic_energies"]
    assert energies.dims == ("member", "time", "body")
    assert energies.attrs["units"] == "J"
    np.testing.assert_allclose(energies.isel(body=0), runs.dataset["outputs.kinetic_energy"], rtol=1e-12)


def test_users_add_quantities_of_their_own(tumbling):
    _, run = tumbling
    height = Quantity("length", lambda body: body.z, doc="(n,): above the ground.")
    momentum = Quantity("momentum", lambda body: MASS * body.velocity, components="xyz", title="push")
    own = run.with_quantities(bodies={"height": height, "momentum": momentum})
    np.testing.assert_allclose(own.bodies["point"].height, 2 + 3 * run.t, rtol=1e-13)
    assert list(own.to_pandas(["top.momentum_x", "*.height"])) == [
        "time", "top.momentum_x", "top.height", "point.height",
    ]  # fmt: skip
    units = {chart.title: chart.unit for chart in catalogue(own)}
    assert (units["top · height"], units["point · push"]) == ("m", "kg m/s")
    assert "height" in dir(own[-1].bodies["top"])
    assert "height" in repr(own.bodies["top"])
    # The run itself, and others, stay as they are.
    assert not hasattr(run.bodies["top"], "height")
    assert height.name == ""
    for name in ("speed", "position", "_row", "two words"):
        with pytest.raises(ValueError, match="can't name a quantity of a body"):
            run.with_quantities(bodies={name: height})
    with pytest.raises(ValueError, match=r"must be a `polhode\.results\.Quantity`"):
        run.with_quantities(bodies={"height": lambda body: body.z})


def test_quantities_of_labels_are_of_the_kind_of_the_label():
    model, hinge = pendulum("SI")
    model.add(ph.forces.JointSpring(hinge, stiffness=2.0, name="spring"))
    run = ph.simulate(model.problem("minimal", t1=0.05, h=5e-3))
    work = Quantity(("force", "moment"), lambda joint: {k: -x for k, x in joint.efforts.items()}, over="coordinates")
    own = run.with_quantities(
        joints={"loss": work},
        forces={"half": Quantity("power", lambda force: force.power / 2, applies=lambda force: force.kind != "PD")},
    )
    units = {chart.title: chart.unit for chart in catalogue(own)}
    assert (units["hinge · loss"], units["spring · half"]) == ("N m", "W")
    np.testing.assert_array_equal(own.to_pandas("spring.half")["spring.half"], run.forces["spring"].power / 2)
    np.testing.assert_array_equal(own.to_pandas("hinge.loss")["hinge.loss"], -run.joints["hinge"].torque)


def test_declarations_say_what_is_needed():
    units = dict(length="mm", mass="t", time="s", force="N")
    for quantity in QUANTITIES:
        kinds_of_it = (quantity.kind,) if isinstance(quantity.kind, str) else quantity.kind
        assert all(unit_of(kind, units) for kind in kinds_of_it if kind), quantity.name
        assert quantity.doc.startswith("(n"), quantity.name
        assert set(quantity.arrays) <= set(axes()), quantity.name
    assert kinds()["joint_moments"] == "moment"
    assert "joint_efforts" not in kinds()
    classes = BodyResults, JointResults, ForceResults, ContactResults, JointContactResults, GripResults, PivotResults
    assert list(QUANTITIES) == [each for results in classes for each in declarations(results)]


def instants(run):
    """Time and state, (q, v), of each frame."""
    return [(t, jax.tree.map(lambda x, k=k: x[k], tuple(run.state[:2]))) for k, t in enumerate(run.t)]
