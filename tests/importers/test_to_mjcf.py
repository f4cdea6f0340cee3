"""MJCF of models: MuJoCo and `load_model` move what it says as the model moves."""

from __future__ import annotations

import re
import warnings
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from against_mujoco import EXAMPLES, bodies_accelerations, smooth
from exported_files import at_random, at_start, check_constraints
from test_imported_couplings import GEAR, GEARED, MIMIC, SECOND, TIED, WELDED
from test_imported_trees import FREE_AND_BALL, PLANAR, STACKS

import polhode as ph

INERTIA = ((0.2, 0.01, 0), (0.01, 0.3, 0.02), (0, 0.02, 0.25))
GRAVITY = (0.5, 0.3, -9.81)


def chain(count, **options):
    model = ph.Model(gravity=GRAVITY)
    for k in range(count):
        model.add_body(
            mass=1.0 + k,
            inertia=INERTIA,
            position=(k + 0.5, 0.1 * k, 0.2),
            rotation=ph.rotation_vector((0.3 * k, 0.2, -0.4)),
            name=f"body {k}",
            **options,
        )
    return model, model.bodies


def tree():
    """A joint of every kind, some with the carried body first, and a body that nothing carries."""
    model, b = chain(7)
    joints = ph.joints
    hinge = model.add(joints.Revolute(b[0], model.ground, (0, 0, 0), (0, 1, 0.2), name="hinge"))
    cross = model.add(joints.Universal(b[1], b[0], (1, 0, 0), (0, 1, 0), (0, 0, 1), name="cross"))
    tube = model.add(joints.Cylindrical(b[1], b[2], (2, 0, 0), (1, 1, 0), name="tube"))
    model.add(joints.Planar(b[2], b[3], (1, 1, 0), name="plane"))
    model.add(joints.Spherical(b[3], b[4], (3.5, 0, 0), name="ball"))
    slide = model.add(joints.Prismatic(b[5], b[4], (3.5, 1, 0), name="slide"))
    model.add(joints.Fixed(b[5], b[6], name="weld"))
    model.add_body(mass=2.0, inertia=INERTIA, position=(0, 1, 4), angular_velocity=(1, 2, 3), name="free")
    model.add_point(mass=0.5, position=(0, -1, 2), velocity=(0, 1, 0), name="dot")
    return model, hinge, cross, tube, slide


def moved_tree():
    """The same with all that acts along joints."""
    model, hinge, cross, tube, slide = tree()
    forces = ph.forces
    model.add(forces.JointSpring(hinge, 3.0, 0.1, 0.2, name="first spring"))
    model.add(forces.JointSpring(hinge, 2.0, 0.3, -0.4, name="second spring"))
    model.add(forces.JointSpring(cross, 0.0, 0.7, coordinate="second_angle", name="damper"))
    model.add(forces.TorsionalSpringDamper(model.body("body 1"), model.body("body 0"), (0, 1, 0), 4.0, angle=0.3))
    model.add(ph.joints.RotorInertia(tube, 0.4, coordinate="displacement", name="rotor"))
    limits = {"control_limits": (-1, 1.5), "force_limits": (-np.inf, 50)}
    model.add(forces.Actuator(slide, control=2.0, gain=3.0, bias=(1, 2, -3), gear=2.0, name="motor", **limits))
    model.add(forces.PD(tube, 2.0, 1.0, target=0.3, coordinate="angle", name="servo"))
    return model


def silently(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ph.importers.ModelFileWarning)
        return model.to_mjcf(**options)


@pytest.mark.exhaustive
def test_a_tree_with_every_joint_moves_alike_in_mujoco_and_read_again():
    model = moved_tree()
    found = at_random(model, silently(model))
    assert found.off_mujoco() < 1e-10
    assert found.off_again() < 1e-10


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2])
def test_trees_move_alike_elsewhere(seed):
    model = moved_tree()
    found = at_random(model, silently(model), seed)
    assert found.off_mujoco() < 1e-10
    assert found.off_again() < 1e-10


