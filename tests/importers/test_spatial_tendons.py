"""Spatial tendons through sites, over pulleys and around geoms beside MuJoCo."""

from __future__ import annotations

import jax
import mujoco
import numpy as np
import pytest
from against_mujoco import at_random, largest_difference, load_at, smooth

import polhode as ph
from polhode.multibody.mechanism.poses import Pose, Twist

ARM = """<mujoco><compiler angle="radian"/><option gravity="1 0.5 -9.81"/>
<default><geom contype="0" conaffinity="0"/></default><worldbody>
<site name="hook" pos="-0.6 0.1 0.5"/><site name="high" pos="0.5 0.2 0.8"/>
<geom name="post" type="sphere" size="0.15" pos="-0.1 0.1 0.3"/>
<body name="one"><joint name="first" axis="0 1 0" damping="0.1"/><geom type="box" size="0.05 0.1 0.3" pos="0 0 -0.3"/>
  <geom name="drum" type="cylinder" size="0.12 0.3" pos="0.05 0 -0.75" euler="1.4 0.2 0"/>
  <geom name="ball" type="sphere" size="0.1" pos="0 0.05 -0.3"/>
  <site name="back" pos="-0.3 0.02 -0.8"/><site name="front" pos="0.25 0.1 -0.3"/><site name="top" pos="0.02 0.1 -0.1"/>
  <body name="two" pos="0.05 0 -0.8"><joint name="second" axis="0 1 0.3"/>
  <geom type="box" size="0.05 0.1 0.2" pos="0 0.05 -0.3"/>
  <site name="foot" pos="0.1 0.1 -0.5"/><site name="knee" pos="-0.02 -0.05 -0.25"/></body></body>
<body name="three" pos="0.6 0 0.2"><joint name="slide" type="slide" axis="1 0 1"/><geom type="box" size="0.1 0.1 0.2"/>
  <site name="end" pos="0 0.1 -0.2"/></body></worldbody>
<tendon><spatial name="t" {}>{}</spatial></tendon>{}</mujoco>"""
SITES = '<site site="hook"/><site site="top"/><site site="foot"/>'
PATHS = {
    "sites": f'{SITES}<site site="end"/>',
    "pulley": f'{SITES}<pulley divisor="2"/><site site="high"/><site site="end"/><pulley divisor="3"/>'
    '<site site="knee"/><site site="end"/>',
    "cylinder": '<site site="top"/><geom geom="drum"/><site site="foot"/>',
    "side of a cylinder": '<site site="top"/><geom geom="drum" sidesite="back"/><site site="foot"/>',
    "sphere": '<site site="hook"/><geom geom="post"/><site site="foot"/><geom geom="ball"/><site site="end"/>',
    "side of a sphere": '<site site="hook"/><geom geom="ball" sidesite="front"/><site site="knee"/>',
}
FORCES = {
    "spring": ('stiffness="70" damping="3" springlength="0.4"', ""),
    "slack": ('stiffness="70" springlength="0.3 0.5"', ""),
    "actuator": (
        "",
        '<actuator><general name="pull" tendon="t" gear="3" gainprm="2" biastype="affine" biasprm="0.4 -5 -0.7" '
        'forcerange="-8 8"/></actuator>',
    ),
}


def string_of(imported):
    """The string along which the forces of an imported tendon act."""
    parts = [getattr(part, "joint", None) for _, part in imported.model.parts]
    return next(joint for joint in parts if isinstance(joint, ph.joints.StringLength))


