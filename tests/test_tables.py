"""Tables as functions, against SciPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import interpolate

import polhode as ph

RANDOM = np.random.default_rng(0)
TIMES = np.sort(RANDOM.uniform(0.0, 2.0, 60))
VALUES = np.stack((np.sin(5 * TIMES), TIMES**2), axis=1)


def test_piecewise_linear_functions_of_many_points_are_those_of_numpy():
    t = np.concatenate([RANDOM.uniform(-0.2, 2.2, 300), TIMES])
    f = ph.PiecewiseLinear(TIMES, VALUES)
    expected = np.stack([np.interp(t, TIMES, column) for column in VALUES.T], axis=1)
    np.testing.assert_allclose(jax.vmap(f)(t), expected, atol=1e-14)


@pytest.mark.parametrize("n", [4, 5, 60])
def test_cubic_splines_and_their_rates_are_those_of_scipy(n):
    spline, exact = ph.CubicSpline(TIMES[:n], VALUES[:n]), interpolate.CubicSpline(TIMES[:n], VALUES[:n])
    t = RANDOM.uniform(TIMES[0], TIMES[n - 1], 200)
    np.testing.assert_allclose(jax.vmap(spline)(t), exact(t), atol=1e-12)
    np.testing.assert_allclose(jax.vmap(jax.jacfwd(spline))(t), exact(t, 1), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(spline(jnp.asarray(-9.0)), VALUES[0])
    np.testing.assert_array_equal(spline(jnp.asarray(9.0)), VALUES[n - 1])


def test_derivatives_of_splines_by_their_values_are_splines_of_unit_values():
    gradient = jax.grad(lambda v: ph.CubicSpline(TIMES[:9], v)(jnp.asarray(0.5 * (TIMES[2] + TIMES[3]))))
    exact = [interpolate.CubicSpline(TIMES[:9], unit)(0.5 * (TIMES[2] + TIMES[3])) for unit in np.eye(9)]
    np.testing.assert_allclose(gradient(jnp.asarray(VALUES[:9, 0])), exact, atol=1e-13)


def test_tables_of_two_numbers_are_those_of_scipy():
    x, y = np.sort(RANDOM.uniform(0, 3, 40)), np.sort(RANDOM.uniform(-1, 1, 7))
    values = RANDOM.standard_normal((40, 7))
    exact = interpolate.RegularGridInterpolator((x, y), values)
    places = np.stack((RANDOM.uniform(x[0], x[-1], 200), RANDOM.uniform(y[0], y[-1], 200)), axis=1)
    table = ph.Table2D(x, y, values)
    np.testing.assert_allclose(jax.vmap(table)(*places.T), exact(places), atol=1e-13)
    assert table(9.0, -9.0) == values[-1, 0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ph.CubicSpline((0.0, 1.0, 1.0, 2.0), np.zeros(4)), "`times` must increase"),
        (lambda: ph.CubicSpline((0.0, 1.0, 2.0), np.zeros(3)), "`times` must be a list of 4 numbers or more"),
        (lambda: ph.CubicSpline(np.arange(4.0), np.zeros(5)), r"each of the 4 places at the times, got shape \(5,\)"),
        (lambda: ph.Table2D((0, 1), (0, 1, 2), np.zeros((3, 2))), r"each of the 2 x 3 places .* got shape \(3, 2\)"),
        (lambda: ph.Table2D((0, 1), (2, 1), np.zeros((2, 2))), "`y` must increase"),
    ],
)
def test_other_shapes_and_orders_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
