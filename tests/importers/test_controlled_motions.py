"""Arms that controllers move to a pose in the coordinates of their file, beside MuJoCo's motion under servos."""

from __future__ import annotations

import re
from pathlib import Path

import mujoco
import numpy as np
import pytest
from against_mujoco import EXAMPLES

import polhode as ph

H = 2e-3
T1 = 1.0
PAGE = Path(__file__).parents[2] / "docs" / "import.md"
GAINS = {
    "turn": (60, 9),
    "shoulder": (400, 40),
    "elbow": (200, 20),
    "roll": (9, 0.5),
    "pitch": (20, 1),
    "grip": (200, 10),
}
POSE = {"turn": 1.0, "shoulder": -0.6, "elbow": 0.9, "roll": 2.0, "pitch": -0.7, "grip": -0.01}
START = {"shoulder": 0.4, "grip": 0.01}


def under_servos(path, start, gains, pose, limited=False):
    """Joint positions after every step of MuJoCo's Runge–Kutta method of order 4, shape (n + 1, nq)."""
    spec = mujoco.MjSpec.from_file(str(path))
    spec.option.integrator, spec.option.timestep = mujoco.mjtIntegrator.mjINT_RK4, H
    for joint, (kp, kv) in gains.items():
        servo = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp, kv)
    model = spec.compile()
    # Limits of effort bind what acts on a joint; those of its coordinate stay in force in any case.
    model.jnt_actfrclimited[:] &= limited
    data = mujoco.MjData(model)
    for joint, value in start.items():
        data.joint(joint).qpos[0] = value
    for joint, value in pose.items():
        data.actuator(joint).ctrl[0] = value
    found = [data.qpos.copy()]
    for _ in range(round(T1 / H)):
        mujoco.mj_step(model, data)
        found.append(data.qpos.copy())
    return np.array(found)


def under_pd(path, start, gains, pose, limited=False):
    arm = ph.load_model(path, positions=start)
    for joint, (kp, kv) in gains.items():
        # A servo's damper resists motion, whatever the target: that of PD is the same for targets at rest.
        has_limits = np.isfinite(arm.joints[joint].force_limits).any()
        limits = "joint" if limited and has_limits else None
        arm.model.add(ph.forces.PD(arm.joints[joint], kp, kv, target=pose[joint], force_limits=limits))
    run = ph.simulate(arm.problem("minimal", t1=T1), "rkmk4", h=H)
    return np.asarray(run.outputs["joint_positions"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("limited", [False, True])
def test_an_arm_under_pd_moves_as_in_mujoco_under_servos(limited):
    path = EXAMPLES / "arm.urdf"
    found, wanted = (move(path, START, GAINS, POSE, limited) for move in (under_pd, under_servos))
    # Far on its way, within the limits of its joints.
    assert np.abs(found[-1] - found[0]).max() > 1
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    other = under_pd(path, START, GAINS | {"elbow": (202, 20)}, POSE, limited)
    assert np.abs(other - wanted).max() > 1e-4


@pytest.mark.exhaustive
def test_so_does_the_arm_of_the_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (file,) = (block for block in blocks if 'Path("arm.xml").write_text' in block)
    (lines,) = (block for block in blocks if 'load_model("arm.xml"' in block)
    assert len(lines.splitlines()) <= 6
    known = {"ph": ph, "Path": Path}
    exec(file + lines, known)
    run, pose = known["run"], {"turn": 1.0, "shoulder": -0.6, "elbow": 0.9}
    wanted = under_servos("arm.xml", {"shoulder": 0.5}, dict.fromkeys(pose, (400, 20)), pose)
    same = ph.simulate(known["arm"].problem(t1=T1), "rkmk4", h=H)
    np.testing.assert_allclose(same.outputs["joint_positions"], wanted, atol=1e-8)
    # The method that was chosen has its own errors.
    assert np.asarray(run.t)[1] == pytest.approx(H)
    np.testing.assert_allclose(np.asarray(run.outputs["joint_positions"])[: len(wanted)], wanted, atol=5e-3)
    # The weight of the arm holds it off its pose.
    np.testing.assert_allclose(run.outputs["joint_positions"][-1], list(pose.values()), atol=0.06)
    assert np.abs(np.asarray(run.outputs["joint_velocities"])[-1]).max() < 1e-4
