"""Contact of spheres with a plane: force and energy, bouncing, rest, bad numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.multibody.mechanism.poses import Pose, Twist

T = jnp.zeros(())
NORMAL = np.array([0.0, 0.6, 0.8])


def place(depth: Any, point: Any = (1.0, 2.0, 3.0)) -> tuple[Pose]:
    """A sphere of radius 0.1 that is `depth` deep in the plane through a point, somewhere on it."""
    aside = np.array([0.3, 0.8, -0.6])
    return (Pose(jnp.asarray(point) + aside + (0.1 - depth) * NORMAL, jnp.eye(3)),)


def element(**numbers: Any) -> Any:
    body = ph.Model().add_point(mass=1.0, position=(0, 0, 0))
    return ph.forces.PlaneContact(body, (1, 2, 3), 5 * NORMAL, 40.0, 0.1, **numbers).place(())


STILL = (Twist(jnp.zeros(3), jnp.zeros(3)),)


@pytest.mark.exhaustive
@pytest.mark.parametrize("exponent", [1.0, 1.5, 3.0])
def test_force_is_a_power_of_the_depth_and_minus_the_slope_of_the_potential(exponent: float) -> None:
    contact = element(exponent=exponent)
    for depth in (-0.2, 0.02, 0.15):
        (load,) = contact.wrenches(T, place(depth), STILL)
        slope = jax.grad(lambda x: contact.potential(T, (Pose(x, jnp.eye(3)),)))(place(depth)[0].x)
        np.testing.assert_allclose(load.force, 40 * max(depth, 0.0) ** exponent * NORMAL, rtol=1e-12)
        np.testing.assert_allclose(load.force, -slope, rtol=1e-12)
        np.testing.assert_array_equal(load.torque, 0)


@pytest.mark.exhaustive
def test_derivatives_are_finite_apart_from_the_plane_and_at_first_touch() -> None:
    body = ph.Model().add_point(mass=1.0, position=(0, 0, 0))

    def push(numbers: Any) -> Any:
        k, r, p, height = numbers
        contact = ph.forces.PlaneContact(body, (0, 0, 0), (0, 0, 1), k, r, 0.1, p).place(())
        return contact.wrenches(T, (Pose(jnp.array([3.0, 1.0, 0.0]).at[2].set(height), jnp.eye(3)),), STILL)[0].force

    for height in (0.3, 0.1):
        np.testing.assert_array_equal(jax.jacfwd(push)(jnp.array([40.0, 0.1, 1.5, height])), 0)


def test_damping_takes_power_and_never_pulls() -> None:
    contact = element(damping=2.0)
    assert not contact.conservative
    still = np.asarray(contact.wrenches(T, place(0.05), STILL)[0].force)
    for speed, factor in ((-0.2, 1.4), (0.2, 0.6), (3.0, 0.0)):
        moving = (Twist(jnp.zeros(3), jnp.asarray(speed * NORMAL + np.array([1.0, 0, 0]))),)
        np.testing.assert_allclose(contact.wrenches(T, place(0.05), moving)[0].force, factor * still, rtol=1e-12)


def falling_ball(damping: float = 0.0, exponent: float = 1.0) -> tuple[Any, Any]:
    model = ph.Model(gravity=(0, 0, -9.81))
    ball = model.add_point(mass=0.5, position=(0, 0, 0.6), velocity=(1, 0, 0))
    model.add(ph.forces.PlaneContact(ball, (0, 0, 0.1), (0, 0, 1), 2e4, 0.1, damping, exponent))
    # Held to the middle, so that it can rest there.
    model.add(ph.forces.Potential(ball, lambda t, p: 0.5 * (p[0].x[0] ** 2 + p[0].x[1] ** 2)))
    return model, ball


def test_a_ball_bounces_back_to_its_height_and_keeps_its_energy() -> None:
    problem = falling_ball()[0].problem(t1=0.6, h=1e-4, integrator="rkmk4")
    run = ph.simulate(problem, save_every=20)
    energy = np.asarray(run.invariants["energy"])
    height = np.asarray(run.outputs["positions"])[:, 0, 2]
    # First touch and last are within a step: the force jumps in slope there, over v h of depth.
    assert np.max(np.abs(energy - energy[0])) < 0.5 * 2e4 * (np.sqrt(2 * 9.81 * 0.4) * 1e-4) ** 2
    touch = np.sqrt(2 * 0.4 / 9.81)
    assert height.min() < 0.2 - 0.01
    assert abs(run.t[np.argmin(height)] - touch) < 0.01
    later = np.asarray(run.t) > 0.4
    np.testing.assert_allclose(height[later].max(), 0.6, atol=1e-4)
    # Down, half an oscillation on the spring of the plane, and up.
    period = 2 * touch + np.pi * np.sqrt(0.5 / 2e4)
    assert abs(run.t[later][np.argmax(height[later])] - period) < 0.01
    damped, _ = falling_ball(damping=0.1)
    assert not damped.assemble()[0].invariants()


@pytest.mark.exhaustive
def test_a_ball_rests_at_the_depth_where_the_push_is_its_weight() -> None:
    for exponent in (1.0, 1.5):
        system, state = falling_ball(exponent=exponent)[0].assemble()
        low = (jax.tree.map(lambda q: q - jnp.array([0.1, 0.0, 0.42]), state[0]), state[1])
        result = ph.equilibrium(system, low)
        depth = (0.5 * 9.81 / 2e4) ** (1 / exponent)
        np.testing.assert_allclose(system.motion(result.state[0]).poses.x[0], (0, 0, 0.2 - depth), atol=1e-12)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"normal": (0, 0, 0)}, "zero vector"),
        ({"stiffness": -1.0}, "`stiffness` must be greater than zero"),
        ({"radius": -0.1}, "`radius` must be at least 0"),
        ({"damping": -0.1}, "`damping` must be at least 0"),
        ({"exponent": 0.5}, "`exponent` must be at least 1"),
        ({"body": "ball"}, "`body` of PlaneContact must be a body"),
        ({"body": ph.Model().add_coordinate()}, "not a place that can touch"),
    ],
)
def test_bad_numbers_are_named(numbers: Any, message: str) -> None:
    good = {"body": ph.Model().add_point(mass=1, position=(0, 0, 0)), "point": (0, 0, 0), "normal": (0, 0, 1)}
    with pytest.raises(ValueError, match=message):
        ph.forces.PlaneContact(**{**good, "stiffness": 1.0, **numbers})
