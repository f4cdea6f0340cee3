"""Actuators and limits of files that switch some off, have states, margins or mixed numbers, beside MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from against_mujoco import largest_difference, smooth

import polhode as ph
from polhode.forces.joint_forces import Actuator, JointStops

ARM = """<mujoco><compiler angle="radian"/><option {option}><flag {flag}/></option>
<default><geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.03" contype="0" conaffinity="0"/></default><worldbody>
<body name="a"><joint name="i" axis="0 1 0" {joint}/><geom/>
<body name="b" pos="0.3 0 0.1"><joint name="j" axis="0 1 0"/><geom/></body></body></worldbody>
<actuator>{actuators}</actuator>{more}</mujoco>"""
MOTOR = '<motor name="pull" joint="i" {}/>'
KEY = '<keyframe><key name="k" {}/></keyframe>'


def mjcf_text(actuators="", more="", joint="", option="", flag=""):
    return ARM.format(actuators=actuators, more=more, joint=joint, option=option, flag=flag)


def at_key(text):
    """MuJoCo's model and data at the first keyframe."""
    model = smooth(mujoco.MjModel.from_xml_string(text))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return model, data


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("options", "motor"),
    [
        ({"option": 'actuatorgroupdisable="2"'}, 'group="2"'),
        ({"option": 'actuatorgroupdisable="2"'}, 'group="1"'),
        ({"flag": 'clampctrl="disable"'}, 'ctrlrange="-0.1 0.1"'),
        ({"flag": 'actuation="disable"'}, ""),
        ({"flag": 'spring="disable" damper="disable"', "joint": 'stiffness="9" damping="2" springref="1"'}, ""),
    ],
)
def test_what_a_file_switches_off_does_nothing(options, motor):
    key = KEY.format('ctrl="0.7" qvel="1 -1"')
    text = mjcf_text(MOTOR.format(motor), key, **options)
    imported = ph.load_model(text, keyframe="k", limits=False)
    assert not imported.not_carried
    assert largest_difference(imported.problem("minimal"), *at_key(text)) < 1e-12
    # Without the switch it is another motion.
    _, other = at_key(mjcf_text(MOTOR.format(motor), key, joint=options.get("joint", "")))
    assert (np.max(np.abs(other.qacc - at_key(text)[1].qacc)) > 1) == ('group="1"' not in motor)


@pytest.mark.parametrize(
    ("actuator", "key", "reason"),
    [
        ('<intvelocity name="pull" joint="i" kp="10" actrange="-1 1"/>', 'act="0.5"', "those with a state"),
        ('<general name="pull" joint="i" dyntype="filter" dynprm="0.1"/>', 'act="0.5"', "those with a state"),
        (MOTOR.format('delay="0.1" nsample="10"'), 'ctrl="0.5"', "without delay"),
        ('<motor name="pull" jointinparent="k"/>', 'ctrl="0.5"', "only those on hinges, slides"),
        ('<damper name="pull" joint="i" kv="2" ctrlrange="0 1"/>', 'ctrl="0.5"', "affine in control"),
    ],
)
def test_actuators_that_are_not_carried_are_named_with_their_reason(actuator, key, reason):
    text = mjcf_text(actuator, KEY.format(key))
    text = text.replace("</worldbody>", '<body name="c"><joint name="k" type="ball"/><geom/></body></worldbody>')
    (lost,) = ph.load_model(text, keyframe="k").not_carried
    assert (lost.what, lost.names) == ("actuators", ("pull",))
    assert reason in lost.reason


def test_controls_are_found_behind_actuators_that_have_several():
    text = mjcf_text('<pid name="two" joint="j" kp="1"/>' + MOTOR.format(""), KEY.format('ctrl="0.1 0.2 0.7"'))
    imported = ph.load_model(text, keyframe="k")
    assert [item.names for item in imported.not_carried] == [("two",)]
    (motor,) = (part for _, part in imported.model.parts if isinstance(part, Actuator))
    assert (motor.joint, motor.control) == (imported.joints["i"], 0.7)


@pytest.mark.parametrize("solref", ["0.02 1", "0.03 0.5", "-900 -20", "0.02 0", "0.02 -5", "-100 0.5"])
@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_stops_are_where_and_as_stiff_as_the_constraints_of_mujoco(solref, margin):
    text = mjcf_text(
        joint=f'range="-0.2 0.3" solreflimit="{solref}" margin="{margin}"', more=KEY.format('qpos="0.4 0"')
    )
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    stiffness, damping = data.efc_KBIP[0, :2]
    mass = np.zeros((2, 2))
    mujoco.mj_fullM(model, data, mass)
    with pytest.warns(ph.StartWarning, match="`i` at 0.4"):
        imported = ph.load_model(text, keyframe="k")
    (stops,) = (part for _, part in imported.model.parts if isinstance(part, JointStops))
    # The force that MuJoCo's full constraint needs for its acceleration: the other joints are free to move.
    inertia = 1 / np.linalg.inv(mass)[0, 0]
    assert inertia < 0.8 * mass[0, 0]
    np.testing.assert_allclose((stops.stiffness, stops.damping), np.array((stiffness, damping)) * inertia, rtol=1e-9)
    np.testing.assert_allclose(stops.limits, (-0.2 + data.efc_margin[0], 0.3 - data.efc_margin[0]))