def length_and_rate(string):
    """The compiled length and rate of a string at a state of MuJoCo."""
    coordinate = string.coordinate()
    compiled = jax.jit(lambda poses, twists: (coordinate.value(poses), coordinate.rate(poses, twists)))

    def measure(model, data):
        poses, twists, whole = [], [], np.zeros(6)
        for body in string.bodies:
            number = 0 if body.kind == "ground" else mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body.name)
            R = data.xmat[number].reshape(3, 3)
            arm = R @ model.body_ipos[number]
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, number, whole, 0)
            poses.append(Pose(data.xpos[number] + arm, R.copy()))
            twists.append(Twist(R.T @ whole[:3], whole[3:] + np.cross(whole[:3], arm)))
        return np.array(compiled(tuple(poses), tuple(twists)))

    return measure


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", PATHS)
def test_lengths_and_rates_are_those_of_mujoco(path):
    text = ARM.format('stiffness="3" damping="1"', PATHS[path], "")
    model = mujoco.MjModel.from_xml_string(text)
    measure, data = length_and_rate(string_of(ph.load_model(text, limits=False))), mujoco.MjData(model)
    random, wraps, sites = np.random.default_rng(3), [], PATHS[path].count("<site")
    for _ in range(100):
        data.qpos[:], data.qvel[:] = random.uniform(-1.5, 1.5, (2, model.nv))
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(measure(model, data), (data.ten_length[0], data.ten_velocity[0]), atol=1e-13)
        wraps.append(data.ten_wrapnum[0] > sites + PATHS[path].count("<pulley"))
    # Strings around something touch it in some of the states and pass it in others.
    assert "geom" not in PATHS[path] or 10 < sum(wraps) < 90


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("path", "force", "formulation"),
    [
        *((path, "spring", "minimal") for path in PATHS),
        *(("pulley", force, "SO3xR3") for force in FORCES),
        ("side of a cylinder", "actuator", "minimal"),
        ("sites", "slack", "minimal"),
    ],
)
def test_accelerations_are_those_of_mujoco(path, force, formulation):
    options, more = FORCES[force]
    text = ARM.format(options, PATHS[path], more)
    model = smooth(mujoco.MjModel.from_xml_string(text))
    for seed in (0, 1):
        data = at_random(model, seed)
        data.ctrl[:] = 0.7
        mujoco.mj_forward(model, data)
        imported = load_at(text, model, data, controls={"pull": 0.7} if more else {})
        assert not imported.not_carried
        assert largest_difference(imported.problem(formulation), model, data) < 1e-10
    # Without the string it is another motion.
    bare = at_random(smooth(mujoco.MjModel.from_xml_string(ARM.format("", PATHS[path], ""))), seed)
    assert np.max(np.abs(bare.qacc - data.qacc)) > 1e-2


def test_inside_of_rings_and_other_losses_are_named():
    inside = PATHS["side of a sphere"].replace("front", "centre")
    text = ARM.format('stiffness="3"', inside, FORCES["actuator"][1])
    text = text.replace('<site name="top"', '<site name="centre" pos="0 0.05 -0.28"/><site name="top"')
    lost = {item.what: item for item in ph.load_model(text).not_carried}
    assert set(lost) == {"tendons", "actuators"}
    assert all("inside of a geom" in item.reason for item in lost.values())
    other = ph.load_model(
        ARM.format('stiffness="3"', PATHS["cylinder"].replace('"drum"', '"drum" sidesite="knee"'), "")
    )
    (item,) = other.not_carried
    assert "`sidesite`" in item.reason


@pytest.mark.exhaustive
def test_a_string_of_constant_length_keeps_it():
    text = ARM.format("", PATHS["cylinder"], '<equality><tendon tendon1="t"/></equality>')
    imported = ph.load_model(text)
    assert not imported.not_carried
    run = ph.simulate(imported.problem("minimal", t1=0.3), "herk4", h=1e-3)
    model = mujoco.MjModel.from_xml_string(text)
    data, lengths = mujoco.MjData(model), []
    for q in run.outputs["joint_positions"][::30]:
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        lengths.append(data.ten_length[0])
    assert np.ptp(run.outputs["joint_positions"][:, 2]) > 0.1
    assert np.ptp(lengths) < 1e-9


@pytest.mark.exhaustive
def test_a_ball_in_a_cup_hangs_by_its_limit():
    """The limit of a tendon between two sites holds, rigidly with contacts of joints."""
    text = ARM.format('limited="true" range="0 0.4"', '<site site="top"/><site site="end"/>', "")
    imported = ph.load_model(text, joint_law="rigid", positions={"slide": -0.6})
    string = string_of(imported)
    problem = imported.problem(t1=0.5, h=2e-3)
    run = ph.simulate(problem)
    length = np.asarray(string.value(problem.system, run.t, run.state))
    assert length.max() < 0.4 + 1e-4
    assert length.max() > 0.4 - 1e-3
