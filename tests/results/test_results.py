"""Results by name, against what is known of a pendulum, other coordinates, MuJoCo and the balance of power."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy.integrate import cumulative_simpson
from typer.testing import CliRunner

import polhode as ph
from polhode.cli import app
from polhode.frames import Frames
from polhode.multibody.mechanism.groups import Motion
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.results.joints import JointLoads
from polhode.results.quaternion_series import matrices, quaternions, without_jumps

G, MASS, ARM, INERTIA = 9.81, 2.0, 0.4, 0.15


def pendulum(units=None, **options):
    """A rod on a hinge, with its centre of mass 0.4 below or beside it."""
    model = ph.Model(gravity=(0, 0, -G), units=units)
    rod = model.add_body(mass=MASS, inertia=(0.01, INERTIA, INERTIA), position=(ARM, 0, 0), name="rod")
    hinge = model.add(ph.joints.Revolute(model.ground, rod, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    return model, hinge


@pytest.fixture(scope="module")
def swing():
    model, _ = pendulum("SI")
    return ph.simulate(model.problem("minimal", t1=0.5, h=5e-3))


def expected_force(angle, rate):
    """m(ẍ - g) of the centre of mass on its circle, by the equation of the pendulum."""
    along = np.stack([np.cos(angle), 0 * angle, -np.sin(angle)], axis=1)
    across = np.stack([-np.sin(angle), 0 * angle, -np.cos(angle)], axis=1)
    acceleration = MASS * G * ARM * np.cos(angle) / (INERTIA + MASS * ARM**2)
    centre = ARM * (across * acceleration[:, None] - along * rate[:, None] ** 2)
    return MASS * (centre + np.array([0, 0, G]))


def test_the_hinge_of_a_pendulum_carries_what_its_circle_takes(swing):
    hinge = swing.joints["hinge"]
    assert np.ptp(hinge.angle) > 1
    np.testing.assert_allclose(hinge.force, expected_force(hinge.angle, hinge.rate), rtol=0, atol=1e-11)
    np.testing.assert_allclose(hinge.moment, 0, atol=1e-12)
    np.testing.assert_array_equal(hinge.power, 0)
    np.testing.assert_allclose(hinge.point, 0, atol=1e-15)


def test_bodies_have_position_orientation_and_velocities(swing):
    rod, angle, rate = swing.bodies["rod"], swing.joints["hinge"].angle, swing.joints["hinge"].rate
    np.testing.assert_allclose(rod.x, ARM * np.cos(angle), atol=1e-14)
    np.testing.assert_allclose(rod.orientation[:, 2], np.sin(angle / 2), atol=1e-14)
    np.testing.assert_allclose(rod.rotation @ [1, 0, 0], rod.position / ARM, atol=1e-14)
    np.testing.assert_allclose(rod.speed, ARM * abs(rate), atol=1e-14)
    np.testing.assert_allclose(rod.angular_velocity[:, 1], rate, atol=1e-14)
    np.testing.assert_allclose(rod.spatial_angular_velocity, rod.angular_velocity, atol=1e-14)


def test_names_that_are_not_there_are_answered_with_near_ones(swing, tmp_path):
    swing.save(tmp_path / "run.zarr")
    for run in (swing, ph.load(tmp_path / "run.zarr")):
        with pytest.raises(KeyError, match="Did you mean `joint_positions` or `positions`"):
            run.outputs["pos"]
        with pytest.raises(KeyError, match=r"no joint 'hing'\. Did you mean `hinge`"):
            run.joints["hing"]
        with pytest.raises(KeyError, match=r"no body 'ro'\. Did you mean `rod`\? There is rod\."):
            run.bodies["ro"]
        with pytest.raises(KeyError, match=r"no body 'hinge', but a joint of this name: `run\.joints\['hinge'\]`"):
            run.bodies["hinge"]
        with pytest.raises(AttributeError, match="Did you mean `force`"):
            _ = run.joints["hinge"].forc
    assert {"bodies", "joints", "outputs", "to_pandas", "audit"} <= set(dir(swing))
    assert {"angle", "rate", "force", "moment", "power", "torque"} <= set(dir(swing.joints["hinge"]))


def test_stores_have_what_was_saved_and_say_what_was_not(swing, tmp_path):
    model, _ = pendulum("SI")
    problem = model.problem("minimal", t1=0.5, h=5e-3)
    swing.save(tmp_path / "run.zarr")
    hinge = ph.load(tmp_path / "run.zarr").joints["hinge"]
    np.testing.assert_array_equal(hinge.angle, swing.joints["hinge"].angle)
    with pytest.raises(KeyError, match="save_loads=True"):
        _ = hinge.force
    for column in ("hinge.torque", "hinge.effort", "hinge.force_x", "*.power"):
        command = ["export", f"{tmp_path}/run.zarr", f"{tmp_path}/a.csv", "--columns", column]
        wrong = CliRunner().invoke(app, command)
        assert wrong.exit_code == 2
        assert "of joint 'hinge' was not saved, and the problem is not at hand" in " ".join(wrong.stderr.split())
    again = ph.load(tmp_path / "run.zarr", problem=problem).joints["hinge"]
    np.testing.assert_array_equal(again.force, swing.joints["hinge"].force)
    other = ph.Model()
    other.add_point(mass=1.0, position=(0, 0, 0))
    with pytest.raises(ValueError, match="is not the one of this run, which has the bodies rod"):
        ph.load(tmp_path / "run.zarr", problem=other.problem("SE3", t1=1.0))


@pytest.mark.exhaustive
def test_loads_can_be_saved_with_every_frame(swing, tmp_path):
    model, _ = pendulum()
    problem = model.problem("minimal", t1=0.5, h=5e-3, save_loads=True)
    ph.simulate(problem, store=tmp_path / "run.zarr")
    hinge = ph.load(tmp_path / "run.zarr").joints["hinge"]
    np.testing.assert_allclose(hinge.force, swing.joints["hinge"].force, rtol=0, atol=1e-12)


def test_tables_have_names_that_a_person_writes(swing, tmp_path):
    table = swing.to_pandas(["hinge.angle", "rod.x", "*energy"])
    energies = ["rod.kinetic_energy", "kinetic_energy", "potential_energy", "energy"]
    assert list(table) == ["time", "hinge.angle", "rod.x", *energies]
    np.testing.assert_array_equal(table["hinge.angle"], swing.joints["hinge"].angle)
    every = list(swing.to_pandas())
    assert {"hinge.rate", "hinge.torque", "hinge.force_z", "rod.qw", "rod.vz", "rod.omega_y"} <= set(every)
    assert not any("." in name and name.split(".")[-1].isdigit() for name in every)
    assert "state.0.0.0" in swing.to_pandas("state.*")
    with pytest.raises(KeyError, match=r"no column 'hinge\.angel'\. Did you mean `hinge\.angle`"):
        swing.to_pandas("hinge.angel")
    import pandas

    for ending, read in ((".parquet", pandas.read_parquet), (".csv", pandas.read_csv)):
        path = ph.export(swing, tmp_path / f"run{ending}", columns=["hinge"])
        found = read(path)
        assert next(iter(found)) == "time"
        np.testing.assert_array_equal(found["hinge.force_z"], swing.joints["hinge"].force[:, 2])
    swing.save(tmp_path / "run.zarr")
    wrong = CliRunner().invoke(app, ["export", f"{tmp_path}/run.zarr", f"{tmp_path}/a.csv", "--columns", "hing"])
    assert wrong.exit_code == 2
    assert "Did you mean `hinge." in wrong.stderr
    with pytest.raises(ValueError, match="shows the whole run"):
        ph.export(swing, tmp_path / "run.html", columns="hinge")


def test_data_sets_are_labelled(swing, tmp_path):
    data = swing.to_xarray()
    assert data["outputs.positions"].dims == ("time", "body", "component")
    assert data["outputs.positions"].attrs["units"] == "m"
    height = data["outputs.positions"].sel(body="rod", component="z")
    np.testing.assert_array_equal(height, swing.bodies["rod"].z)
    angle = data["outputs.joint_positions"].sel(joint_coordinate="hinge.angle")
    np.testing.assert_array_equal(angle, swing.joints["hinge"].angle)


def test_summaries_are_short_and_tell_what_there_is(swing):
    model, _ = pendulum("SI")
    for shown in (repr(model), model._repr_html_()):
        assert all(word in shown for word in ("rod", "hinge", "1 (6 coordinates, 5 constraints)", "kg"))
    for shown in (repr(swing), swing._repr_html_()):
        assert all(word in shown for word in ("rod", "hinge", "successful", "101"))
        assert len(shown) < 1500
    assert "kept" in repr(swing.audit())
    assert "hinge" in model.problem("minimal", t1=1.0)._repr_html_()


def test_units_make_sense():
    with pytest.raises(ValueError, match="length, mass and time"):
        ph.Model(units="imperial")
    assert ph.units.unit_of("moment", ph.units.check_units({"length": "mm", "mass": "t", "time": "s"})) == (
        "t mm/s² mm"
    )


def test_angles_are_continuous_however_far_frames_are_apart():
    """A free hinge at 50 rad/s turns by 5 rad from frame to frame."""
    model = ph.Model()
    disc = model.add_body(mass=1.0, inertia=(1, 1, 2), angular_velocity=(0, 0, 50.0))
    model.add(ph.joints.Revolute(model.ground, disc, point=(0, 0, 0), axis=(0, 0, 1), name="shaft"))
    run = ph.simulate(model.problem("SO3xR3", t1=1.0, h=1e-2), "rkmk4", save_every=10)
    np.testing.assert_allclose(run.joints["shaft"].angle, 50 * run.t, rtol=1e-6)
    assert np.all(np.sum(run.bodies["body-1"].orientation[1:] * run.bodies["body-1"].orientation[:-1], axis=1) >= 0)


def test_series_of_rotations():
    rng = np.random.default_rng(3)
    q = rng.normal(size=(200, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    np.testing.assert_allclose(matrices(quaternions(matrices(q))), matrices(q), atol=1e-14)
    np.testing.assert_allclose(abs(np.sum(quaternions(matrices(q)) * q, axis=1)), 1, atol=1e-14)
    assert np.all(np.sum(without_jumps(q)[1:] * without_jumps(q)[:-1], axis=1) >= 0)


def integral(power, t):
    return cumulative_simpson(power, x=t, initial=0)


def test_actuators_and_springs_are_the_torque_and_its_power_changes_the_energy():
    model, hinge = pendulum()
    model.add(ph.forces.Actuator(hinge, control=lambda t: 3.0 * jnp.sin(4 * t)))
    model.add(ph.forces.JointSpring(hinge, stiffness=5.0, damping=0.3, rest=0.2))
    run = ph.simulate(model.problem("minimal", t1=1.0, h=2e-3), "rkmk4")
    joint = run.joints["hinge"]
    expected = 3.0 * np.sin(4 * run.t) - 5.0 * (joint.angle - 0.2) - 0.3 * joint.rate
    np.testing.assert_allclose(joint.torque, expected, atol=1e-12)
    np.testing.assert_allclose(joint.moment, 0, atol=1e-12)
    # The potential energy of the spring is in the output, so its power is not to be counted twice.
    energy = run.outputs["kinetic_energy"] - MASS * -G * run.bodies["rod"].z
    assert np.ptp(energy) > 0.5
    np.testing.assert_allclose(energy - energy[0], integral(joint.power, run.t), atol=1e-8)


def four_bar(*, driven=False, actuated=False):
    """A spatial loop: crank, coupler and rocker with hinges, a ball and a universal joint."""
    model = ph.Model(gravity=(0, 0, -G))
    top, far, pivot = np.array([0, 0, 0.3]), np.array([0.8, 0.1, 0.5]), np.array([0.8, 0.0, 0.0])

    def bar(name, start, end, mass):
        size = np.linalg.norm(end - start)
        x = (end - start) / size
        y = np.cross([0.3, 0.9, 0.1], x)
        y /= np.linalg.norm(y)
        moments = (2e-3 * mass, mass * size**2 / 12, mass * size**2 / 12)
        frame = np.stack([x, y, np.cross(x, y)], axis=1)
        return model.add_body(mass=mass, inertia=moments, position=(start + end) / 2, rotation=frame, name=name)

    crank, coupler = bar("crank", np.zeros(3), top, 1.0), bar("coupler", top, far, 2.0)
    rocker = bar("rocker", far, pivot, 1.5)
    base = model.add(ph.joints.Revolute(model.ground, crank, point=(0, 0, 0), axis=(0, 1, 0), name="base"))
    model.add(
        ph.joints.Universal(crank, coupler, point=top, first_axis=(0, 1, 0), second_axis=np.cross(top, [0, 1, 0]))
    )
    model.add(ph.joints.Spherical(coupler, rocker, point=far, name="ball"))
    # The carried body comes first here.
    model.add(ph.joints.Revolute(rocker, model.ground, point=pivot, axis=(0, 1, 0), name="pivot"))
    if not driven:
        # Out of the position in which it would stand.
        model.add(ph.forces.PointForce(coupler, (6.0, 0.5, -2.0)))
    if driven:
        speed = lambda t: 2.0 * t**2  # noqa: E731
        model.add(ph.joints.PrescribedRotation(model.ground, crank, axis=(0, 1, 0), angle=speed, name="motor"))
    if actuated:
        model.add(ph.forces.Actuator(base, control=lambda t: 2 + jnp.sin(3 * t)))
        model.add(ph.forces.PD(base, proportional=2.0, derivative=0.2, target=0.3))
        model.add(ph.joints.RotorInertia(base, 0.05))
        model.add(ph.forces.SpringDamper(crank, rocker, top, far, stiffness=20.0, damping=0.5))
    return model


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [{}, {"driven": True}, {"actuated": True}])
def test_loads_are_those_of_the_multipliers_of_absolute_coordinates(options):
    model = four_bar(**options)
    tree, absolute = (model.problem(form, t1=0.4, h=2e-3) for form in ("minimal", "SE3"))
    run = ph.simulate(tree)
    names = tree.system.names

    def placed(state, angle, rate):
        """The same state in absolute coordinates, where the rotor is a coordinate of its own."""
        motion = tree.system.motion(*state)
        still, first = jnp.zeros(3), jnp.array([1.0, 0.0, 0.0])
        rotor = Motion(Pose(angle * first, jnp.eye(3)), Twist(still, rate * first))
        places = [names.index(name) if name in names else None for name in absolute.system.names]
        rows = [rotor if i is None else jax.tree.map(lambda x, i=i: x[i], motion) for i in places]
        return absolute.system.coordinates.state_of(jax.tree.map(lambda *x: jnp.stack(x), *rows))

    base = run.joints["base"]
    states = jax.vmap(placed)(jax.tree.map(jnp.asarray, run.state), base.angle, base.rate)
    frames = Frames(run.t, states, {}, {}, {}, None)
    other = ph.simulate(absolute, t1=0.01)
    for name in ("joint_forces", "joint_moments", "joint_efforts", "joint_powers"):
        loads, other_loads = (
            each.reader.values(saved, name, JointLoads) for each, saved in ((run, run.saved), (other, frames))
        )
        np.testing.assert_allclose(loads, other_loads, rtol=0, atol=1e-8, err_msg=name)
    assert np.ptp(run.joints["base"].angle) > 0.1
    assert max(np.max(np.abs(run.joints[name].moment)) for name in run.joints) > 0.05
    if "actuated" in options:
        expected = 2 + np.sin(3 * run.t) - 2.0 * (base.angle - 0.3) - 0.2 * base.rate
        np.testing.assert_allclose(base.torque, expected, atol=1e-12)
    if "driven" in options:
        energy = run.outputs["kinetic_energy"] + run.outputs["potential_energy"]
        power = run.joints["motor"].power
        np.testing.assert_allclose(energy - energy[0], integral(power, run.t), atol=1e-4 * np.ptp(energy))
        np.testing.assert_allclose(power, run.joints["motor"].torque * run.joints["motor"].rate, atol=1e-6)


CHAIN = """
<mujoco><option timestep="0.002"/><worldbody>
 <body name="upper"><joint name="shoulder" axis="0 1 0"/><inertial pos="0.3 0 0" mass="2" diaginertia="0.01 0.06 0.06"/>
  <body name="lower" pos="0.6 0 0"><joint name="elbow" axis="0 0.6 0.8"/>
   <inertial pos="0.25 0.02 0" mass="1" diaginertia="0.01 0.03 0.03"/></body></body>
