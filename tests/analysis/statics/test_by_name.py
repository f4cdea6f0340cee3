"""Forces of supports, joints and springs at rest, by name, against statics by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.multibody.system import MultibodySystem

G, LOAD = 10.0, 8.0


def structure(formulation: str, load=None, **options):
    """A bar on a pin and a roller, a bob on a spring and a rail, a bracket built in, and on it a lever on a spring."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    bar = model.add_body(mass=3.0, inertia=(0.01, 1, 1), position=(1.0, 0, 0), name="bar")
    model.add(ph.joints.Revolute(model.ground, bar, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
    model.add(ph.joints.PointOnLine(model.ground, bar, point=(2.0, 0, 0), axis=(1, 0, 0), name="roller"))
    model.add(ph.forces.PointForce(bar, load or (0, 0, -LOAD), point=(1.5, 0, 0), name="load"))
    bob = model.add_body(mass=0.5, inertia=(0.01, 0.01, 0.01), position=(4, 0, 1), name="bob")
    model.add(ph.joints.Prismatic(model.ground, bob, axis=(0, 0, 1), name="rail"))
    model.add(ph.forces.SpringDamper(model.ground, bob, (4, 0, 2), (4, 0, 1), 40.0, length=0.9, name="spring"))
    bracket = model.add_body(mass=2.0, inertia=(0.1, 0.1, 0.1), position=(6.5, 0, 0), name="bracket")
    model.add(ph.joints.Fixed(model.ground, bracket, point=(6, 0, 0), name="wall"))
    lever = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(8, 0, 0.4), name="lever")
    hub = model.add(ph.joints.Revolute(bracket, lever, point=(8, 0, 0.4), axis=(0, 1, 0), name="hub"))
    model.add(ph.forces.JointSpring(hub, 6.0, rest=0.25, name="coil"))
    model.add(ph.forces.Torque(lever, (0, 1.5, 0), name="twist"))
    return model.problem(formulation, t1=1.0, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", pytest.param("SE3", marks=pytest.mark.exhaustive)])
def test_reactions_are_those_of_statics(formulation):
    rest = ph.equilibrium(structure(formulation, redundant="minimum-norm"))
    joint = rest.joints
    # Moments about the pin: 30 N at 1 m and 8 N at 1.5 m, against the roller at 2 m.
    roller = (3 * G * 1.0 + LOAD * 1.5) / 2
    np.testing.assert_allclose(joint["roller"].force, (0, 0, roller), atol=1e-9)
    np.testing.assert_allclose(joint["pin"].force, (0, 0, 3 * G + LOAD - roller), atol=1e-9)
    np.testing.assert_allclose(joint["pin"].moment, 0, atol=1e-9)
    np.testing.assert_allclose(joint["wall"].force, (0, 0, 3 * G), atol=1e-9)
    # About y: 2 kg at 0.5 m and 1 kg at 2 m pull down, and the twist of the lever goes through.
    np.testing.assert_allclose(joint["wall"].moment, (0, -(2 * G * 0.5 + 1 * G * 2.0) - 1.5, 0), atol=1e-9)
    np.testing.assert_allclose(joint["rail"].force, 0, atol=1e-9)
    np.testing.assert_allclose(joint["hub"].torque, -1.5, atol=1e-9)
    np.testing.assert_allclose(joint["hub"].angle, 0.25 + 1.5 / 6.0, atol=1e-9)
    np.testing.assert_allclose(joint["hub"].force, (0, 0, G), atol=1e-9)
    spring = rest.forces["spring"]
    np.testing.assert_allclose(spring.elongation, 0.5 * G / 40.0, atol=1e-12)
    np.testing.assert_allclose(spring.force, (0, 0, 0.5 * G), atol=1e-9)
    np.testing.assert_allclose(rest.forces["coil"].deflection, 1.5 / 6.0, atol=1e-12)
    np.testing.assert_allclose(rest.bodies["bob"].z, 2 - 0.9 - 0.5 * G / 40.0, atol=1e-12)
    np.testing.assert_allclose(rest.bodies["lever"].orientation[2], np.sin(0.25), atol=1e-9)
    np.testing.assert_allclose(joint["hub"].point, (8, 0, 0.4), atol=1e-12)
    for text in (repr(rest), rest._repr_html_()):
        assert "pin, roller, rail, wall, hub" in text
        assert "stable" in text
    assert {"joints", "forces", "bodies"} <= set(dir(rest))


@pytest.mark.exhaustive
def test_reactions_at_each_of_some_times_and_none_of_held_loads():
    problem = structure("minimal", load=lambda t: jnp.stack([0 * t, 0 * t, -LOAD * t]), redundant="minimum-norm")
    rest = ph.equilibrium(problem, times=[0.0, 1.0, 2.0])
    result = [rest.at(k).joints["roller"].force[2] for k in range(3)]
    np.testing.assert_allclose(result, [15.0, 21.0, 27.0], atol=1e-9)
    assert rest.joints["roller"].force[2] == result[-1]
    with pytest.raises(IndexError, match="3 load steps, so there is no step 3"):
        rest.at(3)
    held = ph.equilibrium(problem, t=1.0, steps=2)
    np.testing.assert_allclose(held.joints["roller"].force[2], 21.0, atol=1e-9)
    # Half of the imbalance is held: the spring is half as long as at rest, and no joint carries what isn't there yet.
    assert 0 < held.at(0).forces["spring"].elongation < 0.5 * G / 40.0 + 0.1
    with pytest.raises(KeyError, match="50 % of them are"):
        _ = held.at(0).joints["roller"].force


@pytest.mark.exhaustive
def test_what_has_no_names_says_so():
    problem = structure("minimal", redundant="minimum-norm")
    with pytest.raises(KeyError, match="Did you mean `roller`"):
        _ = ph.equilibrium(problem).joints["rollr"]
    assert isinstance(problem.system, MultibodySystem)
    bare = ph.equilibrium(problem.system, problem.state0)
    with pytest.raises(KeyError, match="the problem is not one of a model"):
        _ = bare.joints["pin"]

    with pytest.raises(KeyError, match="save_loads=True"):
        jax.jit(lambda t: ph.equilibrium(problem, t=t).joints["pin"].force)(1.0)


@pytest.mark.exhaustive
def test_elongations_and_reactions_are_differentiated():
    """Of a bob on a spring: m g / k, and - m g / k² along k."""
    model = ph.Model(gravity=(0, 0, -G))
    bob = model.add_body(mass=0.5, inertia=(0.01, 0.01, 0.01), position=(0, 0, -1), name="bob")
    model.add(ph.joints.Prismatic(model.ground, bob, axis=(0, 0, 1), name="rail"))
    stiffness = ph.Parameter("stiffness", 40.0)
    model.add(ph.forces.SpringDamper(model.ground, bob, (0, 0, 0), (0, 0, -1), stiffness, length=0.9, name="spring"))
    problem = model.problem("minimal", t1=1.0, save_loads=True)

    def elongation(k):
        return ph.equilibrium(problem.replace(stiffness=k)).forces["spring"].elongation

    value, slope = jax.value_and_grad(elongation)(40.0)
    np.testing.assert_allclose((value, slope), (0.5 * G / 40, -0.5 * G / 40**2), rtol=1e-9)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("formulation", "save_loads"),
    [
        ("minimal", False),
        pytest.param("SO3xR3", True, marks=pytest.mark.exhaustive),
        pytest.param("minimal", True, marks=pytest.mark.exhaustive),
        pytest.param("euler-angles", False, marks=pytest.mark.exhaustive),
    ],
)
def test_drives_that_accelerate_carry_the_weight_alone(formulation, save_loads):
    """Nothing moves at an equilibrium, so joints don't feel by how much a drive speeds up at that time."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    arm = model.add_body(mass=2.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0), name="arm")
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    turn = lambda t: 9.0 * t**2  # noqa: E731
    model.add(ph.joints.PrescribedRotation(model.ground, arm, axis=(0, 1, 0), angle=turn, name="drive"))
    problem = model.problem(formulation, t1=1.0, save_loads=save_loads)
    joint = ph.equilibrium(problem, times=np.linspace(0, 1, 9)).joints
    np.testing.assert_allclose(joint["hinge"].angle, 9.0, rtol=1e-12)
    np.testing.assert_allclose(joint["drive"].torque, -2 * G * 0.5 * np.cos(9.0), atol=1e-8)
    np.testing.assert_allclose(joint["hinge"].force, (0, 0, 2 * G), atol=1e-8)
