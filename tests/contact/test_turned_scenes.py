"""Boxes that fall, bounce and land flat in scenes turned as a whole: redundant contacts differ by round-off alone."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import polhode as ph
from polhode.contact.contact_problem import ContactProblem
from polhode.contact.solver import solve


def thrown_box(turn, seed):
    """A box thrown on a plane, with everything turned; and the step of its run."""
    random = np.random.default_rng(seed)
    size = random.uniform(0.1, 0.5, 3)
    friction, restitution = random.uniform(0, 1), random.uniform(0, 0.9)
    rotation = Rotation.from_rotvec(random.normal(size=3)).as_matrix()
    height = 0.5 * np.abs(rotation[2]) @ size + 0.05
    model = ph.Model(gravity=turn @ (0, 0, -9.81))
    model.ground.add_shape(ph.shapes.Plane(rotation=turn))
    model.add_body(
        shape=ph.shapes.Box(tuple(size)), density=1000, position=turn @ (0, 0, height), rotation=turn @ rotation,
        velocity=turn @ random.normal(size=3), angular_velocity=random.normal(size=3) * 5, name="box",
    )  # fmt: skip
    model.contacts(friction=friction, restitution=restitution)
    return model.problem("SO3xR3", t1=1.0, h=(1e-3, 2e-3)[seed % 2])


def path(turn, seed):
    """Positions in the frame that is turned with the scene."""
    solution = ph.simulate(thrown_box(turn, seed), integrator="rattle")
    return np.asarray(solution.bodies["box"].position) @ turn


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(100, 112))
def test_a_turned_scene_runs_as_the_other_one(seed):
    turn = Rotation.from_rotvec(np.random.default_rng(seed + 1000).normal(size=3) * 2).as_matrix()
    places, turned = path(np.eye(3), seed), path(turn, seed)
    np.testing.assert_allclose(turned[:20], places[:20], rtol=0, atol=1e-11)
    assert len(turned) == len(places)


@pytest.mark.exhaustive
def test_a_guess_that_solves_a_problem_up_to_its_round_off_stays():
    """Of four corners of a face three are redundant: another solution would be another split of the load."""
    corners = np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)]) * 0.7
    rows = np.column_stack((np.ones(4), corners))
    noise = 1e-12 * np.array([3, -1, 2, 1])
    guess = np.array([0.4, 0.1, 0.1, 0.4])[:, None]
    velocity = -(rows @ rows.T @ guess[:, 0]) + noise
    problem = ContactProblem(
        jnp.asarray(rows @ rows.T), jnp.asarray(velocity), jnp.zeros((4, 0)), jnp.ones(4, bool)
    )  # fmt: skip
    same = solve(problem, jnp.asarray(guess), noise=1e-11)
    assert same.solved
    np.testing.assert_array_equal(same.impulses, guess)
    other = solve(problem, jnp.asarray(guess))
    assert np.abs(np.asarray(other.impulses) - guess).max() > 1e-7