@pytest.mark.exhaustive
def test_what_is_taken_out_of_the_file_is_missed():
    model = moved_tree()
    text = silently(model)
    data = at_random(model, text).data
    cuts = [r' armature="[^"]*"', r' stiffness="[^"]*"', r' springref="[^"]*"', r' damping="[^"]*"', r' ctrl="[^"]*"']
    cuts += [r' gear="[^"]*"', r' ctrlrange="[^"]*"', r' biasprm="[^"]*"', r' gravity="[^"]*"', r' mass="[^"]*"']
    for cut in cuts:
        less = re.sub(cut, ' mass="1"' if "mass" in cut else "", text)
        assert less != text
        compiled = smooth(mujoco.MjModel.from_xml_string(less))
        there = mujoco.MjData(compiled)
        mujoco.mj_resetDataKeyframe(compiled, there, 0)
        there.qpos[:], there.qvel[:] = data.qpos, data.qvel
        mujoco.mj_forward(compiled, there)
        # With all of it these are the model's.
        assert np.max(np.abs(there.qacc - data.qacc)) > 1e-6, cut


@pytest.mark.exhaustive
def test_springs_between_points_and_constant_loads_are_tendons_and_actuators_of_mujoco():
    model, *_ = tree()
    b, forces = model.bodies, ph.forces
    model.add(forces.SpringDamper(model.ground, b[3], (0, 0, 1), (3.5, 0.2, 0.2), 20.0, 1.0, name="spring"))
    model.add(forces.SpringDamper(b[0], b[5], b[0].x, (5, 1, 0.2), 20.0, length=2.0))
    model.add(forces.PointForce(b[2], (1, 2, 3), point=(2, 1, 3), name="push"))
    model.add(forces.PointForce(b[3], (1, -2, 3), point=(2, 1, 3), frame="body"))
    model.add(forces.Torque(b[3], (1, 2, -3), frame="body"))
    model.add(forces.Torque(b[4], (1, 2, 3)))
    assert at_random(model, silently(model)).off_mujoco() < 1e-10


@pytest.mark.exhaustive
def test_springs_between_points_are_read_again():
    model, *_ = tree()
    b, spring = model.bodies, ph.forces.SpringDamper
    model.add(spring(model.ground, b[3], (0, 0, 1), (3.5, 0.2, 0.2), 20.0, 1.0, name="spring"))
    model.add(spring(b[0], b[5], b[0].x, (5, 1, 0.2), 20.0, length=2.0))
    assert at_random(model, silently(model)).off_again() < 1e-10


def four_bar(close, twists=None):
    """Three bars between four pins, the last of which `close` makes; twists of the bars by name."""
    model = ph.Model(gravity=(0, 0, -9.81))
    pins = np.array([(0, 0, 0), (0.3, 0, 1.0), (2.0, 0, 1.5), (2.2, 0, 0)])
    names = ("crank", "coupler", "rocker")
    given = twists or {"crank": {"angular_velocity": (0, 2.0, 0)}}
    bars = [
        model.add_body(mass=1.0 + k, inertia=(0.2, 0.3, 0.25), position=(p + q) / 2, name=name, **given.get(name, {}))
        for k, (name, p, q) in enumerate(zip(names, pins[:-1], pins[1:], strict=True))
    ]
    ends = (model.ground, *bars)
    for k, name in enumerate("abc"):
        model.add(ph.joints.Revolute(*ends[k : k + 2], pins[k], (0, 1, 0), name=name))
    close(model, bars[2], pins[3])
    if twists is not None:
        return model
    # Velocities that the loop allows.
    system, state = model.assemble("minimal", repair=True, redundant="minimum-norm")
    found = {name: system.twist(*state, name) for name in names}
    return four_bar(close, {name: {"angular_velocity": w.omega, "velocity": w.u} for name, w in found.items()})


def pin(model, bar, point):
    joint = model.add(ph.joints.Revolute(bar, model.ground, point, (0, 1, 0), name="d"))
    model.add(ph.forces.JointSpring(joint, 5.0, 0.2, 0.3, name="spring"))
    model.add(ph.joints.RotorInertia(joint, 0.3, name="rotor"))


def socket(model, bar, point):
    model.add(ph.joints.Spherical(bar, model.ground, point, name="d"))


def slot(model, bar, point):
    model.add(ph.joints.PointOnLine(model.ground, bar, point, (1, 0, 0.3), name="d"))


def tube(model, bar, point):
    model.add(ph.joints.Cylindrical(model.ground, bar, point, (0, 1, 0), name="d"))


