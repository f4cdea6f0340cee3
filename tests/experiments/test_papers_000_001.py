import numpy as np
import pytest

import polhode as ph
from polhode import experiments
from polhode.experiments.papers import rotor_formulations, slider_crank_formulations
from polhode.experiments.papers._formulations import Study, steps_to, work
from polhode.experiments.papers._heavy_top_exact import PLACE, ROTATION, SPIN, VELOCITY
from polhode.experiments.papers.heavy_top_drift import Growth


def test_the_experiments_are_listed():
    assert set(experiments.names("000")) >= {f"000-{k}" for k in range(1, 12)}
    assert set(experiments.names("001")) >= {f"001-{k}" for k in range(1, 7)}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("000-3", marks=pytest.mark.exhaustive),
        "001-1",
        *(pytest.param(f"000-{k}", marks=pytest.mark.exhaustive) for k in (9, 10, 11)),
    ],
)
def test_experiments_reproduce_the_papers(name):
    report = ph.reproduce(name, progress=False)
    # Times are those of a machine and what else it does; they are reported, not tested.
    assert not [check for check in report.checks if not check["passed"] and "CPU time" not in check["name"]]
    assert len(report.checks) >= 7
    assert report.entries[0].outcome.figures


T = np.linspace(0, 100, 6401)


@pytest.mark.parametrize(
    ("gap", "linear"),
    [
        (1e-3 * T, True),
        (1e-3 * T + 5e-3 * np.abs(np.sin(3 * T)), True),
        (0.1 + 1e-4 * T, False),
        (np.abs(np.sin(3 * T)), False),
        (np.sqrt(T), False),
        (T**2, False),
    ],
)
def test_linear_growth_is_told_from_other_growth(gap, linear):
    assert Growth.of(T, gap).linear is linear


def test_growth_takes_the_largest_value_so_far():
    result = Growth.of(T, np.where(T == 5, 7.0, 1e-3 * T))
    assert result.values == pytest.approx((1e-3, 7, 7))
    assert result.rates == pytest.approx((0, 0), abs=1e-12)


def of_order_two(h):
    error = 3 * h**2
    return Study(h, error, error, error, error)


def test_steps_to_an_error_are_interpolated():
    s = of_order_two(np.array([0.1, 0.05, 0.01]))
    assert steps_to(s, 3e-4 * 4) == pytest.approx(1 / 0.02)


@pytest.mark.parametrize(("h", "goal"), [((0.1, 0.05), 1e-9), ((0.1, 0.05), 1.0), ((np.nan, 0.05), 0.02)])
def test_steps_to_an_error_out_of_reach_are_nan(h, goal):
    assert np.isnan(steps_to(of_order_two(np.array(h)), goal))


def test_the_exact_top_fits_together():
    np.testing.assert_allclose(ROTATION @ (0, 1, 0), PLACE, atol=2e-12)
    np.testing.assert_allclose(ROTATION @ np.cross(SPIN, (0, 1, 0)), VELOCITY, atol=2e-11)
    np.testing.assert_allclose(ROTATION.T @ ROTATION, np.eye(3), atol=5e-12)


@pytest.mark.parametrize("slowness", [(1, 1, 1), (100, 1, 1), (1, 100, 1), (1, 1, 100)])
def test_rankings_count_work_and_never_compare_times(slowness):
    """A busy machine makes any of the runs slow."""
    h = 1e-3 * 2.0 ** -np.arange(10)
    names = ("SO3xR3", "euler-angles", "euler-parameters")
    result = {
        name: Study(h, 0.3 * h**2, *(np.full(10, x) for x in (iterations, slow, operations)))
        for name, iterations, operations, slow in zip(names, (1, 1, 2), (100, 120, 150), slowness, strict=True)
    }
    slider = next(check for check in slider_crank_formulations._ranking_checks(result) if "operations" in check.name)
    assert slider.passed
    assert slider.measured == [100, 120, 300]
    explicit = {name: {f: result[f] for f in names[:2]} for name in ("DOPRI5", "RK67")}
    rotor = rotor_formulations._cost_checks(result, explicit)
    assert rotor[0].passed
    assert rotor[0].measured == pytest.approx(1.2)
    unknown = {name: s._replace(operations=np.full(10, np.nan)) for name, s in result.items()}
    assert work(unknown, 1e-3) == [1, 1, 2]
