"""The search for pairs that may touch, against all pairs, and islands of bodies that touch."""

import jax
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from test_distances import SHAPES

from polhode import shapes
from polhode.contact.broad_phase import FEW, find_pairs, label_islands


def by_hand(lower, upper, margin):
    count = len(lower)
    return [
        [i, j]
        for i in range(count)
        for j in range(i + 1, count)
        if np.all(lower[i] <= upper[j] + margin) and np.all(lower[j] <= upper[i] + margin)
    ]


@pytest.mark.parametrize("count", [2, FEW, FEW + 1, 200])
@pytest.mark.parametrize("planes", [0, 2])
def test_pairs_are_those_of_all_comparisons(count, planes):
    rng = np.random.default_rng(count)
    middle, half = rng.normal(size=(count, 3)) * [5, 1, 2], rng.uniform(0.1, 0.5, size=(count, 3))
    lower, upper = middle - half, middle + half
    lower[:planes, :2], upper[:planes, :2], lower[:planes, 2] = -np.inf, np.inf, -np.inf
    found = find_pairs(lower, upper, 0.05)
    assert found.pairs.tolist() == by_hand(lower, upper, 0.05)
    assert count == 2 or len(found.pairs)


def test_a_list_of_pairs_lasts_until_a_box_leaves_its_place():
    rng = np.random.default_rng(0)
    lower = rng.uniform(0, 6, size=(60, 3))
    found = find_pairs(lower, lower + 0.5, 0.2)
    moved = lower + rng.uniform(-0.1, 0.1, size=(60, 3))
    assert found.holds(moved, moved + 0.5)
    assert {*map(tuple, by_hand(moved, moved + 0.5, 0.0))} <= {*map(tuple, found.pairs.tolist())}
    moved[7, 1] += 0.21
    assert not found.holds(moved, moved + 0.5)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", list(SHAPES)[1:])
def test_bounds_touch_the_shape(name):
    x, R = np.array([1.0, 2, 3]), Rotation.from_euler("xyz", (0.3, 0.8, -0.4)).as_matrix()
    shape = SHAPES[name]
    lower, upper = shape.bounds((x, R))
    directions = Rotation.random(400, random_state=1).as_matrix()[:, 0]
    points = x + np.asarray(jax.vmap(shape.support)(directions)) @ R.T
    assert np.all(points >= lower - 1e-12)
    assert np.all(points <= upper + 1e-12)
    np.testing.assert_allclose(points.min(axis=0), lower, atol=0.05)
    np.testing.assert_allclose(points.max(axis=0), upper, atol=0.05)


@pytest.mark.exhaustive
def test_bounds_of_ground():
    lower, upper = shapes.Plane((0, 0, 2)).bounds((np.zeros(3), np.eye(3)))
    np.testing.assert_array_equal(lower, -np.inf)
    np.testing.assert_array_equal(upper, [np.inf, np.inf, 2])
    lower, upper = shapes.Heightfield([[0, 1], [2, 3.0]], (4, 2)).bounds((np.ones(3), np.eye(3)))
    np.testing.assert_allclose(lower, [-1, 0, 1])
    np.testing.assert_allclose(upper, [3, 2, 4])


def test_bodies_that_touch_are_an_island_and_the_ground_joins_none():
    pairs = [[0, 3], [0, 4], [1, 3], [2, 0], [5, 4]]
    assert label_islands(6, np.array(pairs), np.array([0])).tolist() == [0, 2, 0, 1, 2]
    assert label_islands(3, np.zeros((0, 2)), np.array([0])).tolist() == []