def rod(model, bar, point):
    model.add(ph.joints.Distance(model.ground, bar, point + np.array([0.2, 0.1, -1.0]), point, name="d"))


LOOPS = [pin, *(pytest.param(close, marks=pytest.mark.exhaustive) for close in (socket, slot, tube, rod))]


@pytest.mark.parametrize("close", LOOPS)
@pytest.mark.sampled(6)
def test_loops_are_those_of_the_file_where_its_equalities_hold_exactly(close):
    model = four_bar(close)
    found = at_start(model, silently(model))
    keyed = mujoco.MjData(found.compiled)
    mujoco.mj_resetDataKeyframe(found.compiled, keyed, 0)
    np.testing.assert_allclose(found.data.qvel, keyed.qvel, atol=1e-10)
    check_constraints(found.compiled, found.data)
    assert found.off_mujoco() < 1e-7
    assert found.off_again() < 1e-10


@pytest.mark.exhaustive
def test_a_screw_is_held_by_an_equality():
    model, b = chain(1)
    model.add(ph.joints.Screw(b[0], model.ground, (0, 0, 0), (0.1, 0, 1), 0.3, name="screw"))
    found = at_random(model, silently(model))
    check_constraints(found.compiled, found.data)
    assert found.off_mujoco() < 1e-7
    assert found.off_again() < 1e-10


