"""Rescaled Rodrigues vectors against quaternions, matrices and Euler's formula."""

import jax.numpy as jnp
import numpy as np
import pytest

from polhode.spaces import quaternions, rodrigues

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-8, 1e-4, 1e-2, 0.5, 1.5, 3.0, np.pi - 1e-6])
def test_conversions_and_the_length(angle):
    axis = RNG.standard_normal(3)
    axis = axis / np.linalg.norm(axis)
    a = rodrigues.from_vector(jnp.asarray(angle * axis))
    np.testing.assert_allclose(a, 2 * np.tan(angle / 2) * axis, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(rodrigues.to_vector(a), angle * axis, rtol=1e-12, atol=1e-300)
    K = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    R = np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
    np.testing.assert_allclose(rodrigues.to_matrix(a), R, atol=1e-14)
    np.testing.assert_allclose(rodrigues.from_matrix(jnp.asarray(R)), a, rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(rodrigues.from_quaternion(-rodrigues.to_quaternion(a)), a, rtol=1e-12, atol=1e-300)


def test_composition_is_that_of_rotations():
    for _ in range(20):
        a, b = (jnp.asarray(2 * RNG.standard_normal(3)) for _ in range(2))
        both = quaternions.multiply(rodrigues.to_quaternion(a), rodrigues.to_quaternion(b))
        np.testing.assert_allclose(rodrigues.compose(a, b), rodrigues.from_quaternion(both), rtol=1e-9)
        R = rodrigues.to_matrix(a) @ rodrigues.to_matrix(b)
        np.testing.assert_allclose(rodrigues.to_matrix(rodrigues.compose(a, b)), R, atol=1e-13)
        # As the paper writes it, the first one first.
        paper = 4 / (4 - b @ a) * (b + a - 0.5 * jnp.cross(b, a))
        np.testing.assert_allclose(rodrigues.compose(a, b), paper, rtol=1e-12)
        np.testing.assert_allclose(rodrigues.compose(a, rodrigues.inverse(a)), np.zeros(3), atol=1e-15)


def test_half_a_turn_has_no_vector():
    quarter = rodrigues.from_vector(jnp.array([0.0, 0.0, np.pi / 2]))
    assert not np.all(np.abs(rodrigues.compose(quarter, quarter)) < 1e15)
