"""A closed loop: exact here, soft in MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from against_mujoco import EXAMPLES, bodies_accelerations

import polhode as ph

FOUR_BAR = EXAMPLES / "four_bar.xml"
STEP, END = 2e-3, 0.25


def gaps_in_mujoco(speeds):
    """Distance of the two ends of the pin at every step of MuJoCo, and the joint positions at the end."""
    model = mujoco.MjModel.from_xml_path(str(FOUR_BAR))
    assert model.opt.timestep == STEP
    data = mujoco.MjData(model)
    data.qvel[:] = speeds
    bodies, anchors = (model.eq_obj1id[0], model.eq_obj2id[0]), (model.eq_data[0, :3], model.eq_data[0, 3:6])
    gaps = []
    for _ in range(round(END / STEP)):
        mujoco.mj_step(model, data)
        mujoco.mj_kinematics(model, data)
        first, second = (data.xpos[b] + data.xmat[b].reshape(3, 3) @ s for b, s in zip(bodies, anchors, strict=True))
        gaps.append(np.linalg.norm(second - first))
    return np.array(gaps), data.qpos.copy()


def four_bar(formulation):
    speeds = {"crank": 4.0, "coupler": -4.0, "rocker": 2.4}
    return ph.load_model(FOUR_BAR, velocities=speeds).problem(formulation, t1=END)


def end(solution):
    return np.asarray(solution.outputs["joint_positions"][-1])


def check_loop(problem):
    """Both methods keep the loop closed where MuJoCo opens it, and meet under refinement with second order."""
    implicit = [ph.simulate(problem, "generalized-alpha", h=h) for h in (STEP, STEP / 2)]
    explicit = ph.simulate(problem, "herk5", h=STEP)
    for solution in (*implicit, explicit):
        assert np.max(solution.residuals["position"]) < 1e-10
    gaps, soft = gaps_in_mujoco(np.asarray(problem.outputs["joint_velocities"](0.0, problem.state0)))
    assert len(gaps) == len(explicit.t) - 1
    # A millimetre after a quarter of a second.
    assert 1e-3 > np.max(gaps[:5]) > 100 * np.max(explicit.residuals["position"])
    assert np.max(gaps) > 5e-4
    coarse, fine = (np.max(np.abs(end(solution) - end(explicit))) for solution in implicit)
    assert fine < 2e-4
    assert coarse / fine == pytest.approx(4.0, abs=0.1)
    # MuJoCo moves alike, as far as its soft pin allows.
    assert 1e-4 < np.max(np.abs(soft - end(explicit))) < 2e-2


@pytest.mark.exhaustive
def test_a_loop_in_joint_coordinates_stays_closed_where_mujoco_opens_it():
    check_loop(four_bar("minimal"))


@pytest.mark.exhaustive
def test_a_loop_in_absolute_coordinates_stays_closed_where_mujoco_opens_it():
    check_loop(four_bar("SE3"))


@pytest.mark.exhaustive
def test_half_explicit_methods_keep_their_order_on_a_loop_and_close_it_by_projection():
    problem = four_bar("minimal")
    reference = end(ph.simulate(problem, "herk5", h=STEP / 4))
    drifts, errors = [], []
    for h in (2 * STEP, STEP):
        solution = ph.simulate(problem, "herk4", h=h)
        drifts.append(float(np.max(solution.residuals["position"])))
        errors.append(float(np.max(np.abs(end(solution) - reference))))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.2)
    assert np.log2(drifts[0] / drifts[1]) == pytest.approx(4.0, abs=0.2)
    assert drifts[1] > 1e-10
    projected = ph.integrators.get("herk4", projection="position", tolerance=1e-11)
    solution = ph.simulate(problem, projected, h=STEP)
    assert np.max(solution.residuals["position"]) < 1e-10
    assert np.max(np.abs(end(solution) - reference)) < 2 * errors[1]


WELD = """<mujoco><compiler angle="radian"/><option gravity="0.3 -0.2 -9.81"/><worldbody>
<body name="A" pos="0 0 1"><joint name="a" axis="0 1 0"/>
<inertial pos=".2 0 0" mass="1" diaginertia=".01 .03 .04"/></body>
<body name="B" pos=".6 0 1.1" euler="0 .3 0"><freejoint name="f"/>
<inertial pos=".1 0 0" mass="2" diaginertia=".02 .05 .06"/></body></worldbody>
<equality><weld body1="A" body2="B" {}/></equality></mujoco>"""


def exact_accelerations(model, data):
    """Of MuJoCo's joints with its constraints exact: M a + Jᵀ λ = f, J a = -J̇ v, here at rest, with v = 0."""
    mujoco.mj_forward(model, data)
    M, J = np.zeros((model.nv, model.nv)), data.efc_J.reshape(-1, model.nv)
    mujoco.mj_fullM(model, data, M)
    if not len(J):
        return np.linalg.solve(M, data.qfrc_smooth)
    inverse = np.linalg.inv(M)
    multipliers = np.linalg.lstsq(J @ inverse @ J.T, J @ inverse @ data.qfrc_smooth, rcond=None)[0]
    return inverse @ (data.qfrc_smooth - J.T @ multipliers)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("given", ['anchor=".1 .05 .2"', 'torquescale="0"', 'torquescale="0" anchor="-.3 .1 .2"', ""])
def test_welds_hold_at_their_anchor_and_turn_without_torques(given):
    text = WELD.format(given)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qacc[:] = exact_accelerations(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    problem = ph.load_model(text).problem("SO3xR3")
    found = bodies_accelerations(problem.system, *problem.state0)
    wanted = np.zeros(6)
    mujoco.mj_objectAcceleration(model, data, mujoco.mjtObj.mjOBJ_BODY, 2, wanted, 0)
    # MuJoCo's are those of an accelerometer, of points at rest.
    linear = wanted[3:] + model.opt.gravity
    np.testing.assert_allclose(found[1], np.concatenate((wanted[:3], linear)), atol=1e-9)
