"""Joints of one body, in any order: each axis lies in the frame that the joints before it leave."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest
from against_mujoco import at_random, largest_difference, load_at, smooth

import polhode as ph

HEAD = (
    '<mujoco><compiler angle="radian"/><option gravity="0.3 -0.2 -9.81"><flag contact="disable"/></option><worldbody>'
    "{}</worldbody><actuator>{}</actuator></mujoco>"
)
BODY = (
    '<body name="A" pos="0 0 1" euler=".3 .2 .1">{}'
    '<geom type="box" size=".1 .2 .05" pos=".1 .05 -.1" euler=".1 .2 .3"/></body>'
)
KINDS = {"S": "slide", "H": "hinge", "B": "ball"}
ORDERS = ["".join(order) for n in (2, 3, 4) for order in itertools.product("SHB", repeat=n)]
SAMPLE = {("SHS", True), ("HSS", True), ("BSS", False), ("HHH", True)}


def stack(order, aligned):
    """A model of one body with these joints, their springs, dampers, rotors and motors."""
    return HEAD.format(*body_and_motors(order, aligned))


def body_and_motors(order, aligned):
    """A body with joints along coordinate axes or any, and motors along them."""
    random = np.random.default_rng(int.from_bytes(order.encode(), "big") + aligned)
    joints, motors = [], []
    for k, letter in enumerate(order):
        axis = np.eye(3)[random.integers(3)] * random.choice([-1, 1]) if aligned else random.normal(size=3)
        place = 0.1 * random.normal(size=3) * (letter != "S" and (not aligned or k % 2))
        ref, stiffness, rest, damping, gear = random.uniform((-0.5, 1, -1, 0.1, 1), (0.5, 5, 1, 1, 3))
        along = f'armature=".05" ref="{ref}" stiffness="{stiffness}" springref="{rest}"' if letter != "B" else ""
        words = [" ".join(map(repr, map(float, vector))) for vector in (axis, place)]
        joints.append(
            f'<joint name="{letter}{k}" type="{KINDS[letter]}" axis="{words[0]}" pos="{words[1]}" damping="{damping}" '
            f"{along}/>"
        )
        motors += [f'<motor name="m{k}" joint="{letter}{k}" gear="{gear}"/>'] if letter != "B" else []
    return BODY.format("".join(joints)), "".join(motors)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("order", "aligned"),
    [
        pytest.param(*one, marks=() if one in SAMPLE else pytest.mark.exhaustive)
        for one in itertools.product(ORDERS, (True, False))
    ],
)
def test_stacks_of_joints_move_and_are_read_as_in_mujoco(order, aligned):
    text = stack(order, aligned)
    try:
        model = mujoco.MjModel.from_xml_string(text)
    except ValueError:
        # Turns after a ball, and more than six degrees of freedom.
        with pytest.raises(ValueError, match=r"ball followed by rotation|more than 6 dofs"):
            ph.load_model(text)
        return
    data = at_random(model, 1)
    data.ctrl[:] = np.random.default_rng(1).normal(size=model.nu)
    mujoco.mj_forward(model, data)
    controls = {f"m{k}": u for k, u in zip((k for k, x in enumerate(order) if x != "B"), data.ctrl, strict=True)}
    machine = load_at(text, model, data, controls=controls)
    assert not machine.not_carried
    problem = machine.problem("minimal")
    assert largest_difference(problem, model, data) < 1e-12
    # Armatures of the slides of a free body are bodies of their own.
    if order not in ("SSSB", "BSSS"):
        assert (problem.system.n, problem.system.m) == (model.nv, 0)
    scalar = [
        j for j in range(model.njnt) if model.jnt_type[j] in (mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE)
    ]
    if scalar:
        for name, values in (
            ("positions", data.qpos[model.jnt_qposadr[scalar]]),
            ("velocities", data.qvel[model.jnt_dofadr[scalar]]),
        ):
            found = problem.outputs[f"joint_{name}"](0.0, problem.state0)
            np.testing.assert_allclose(found, values, atol=1e-12)


@pytest.mark.parametrize("order", ["HS", *(pytest.param(x, marks=pytest.mark.exhaustive) for x in ("SSB", "HHS"))])
@pytest.mark.exhaustive
def test_slides_among_other_joints_follow_and_leave_no_constraint(order):
    follower = f"S{order.index('S')}"
    text = f"""<mujoco><compiler angle="radian"/><worldbody><body name="base"><joint name="first" axis="0 1 0.2"/>
      <geom type="box" size=".1 .2 .1" pos=".1 0 0"/>{body_and_motors(order, aligned=False)[0]}</body></worldbody>
      <equality><joint joint1="{follower}" joint2="first" polycoef="0 0.7 0 0 0"/></equality></mujoco>"""
    model = smooth(mujoco.MjModel.from_xml_string(text))
    data, row = at_random(model, 2), np.zeros((1, model.nv))
    place = model.joint(follower)
    # MuJoCo counts from the reference positions.
    data.qpos[place.qposadr] = model.qpos0[place.qposadr] + 0.7 * data.qpos[0]
    data.qvel[place.dofadr] = 0.7 * data.qvel[0]
    mujoco.mj_forward(model, data)
    row[0, place.dofadr], row[0, 0] = 1.0, -0.7
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass)
    matrix = np.block([[mass, row.T], [row, np.zeros((1, 1))]])
    data.qacc[:] = np.linalg.solve(matrix, np.append(data.qfrc_smooth, 0.0))[: model.nv]
    machine = load_at(text, model, data)
    problem = machine.problem("minimal")
    assert (problem.system.n, problem.system.m) == (model.nv - 1, 0)
    assert largest_difference(problem, model, data) < 1e-12


@pytest.mark.exhaustive
def test_both_coordinates_of_a_stack_move_alike():
    text = stack("BS", aligned=False)
    machine = ph.load_model(text, velocities={"B0": [0.5, -1.0, 0.7]})
    runs = [ph.simulate(machine.problem(formulation, h=5e-4, t1=0.5)) for formulation in ("minimal", "SO3xR3")]
    first, second = (run.outputs["joint_positions"] for run in runs)
    np.testing.assert_allclose(first, second, atol=1e-5)
    assert np.max(np.abs(np.diff(first, axis=0))) > 1e-4


@pytest.mark.exhaustive
def test_runs_of_stacked_joints_are_read_back(tmp_path):
    stack = """
      <mujoco><worldbody><body name="base"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/>
        <body name="tool" pos="0 0 .3">
          <joint name="a" axis="1 0 0"/><joint name="b" axis="0 1 0"/><joint name="c" type="slide" axis="0 0 1"/>
          <geom type="box" size=".05 .05 .1" pos=".1 0 0" mass=".3"/>
        </body></body></worldbody></mujoco>"""
    problem = ph.load_model(stack).problem(t1=0.01, h=1e-3, save_loads=True)
    run = ph.simulate(problem, store=tmp_path / "run.zarr")
    stored = ph.load(tmp_path / "run.zarr")
    # They carry the tool together, so each of them shows the load of all.
    for name in "abc":
        np.testing.assert_array_equal(stored.joints[name].moment, run.joints["a"].moment)