</worldbody></mujoco>"""


@pytest.mark.exhaustive
def test_forces_are_those_of_mujoco():
    speeds = {"shoulder": 2.0, "elbow": -3.0}
    run = ph.simulate(ph.load_model(CHAIN, velocities=speeds).problem(t1=0.01))
    model = mujoco.MjModel.from_xml_string(CHAIN)
    data = mujoco.MjData(model)
    data.qvel[:] = list(speeds.values())
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    for joint, body in (("shoulder", "upper"), ("elbow", "lower")):
        number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body)
        np.testing.assert_allclose(run.joints[joint].force[0], data.cfrc_int[number][3:], atol=1e-10)
    np.testing.assert_allclose([run.joints[name].rate[0] for name in speeds], list(speeds.values()), atol=1e-12)


def test_outputs_are_trees_as_dictionaries_are():
    run = ph.simulate(ph.problems.get("heavy-top"), "rkmk4", h=1e-3, t1=0.01)
    doubled = jax.tree.map(lambda x: 2 * x, run.outputs)
    plain = dict(run.outputs)
    assert jax.tree.leaves(doubled)[0].shape == jax.tree.leaves(plain)[0].shape
    for name, value in plain.items():
        np.testing.assert_array_equal(doubled[name], 2 * np.asarray(value))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(run.outputs)]
    assert paths == [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(plain)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("axis", [(1, 0, 0), (-1, 0, 0), (0, 0, -1), (1, 2, 2), (1, -1, 0), (-1, 1, 0)])
def test_orientations_have_the_sign_of_their_derivatives(axis):
    """Of a turn by a about n: ±(cos a/2, n sin a/2), at half a turn as well, where w is zero but for rounding."""
    n = np.array(axis) / np.linalg.norm(axis)
    concrete = lambda a: without_jumps(quaternions(ph.rotation_vector(a * n)[None]))[0]  # noqa: E731
    for angle in (np.pi, np.pi * (1 + 1e-15), -np.pi, 3.0, 0.5 * np.pi, -0.5 * np.pi, 0.0):
        value, (traced, rate) = np.asarray(concrete(angle)), jax.jvp(concrete, (angle,), (1.0,))
        np.testing.assert_allclose(traced, value, atol=1e-14)
        exact = np.array([np.cos(angle / 2), *(np.sin(angle / 2) * n)])
        sign = np.sign(exact @ value)
        np.testing.assert_allclose(value, sign * exact, atol=1e-14)
        np.testing.assert_allclose(rate, sign * np.array([-exact[1:] @ n, *(exact[0] * n)]) / 2, atol=1e-14)
