"""Dependent constraints are found and named, and multipliers spread over all of them."""

import numpy as np
import pytest

from polhode.linalg.rank import redundancy

RNG = np.random.default_rng(2)


def test_independent_rows_are_all_kept():
    result = redundancy(RNG.normal(size=(4, 6)), {"a": [0, 1], "b": [2, 3]})
    assert result.rank == 4
    assert result.dependent.size == 0
    assert result.groups == {}


def test_early_groups_stay_whole_and_the_cause_is_named():
    B = RNG.normal(size=(7, 9))
    B[5] = 2 * B[0] - B[3]
    groups = {"hinge": [0, 1], "slider": [2], "ball": [3, 4], "weld": [5, 6]}
    result = redundancy(B, groups)
    assert result.rank == np.linalg.matrix_rank(B) == 6
    assert result.independent.tolist() == [0, 1, 2, 3, 4, 6]
    assert result.dependent.tolist() == [5]
    assert result.groups == {"weld": ("hinge", "ball")}


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e8])
def test_units_do_not_matter(scale):
    B = RNG.normal(size=(5, 8))
    B[4] = B[0] + B[1]
    B[:, :3] *= scale
    B[1:3] *= scale
    result = redundancy(B, {"a": range(3), "b": range(3, 5)})
    assert result.dependent.tolist() == [4]


def test_near_dependence_counts_above_the_tolerance_only():
    B = RNG.normal(size=(3, 5))
    B[2] = B[0] + 1e-7 * RNG.normal(size=5)
    groups = {"a": [0], "b": [1], "c": [2]}
    assert redundancy(B, groups).rank == 3
    assert redundancy(B, groups, tolerance=1e-5).rank == 2


def test_zero_rows_and_equal_rows_within_a_group():
    B = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    result = redundancy(B, {"nothing": [0], "twice": [1, 2]})
    assert result.rank == 1
    assert result.groups == {"nothing": (), "twice": ()}


def test_wrong_arguments_are_explained():
    with pytest.raises(ValueError, match="each of the 2 rows of B exactly once"):
        redundancy(np.eye(2), {"a": [0]})
    with pytest.raises(ValueError, match=r"rows \[1\] are not; check the initial position"):
        redundancy(np.array([[1.0], [np.nan]]), {"a": [0, 1]})


def test_rows_of_round_off_are_rows_of_zeros():
    B = np.array([[1.0, 2.0, 0.0], [3e-17, -2e-17, 1e-17], [0.0, 1.0, 1.0]])
    groups = {"a": [0, 1], "b": [2]}
    assert redundancy(B, groups).dependent.size == 0
    assert redundancy(B, groups, terms=np.ones((3, 3))).dependent.tolist() == [1]
