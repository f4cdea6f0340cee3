"""Gradients of runs of robots by their torques: machine code, by the equations of motion instead of their factors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.linalg.blocks import to_dense
from polhode.simulation.loops import traced

AXES = (0, 0, 1), (0, 1, 0), (1, 0, 0)


def arm(controls, links=4, formulation="minimal", **how):
    """An arm with revolute joints about changing axes; `controls(model, joints)` adds its forces."""
    model = ph.Model(gravity=(0, 0, -9.81))
    below, joints = model.ground, []
    for k in range(links):
        inertia = np.diag([0.02, 0.03, 0.035]) + 0.004 * np.eye(3)[::-1]
        body = model.add_body(
            mass=1 + 0.1 * k, inertia=inertia, position=(0.3 * k + 0.15, 0.02 * k, 0.01), name=f"l{k}"
        )
        hinge = ph.joints.Revolute(below, body, point=(0.3 * k, 0, 0), axis=AXES[k % 3], name=f"j{k}")
        joints.append(model.add(hinge))
        below = body
    controls(model, joints)
    return model.problem(formulation, **how)


def captured(torques):
    return lambda model, joints: model.add(ph.forces.JointControl(joints, lambda t, angles, rates: torques - rates))


def tabulated(torques):
    table = ph.PiecewiseLinear(np.array([0.0, 1.0]), jnp.stack([torques, torques]))
    return lambda model, joints: model.add(ph.forces.JointControl(joints, lambda t, angles, rates: table(t) - rates))


TORQUES = np.array([0.5, -6.0, 0.2, 1.5])


def end(controls, method, **how):
    def value(torques):
        run = ph.simulate(arm(controls(torques), t1=0.1, h=0.01, **how), method, save_every=None)
        hand = run.bodies["l3"]
        return hand.position[-1] @ jnp.array([1.0, 2.0, 3.0]) + hand.angular_velocity[-1, 1]

    return value


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("controls", "method"),
    [
        (captured, "rkmk4"),
        pytest.param(tabulated, "rkmk4", marks=pytest.mark.exhaustive),
        pytest.param(captured, "generalized-alpha", marks=pytest.mark.exhaustive),
        pytest.param(captured, "bdf", marks=pytest.mark.exhaustive),
    ],
)
def test_gradients_by_captured_torques_are_those_of_differences(monkeypatch, controls, method):
    monkeypatch.setattr(traced, "_expression", lambda *_: pytest.fail("It is a program of XLA."))
    value = end(controls, method)
    reverse = np.asarray(jax.grad(value)(jnp.asarray(TORQUES)))
    direction = np.array([0.3, -0.5, 0.7, 0.4])
    along = jax.jvp(value, (jnp.asarray(TORQUES),), (jnp.asarray(direction),))[1]
    np.testing.assert_allclose(reverse @ direction, along, rtol=1e-11)
    step = 1e-4
    difference = (value(TORQUES + step * direction) - value(TORQUES - step * direction)) / (2 * step)
    np.testing.assert_allclose(along, difference, rtol=1e-7)


def momentum_cases():
    tree = arm(captured(TORQUES), t1=0.1, h=0.01)
    mixed = ph.Model(gravity=(0, 0, -9.81))
    base = mixed.add_body(mass=3.0, inertia=(0.2, 0.3, 0.4), position=(0.1, 0.2, 0.3), name="base")
    ball = mixed.add_body(mass=1.0, inertia=(0.02, 0.03, 0.04), position=(0.5, 0.2, 0.3), name="ball")
    slide = mixed.add_body(mass=0.5, inertia=(0.01, 0.01, 0.01), position=(0.9, 0.2, 0.3), name="slide")
    mixed.add(ph.joints.Spherical(base, ball, point=(0.3, 0.2, 0.3), name="s"))
    mixed.add(ph.joints.Prismatic(ball, slide, axis=(1, 2, 0), name="p"))
    return [tree, mixed.problem("minimal", t1=0.1, h=0.01)]


@pytest.mark.exhaustive
def test_momenta_by_recursion_are_products_with_the_mass_matrix():
    rng = np.random.default_rng(1)
    for problem in momentum_cases():
        system = problem.system
        q = system.configuration.move(problem.state0[0], jnp.asarray(rng.normal(size=system.n)))
        v, t = jnp.asarray(rng.normal(size=system.n)), jnp.zeros(())
        M = to_dense(system.mass(t, q), (system.n, system.n))
        np.testing.assert_allclose(system.momentum(t, q, v), M @ v, rtol=1e-12, atol=1e-13)


@pytest.mark.exhaustive
def test_derivatives_of_long_steps_inside_jit_are_warned_of():
    """They would take minutes; without jit around them they are machine code, without a word."""
    value = end(captured, "rkmk4")
    with pytest.warns(ph.CompileTimeWarning, match=r"some 1\d,\d{3} operations in a step.* without jit"):
        jax.jit(jax.grad(value)).trace(jnp.asarray(TORQUES))
    jax.grad(value)(jnp.asarray(TORQUES))
    jax.jit(value).trace(jnp.asarray(TORQUES))
