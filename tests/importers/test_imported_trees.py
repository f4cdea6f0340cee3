"""Trees: MuJoCo is exact there, so that accelerations agree to round-off and motions to the errors of integration."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from against_mujoco import EXAMPLES, at_random, largest_difference, load_at, read, smooth

import polhode as ph
from polhode.linalg import TreeKKT

STACKS = """<mujoco model="stacks"><compiler angle="radian"/><option gravity="0.3 0.2 -9.81"/>
<default><geom type="box" size="0.1 0.2 0.3" contype="0" conaffinity="0"/></default>
<worldbody>
  <body name="cart"><joint name="cx" type="slide" axis="1 0 0" damping="0.3" stiffness="4" springref="0.2"/>
    <joint name="cz" type="slide" axis="0 0.3 1" stiffness="2"/>
    <joint name="cr" axis="0 1 0.2" stiffness="1" armature="0.02"/><geom/>
    <body name="three" pos="0 0 -0.6" euler="0.2 0.1 0"><joint name="t1" axis="1 0 0" damping="0.2" stiffness="5"/>
      <joint name="t2" axis="0 1 0" damping="0.1" stiffness="2" springref="0.1" armature="0.03"/>
      <joint name="t3" axis="0 0 1" stiffness="1" damping="0.3"/><geom pos="0 0.1 -0.3"/>
      <body pos="0 0 -0.4" euler="0.3 0 0"><geom size="0.05 0.02 0.1"/></body></body>
    <body name="two" pos="-0.5 0 0"><joint name="h" axis="0 1 0"/>
      <joint name="s" type="slide" axis="1 0 0" stiffness="30" springref="0.1"/><geom pos="-0.2 0.1 0"/></body>
  </body>
  <body name="cross" pos="2 0 0"><joint name="u1" axis="1 0 0" damping="0.1"/><joint name="u2" axis="0 1 0"/>
    <geom pos="0.1 0 -0.3"/></body>
</worldbody>
<actuator><position joint="u1" kp="10" kv="1" gear="2"/><motor joint="u2"/><velocity joint="h" kv="2"/></actuator>
</mujoco>"""

FREE_AND_BALL = """<mujoco model="free and ball"><option gravity="0.5 0 -9.81"/>
<default><geom type="box" size="0.1 0.2 0.3" contype="0" conaffinity="0"/></default>
<worldbody><body name="base" pos="1 0 2"><freejoint name="float"/><geom pos="0.1 0 0"/>
  <body name="arm" pos="0.3 0.1 -0.4" euler="20 0 10"><joint name="ball" type="ball" pos="0 0 0.2" damping="0.7"/>
    <geom pos="0 0.05 -0.3"/>
    <body name="hand" pos="0 0 -0.6"><joint name="wrist" axis="0 1 1" damping="0.2"/><geom size="0.1 0.1 0.2"/>
    </body></body></body></worldbody></mujoco>"""

INERTIA = (
    '<inertial><origin xyz="{}"/><mass value="2"/><inertia ixx="0.3" iyy="0.2" izz="0.4" ixy="0.01" ixz="0.02" '
    'iyz="0"/></inertial>'
)
PLANAR = f"""<robot name="puck"><link name="table"/><link name="puck">{INERTIA.format("0.1 0 0.05")}</link>
<link name="lid">{INERTIA.format("0 0.2 0")}</link>
<joint name="glide" type="planar"><parent link="table"/><child link="puck"/><axis xyz="0 0.6 0.8"/></joint>
<joint name="hinge" type="continuous"><parent link="puck"/><child link="lid"/><origin xyz="0.2 0 0.1"/>
<axis xyz="0 1 0"/></joint></robot>"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("formulation", ["minimal", pytest.param("SE3", marks=pytest.mark.exhaustive)])
def test_accelerations_of_an_arm_are_those_of_mujoco(formulation):
    path = EXAMPLES / "arm.urdf"
    model = read(path)
    for seed in range(3):
        data = at_random(model, seed)
        assert largest_difference(load_at(path, model, data).problem(formulation), model, data) < 1e-10


@pytest.mark.exhaustive
def test_several_joints_in_a_body_springs_servos_and_armature_are_those_of_mujoco(tmp_path):
    path = tmp_path / "stacks.xml"
    path.write_text(STACKS)
    model = read(path)
    data = at_random(model, 3)
    problem = load_at(path, model, data).problem("SE3")
    assert largest_difference(problem, model, data) < 1e-10
    joints = problem.outputs["joint_positions"], problem.outputs["joint_velocities"]
    np.testing.assert_allclose(joints[0](0.0, problem.state0), data.qpos, atol=1e-13)
    np.testing.assert_allclose(joints[1](0.0, problem.state0), data.qvel, atol=1e-13)


