from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

import polhode as ph

EXAMPLES = Path(__file__).parents[2] / "examples"

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


def smooth(path):
    """MuJoCo's model of a file without what is not carried over."""
    model = mujoco.MjModel.from_xml_path(str(path))
    bits = mujoco.mjtDisableBit
    model.opt.disableflags |= int(bits.mjDSBL_FRICTIONLOSS) | int(bits.mjDSBL_LIMIT) | int(bits.mjDSBL_CONTACT)
    return model


def compare_accelerations(path, formulation):
    model = smooth(path)
    data = mujoco.MjData(model)
    random = np.random.default_rng(3)
    data.qpos[:] = random.uniform(-1, 1, model.nq)
    data.qvel[:] = random.uniform(-1, 1, model.nv)
    mujoco.mj_forward(model, data)
    names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(model.njnt)]
    imported = ph.load_model(
        path,
        positions=dict(zip(names, data.qpos, strict=True)),
        velocities=dict(zip(names, data.qvel, strict=True)),
    )
    assert list(imported.joints) == names
    problem = imported.problem(formulation)
    system, (q, v) = problem.system, problem.state0
    np.testing.assert_allclose(problem.outputs["joint_positions"](0.0, (q, v)), data.qpos, atol=1e-13)
    np.testing.assert_allclose(problem.outputs["joint_velocities"](0.0, (q, v)), data.qvel, atol=1e-13)
    a = system.accelerations(jnp.zeros(()), q, v)[0]

    def velocities(s):
        along = system.configuration.move(q, s * system.kinematics(q, v))
        return problem.outputs["joint_velocities"](s, (along, v + s * a))

    found = jax.jvp(velocities, (jnp.zeros(()),), (jnp.ones(()),))[1]
    np.testing.assert_allclose(found, data.qacc, rtol=0, atol=1e-10 * np.max(np.abs(data.qacc)))


def test_accelerations_of_an_arm_are_those_of_mujoco():
    compare_accelerations(EXAMPLES / "arm.urdf", "minimal")


def test_several_joints_in_a_body_springs_servos_and_armature_are_those_of_mujoco(tmp_path):
    (tmp_path / "stacks.xml").write_text(STACKS)
    compare_accelerations(tmp_path / "stacks.xml", "SE3")


def test_fixed_joints_are_lumped_and_losses_are_named():
    arm = ph.load_model(EXAMPLES / "arm.urdf")
    assert arm.links["tool"] is arm.links["flange"]
    assert arm.links["base"] is arm.model.ground
    assert float(arm.links["tool"].mass) == 0.3 + 0.5
    lost = {item.what: item for item in arm.not_carried}
    assert lost["joint limits"].names == ("shoulder", "elbow", "pitch", "grip")
    assert lost["visual and collision geometry"].names == ("tool",)