@pytest.mark.exhaustive
def test_other_constraints_of_two_frames_are_joints_in_a_row():
    model, b = chain(4)
    model.add(ph.joints.Generic(b[0], model.ground, (0, 0, 0), ("x", "rx", "ry"), name="first"))
    model.add(ph.joints.Generic(b[0], b[1], (1, 0, 0), ("y", "z", "ry"), name="second"))
    model.add(ph.joints.PointOnLine(b[1], b[2], (2, 0, 0), (1, 0, 1), name="third"))
    model.add(ph.joints.PointOnLine(b[3], b[2], (3, 0, 0), (1, 0, 1), name="fourth"))
    found = at_start(model, silently(model))
    names = [mujoco.mj_id2name(found.compiled, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(found.compiled.njnt)]
    assert sorted(names[:3]) == ["first rz", "first y", "first z"]
    assert found.off_mujoco() < 1e-10
    assert found.off_again() < 1e-10


FOUR_BAR = str(EXAMPLES / "four_bar.xml")
FILES = {
    "stacks": (STACKS, {"cx": 0.3, "t2": 0.2, "u1": 0.3, "h": 7.0}, {"cr": 1.0, "t1": -0.4, "s": 0.5}),
    "free": (FREE_AND_BALL, {}, {"wrist": 1.0, "float": (1, 2, 3, 4, 5, 6)}),
    "planar": (PLANAR, {"hinge": 1.0}, {"glide_RZ": 1.0}),
    "gear": (GEARED.format(GEAR), {"first": 0.2, "second": 0.6}, {}),
    "mimic": (MIMIC, {"first": 0.1, "second": 0.1}, {}),
    "tied": (TIED, {}, {"pivot": 1.0}),
    "welded": (WELDED.format("", SECOND.format("<freejoint/>"), '<equality><weld body1="one" body2="two"/></equality>'),
               {}, {"pivot": 1.0}),
    "four bar": (FOUR_BAR, {}, {"crank": 1.0}),
}  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", FILES)
def test_a_file_written_again_says_the_same(name):
    source, positions, velocities = FILES[name]
    first = ph.load_model(source, positions=positions, velocities=velocities)
    again = ph.load_model(silently(first), keyframe="start")
    assert [(j.name, j.kind) for j in again.joints.values()] == [(j.name, j.kind) for j in first.joints.values()]
    starts = [[j.start for j in model.joints.values() if j.measured] for model in (first, again)]
    np.testing.assert_allclose(starts[1], starts[0], rtol=0, atol=1e-14)
    assert [body.name for body in again.model.bodies] == [body.name for body in first.model.bodies]
    assert not again.not_carried
    found = []
    for model in (first.model, again.model):
        system, state = model.assemble("minimal", repair=True, redundant="minimum-norm")
        found.append(dict(zip(system.names, bodies_accelerations(system, *state), strict=False)))
    for body, wanted in found[0].items():
        np.testing.assert_allclose(found[1][body], wanted, rtol=0, atol=1e-10 * np.max(np.abs(wanted)))


def pendulum(**options):
    model = ph.Model(gravity=GRAVITY)
    given = {"name": "bob", "inertia": INERTIA, **options}
    bob = model.add_body(mass=1.0, position=(0, 0, -1), **given)
    return model, bob, model.add(ph.joints.Revolute(model.ground, bob, (0, 0, 0), (0, 1, 0), name="pivot"))


def test_what_mjcf_can_not_say_is_named_with_the_reason_or_refused():
    model, bob, pivot = pendulum()
    forces = ph.forces
    model.add(forces.PID(pivot, 1.0, 2.0, 3.0, name="control"))
    model.add(forces.Actuator(pivot, control=jnp.cos, gain=2.0, name="motor"))
    model.add(forces.PD(pivot, 3.0, 0.5, target=jnp.cos, name="servo"))
    model.add(forces.JointFriction(pivot, 0.3, 0.05, name="friction"))
    model.add(forces.PlaneContact(bob, (0, 0, -3), (0, 0, 1), 100.0, name="floor"))
    model.add(forces.PointForce(bob, lambda t: jnp.stack((t, t, t)), name="push"))
    model.add(ph.joints.PrescribedRotation(model.ground, bob, (0, 1, 0), lambda t: t, name="drive"))
    model.add_coordinate(name="lonely")
    with pytest.warns(ph.importers.ModelFileWarning) as caught:
        text = model.to_mjcf()
    (message,) = (str(w.message) for w in caught)
    for words in (
        "PID `control`: nothing in MJCF does the same",
        "Actuator `motor`: its control changes with time",
        "PD `servo`: its control changes with time",
        "JointFriction `friction`: there a joint sticks at rest, here it creeps below 0.05",
        "PlaneContact `floor`: nothing",
        "PointForce `push`: it is a function of time",
        "PrescribedRotation `drive`: nothing",
        "coordinate body `lonely`: MJCF has",
    ):
        assert words in message
    with pytest.raises(ValueError, match="PID `control`: nothing"):
        model.to_mjcf(strict=True)
    key = ElementTree.fromstring(text).find("keyframe/key")
    assert key is not None
    # cos is 1 at the start, and its rate 0.
    assert key.get("ctrl") == "1 3"


def test_rods_leave_their_nodes():
    rod = ph.Model(gravity=GRAVITY)
    section = ph.rods.circular(0.05, youngs_modulus=1e6, density=1000.0)
    rod.add_rod(points=np.linspace((0, 0, 0), (1, 0, 0), 4), section=section, name="rod")
    with pytest.warns(ph.importers.ModelFileWarning, match="Edge `rod-edge-1`"):
        assert mujoco.MjModel.from_xml_string(rod.to_mjcf()).nbody == 5


def test_rigid_stops_and_dry_friction_read_again_are_the_same():
    model, _, pivot = pendulum()
    model.add(ph.forces.JointFriction(pivot, 0.3))
    model.add(ph.forces.JointStops(pivot, (-0.2, 0.5)))
    with pytest.warns(ph.importers.ModelFileWarning, match="JointStops"):
        text = model.to_mjcf()
    again = {type(part): part for _, part in ph.load_model(text, joint_law="rigid").model.parts}
    np.testing.assert_allclose(again[ph.forces.JointStops].limits, (-0.2, 0.5))
    assert again[ph.forces.JointFriction].friction == pytest.approx(0.3)
    assert again[ph.forces.JointFriction].stick_velocity is None


@pytest.mark.parametrize("onset", [1e-3, 0.5])
def test_stops_and_friction_read_again_are_the_same(onset):
    model, _, pivot = pendulum(angular_velocity=(0, 0.5, 0), velocity=(-0.5, 0, 0))
    model.add(ph.forces.JointFriction(pivot, 0.3, 0.01))
    model.add(ph.forces.JointStops(pivot, (0.2, np.inf), 30.0, 2.0, onset=onset))
    with pytest.warns(ph.importers.ModelFileWarning, match="JointStops"):
        text = model.to_mjcf()
    with pytest.warns(ph.StartWarning, match="`pivot` at 0, range 0.2 … inf rad"):
        again = ph.load_model(text, keyframe="start").model
    found = []
    for one in (model, again):
        system, state = one.assemble("minimal")
        found.append(bodies_accelerations(system, *state)[0])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-13)
    # It starts beyond the stop, which is as strong as gravity here.
    bare, *_ = pendulum(angular_velocity=(0, 0.5, 0), velocity=(-0.5, 0, 0))
    system, state = bare.assemble("minimal")
    assert np.max(np.abs(bodies_accelerations(system, *state)[0] - found[0])) > 1.0


