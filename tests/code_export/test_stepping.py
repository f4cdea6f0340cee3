"""Runs whose loop is the user's: the steps of `simulate`, with inputs between them."""

import jax
import numpy as np
import pytest

import polhode as ph

H, STEPS = 2.0**-7, 16


def arm():
    """A pendulum with a torque from outside."""
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    body = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0), name="arm")
    hinge = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.Actuator(hinge, ph.Parameter("torque", 0.0)))
    return model.problem("minimal", t1=STEPS * H, h=H)


@pytest.fixture(scope="module")
def problem():
    return arm()


@pytest.fixture(scope="module")
def loop(problem):
    return ph.stepping(problem, inputs="torque")


def same(state, run):
    pairs = zip(jax.tree.leaves(state), jax.tree.leaves(run.state), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b)[-1].tobytes() for a, b in pairs)


def test_steps_are_those_of_a_run(problem, loop):
    run, states = ph.simulate(problem), [*loop.reset()]
    assert len(states) == STEPS
    assert same(loop.state, run)
    assert loop.t == STEPS * H
    np.testing.assert_array_equal(loop.outputs["joint_positions"], run.outputs["joint_positions"][-1])
    assert loop.outputs["kinetic_energy"] == run.outputs["kinetic_energy"][-1]


def test_inputs_act_from_the_step_on_for_which_they_are_given(problem, loop):
    halves = STEPS // 2
    loop.reset().step(halves)
    other = loop.copy()
    loop.step(halves, torque=3.0)
    first = ph.simulate(problem, t1=halves * H)
    state = jax.tree.map(lambda x: x[-1], first.state)
    second = ph.simulate(problem.replace(torque=3.0), t0=halves * H, state0=state)
    for a, b in zip(jax.tree.leaves(loop.state), jax.tree.leaves(second.state), strict=True):
        np.testing.assert_allclose(a, b[-1], rtol=1e-14)
    # Without the input it is another motion, and the copy did not take part in it.
    other.step(halves)
    assert abs(other.outputs["joint_positions"][0] - loop.outputs["joint_positions"][0]) > 1e-3
    assert other.inputs["torque"] == 0.0
    assert same(other.state, ph.simulate(problem))


def test_what_has_no_meaning_is_named(problem, loop):
    with pytest.raises(KeyError, match="`torque`"):
        loop.step(torqe=1.0)
    with pytest.raises(ValueError, match=r"has shape \(\)"):
        loop.step(torque=[1.0, 2.0])
    with pytest.raises(TypeError):
        loop.inputs["torque"] = 1.0
    with pytest.raises(ValueError, match="steps"):
        loop.step(0)
    with pytest.raises(KeyError, match="`torque`"):
        ph.stepping(problem, inputs="torqe")
    with pytest.raises(AttributeError, match=r"polhode\.stepping"):
        problem.step(0.1)
