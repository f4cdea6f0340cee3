"""Equilibria of bodies that touch: stacks, a ladder up to slipping, boxes that fall to rest, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import polhode as ph

G = 9.81
RADIUS, LENGTH, ANGLE = 0.02, 2.0, np.pi / 3


def on_floor(**law: Any) -> Any:
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.contacts(**law)
    return model


@pytest.mark.exhaustive
def test_a_stack_rests_where_it_is_with_the_weights_above() -> None:
    model = on_floor(friction=0.5)
    for number, mass in enumerate((5.0, 3.0, 1.0)):
        shape = ph.shapes.Box((0.2, 0.2, 0.1))
        model.add_body(shape=shape, mass=mass, position=(0, 0, 0.05 + 0.1 * number), name=f"box {number}")
    rest = ph.equilibrium(model.problem(t1=1.0, h=1e-3))
    assert rest.converged
    assert rest.iterations[0] == 0
    for pair, weight in ((("ground", "box 0"), 9), (("box 0", "box 1"), 4), (("box 1", "box 2"), 1)):
        np.testing.assert_allclose(rest.contacts[pair].force, (0, 0, weight * G), atol=1e-9)
    assert rest.contacts["box 1", "box 2"].mode == "stick"


def ladder(friction: float) -> Any:
    """A capsule between floor and wall."""
    model = on_floor(friction=friction)
    model.ground.add_shape(ph.shapes.Plane(rotation=ph.rotation_vector((0, np.pi / 2, 0)), name="wall"))
    centre = (RADIUS + 0.5 * LENGTH * np.cos(ANGLE), 0, RADIUS + 0.5 * LENGTH * np.sin(ANGLE))
    model.add_body(
        shape=ph.shapes.Capsule(radius=RADIUS, length=LENGTH), mass=10.0, position=centre,
        rotation=ph.rotation_vector((0, ANGLE - np.pi / 2, 0)), name="ladder",
    )  # fmt: skip
    return model.problem(t1=1.0, h=2e-3)


@pytest.mark.exhaustive
def test_a_ladder_rests_up_to_the_friction_at_which_it_slips() -> None:
    def excess(mu: float) -> float:
        """Of the moments about the foot when both ends slip, with the wall pressing with μ/(1 + μ²) of the weight."""
        arms = RADIUS + LENGTH * np.sin(ANGLE) + mu * (RADIUS + LENGTH * np.cos(ANGLE))
        return mu / (1 + mu**2) * arms - 0.5 * LENGTH * np.cos(ANGLE)

    limit = brentq(excess, 0.1, 0.5, xtol=1e-14)
    held = ph.equilibrium(ladder(limit * (1 + 1e-4)))
    assert held.iterations[0] == 0
    total = held.contacts["floor"].force + held.contacts["wall"].force
    np.testing.assert_allclose(total, (0, 0, -10 * G), atol=1e-5)
    slips = ph.equilibrium(ladder(limit * (1 - 1e-4)))
    assert slips.iterations[0] > 0
    assert slips.bodies["ladder"].position[2] < held.bodies["ladder"].position[2] - 0.1


@pytest.mark.exhaustive
def test_a_tilted_box_falls_to_rest_on_a_face() -> None:
    model = on_floor(friction=0.5)
    model.add_body(
        shape=ph.shapes.Box((0.2, 0.2, 0.1)), mass=2.0, position=(0, 0, 0.15),
        rotation=ph.rotation_vector((0.1, 0.2, 0)), name="box",
    )  # fmt: skip
    rest = ph.equilibrium(model.problem(t1=1.0, h=1e-3))
    np.testing.assert_allclose(rest.bodies["box"].position[2], 0.05, atol=1e-9)
    np.testing.assert_allclose(rest.contacts["box"].force, (0, 0, 2 * G), atol=1e-9)
    assert rest.iterations[0] > 0


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_an_arm_comes_to_rest_on_the_floor_and_its_joint_carries_the_rest(formulation: str) -> None:
    model = on_floor(friction=0)
    ball = ph.shapes.Sphere(0.1, position=(0.5, 0, 0))
    arm = model.add_body(shape=ball, mass=2.0, inertia=(0.1,) * 3, position=(0.5, 0, 0.5), name="arm")
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0.5), axis=(0, 1, 0), name="hinge"))
    rest = ph.equilibrium(model.problem(t1=1.0, h=1e-3, formulation=formulation))
    np.testing.assert_allclose(rest.bodies["arm"].position, (np.sqrt(0.21), 0, 0.3), atol=1e-9)
    np.testing.assert_allclose(rest.contacts["arm"].force, (0, 0, G), atol=1e-7)
    np.testing.assert_allclose(np.abs(rest.joints["hinge"].force), (0, 0, G), atol=1e-7)


def test_what_has_no_equilibrium_and_what_is_not_taken() -> None:
    model = on_floor(friction=0.5)
    model.add_body(shape=ph.shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.1), name="ball")
    problem = model.problem(t1=1.0, h=1e-3)
    for arguments in ({"steps": 3}, {"times": [0.0, 1.0]}):
        with pytest.raises(ValueError, match="leave `steps`"):
            ph.equilibrium(problem, **arguments)
    with pytest.raises(ValueError, match="give a `Problem`"):
        ph.equilibrium(problem.system, problem.state0)
    with pytest.raises(ValueError, match="modes know nothing"):
        ph.modes(problem)
