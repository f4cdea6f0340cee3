"""Fixed tendons beside MuJoCo, and combinations of joint coordinates beside exact solutions."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from against_mujoco import at_random, largest_difference, load_at, read

import polhode as ph

FINGERS = """<mujoco><compiler angle="radian"/><option gravity="1 0 -9.81"/>
<default><geom type="box" size="0.05 0.1 0.3" contype="0" conaffinity="0"/></default><worldbody>
<body name="one"><joint name="first" axis="0 1 0" damping="0.1"/><geom pos="0 0 -0.4"/>
  <body name="two" pos="0 0 -0.8"><joint name="second" axis="0 1 0.3" ref="0.2"/><geom pos="0 0.05 -0.3"/></body></body>
<body name="three" pos="1 0 0"><joint name="slide" type="slide" axis="1 0 1"/><geom pos="0 0.2 0"/></body></worldbody>
<tendon>{}</tendon>{}</mujoco>"""
JOINTS = '<joint joint="first" coef="0.5"/><joint joint="second" coef="-1.5"/><joint joint="slide" coef="2"/>'
ACTUATOR = '<actuator><general name="pull" tendon="t" gear="3" gainprm="2" biastype="affine" biasprm="0.4 -5 -0.7" {}/>'
CASES = {
    "spring": ('<fixed name="t" stiffness="70" damping="3" springlength="0.3">', ""),
    "slack": ('<fixed name="t" stiffness="70" springlength="-0.1 0.1">', ""),
    "actuator": ('<fixed name="t">', ACTUATOR.format("") + "</actuator>"),
    "limited": ('<fixed name="t">', ACTUATOR.format('forcerange="-0.5 0.5"') + "</actuator>"),
}


def write_file(tmp_path, tendon, more=""):
    path = tmp_path / "fingers.xml"
    path.write_text(FINGERS.format(tendon, more))
    return path


@pytest.mark.sampled(8)
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
@pytest.mark.parametrize("case", CASES)
def test_accelerations_are_those_of_mujoco(tmp_path, case, formulation):
    head, more = CASES[case]
    path = write_file(tmp_path, f"{head}{JOINTS}</fixed>", more)
    model = read(path)
    for seed in (0, 1):
        data = at_random(model, seed)
        data.ctrl[:] = 0.7
        mujoco.mj_forward(model, data)
        controls = {"pull": 0.7} if more else {}
        imported = load_at(path, model, data, controls=controls)
        assert not imported.not_carried
        assert largest_difference(imported.problem(formulation), model, data) < 1e-10
    # Without the tendon it is another motion.
    bare = at_random(read(write_file(tmp_path, "")), seed)
    assert np.max(np.abs(bare.qacc - data.qacc)) > 1e-2


@pytest.mark.exhaustive
@pytest.mark.parametrize(("coefficients", "ratios"), [("0.2 2 0 0 0", (1, -1.5)), ("0.1 0 0 0 0", (1, 2))])
def test_tendons_follow_each_other_exactly(tmp_path, coefficients, ratios):
    tendons = f"""<fixed name="t"><joint joint="first" coef="1"/><joint joint="second" coef="{ratios[1]}"/></fixed>
    <fixed name="s"><joint joint="second" coef="1"/></fixed>"""
    second = 'tendon2="s"' if float(coefficients.split()[1]) else ""
    tie = f'<equality><tendon tendon1="t" {second} polycoef="{coefficients}"/></equality>'
    imported = ph.load_model(write_file(tmp_path, tendons, tie))
    assert not imported.not_carried
    run = ph.simulate(imported.problem("minimal", t1=0.5), "herk4", h=1e-3)
    q = run.outputs["joint_positions"]
    c0, c1 = map(float, coefficients.split()[:2])
    # Lengths count from the reference positions of the file, where the second joint has 0.2.
    gap = q[:, 0] + ratios[1] * (q[:, 1] - 0.2) - c0 - c1 * (q[:, 1] - 0.2)
    assert np.max(np.abs(gap - gap[0])) < 1e-9
    assert abs(gap[0]) < 1e-12
    assert np.ptp(q[:, 1]) > 0.02


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_a_belt_swings_as_in_the_textbook(formulation):
    """Two discs and a spring along θ₁ - 2θ₂: one mode turns, the other swings."""
    model, inertias, k = ph.Model(), (2.0, 3.0), 18.0
    axles = []
    for number, J in enumerate(inertias):
        disc = model.add_body(mass=1.0, inertia=(2, 2, J), position=(number, 0, 0), angular_velocity=(0, 0, 1 - number))
        axles.append(model.add(ph.joints.Revolute(model.ground, disc, point=(number, 0, 0), axis=(0, 0, 1))))
    belt = ph.joints.Combination(axles, ratios=(1.0, -2.0))
    model.add(ph.forces.JointSpring(belt, stiffness=k))
    system, state = model.assemble(formulation)
    run = ph.simulate(system, "rkmk4" if formulation == "minimal" else "herk4", h=1e-3, t1=2.0, state0=state)
    omega = np.sqrt(k * (1 / inertias[0] + 4 / inertias[1]))
    stretch = belt.value(system, run.t, run.state)
    np.testing.assert_allclose(stretch, np.sin(omega * run.t) / omega, atol=1e-9)
    if formulation == "minimal":
        drift = np.ptp(ph.simulate(system, "eml", h=0.05, t1=2.0, state0=state).invariants["energy"])
        assert drift < 1e-12


def test_what_a_combination_is_made_of_is_checked():
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(1, 1, 1))
    ball = model.add(ph.joints.Spherical(model.ground, body, point=(0, 0, 0)))
    for joints, ratios, message in (
        ([], [], "must not be empty"),
        ([body], [1.0], "such as `Revolute`"),
        ([ball], [1.0], "no relative coordinate"),
        ([ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(1, 0, 0))], [1.0, 2.0], "ratios"),
    ):
        with pytest.raises(ValueError, match=message):
            ph.joints.Combination(joints, ratios)


@pytest.mark.parametrize(("coef", "gear", "limit"), [(0.5, 2.0, 0.1), (1.0, -3.0, 0.25)])
def test_limits_of_tendons_hold_before_the_gear(coef, gear, limit):
    text = (
        '<mujoco><option gravity="0 0 0"/><worldbody><body name="b"><joint name="j" axis="0 0 1"/>'
        '<inertial pos="0 0 0" mass="1" diaginertia="0.2 0.2 0.2"/></body></worldbody><tendon><fixed name="t" '
        f'actuatorfrcrange="-{limit} {limit}"><joint joint="j" coef="{coef}"/></fixed></tendon>'
        f'<actuator><motor name="u" tendon="t" gear="{gear}"/></actuator></mujoco>'
    )
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.ctrl[0] = 0.8
    mujoco.mj_forward(model, data)
    problem = ph.load_model(text, controls={"u": 0.8}).problem("minimal")
    found = problem.system.accelerations(0.0, *problem.state0)[0]
    np.testing.assert_allclose(found, data.qacc, rtol=1e-12)
    np.testing.assert_allclose(found, coef * gear * limit / 0.2, rtol=1e-12)


@pytest.mark.parametrize("drive", ['tendon="t"', 'site="s"'])
def test_limits_of_joints_that_tendons_and_sites_pull_at_are_named(drive):
    text = (
        '<mujoco><worldbody><body name="b"><joint name="j" axis="0 0 1" actuatorfrcrange="-.1 .1"/><site name="s"/>'
        '<geom size="0.1"/></body></worldbody><tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>'
        f'<actuator><motor name="u" {drive}/></actuator></mujoco>'
    )
    (item,) = ph.load_model(text, controls={"u": 1.0}).not_carried
    assert item.names == ("u",)
    assert "limit of effort" in item.reason