def test_any_name_is_kept():
    model, _, pivot = pendulum(name='a "b" <c> & d/é')
    assert ph.load_model(silently(model, name="<all>")).model.bodies[0].name == 'a "b" <c> & d/é'
    assert ElementTree.fromstring(silently(model, name="<all>")).get("model") == "<all>"
    named, *_ = pendulum(name="world")
    assert "world (body)" in ph.load_model(silently(named)).links
    model.add(ph.forces.Actuator(pivot))
    model.add(ph.forces.Actuator(pivot))
    assert mujoco.MjModel.from_xml_string(silently(model)).nu == 2
    with pytest.raises(ValueError, match="`name` must be a word"):
        model.to_mjcf("")


def test_bodies_without_mass_between_joints_are_joints_in_a_row_and_others_get_the_least():
    model, bob, _ = pendulum()
    nothing = {"mass": 0.0, "inertia": (0, 0, 0), "check_inertia": False}
    between = model.add_body(position=(0, 0, -2), name="between", **nothing)
    last = model.add_body(mass=1.0, inertia=INERTIA, position=(0, 0, -3), name="last")
    model.add(ph.joints.Revolute(bob, between, (0, 0, -2), (0, 1, 0), name="one"))
    model.add(ph.joints.Revolute(between, last, (0, 0, -2), (1, 1, 0), name="two"))
    text = silently(model)
    assert ElementTree.fromstring(text).find(".//body[@name='between']") is None
    compiled = mujoco.MjModel.from_xml_string(text)
    assert (compiled.nbody, compiled.nv) == (3, 3)
    more = model.add_body(mass=1.0, inertia=INERTIA, position=(0, 1, -2), name="more")
    model.add(ph.joints.Revolute(between, more, (0, 0, -2), (0, 0, 1), name="three"))
    with pytest.warns(ph.importers.ModelFileWarning, match="body `between`: MuJoCo takes no moving body without mass"):
        compiled = mujoco.MjModel.from_xml_string(model.to_mjcf())
    assert (compiled.nbody, compiled.nv) == (5, 4)
    assert compiled.body("between").mass[0] == 1e-14


def test_moments_at_the_edge_of_what_masses_have_are_taken_and_others_named():
    # A disc, whose principal moments come with round-off.
    R = np.asarray(ph.rotation_vector((0.3, 0.4, 0.5)))
    disc, *_ = pendulum(inertia=R @ np.diag((0.1, 0.1, 0.2)) @ R.T)
    np.testing.assert_allclose(np.sort(mujoco.MjModel.from_xml_string(silently(disc)).body("bob").inertia)[2], 0.2)
    odd, *_ = pendulum(inertia=(0.1, 0.1, 0.3), check_inertia=False)
    with pytest.warns(ph.importers.ModelFileWarning, match="body `bob`: MuJoCo refuses moments of inertia"):
        text = odd.to_mjcf()
    with pytest.warns(ph.importers.ModelFileWarning, match="no distribution"):
        np.testing.assert_allclose(ph.load_model(text).model.bodies[0].inertia, np.diag((0.1, 0.1, 0.3)))


def test_traced_models_are_refused():
    def text(mass):
        model = ph.Model()
        model.add_body(mass=mass, inertia=(1, 1, 1))
        model.to_mjcf()
        return mass

    with pytest.raises(ValueError, match="JAX is tracing some of this model"):
        jax.jit(text)(1.0)


@pytest.mark.exhaustive
def test_rows_of_bodies_that_mujoco_does_not_read_are_refused():
    model = ph.Model()
    last = model.ground
    for k in range(495):
        body = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(k, 0, 0))
        model.add(ph.joints.Fixed(last, body))
        last = body
    with pytest.raises(ValueError, match="`body-491` is carried by more than 490 bodies in a row"):
        model.to_mjcf()