HIPS = """<mujoco model="hips"><compiler angle="radian"/><option gravity="0.3 0.2 -9.81"/>
<default><joint armature="0.02" damping="0.3" stiffness="2"/><geom type="box" size="0.1 0.2 0.3"/></default><worldbody>
<body name="torso"><freejoint name="float"/><geom/>
  <body name="waist" pos="0 0 -0.6"><joint name="w1" axis="0 0 1"/><joint name="w2" axis="0 1 0" pos="0 0 0"/><geom/>
    <body name="thigh" pos="0.1 0.3 -0.4" euler="0.2 0.1 0"><joint name="h1" axis="1 0 0" range="-0.2 0.1"/>
      <joint name="h2" axis="0 0 -1" springref="0.2"/><joint name="h3" axis="0 1 0"/><geom pos="0 0.1 -0.3"/>
      <body name="shin" pos="0 0 -0.7"><joint name="knee" axis="0 -1 0"/><geom/></body></body></body></body></worldbody>
<actuator><position joint="w2" kp="10" kv="1" gear="2"/><motor joint="h2"/><velocity joint="h3" kv="2"/></actuator>
</mujoco>"""


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize("formulation", ["minimal", pytest.param("S3xR3", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_armatures_of_two_and_three_hinges_in_a_body_leave_no_constraints(tmp_path, formulation, seed):
    path = tmp_path / "hips.xml"
    path.write_text(HIPS)
    model = read(path)
    data = at_random(model, seed)
    machine = load_at(path, model, data)
    problem = machine.problem(formulation)
    assert (problem.system.m == 0) == (formulation == "minimal")
    assert largest_difference(problem, model, data) < 1e-10
    joints = problem.outputs["joint_positions"], problem.outputs["joint_velocities"]
    np.testing.assert_allclose(joints[0](0.0, problem.state0), data.qpos[7:], atol=1e-12)
    np.testing.assert_allclose(joints[1](0.0, problem.state0), data.qvel[6:], atol=1e-12)


@pytest.mark.parametrize("formulation", [pytest.param("minimal", marks=pytest.mark.exhaustive), "SO3xR3"])
def test_free_and_ball_joints_with_dampers_are_those_of_mujoco(tmp_path, formulation):
    path = tmp_path / "free.xml"
    path.write_text(FREE_AND_BALL)
    model = read(path)
    data = at_random(model, 5)
    assert largest_difference(load_at(path, model, data).problem(formulation), model, data) < 1e-10


def test_planar_joints_of_urdf_are_those_of_mujoco(tmp_path):
    path = tmp_path / "puck.urdf"
    path.write_text(PLANAR)
    model = read(path)
    assert model.nv == 4
    data = at_random(model, 2)
    assert largest_difference(load_at(path, model, data).problem("SO3xR3"), model, data) < 1e-10


def test_a_floating_base_is_that_of_mujoco(tmp_path):
    path = tmp_path / "puck.urdf"
    path.write_text(PLANAR.replace('<link name="table"/>', f'<link name="table">{INERTIA.format("0 0 0.1")}</link>'))
    spec = mujoco.MjSpec.from_file(str(path))
    spec.compiler.fusestatic = False
    spec.worldbody.first_body().add_freejoint(name="floating base")
    model = smooth(spec.compile())
    assert model.nv == 10
    data = at_random(model, 4)
    assert largest_difference(load_at(path, model, data, floating=True).problem("SO3xR3"), model, data) < 1e-10


def test_a_keyframe_sets_positions_velocities_and_controls(tmp_path):
    path = tmp_path / "keyed.xml"
    path.write_text(
        """<mujoco><worldbody><body name="bob"><joint name="pivot" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -1" size="0.02"/></body></worldbody>
        <actuator><position name="servo" joint="pivot" kp="3"/></actuator>
        <keyframe><key name="up" qpos="2" qvel="0.5" ctrl="1.5"/></keyframe></mujoco>"""
    )
    model = read(path)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    for key in ("up", 0):
        imported = ph.load_model(path, keyframe=key)
        assert largest_difference(imported.problem(), model, data) < 1e-12
    with pytest.raises(ValueError, match="no keyframe `down`"):
        ph.load_model(path, keyframe="down")


def motion(path, joints, t1, steps):
    """Joint positions at the end, by MuJoCo's Runge–Kutta method."""
    model = read(path)
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, t1 / steps
    data = mujoco.MjData(model)
    for name, (position, velocity) in joints.items():
        data.joint(name).qpos, data.joint(name).qvel = position, velocity
    for _ in range(steps):
        mujoco.mj_step(model, data)
    return data.qpos.copy()


@pytest.mark.exhaustive
def test_an_arm_moves_as_in_mujoco_to_the_errors_of_integration():
    path, t1 = EXAMPLES / "arm.urdf", 0.4
    joints = {"turn": (0.2, 3.0), "shoulder": (0.3, 1.0), "elbow": (-0.4, 2.0), "hand": (0.1, 4.0)}
    reference = motion(path, joints, t1, 6400)
    own = np.max(np.abs(motion(path, joints, t1, 3200) - reference))
    problem = ph.load_model(
        path,
        positions={name: start[0] for name, start in joints.items()},
        velocities={name: start[1] for name, start in joints.items()},
    ).problem(t1=t1)
    runs = [ph.simulate(problem, h=t1 / steps, save_every=None) for steps in (100, 200, 400, 3200)]
    differences = [np.max(np.abs(run.outputs["joint_positions"][-1] - reference)) for run in runs]
    # Ours, of fourth order, are all of the difference until MuJoCo's are reached.
    assert np.log2(differences[0] / differences[1]) == pytest.approx(4.0, abs=0.1)
    assert np.log2(differences[1] / differences[2]) == pytest.approx(4.0, abs=0.1)
    assert differences[2] > 1e3 * own
    assert differences[3] < 1e-11


def test_fixed_joints_are_lumped_and_losses_are_named():
    arm = ph.load_model(EXAMPLES / "arm.urdf")
    assert arm.links["tool"] is arm.links["flange"]
    assert arm.links["base"] is arm.model.ground
    assert float(arm.links["tool"].mass) == 0.3 + 0.5
    assert arm.not_carried == []


@pytest.mark.exhaustive
def test_systems_of_livens_have_the_outputs_of_others():
    text = """<mujoco><compiler angle="radian"/><worldbody><body name="a"><joint name="i" axis="0 1 0" stiffness="3"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.03"/></body></worldbody></mujoco>"""
    pendulum = ph.load_model(text, positions={"i": 0.4}, velocities={"i": 1.0})
    runs = [
        ph.simulate(pendulum.problem(formulation, t1=0.2), method, h=1e-3)
        for formulation, method in (("livens", "eml"), ("minimal", "rkmk4"))
    ]
    assert runs[0].outputs.keys() == runs[1].outputs.keys()
    for name in runs[0].outputs:
        np.testing.assert_allclose(runs[0].outputs[name], runs[1].outputs[name], atol=1e-4, err_msg=name)


def test_spans_may_go_back_in_time_and_not_be_empty():
    pendulum = ph.load_model(EXAMPLES / "arm.urdf")
    assert pendulum.problem(t1=-0.001).h == 0.001
    with pytest.raises(ValueError, match="`t1` must differ from t0"):
        pendulum.problem(t1=0.0)


@pytest.mark.exhaustive
def test_trees_with_armature_are_eliminated_body_by_body_in_absolute_coordinates():
    inside = ""
    for k in range(9):
        inside = (
            f'<body name="b{k}" pos="0.3 0 0"><joint name="j{k}" axis="0 {k % 2} {1 - k % 2}" armature="0.02"/>'
            f'<geom type="box" size="0.15 0.03 0.04" pos="0.15 0 0"/>{inside}</body>'
        )
    file = f"<mujoco><worldbody>{inside}</worldbody></mujoco>"
    model = ph.load_model(file, positions={f"j{k}": 0.1 * k for k in range(9)}, velocities={"j3": 1.0})
    absolute, joints = (model.problem(formulation, t1=0.05) for formulation in ("SO3xR3", "minimal"))
    solver = absolute.system.kkt
    assert isinstance(getattr(solver, "inner", solver), TreeKKT)
    runs = [ph.simulate(problem, "generalized-alpha", h=1e-3, save_every=10) for problem in (absolute, joints)]
    places = [np.stack([run.bodies[f"b{k}"].position for k in range(9)]) for run in runs]
    np.testing.assert_allclose(*places, atol=1e-6)
    assert np.abs(places[0][:, -1] - places[0][:, 0]).max() > 1e-3
