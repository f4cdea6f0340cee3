"""Inertia of a rotor along a joint coordinate."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph

slow = pytest.mark.exhaustive


def arm(inertia: Any = 0.4) -> tuple[ph.Model, Any, Any]:
    """A hinge and a slider on it, each with a rotor."""
    model = ph.Model(gravity=(0, 0, -9.81))
    one = model.add_body(
        mass=2.0, inertia=(0.3, 0.4, 0.5), position=(0.5, 0, 0), angular_velocity=(0, 1.0, 0), velocity=(0, 0, -0.5)
    )
    two = model.add_body(
        mass=1.0, inertia=(0.1, 0.2, 0.2), position=(1.0, 0, 0), angular_velocity=(0, 1.0, 0), velocity=(0.3, 0, -1.0)
    )
    hinge = model.add(ph.joints.Revolute(model.ground, one, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    slide = model.add(ph.joints.Prismatic(one, two, axis=(1, 0, 0), name="slide"))
    model.add(ph.joints.RotorInertia(hinge, inertia))
    model.add(ph.joints.RotorInertia(slide, 3.0, name="screw"))
    return model, hinge, slide


def exact(theta: float, x: float, inertia: float = 0.4) -> np.ndarray:
    """θ̈, ẍ at θ̇ = 1, ẋ = 0.3: M by hand, with the hinge at the origin and the slider at x."""
    M = np.diag([inertia + 0.4 + 2.0 * 0.25 + 0.2 + 1.0 * x**2, 1.0 + 3.0])
    g = 9.81
    force = [g * np.cos(theta) * (2.0 * 0.5 + 1.0 * x) - 2 * x * 0.3, x + g * np.sin(theta)]
    return np.linalg.solve(M, force)


def test_the_rotor_is_on_the_diagonal_of_joint_coordinates_and_a_coordinate_elsewhere() -> None:
    model, _, _ = arm()
    tree, (q, v) = model.assemble("minimal")
    assert (tree.n, tree.m) == (2, 0)
    np.testing.assert_allclose(v, [1.0, 0.3])
    result = evaluated(lambda q, v: tree.accelerations(0.0, q, v)[0], q, v)
    np.testing.assert_allclose(result, exact(0.0, 1.0), rtol=1e-12)
    absolute, (q, v) = model.assemble("SE3")
    twists = evaluated(lambda q, v: absolute.accelerations(0.0, q, v)[0], q, v)
    assert absolute.m == 12
    assert twists[1] == pytest.approx(exact(0.0, 1.0)[0], rel=1e-10)


def test_a_name_that_is_no_word_is_refused() -> None:
    model, hinge, _ = arm()
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(ValueError, match="`name` must be a word"):
        model.add(ph.joints.RotorInertia(hinge, 0.4, name=deep))


@pytest.mark.parametrize(
    ("formulation", "method"),
    [("minimal", "rkmk4"), pytest.param("SO3xR3", "herk4", marks=slow), pytest.param("livens", "eml", marks=slow)],
)
def test_energy_with_rotors_is_kept(formulation: str, method: str) -> None:
    model, hinge, _ = arm()
    run = ph.simulate(model.problem(formulation, t1=0.5, h=5e-3), method)
    energy = np.asarray(run.invariants["energy"])
    np.testing.assert_allclose(energy, energy[0], rtol=0, atol=1e-6)
    whole = ph.simulate(model.problem("minimal", t1=0.5, h=1e-3), "rkmk4").outputs["positions"][-1]
    np.testing.assert_allclose(run.outputs["positions"][-1], whole, atol=2e-3 if method == "eml" else 1e-7)
    assert hinge.carrier is hinge


def test_a_rotor_that_something_else_acts_on_stays_a_coordinate() -> None:
    model, _, _ = arm()
    rotor = next(body for body in model.bodies if body.name == "screw coordinate")
    model.add(ph.forces.Load(rotor, lambda t, poses, twists: [(jnp.zeros(3), jnp.array([1.0, 0.0, 0.0]))]))
    assert model.assemble("minimal")[0].m == 1


@pytest.mark.exhaustive
def test_derivatives_by_the_inertia() -> None:
    def speed(inertia: Any) -> Any:
        model, _, _ = arm(inertia)
        system, (q, v) = model.assemble("minimal")
        return system.accelerations(0.0, q, v)[0][0]

    slope = jax.grad(speed)(0.4)
    np.testing.assert_allclose(slope, (exact(0, 1, 0.4 + 1e-6)[0] - exact(0, 1, 0.4 - 1e-6)[0]) / 2e-6, rtol=1e-6)


def test_bad_rotors_are_refused() -> None:
    model, hinge, _ = arm()
    with pytest.raises(ValueError, match="`inertia` must be greater than zero"):
        ph.joints.RotorInertia(hinge, 0.0)
    with pytest.raises(ValueError, match="must be a joint with a free coordinate"):
        ph.joints.RotorInertia(model.ground, 1.0)