@pytest.mark.exhaustive
def test_limits_of_a_controlled_joint_come_from_the_file_and_go_back_there():
    text = (
        '<mujoco><worldbody><body name="b"><joint name="j" axis="0 1 0" actuatorfrcrange="-3 2"/><inertial pos="0 0 1" '
        'mass="1" diaginertia="1 1 1"/></body></worldbody></mujoco>'
    )
    arm = ph.load_model(text)
    joint = arm.joints["j"]
    assert joint.force_limits == (-3.0, 2.0)
    for given, at_most in (("joint", 2.0), (None, 10.0), ((-np.inf, np.inf), 10.0), ((-1.0, 1.0), 1.0)):
        element = ph.forces.PD(joint, 10.0, 0.0, target=1.0, force_limits=given).place(())
        assert float(element.effort(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))) == at_most
    arm.model.add(ph.forces.PD(joint, 10.0, 0.0, target=1.0, name="servo", force_limits="joint"))
    actuator = ElementTree.fromstring(arm.model.to_mjcf()).find("actuator/general")
    assert actuator is not None
    assert sorted(abs(float(x)) for x in actuator.get("forcerange", "").split()) == [2.0, 3.0]
    free = ph.load_model(text.replace('actuatorfrcrange="-3 2"', "")).joints["j"]
    with pytest.raises(ValueError, match=r"Joint 'j' has no limits of its effort.*Leave `force_limits` out, or give"):
        ph.forces.PID(free, 10.0, 1.0, 0.0, force_limits="joint")


def test_forces_along_combinations_are_fixed_tendons():
    """Springs that pull and push, actuators and servos along a sum of an angle and a displacement."""
    model = ph.Model(gravity=GRAVITY)
    arm, hand = (
        model.add_body(
            mass=mass, inertia=INERTIA, position=(x, 0, 0), angular_velocity=(0, 0.5, 0), velocity=(0, 0, -0.5 * x)
        )
        for mass, x in ((1.0, 0.3), (0.7, 0.9))
    )
    turn = model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0), name="turn"))
    reach = model.add(ph.joints.Prismatic(arm, hand, axis=(1, 0, 0.2), name="reach"))
    tendon = ph.joints.Combination([turn, reach], [0.7, -0.4])
    model.add(ph.forces.JointSpring(tendon, 30.0, 0.5, rest=-0.3, name="pull"))
    model.add(ph.forces.JointSpring(tendon, -2.0, rest=0.2, name="push"))
    model.add(ph.forces.Actuator(tendon, control=1.5, gain=2.0, bias=(0.1, -3.0, -0.2), gear=1.4, name="drive"))
    model.add(ph.forces.PD(tendon, proportional=4.0, derivative=0.3, target=0.6, name="servo"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = model.to_mjcf()
    written = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(written)
    mujoco.mj_resetDataKeyframe(written, data, 0)
    mujoco.mj_forward(written, data)
    for problem in (model.problem("minimal", t1=1.0), ph.load_model(text, keyframe="start").problem("minimal")):
        np.testing.assert_allclose(problem.system.accelerations(0.0, *problem.state0)[0], data.qacc, rtol=1e-11)
    model.add(ph.forces.JointStops(tendon, (-1.0, 1.0), 100.0, name="end"))
    with pytest.warns(ph.importers.ModelFileWarning, match="JointStops `end`: how stiff stops of tendons are"):
        model.to_mjcf()


def test_equalities_of_joints_are_written_turns_away():
    """The start is counted: a follower 12 rad on is no fold of it."""
    link = '<body name="{0}" pos="0 0 {1}"><joint name="{0}" axis="0 1 0"/><geom size=".1"/></body>'
    text = (
        f"<mujoco><worldbody>{link.format('a', 0)}{link.format('b', 1)}</worldbody>"
        '<equality><joint joint1="a" joint2="b" polycoef=".5 2 .1 0 0"/></equality></mujoco>'
    )
    x = 3.0
    machine = ph.load_model(text, positions={"a": 0.5 + 2 * x + 0.1 * x * x, "b": x})
    written = mujoco.MjModel.from_xml_string(machine.to_mjcf())
    np.testing.assert_allclose(written.eq_data[0, :3], (0.0, 2 + 0.2 * x, 0.1), atol=1e-9)