@pytest.mark.parametrize(
    ("joint", "reason"), [('solreflimit="0 -5"', "no stiffness"), ('margin="0.3"', "margins leave")]
)
def test_ranges_that_make_no_stops_are_listed(joint, reason):
    (lost,) = ph.load_model(mjcf_text(joint=f'range="-0.2 0.3" {joint}')).not_carried
    assert (lost.what, lost.names) == ("limits of joints", ("i",))
    assert reason in lost.reason


def test_starts_outside_of_ranges_are_told_unless_there_are_no_stops():
    text = mjcf_text(joint='range="0.5 1"')
    with pytest.warns(ph.StartWarning, match=r"`i` at 0, range 0.5 … 1 rad\. Start within them, positions=") as caught:
        ph.load_model(text)
    assert len(caught) == 1
    ph.load_model(text, limits=False)
    ph.load_model(text, positions={"i": 0.5})
    ph.load_model(mjcf_text(joint='range="0.5 1"', flag='limit="disable"'))
    ph.load_model(mjcf_text(joint='range="0.5 1"', flag='constraint="disable"'))
    # What follows another joint starts where this one puts it.
    tied = '<equality><joint joint1="i" joint2="j" polycoef="0.7 1 0 0 0"/></equality>'
    ph.load_model(mjcf_text(joint='range="0.5 1"', more=tied))


def test_actuators_behind_those_with_several_controls_have_their_own_gear_and_limits():
    text = (
        '<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="ball" type="ball"/>'
        '<geom size="0.1" pos=".2 0 0"/></body><body><joint name="j" axis="0 0 1"/>'
        '<inertial pos="0 0 0" mass="1" diaginertia="0.2 0.2 0.2"/></body></worldbody>'
        '<actuator><pid name="p" joint="j" kp="2" kv="1" ctrlrange="-9 9"/>'
        '<orientation name="o" joint="ball" kp="2"/>'
        '<motor name="m" joint="j" ctrlrange="-.1 .2" gear="3"/></actuator></mujoco>'
    )
    machine = ph.load_model(text, controls={"m": 5.0})
    (motor,) = (part for name, part in machine.model.parts if name == "m actuator")
    assert float(motor.gear) == 3.0
    np.testing.assert_array_equal(motor.control_limits, (-0.1, 0.2))
    assert sorted(name for item in machine.not_carried if item.what == "actuators" for name in item.names) == ["o", "p"]


@pytest.mark.exhaustive
def test_ranges_and_dry_friction_may_be_rigid():
    """A load on a hinge with `frictionloss` falls onto the end of its range, and one that friction holds rests."""
    text = """<mujoco><compiler angle="radian"/><worldbody>
    <body name="a"><joint name="falls" axis="0 1 0" range="-1 0.4" frictionloss="1" solreflimit="0.02 0.5"/>
    <inertial pos="1 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body>
    <body name="b" pos="0 2 0"><joint name="holds" axis="0 1 0" frictionloss="20"/>
    <inertial pos="1 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body></worldbody></mujoco>"""
    robot = ph.load_model(text, joint_law="rigid")
    run = ph.simulate(robot.problem(t1=2.0, h=0.01))
    falls, holds = run.joints["falls"], run.joints["holds"]
    assert np.ptp(holds.angle) < 1e-14
    assert holds.friction[-1] == pytest.approx(-9.81, rel=1e-12)
    assert falls.mode[-1] == "stop"
    assert falls.angle[-1] == pytest.approx(0.4, abs=1e-3)
    assert falls.friction[-1] + falls.stop_force[-1] == pytest.approx(-9.81 * np.cos(falls.angle[-1]), rel=1e-9)
    # The restitution is that of an oscillator with half the critical damping.
    (stops,) = (part for _, part in robot.model.parts if isinstance(part, JointStops))
    assert stops.restitution == pytest.approx(np.exp(-np.pi / np.sqrt(3)))
    # What starts outside of its range is pushed back by elastic stops.
    with pytest.warns(ph.StartWarning, match="falls"):
        outside = ph.load_model(text, positions={"falls": 0.5}, joint_law="rigid")
    assert next(part for _, part in outside.model.parts if isinstance(part, JointStops)).stiffness is not None
