"""Statistics of an ensemble, batch by batch, of numbers small and large."""

from __future__ import annotations

import numpy as np
import pytest

from polhode.simulation.ensembles.statistics import Histogram, Moments


def batches(x: np.ndarray, *sizes: int) -> list[np.ndarray]:
    return np.split(x, np.cumsum(sizes))


# NumPy's warnings of overflows are errors in tests.
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e200, 1e308])
def test_moments_of_numbers_of_any_size(scale: float) -> None:
    x = np.random.default_rng(1).uniform(-1.7, 1.7, (500, 3))
    x[7, 1] = np.nan
    result = Moments((3,))
    for batch in batches(scale * x, 1, 63, 64):
        result.add(batch)
    assert result.count.tolist() == [500, 499, 500]
    np.testing.assert_allclose(result.mean / scale, np.nanmean(x, axis=0), rtol=0, atol=1e-14)
    np.testing.assert_allclose(result.deviation / scale, np.nanstd(x, axis=0, ddof=1), rtol=1e-13)
    np.testing.assert_array_equal(result.largest, np.nanmax(scale * x, axis=0))
    if scale == 1.0:
        np.testing.assert_allclose(result.variance, np.nanvar(x, axis=0, ddof=1), rtol=1e-13)
    if scale > 1e154:
        assert np.isposinf(result.variance).all()


def test_one_member_that_has_gone_astray_leaves_the_others_places_alone() -> None:
    x = np.random.default_rng(2).normal(size=(100, 2))
    x[40, 0] = 1e200
    result = Moments((2,))
    for batch in batches(x, 30, 30):
        result.add(batch)
    assert result.mean[0] == pytest.approx(1e198)
    assert result.deviation[0] == pytest.approx(1e199)
    assert result.deviation[1] == pytest.approx(np.std(x[:, 1], ddof=1))


def test_small_deviations_from_a_large_mean_are_kept() -> None:
    x = np.random.default_rng(3).normal(size=(400, 1))
    result = Moments((1,))
    for batch in batches(1e6 + x, 100, 100, 100):
        result.add(batch)
    assert result.deviation[0] == pytest.approx(np.std(x, ddof=1), rel=1e-9)


def test_no_numbers_have_no_statistics() -> None:
    result = Moments((1,))
    result.add(np.full((4, 1), np.nan))
    result.add(np.array([[np.inf]]))
    assert result.count[0] == 0
    assert np.isnan(result.deviation[0])
    result.add(np.array([[2.0], [4.0]]))
    assert (result.mean[0], result.deviation[0]) == (3.0, pytest.approx(np.sqrt(2.0)))


def test_quantiles_stay_right_to_the_width_of_a_bin_when_one_is_far_away() -> None:
    x = np.linspace(1.0, 2.0, 101)[:, None]
    result = Histogram((1,), 64)
    for batch in (x[:60], x[60:], np.array([[1e200], [-1e250], [np.nan], [1.7e308]])):
        result.add(batch)
    edges = result.edges()[0]
    assert result.counts.sum() == 104
    assert edges[0] <= -1e250
    assert edges[-1] >= 1e300
    width = edges[1] - edges[0]
    assert abs(result.quantile(0.5)[0] - 1.5) <= width
    assert np.isfinite(edges).all()
