"""Flush seams that cost nothing, impacts at their instants, and models in other units."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_problems import DOWN, G, on_floor

import polhode as ph


def tiles(model, thickness=0.2, rise=0.0):
    for i in range(4):
        place = (0.5 * i, 0, (rise if i else 0.0) - thickness / 2)
        model.ground.add_shape(ph.shapes.Box((0.5, 1, thickness), position=place, name=f"tile {i}"))


def mesh(model):
    points = [(x, y, 0.0) for x in np.linspace(-0.5, 2.5, 7) for y in (-0.4, 0.013, 0.5)]
    corners = [3 * i + j for i in range(6) for j in range(2)]
    faces = [face for a in corners for face in ((a, a + 3, a + 4), (a, a + 4, a + 1))]
    model.ground.add_shape(ph.shapes.TriangleMesh(np.array(points), np.array(faces)))


def field(model):
    model.ground.add_shape(ph.shapes.Heightfield(np.zeros((7, 5)), (3.0, 1.0), position=(1, 0, 0)))


def move_over(floor, *, h, shape=None, friction=0.5, speed=1.3, **body):
    """The run of a body of radius or half height 0.1 over a floor; by default of a ball that rolls."""
    model = ph.Model(gravity=DOWN)
    floor(model)
    options = {"angular_velocity": (0, 10 * speed, 0), **body}
    shape = ph.shapes.Sphere(0.1) if shape is None else shape
    model.add_body(mass=1.0, shape=shape, position=(0, 0, 0.1), velocity=(speed, 0, 0), name="body", **options)
    model.contacts(friction=friction)
    model.limit_contacts(60)
    return ph.simulate(model.problem("SO3xR3", t1=0.8, h=h))


def assert_nothing_happens(run, speed=1.3, error=1e-12):
    body = run.bodies["body"]
    np.testing.assert_allclose(body.velocity, np.broadcast_to((speed, 0, 0), body.velocity.shape), atol=error)
    np.testing.assert_allclose(np.asarray(body.position)[:, 2], 0.1, atol=error)
    assert abs(run.dissipated["impact"][-1]) < error


@pytest.mark.exhaustive
def test_a_ball_rolls_over_flush_tiles_and_bumps_into_a_step():
    for h in (0.02, 0.007, 0.0025):
        assert_nothing_happens(move_over(tiles, h=h))
    step = move_over(lambda model: tiles(model, rise=0.001), h=0.0025)
    assert step.dissipated["impact"][-1] > 0.01
    assert step.bodies["body"].velocity[-1][0] < 1.3 - 0.01


@pytest.mark.exhaustive
@pytest.mark.parametrize("floor", [mesh, field])
def test_a_ball_rolls_over_edges_of_triangles(floor):
    for h in (0.02, 0.005):
        assert_nothing_happens(move_over(floor, h=h))


@pytest.mark.exhaustive
def test_a_box_slides_over_flush_tiles():
    for h in (0.02, 0.005):
        box = ph.shapes.Box((0.2, 0.2, 0.2))
        assert_nothing_happens(move_over(tiles, h=h, shape=box, friction=0.0, angular_velocity=(0, 0, 0)))


# --- impacts at their instants ----------------------------------------------------------------------------------------


def bouncing(height, restitution):
    """A ball that is dropped from some height: its height at 0.9 s."""
    changed = BALL.replace(height=height, restitution=restitution)
    return ph.simulate(changed).bodies["body"].position[-1, 2]


def ball_problem():
    model = ph.Model(gravity=DOWN)
    model.ground.add_shape(ph.shapes.Plane())
    height = ph.Parameter("height", 1.1)
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, height), name="body")
    model.contacts(friction=0.0, restitution=ph.Parameter("restitution", 1.0))
    return model.problem("SO3xR3", t1=0.9, h=0.01)


BALL = ball_problem()


def height_after_one_bounce(height, restitution):
    fall = jnp.sqrt(2 * (height - 0.1) / G)
    after = 0.9 - fall
    return 0.1 + restitution * G * fall * after - G / 2 * after**2


@pytest.mark.exhaustive
@pytest.mark.parametrize("restitution", [1.0, 0.7])
def test_heights_after_a_bounce_and_their_derivatives_are_exact(restitution):
    x = jnp.array([1.1, restitution])
    np.testing.assert_allclose(bouncing(*x), height_after_one_bounce(*x), atol=1e-12)
    exact = jax.jacfwd(lambda x: height_after_one_bounce(*x))(x)
    np.testing.assert_allclose(jax.jacrev(lambda x: bouncing(*x))(x), exact, atol=1e-9)


@pytest.mark.exhaustive
def test_what_a_bounce_takes_is_what_the_energy_loses():
    """A ball whose moments of inertia differ: gyroscopic forces turn its spin within the step of a bounce."""
    inertia = np.array([0.012, 0.03, 0.021])
    model = on_floor(
        ph.shapes.Sphere(0.15), mass=1.5, inertia=inertia, position=(0, 0, 0.3), velocity=(-0.8, 0.6, -1.0),
        angular_velocity=(7, 3, -5), friction=0.4, restitution=0.7,
    )  # fmt: skip
    run = ph.simulate(model.problem("SO3xR3", t1=0.7, h=0.01), "moreau")
    ball, taken = run.bodies["body"], run.dissipated
    kinetic = 0.75 * np.sum(ball.velocity**2, axis=1) + 0.5 * ball.angular_velocity**2 @ inertia
    energy = kinetic + 1.5 * G * ball.position[:, 2]
    assert taken["impact"][-1] > 0.3 * energy[0]
    assert taken["sliding"][-1] > 0.05 * energy[0]
    np.testing.assert_allclose(energy + taken["impact"] + taken["sliding"], energy[0], rtol=1e-10)


# --- units ------------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "rattle"])
def test_a_model_in_millimetres_and_tonnes_moves_as_one_in_metres(method):
    """A box that is thrown on a corner, through its impacts."""

    def run(metre, kilogram):
        model = on_floor(
            ph.shapes.Box(metre * np.array([0.4, 0.3, 0.2])), (0, 0, -G * metre), mass=2.0 * kilogram,
            position=(0, 0, 0.4 * metre), rotation=ph.rotation_vector((0.5, 0.3, 0.1)),
            velocity=(1.5 * metre, 0, 0), angular_velocity=(1, 2, 0.5), friction=0.5, restitution=0.3,
        )  # fmt: skip
        solution = ph.simulate(model.problem("SO3xR3", t1=0.8, h=0.005), method)
        return np.asarray(solution.bodies["body"].position) / metre

    metres = run(1.0, 1.0)
    for metre, kilogram in ((1e3, 1e-3), (1e-3, 1.0)):
        np.testing.assert_allclose(run(metre, kilogram), metres, atol=1e-8)
