"""Forces by name, against their laws, the balance of power and other coordinates."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.viewing.charts.chart_series import catalogue

STIFFNESS, DAMPING, K, C, LENGTH = 3.0, 0.2, 40.0, 1.5, 0.7


def arm(formulation: str, **options):
    """Two bars with a motor, a spring along a joint, one between points, a control of both joints, and a load."""
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    upper = model.add_body(mass=1.0, inertia=(0.01, 0.05, 0.05), position=(0.5, 0, 0), name="upper")
    lower = model.add_body(mass=0.5, inertia=(0.01, 0.02, 0.02), position=(1.3, 0, 0), name="lower")
    hip = model.add(ph.joints.Revolute(model.ground, upper, point=(0, 0, 0), axis=(0, 1, 0), name="hip"))
    knee = model.add(ph.joints.Revolute(upper, lower, point=(1, 0, 0), axis=(0, 1, 0), name="knee"))
    model.add(ph.forces.JointSpring(knee, stiffness=STIFFNESS, damping=DAMPING, rest=0.3, name="knee spring"))
    model.add(ph.forces.PD(hip, proportional=30.0, derivative=2.0, target=lambda t: 10 * t, name="motor"))
    model.add(
        ph.forces.SpringDamper(model.ground, lower, (0.5, 0, 1.0), (1.5, 0, 0), K, C, length=LENGTH, name="tendon")
    )
    model.add(ph.forces.JointControl([hip, knee], lambda t, s, rates: jnp.stack([-rates[1], -rates[0]]), name="both"))
    model.add(ph.forces.PointForce(lower, (0, 2.0, 5.0), point=(1.5, 0, 0), name="pull"))
    model.add(ph.forces.Torque(upper, (0, 0.5, 0)))
    return model.problem(formulation, t1=1.0, h=2e-3, **options)


@pytest.fixture(scope="module")
def run():
    return ph.simulate(arm("minimal"), "rkmk4", save_every=5)


def test_forces_follow_their_laws(run):
    hip, knee, lower = run.joints["hip"], run.joints["knee"], run.bodies["lower"]
    assert list(run.forces) == ["knee spring", "motor", "tendon", "both", "pull"]
    assert hip.angle.max() > np.pi + 1
    spring, motor = run.forces["knee spring"], run.forces["motor"]
    np.testing.assert_allclose(spring.torque, -STIFFNESS * (knee.angle - 0.3) - DAMPING * knee.rate, atol=1e-12)
    np.testing.assert_allclose(spring.power, spring.torque * knee.rate, atol=1e-11)
    np.testing.assert_allclose(spring.moment[:, 1], spring.effort, atol=1e-12)
    np.testing.assert_allclose(spring.moments["upper"], -spring.moments["lower"], atol=1e-12)
    error = hip.angle - 10 * run.t
    folded = error - 2 * np.pi * np.round(error / (2 * np.pi))
    np.testing.assert_allclose(motor.torque, -30 * folded - 2 * (hip.rate - 10), atol=1e-10)
    both = run.forces["both"]
    np.testing.assert_allclose(both.efforts["hip"], -knee.rate, atol=1e-12)
    np.testing.assert_allclose(both.efforts["knee"], -hip.rate, atol=1e-12)
    end = lower.position + lower.rotation @ [0.2, 0, 0]
    d = end - [0.5, 0, 1.0]
    distance = np.linalg.norm(d, axis=1)
    speed = lower.velocity + np.cross(lower.spatial_angular_velocity, end - lower.position)
    along = d / distance[:, None]
    pull = K * (distance - LENGTH) + C * np.einsum("ni,ni->n", along, speed)
    tendon = run.forces["tendon"]
    np.testing.assert_allclose(tendon.force, -pull[:, None] * along, atol=1e-11)
    np.testing.assert_allclose(tendon.moment, np.cross(end - lower.position, tendon.force), atol=1e-11)
    np.testing.assert_allclose(tendon.power, np.einsum("ni,ni->n", tendon.force, speed), atol=1e-11)
    np.testing.assert_allclose(run.forces["pull"].force, [[0, 2.0, 5.0]] * len(run.t), atol=1e-14)


def test_joints_sum_what_forces_exert(run):
    names = ("knee spring", "motor")
    powers = sum(run.forces[name].power for name in (*names, "both"))
    np.testing.assert_allclose(run.joints["hip"].power + run.joints["knee"].power, powers, atol=1e-10)
    efforts = run.forces["motor"].effort + run.forces["both"].efforts["hip"]
    np.testing.assert_allclose(run.joints["hip"].torque, efforts, atol=1e-11)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SO3xR3", "livens"])
def test_forces_do_not_depend_on_coordinates(run, formulation):
    problem = arm(formulation)
    method = "eml" if formulation == "livens" else "herk4"
    # Before the knee makes half a turn, after which absolute coordinates take its angle from the other side.
    short = ph.simulate(problem, method, t1=0.15, save_every=5)
    size = {"eml": 2e-3, "herk4": 1e-6}[method]
    for name, force in short.forces.items():
        for quantity in ("forces", "moments", "efforts"):
            for key, values in getattr(force, quantity).items():
                reference = getattr(run.forces[name], quantity)[key][: len(short.t)]
                np.testing.assert_allclose(values, reference, atol=size * max(1.0, np.abs(reference).max()))


def test_forces_are_saved_and_labelled(run, tmp_path):
    stored = ph.simulate(arm("minimal", save_loads=True), "rkmk4", save_every=5, store=tmp_path / "run.zarr")
    again = ph.load(tmp_path / "run.zarr")
    np.testing.assert_allclose(again.forces["tendon"].power, run.forces["tendon"].power, atol=1e-11)
    table = stored.to_pandas(["tendon", "motor", "both"])
    assert {"tendon.force_z", "tendon.moment_x", "tendon.power", "motor.effort", "both.hip"} <= set(table)
    np.testing.assert_array_equal(table["motor.effort"], stored.forces["motor"].torque)
    data = stored.to_xarray()
    force = data["outputs.force_loads.force_forces"].sel(force_body="tendon.lower", component="x")
    np.testing.assert_array_equal(force, stored.forces["tendon"].force[:, 0])
    assert force.attrs["units"] == "N"
    power = data["outputs.force_loads.force_powers"].sel(force="motor")
    np.testing.assert_array_equal(power, stored.forces["motor"].power)


def test_what_there_is_not_is_said(run):
    with pytest.raises(KeyError, match=r"no force 'tendn'\. Did you mean `tendon`"):
        run.forces["tendn"]
    with pytest.raises(KeyError, match=r"no joint 'motor', but a force of this name: `run\.forces\['motor'\]`"):
        run.joints["motor"]
    with pytest.raises(KeyError, match="`efforts` has them by joint"):
        _ = run.forces["both"].effort
    with pytest.raises(KeyError, match="acts along no joint coordinate"):
        _ = run.forces["tendon"].effort
    with pytest.raises(KeyError, match="`forces` and `moments` have them by body"):
        _ = run.forces["both"].force
    with pytest.raises(KeyError, match="does not act along the angle"):
        _ = run.forces["tendon"].torque
    with pytest.raises(AttributeError, match="Did you mean `force`"):
        _ = run.forces["tendon"].forc
    free = ph.simulate(ph.problems.get("heavy-top"), h=1e-3, t1=1e-2)
    with pytest.raises(KeyError, match="no force of its model was given a name"):
        free.forces["tendon"]
    assert "effort" in dir(run.forces["motor"])
    assert "effort" not in dir(run.forces["tendon"])
    assert "tendon" in repr(run)


def stretched_spring(formulation: str):
    """A slider with springs along its joint, to a point and to a wheel about an axis, above a plane that it hits."""
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    slider = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0, 0, 1.0), name="slider")
    wheel = model.add_body(mass=0.5, inertia=(0.02, 0.02, 0.02), position=(0, 0, 1.0), name="wheel")
    rail = model.add(ph.joints.Prismatic(model.ground, slider, point=(0, 0, 1.0), axis=(0, 0, 1), name="rail"))
    hub = model.add(ph.joints.Revolute(slider, wheel, point=(0, 0, 1.0), axis=(0, 1, 0), name="hub"))
    model.add(ph.forces.JointSpring(rail, stiffness=60.0, rest=0.1, name="coil"))
    model.add(ph.forces.JointSpring(hub, stiffness=0.5, damping=0.01, rest=9.0, name="clock"))
    model.add(ph.forces.TorsionalSpringDamper(slider, wheel, (0, 1, 0), 0.3, angle=0.2, name="band"))
    model.add(
        ph.forces.SpringDamper(model.ground, slider, (1.0, 0, 1.0), (0.2, 0, 1.0), 30.0, 0.5, length=0.6, name="strut")
    )
    model.add(ph.forces.PlaneContact(slider, (0, 0, 0.7), (0, 0, 1), 500.0, radius=0.1, damping=0.2, name="floor"))
    return model.problem(formulation, t1=1.0, h=1e-3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_lengths_and_deflections_are_those_of_the_law(formulation):
    run = ph.simulate(stretched_spring(formulation), "rkmk4" if formulation == "minimal" else "herk4", save_every=10)
    slider, coil, clock, band, strut, floor = (
        run.bodies["slider"], *(run.forces[name] for name in ("coil", "clock", "band", "strut", "floor"))
    )  # fmt: skip
    ends = slider.position - np.array([0.8, 0, 1.0])
    np.testing.assert_allclose(strut.length, np.linalg.norm(ends, axis=1), atol=1e-10)
    np.testing.assert_allclose(strut.elongation, strut.length - 0.6, atol=1e-14)
    np.testing.assert_allclose(coil.deflection, slider.z - 1.0 - 0.1, atol=1e-10)
    np.testing.assert_allclose(coil.force[:, 2], -60.0 * coil.deflection, atol=1e-9)
    np.testing.assert_allclose(band.moment[:, 1], -0.3 * band.deflection, atol=1e-10)
    np.testing.assert_allclose(floor.depth, 0.1 - (slider.z - 0.7), atol=1e-10)
    assert floor.depth.max() > 0.01
    touching = floor.depth > 0
    assert np.all((floor.force[:, 2] > 0) == touching)
    if formulation == "minimal":
        # Joint coordinates count turns, which the rest position is more than one of.
        np.testing.assert_allclose(clock.deflection, run.joints["hub"].angle - 9.0, atol=1e-12)
    np.testing.assert_allclose(clock.torque, -0.5 * clock.deflection - 0.01 * run.joints["hub"].rate, atol=1e-9)
    table = run.to_pandas("strut")
    np.testing.assert_array_equal(table["strut.elongation"], strut.elongation)
    assert {"length", "elongation"} <= set(dir(strut))
    assert "deflection" not in dir(strut)
    with pytest.raises(AttributeError, match="Did you mean `elongation`"):
        _ = strut.elongatio


def test_measures_are_saved_and_labelled(run, tmp_path):
    stored = ph.simulate(arm("minimal", save_loads=True), "rkmk4", t1=0.1, save_every=5, store=tmp_path / "run.zarr")
    again = ph.load(tmp_path / "run.zarr")
    np.testing.assert_allclose(again.forces["tendon"].length, run.forces["tendon"].length[: len(again.t)], atol=1e-12)
    data = stored.to_xarray()
    length = data["outputs.force_loads.force_measures"].sel(force_measure="tendon.length")
    np.testing.assert_array_equal(length, stored.forces["tendon"].length)


def test_charts_have_forces_by_name_with_units(run):
    saved = ph.simulate(arm("minimal", save_loads=True), "rkmk4", t1=0.1, save_every=5)
    for each in (run, saved):
        known = catalogue(each)
        titles = [chart.title for chart in known]
        assert len(set(titles)) == len(titles)
        assert not [title for title in titles if "loads" in title]
        entries = {chart.title: chart for chart in known}
        units = {
            "tendon · force": "N", "tendon · moment": "N m", "tendon · power": "W", "tendon · length": "m",
            "motor · torque": "N m", "knee spring · deflection": "rad", "both · effort along hip": "N m",
            "both · force on lower": "N",
        }  # fmt: skip
        assert {title: entries[title].unit for title in units} == units
        assert {entries[title].group for title in units} == {"Forces"}
        np.testing.assert_array_equal(entries["motor · torque"].curves[""], each.forces["motor"].torque)
        np.testing.assert_array_equal(entries["tendon · force"].curves["z"], each.forces["tendon"].force[:, 2])


def test_an_output_of_ones_own_keeps_its_chart(run):
    saved = run.frames._replace(outputs={**run.outputs, "joint_noise": run.t, "force_felt": run.t})
    titles = {chart.title for chart in catalogue(type(run)(saved, run.stats, run.meta, reader=run.reader))}
    assert {"joint noise", "force felt"} <= titles


def test_the_second_angle_of_a_cross_is_an_angle():
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    bar = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0))
    cross = ph.joints.Universal(model.ground, bar, point=(0, 0, 0), first_axis=(0, 0, 1), second_axis=(0, 1, 0))
    model.add(cross)
    model.add(ph.forces.JointSpring(cross, 4.0, rest=0.1, coordinate="second_angle", name="tilt"))
    tilt = ph.simulate(model.problem("minimal", t1=0.1, h=1e-2), "rkmk4").forces["tilt"]
    np.testing.assert_allclose(tilt.torque, -4.0 * tilt.deflection, atol=1e-14)
    assert tilt.deflection[0] == pytest.approx(-0.1)
    assert set(tilt.angles) == {"effort", "deflection"}


@pytest.mark.exhaustive
def test_the_power_of_a_controller_leaves_its_integral_out():
    model = ph.Model(gravity=(0, 0, -9.81))
    bob = model.add_body(name="bob", mass=1.0, inertia=(0.1, 0.1, 0.1), position=(1, 0, 0))
    hinge = model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.PID(hinge, 30.0, 10.0, 2.0, target=0.3, name="pid"))
    run = ph.simulate(model.problem("minimal", t1=0.05), h=1e-2)
    expected = run.forces["pid"].effort * run.joints["hinge"].rate
    assert np.max(np.abs(expected)) > 0.1
    np.testing.assert_allclose(run.forces["pid"].power, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", "SE3"])
def test_a_spring_along_a_sum_of_angles_acts_on_all_of_its_bodies(formulation):
    model = ph.Model(gravity=(0, 0, -9.81))
    upper = model.add_body(mass=1.0, inertia=(0.01, 0.05, 0.05), position=(0.5, 0, 0), name="upper")
    lower = model.add_body(mass=0.5, inertia=(0.01, 0.02, 0.02), position=(1.3, 0, 0), name="lower")
    hip = model.add(ph.joints.Revolute(model.ground, upper, point=(0, 0, 0), axis=(0, 1, 0), name="hip"))
    knee = model.add(ph.joints.Revolute(upper, lower, point=(1, 0, 0), axis=(0, 1, 0), name="knee"))
    belt = ph.joints.Combination([hip, knee], ratios=(1.0, -0.5))
    model.add(ph.forces.JointSpring(belt, stiffness=STIFFNESS, damping=DAMPING, rest=0.3, name="belt"))
    run = ph.simulate(model.problem(formulation, t1=0.2, h=2e-3), "rkmk4", save_every=5)
    force, (hip, knee) = run.forces["belt"], (run.joints[name] for name in ("hip", "knee"))
    stretch, rate = hip.angle - 0.5 * knee.angle, hip.rate - 0.5 * knee.rate
    np.testing.assert_allclose(force.deflection, stretch - 0.3, atol=1e-9)
    np.testing.assert_allclose(force.effort, -STIFFNESS * (stretch - 0.3) - DAMPING * rate, atol=1e-8)
    np.testing.assert_allclose(force.power, force.effort * rate, atol=1e-8)
    # On the upper bar the hip's share, and what the knee's share takes from it.
    np.testing.assert_allclose(force.moments["upper"][:, 1], 1.5 * force.effort, atol=1e-12)
    np.testing.assert_allclose(force.moments["lower"][:, 1], -0.5 * force.effort, atol=1e-12)
