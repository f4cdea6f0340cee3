"""Tables as functions, against SciPy."""

from __future__ import annotations

import pickle
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import interpolate

import polhode as ph

RANDOM = np.random.default_rng(0)
TIMES = np.sort(RANDOM.uniform(0.0, 2.0, 60))
VALUES = np.stack((np.sin(5 * TIMES), TIMES**2), axis=1)


@pytest.mark.exhaustive
def test_piecewise_linear_functions_of_many_points_are_those_of_numpy():
    t = np.concatenate([RANDOM.uniform(-0.2, 2.2, 300), TIMES])
    f = ph.PiecewiseLinear(TIMES, VALUES)
    expected = np.stack([np.interp(t, TIMES, column) for column in VALUES.T], axis=1)
    np.testing.assert_allclose(jax.vmap(f)(t), expected, atol=1e-14)


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.parametrize("n", [4, 5, 60])
def test_cubic_splines_and_their_rates_are_those_of_scipy(n):
    spline, exact = ph.CubicSpline(TIMES[:n], VALUES[:n]), interpolate.CubicSpline(TIMES[:n], VALUES[:n])
    t = RANDOM.uniform(TIMES[0], TIMES[n - 1], 200)
    np.testing.assert_allclose(jax.vmap(spline)(t), exact(t), atol=1e-12)
    np.testing.assert_allclose(jax.vmap(jax.jacfwd(spline))(t), exact(t, 1), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(spline(jnp.asarray(-9.0)), VALUES[0])
    np.testing.assert_array_equal(spline(jnp.asarray(9.0)), VALUES[n - 1])


@pytest.mark.exhaustive
def test_derivatives_of_splines_by_their_values_are_splines_of_unit_values():
    gradient = jax.grad(lambda v: ph.CubicSpline(TIMES[:9], v)(jnp.asarray(0.5 * (TIMES[2] + TIMES[3]))))
    exact = [interpolate.CubicSpline(TIMES[:9], unit)(0.5 * (TIMES[2] + TIMES[3])) for unit in np.eye(9)]
    np.testing.assert_allclose(gradient(jnp.asarray(VALUES[:9, 0])), exact, atol=1e-13)


@pytest.mark.exhaustive
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
        (lambda: ph.CubicSpline((0.0, 1e-320, 2.0, 3.0), np.arange(4.0)), "`times` are too close or far apart"),
    ],
)
def test_other_shapes_and_orders_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


STRETCH = ph.Parameter("stretch", 2.0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ph.PiecewiseLinear((0.0, 1.0), STRETCH * np.array([1.0, 2.0])), "values"),
        (lambda: ph.PiecewiseLinear((0.0, STRETCH), (0.0, 1.0)), "times"),
        (lambda: ph.PiecewiseLinear((0.0, 1.0), ((0.0, 0.0), [0.0, STRETCH**2])), "values"),
        (lambda: ph.CubicSpline(np.arange(4.0), STRETCH * np.arange(4.0)), "values"),
        (lambda: ph.Table2D((0.0, STRETCH), (0.0, 1.0), np.zeros((2, 2))), "x"),
    ],
)
def test_parameters_which_a_table_would_freeze_are_refused(call, name):
    with pytest.raises(ValueError, match=f"`{name}` is computed with at once .* an `equinox.Module`"):
        call()


class Stretched(eqx.Module):
    """A table times a number."""

    table: ph.PiecewiseLinear
    factor: Any

    def __call__(self, t: Any) -> Any:
        return self.factor * self.table(t)


def test_the_remedy_follows_the_parameter():
    model = ph.Model()
    block = model.add_body(mass=4.0, inertia=(1.0, 1.0, 1.0), name="block")
    model.add(ph.joints.Prismatic(model.ground, block, axis=(1, 0, 0), name="slide"))
    ramp = ph.PiecewiseLinear((0.0, 1.0), ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)))
    model.add(ph.forces.PointForce(block, Stretched(ramp, STRETCH)))
    problem = model.problem(t1=1.0, h=0.1)
    for factor, at in ((2.0, problem), (3.0, problem.replace(stretch=3.0))):
        np.testing.assert_allclose(at.dynamics.forward(at.state0, t=0.5), [factor * 0.5 / 4.0], rtol=1e-14)


@pytest.mark.exhaustive
def test_tables_of_vectors_take_several_places():
    """As many times as components, which must not be mixed."""
    t, values = np.array([0.1, 0.7, 1.3]), np.stack((VALUES[:9, 0], VALUES[:9, 1], TIMES[:9]), axis=1)
    for kind in (ph.PiecewiseLinear, ph.CubicSpline):
        function = kind(TIMES[:9], values)
        several = t * (TIMES[8] - TIMES[0]) / 1.4 + TIMES[0]
        np.testing.assert_array_equal(function(several), [function(each) for each in several])
    grid = RANDOM.standard_normal((4, 3, 3))
    table, x, y = ph.Table2D(np.arange(4.0), np.arange(3.0), grid), 2.0 * t, t
    np.testing.assert_array_equal(table(x, y), [table(*each) for each in zip(x, y, strict=True)])
    np.testing.assert_array_equal(table(x, 0.3), [table(each, 0.3) for each in x])
    numbers = ph.Table2D(np.arange(4.0), np.arange(3.0), grid[..., 0])
    np.testing.assert_array_equal(numbers(x[:, None], y), [[numbers(a, b) for b in y] for a in x])


def test_times_of_tables_are_tuples_and_arrays_at_once():
    table = ph.PiecewiseLinear((0.0, 0.5, 0.5, 2.0), (1.0, 2.0, 3.0, 4.0))
    assert table.times == (0.0, 0.5, 0.5, 2.0)
    assert (table.breakpoints, table.kinks) == ((0.0, 0.5, 2.0), (0.0, 2.0))
    assert hash(table.times) == hash((0.0, 0.5, 0.5, 2.0))
    assert np.asarray(table.times) is np.asarray(table.times)
    again = pickle.loads(pickle.dumps(table.times))
    assert (again, again.single) == (table.times, table.kinks)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(table.times)[0] = 1.0
