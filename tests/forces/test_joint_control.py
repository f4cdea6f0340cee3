"""Control of several joints at once: against the matrix exponential, and for actuators of files beside MuJoCo."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import scipy.linalg

import polhode as ph

INERTIAS = np.array([2.0, 3.0])
K = np.array([[30.0, -12.0], [5.0, 40.0]])
D = np.array([[2.0, 0.3], [-0.4, 3.0]])


def discs(control):
    model, axles = ph.Model(), []
    for number, J in enumerate(INERTIAS):
        disc = model.add_body(mass=1.0, inertia=(2, 2, J), position=(number, 0, 0), angular_velocity=(0, 0, 1 - number))
        axles.append(model.add(ph.joints.Revolute(model.ground, disc, point=(number, 0, 0), axis=(0, 0, 1))))
    model.add(ph.forces.JointControl(axles, control))
    return model, axles


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("formulation", "method"), [("minimal", "rkmk4"), ("SO3xR3", "herk4"), ("minimal", "generalized-alpha")]
)
def test_state_feedback_is_the_matrix_exponential(formulation, method):
    model, axles = discs(lambda t, s, rates: -K @ s - D @ rates)
    system, state = model.assemble(formulation)
    run = ph.simulate(system, method, h=1e-3, t1=1.0, state0=state)
    result = np.stack([axle.value(system, run.t, run.state) for axle in axles], axis=1)
    inverse = np.diag(1 / INERTIAS)
    matrix = np.block([[np.zeros((2, 2)), np.eye(2)], [-inverse @ K, -inverse @ D]])
    exact = [(scipy.linalg.expm(t * matrix) @ [0, 0, 1.0, 0])[:2] for t in run.t[::100]]
    np.testing.assert_allclose(result[::100], exact, atol=1e-5 if method == "generalized-alpha" else 1e-10)


def test_combinations_are_read_and_driven():
    """Along the sum and the difference of two angles it is the same law in other coordinates."""
    turn = np.array([[1.0, 1.0], [1.0, -1.0]])
    runs = []
    for combined in (False, True):
        model, axles = ph.Model(), []
        for number, J in enumerate(INERTIAS):
            disc = model.add_body(mass=1.0, inertia=(2, 2, J), position=(number, 0, 0), angular_velocity=(0, 0, 1))
            axles.append(model.add(ph.joints.Revolute(model.ground, disc, point=(number, 0, 0), axis=(0, 0, 1))))
        sums = [ph.joints.Combination(axles, row) for row in turn] if combined else axles
        law = K if combined else turn.T @ K @ turn
        model.add(ph.forces.JointControl(sums, lambda t, s, rates, law=law: -law @ s))
        system, state = model.assemble("minimal")
        runs.append(ph.simulate(system, "rkmk4", h=1e-2, t1=1.0, state0=state).state)
    np.testing.assert_allclose(runs[0][1], runs[1][1], atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("formulation", "method"), [("minimal", "rkmk4"), ("SO3xR3", "herk4")])
def test_pid_takes_combinations(formulation, method):
    """Along one angle, scaled, it is the PID of that angle with gains scaled by the square."""
    result = []
    for scaled in (False, True):
        model = ph.Model()
        disc = model.add_body(mass=1.0, inertia=(1, 1, 1), angular_velocity=(0, 0, 1))
        axle = model.add(ph.joints.Revolute(model.ground, disc, point=(0, 0, 0), axis=(0, 0, 1)))
        along, factor = (ph.joints.Combination([axle], [2.0]), 1.0) if scaled else (axle, 4.0)
        model.add(ph.forces.PID(along, 9.0 * factor, 5.0 * factor, 0.7 * factor))
        system, state = model.assemble(formulation)
        run = ph.simulate(system, method, h=1e-2, t1=1.0, state0=state)
        result.append(axle.value(system, run.t, run.state))
    np.testing.assert_allclose(result[1], result[0], atol=1e-12)
    assert np.ptp(result[0]) > 0.1


def test_wrong_input_is_explained():
    for control, message in ((3.0, "function of"), (lambda t, s, rates: s[0], "one force for each joint")):
        with pytest.raises(ValueError, match=message):
            discs(control)
    model = ph.Model()
    with pytest.raises(ValueError, match="such as `Revolute`"):
        ph.forces.JointControl([model.ground], lambda t, s, rates: s)


ARM = """<mujoco><compiler angle="radian"/><default><geom type="box" size="0.05 0.1 0.3" contype="0" conaffinity="0"/>
</default><worldbody><body name="one"><joint name="first" axis="0 1 0"/><geom pos="0 0 -0.4"/>
<body name="two" pos="0 0 -0.8"><joint name="second" axis="0 1 0.3" ref="0.2"/><geom pos="0 0.05 -0.3"/></body></body>
</worldbody><tendon>
<fixed name="both"><joint joint="first" coef="0.5"/><joint joint="second" coef="2"/></fixed></tendon>
<actuator><motor name="hip" joint="first" gear="3" ctrlrange="-2 2"/><position name="pull" tendon="both" kp="7"/>
</actuator></mujoco>"""


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_controls_of_files_see_all_joints(formulation):
    def hip(t, positions, rates):
        return 3 * jnp.sin(positions["second"]) - rates["first"]

    def pull(t, positions, rates):
        return positions["first"] * rates["second"]

    m = mujoco.MjModel.from_xml_string(ARM)
    for first in (0.4, 2.5):
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:] = (0.3, -0.8), (first, 0.5)
        data.ctrl[:] = 3 * np.sin(-0.8) - first, 0.3 * 0.5
        mujoco.mj_forward(m, data)
        names = ("first", "second")
        imported = ph.load_model(
            ARM,
            positions=dict(zip(names, data.qpos, strict=True)),
            velocities=dict(zip(names, data.qvel, strict=True)),
            controls={"hip": hip, "pull": pull},
        )
        assert not imported.not_carried
        problem = imported.problem(formulation, t1=0.1)
        system, (q, v) = problem.system, problem.state0
        rates = system.accelerations(jnp.zeros(()), q, v)[0]
        if formulation == "minimal":
            np.testing.assert_allclose(rates, data.qacc, rtol=1e-11)
        else:
            h = 1e-6
            run = ph.simulate(problem, "herk4", h=h, t1=h)
            slope = np.diff(run.outputs["joint_velocities"], axis=0)[0] / h
            np.testing.assert_allclose(slope, data.qacc, rtol=1e-4)
