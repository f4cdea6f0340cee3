"""`joint.force` of a file's joints, beside MuJoCo's passive and actuator forces."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import polhode as ph
from polhode.solution import export

ARM = """<mujoco><compiler angle="radian"/><default><geom type="box" size="0.05 0.1 0.3" contype="0" conaffinity="0"/>
</default><worldbody><body name="one"><joint name="first" axis="0 1 0" stiffness="7" springref="0.3" damping="0.4"/>
<geom pos="0 0 -0.4"/><body name="two" pos="0 0 -0.8"><joint name="second" axis="0 1 0.3" ref="0.2"/>
<geom pos="0 0.05 -0.3"/><body name="three"><joint name="third" type="slide" axis="0 0 1"/><geom/></body></body>
</body></worldbody>
<actuator><position name="hip" joint="second" kp="5" kv="0.3"/><motor name="push" joint="third" gear="3"/></actuator>
</mujoco>"""
NAMES = "first", "second", "third"


def imported(q, v):
    values = [dict(zip(NAMES, x, strict=True)) for x in (q, v)]
    return ph.load_model(ARM, positions=values[0], velocities=values[1], controls={"hip": 0.5, "push": -0.7})


@pytest.mark.exhaustive
def test_they_are_what_passive_elements_and_actuators_do():
    m = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:], data.ctrl[:] = (0.4, -0.9, 0.1), (1.0, 2.0, -0.5), (0.5, -0.7)
    mujoco.mj_forward(m, data)
    arm = imported(data.qpos, data.qvel)
    problem = arm.problem("minimal", t1=0.01)
    exact = data.qfrc_passive + data.qfrc_actuator
    for name, force in zip(NAMES, exact, strict=True):
        assert float(arm.joints[name].force(problem.system, 0.0, problem.state0)) == pytest.approx(force, rel=1e-12)
    run = ph.simulate(problem, "rkmk4", h=1e-3)
    of_run = arm.joints["first"].force(problem.system, run.t, run.state)
    q, v = (run.outputs[f"joint_{what}"][:, 0] for what in ("positions", "velocities"))
    np.testing.assert_allclose(of_run, -7 * (q - 0.3) - 0.4 * v, rtol=1e-11)


def test_where_they_are_not_known_is_said():
    arm = imported((0.1, 0.2, 0.0), (0, 0, 0))
    problem = arm.problem("SO3xR3", t1=0.01)
    with pytest.raises(ValueError, match="minimal"):
        arm.joints["first"].force(problem.system, 0.0, problem.state0)


FRICTION = "".join(
    f'<link name="{name}"><inertial><origin xyz="0.1 0 0"/><mass value="1"/><inertia ixx="0.01" iyy="0.02" izz="0.02" '
    f'ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="{joint}" type="continuous"><parent link="{base}"/>'
    f'<child link="{name}"/><origin xyz="0.2 0 0"/><axis xyz="0 1 0"/><dynamics friction="{friction}"/></joint>'
    for joint, base, name, friction in (("shoulder", "base", "upper", 0.4), ("elbow", "upper", "lower", 0.1))
)


@pytest.mark.exhaustive
def test_forces_none_of_which_measures_anything_are_read_and_drawn(tmp_path):
    arm = ph.load_model(f'<robot name="arm"><link name="base"/>{FRICTION}</robot>', velocities={"elbow": 3.0})
    run = ph.simulate(arm.problem("minimal", t1=0.05), "rkmk4", h=1e-3)
    for force, friction, joint in zip(run.forces.values(), (0.4, 0.1), ("shoulder", "elbow"), strict=True):
        assert force.measured == []
        rates = run.joints[joint].rate
        np.testing.assert_allclose(force.power, force.effort * rates, rtol=1e-12, atol=1e-15)
        assert (force.effort * rates <= 0).all()
        assert np.abs(force.effort).max() <= friction
        assert np.abs(force.effort[-1]) > 0.5 * friction
    export(run, tmp_path / "arm.html")
    assert "applied force" in (tmp_path / "arm.html").read_text(encoding="utf-8")
