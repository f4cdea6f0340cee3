# ruff: noqa: E501 - pieces of XML are read more easily in one line.
"""Every attribute of URDF: those that change a motion do here as in MuJoCo's own reader, and no others do."""

from __future__ import annotations

import warnings

import mujoco
import numpy as np
import pytest
from against_mujoco import bodies_accelerations, largest_difference, smooth

import polhode as ph

ROBOT = (
    '<robot name="r"><material name="m"><color rgba="1 0 0 1"/></material><link name="base"/>'
    '<link name="a"><inertial><origin xyz=".1 .02 .3" rpy=".1 .2 .3"/><mass value="2"/>'
    '<inertia ixx=".1" ixy=".01" ixz=".02" iyy=".12" iyz=".03" izz=".15"/></inertial>'
    '<visual name="v"><origin xyz="0 0 0" rpy="0 0 0"/><geometry><box size=".1 .2 .3"/></geometry><material name="m"/></visual>'
    '<collision name="c"><origin xyz="0 0 0" rpy="0 0 0"/><geometry><sphere radius=".1"/></geometry></collision></link>'
    '<joint name="j" type="continuous"><origin xyz="0 .1 .2" rpy=".2 .1 0"/><parent link="base"/><child link="a"/>'
    '<axis xyz="0 1 .2"/><calibration rising="0"/><dynamics damping=".3" friction="0"/>'
    '<safety_controller soft_lower_limit="-9" soft_upper_limit="9" k_position="9" k_velocity="9"/></joint>'
    '<link name="b"><inertial><origin xyz="0 0 .2"/><mass value="1"/>'
    '<inertia ixx=".05" ixy="0" ixz="0" iyy=".06" iyz="0" izz=".07"/></inertial></link>'
    '<joint name="k" type="prismatic"><origin xyz=".3 0 0"/><parent link="a"/><child link="b"/><axis xyz="1 0 0"/>'
    '<limit lower="-9" upper="9" effort="50" velocity="5"/></joint></robot>'
)
MOVING = [
    ('xyz=".1 .02 .3"', 'xyz=".2 .02 .3"'),
    ('rpy=".1 .2 .3"', 'rpy=".1 .5 .3"'),
    ('mass value="2"', 'mass value="3"'),
    *((f'{name}="{value}"', f'{name}="{value}5"') for name, value in zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), (".1", ".01", ".02", ".12", ".03", ".15"), strict=True)),
    ('xyz=".3 0 0"', 'xyz=".3 .2 0"'),
    ('rpy=".2 .1 0"', 'rpy=".2 .4 0"'),
    ('axis xyz="0 1 .2"', 'axis xyz="0 1 .6"'),
    ('damping=".3"', 'damping=".6"'),
    ('"prismatic"', '"revolute"'),
    ('<parent link="a"/>', '<parent link="base"/>'),
]  # fmt: skip
STILL = [
    ('robot name="r"', 'robot name="s"'),
    ('rgba="1 0 0 1"', 'rgba="0 1 0 1"'),
    ('visual name="v"', 'visual name="w"'),
    ('collision name="c"', 'collision name="d"'),
    ('rpy="0 0 0"', 'rpy="1 0 0"'),
    ('xyz="0 0 0"', 'xyz="1 0 0"'),
    ('size=".1 .2 .3"', 'size=".3 .2 .3"'),
    ('radius=".1"', 'radius=".3"'),
    ('rising="0"', 'falling="1"'),
    ('soft_lower_limit="-9"', 'soft_lower_limit="-1"'),
    ('soft_upper_limit="9"', 'soft_upper_limit="1"'),
    ('k_position="9"', 'k_position="1"'),
    ('k_velocity="9"', 'k_velocity="1"'),
    ('effort="50"', 'effort="5"'),
    ('velocity="5"', 'velocity=".5"'),
    ('lower="-9"', 'lower="-2"'),
    ('upper="9"', 'upper="2"'),
]
"""Of looks, of controllers that a robot may have, and of what is only reached farther out."""
START = {"positions": {"j": 0.4, "k": 0.1}, "velocities": {"j": 1.2, "k": -0.7}}


def problem(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ph.load_model(text, **START, stick_velocity=None).problem("minimal")


def in_mujoco(text):
    plain = text.replace('<robot name="r">', '<robot name="r"><mujoco><compiler fusestatic="false"/></mujoco>')
    model = smooth(mujoco.MjModel.from_xml_string(plain))
    data = mujoco.MjData(model)
    for name in ("j", "k"):
        data.joint(name).qpos, data.joint(name).qvel = START["positions"][name], START["velocities"][name]
    mujoco.mj_forward(model, data)
    return model, data


def accelerations(of):
    return bodies_accelerations(of.system, *of.state0)


@pytest.mark.parametrize(
    ("text", "other"),
    [pytest.param(*one, marks=() if k in (1, 12) else pytest.mark.exhaustive) for k, one in enumerate(MOVING)],
)
def test_what_moves_in_mujoco_moves_alike_here(text, other):
    changed = ROBOT.replace(text, other)
    assert changed != ROBOT
    found = problem(changed)
    assert largest_difference(found, *in_mujoco(changed)) < 1e-9
    assert not np.allclose(accelerations(found), accelerations(problem(ROBOT)), rtol=1e-6)


@pytest.mark.exhaustive
def test_nothing_else_moves_anything():
    usual = accelerations(problem(ROBOT))
    for text, other in STILL:
        changed = ROBOT.replace(text, other)
        assert changed != ROBOT
        np.testing.assert_array_equal(accelerations(problem(changed)), usual)


def test_ranges_and_friction_are_carried_and_followers_follow():
    text = ROBOT.replace('friction="0"', 'friction=".4"').replace('upper="9"', 'upper=".5"')
    machine = ph.load_model(text)
    assert {"j friction", "k stops"} <= {name for name, _ in machine.model.parts}
    assert machine.joints["k"].limits == (-9.0, 0.5)
    mimic = '<mimic joint="k" multiplier="2" offset=".1"/></joint><link name="b">'
    tied = ph.load_model(ROBOT.replace('</joint><link name="b">', mimic)).problem("minimal")
    j, k = (float(value) for value in tied.outputs["joint_positions"](0.0, tied.state0))
    assert j == pytest.approx(2 * k + 0.1, abs=1e-12)
