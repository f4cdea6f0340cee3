"""Parameters from measured motion: against the exact solution of a damped oscillator, fit_result by another program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import curve_fit

import polhode as ph

MASS, STIFFNESS, DAMPING, SIGMA = 2.0, 18.0, 0.8, 0.02
T = np.linspace(0.0, 3.0, 61)


def _oscillator(stretch: float = 1.0) -> ph.Problem:
    model = ph.Model()
    block = model.add_body(mass=MASS, inertia=(1.0, 1.0, 1.0), name="block", velocity=(stretch, 0, 0))
    rail = model.add(ph.joints.Prismatic(model.ground, block, axis=(1, 0, 0), point=(0, 0, 0), name="rail"))
    model.add(ph.forces.JointSpring(rail, ph.Parameter("stiffness", 10.0), damping=ph.Parameter("damping", 0.4)))
    model.add(ph.forces.PointForce(block, (0, 0, ph.Parameter("side", 1.0)), (0, 0, 0)))
    return model.problem("minimal", t1=3.0, h=0.02)


def _exact(t: Any, stiffness: Any, damping: Any, speed: Any = 1.0) -> Any:
    """m ẍ + c ẋ + k x = 0 from x = 0."""
    decay = damping / (2 * MASS)
    omega = np.sqrt(stiffness / MASS - decay**2)
    return speed * np.exp(-decay * t) * np.sin(omega * t) / omega


def _data(seed: int = 0, speed: float = 1.0) -> dict[str, np.ndarray]:
    noise = SIGMA * np.random.default_rng(seed).standard_normal(len(T))
    return {"time": T, "rail.displacement": _exact(T, STIFFNESS, DAMPING, speed) + noise}


@pytest.fixture(scope="module")
def problem() -> ph.Problem:
    return _oscillator()


@pytest.fixture(scope="module")
def fit_result(problem: ph.Problem) -> ph.Fit:
    return ph.fit(problem, _data(), ["stiffness", "damping"], integrator="rkmk4")


@pytest.mark.exhaustive
def test_a_csv_file_is_data(problem: ph.Problem, fit_result: ph.Fit, tmp_path: Path) -> None:
    path = tmp_path / "measured.csv"
    rows = zip(*_data().values(), strict=True)
    path.write_text("time, rail.displacement\n" + "".join(f"{float(t)!r}, {float(x)!r}\n" for t, x in rows))
    from_file = ph.fit(problem, path, ["stiffness", "damping"], integrator="rkmk4")
    assert from_file.values == fit_result.values


def test_files_that_are_no_tables_are_named(problem: ph.Problem, tmp_path: Path) -> None:
    path = tmp_path / "measured.csv"
    with pytest.raises(ValueError, match="no file"):
        ph.fit(problem, str(path), "stiffness")
    path.write_text("time,rail.displacement\n0.0,0.1\n0.5,high\n")
    with pytest.raises(ValueError, match="'high' in line 3"):
        ph.fit(problem, path, "stiffness")
    path.write_text("rail.displacement\n0.1\n")
    with pytest.raises(ValueError, match='instants of its values as "time"'):
        ph.fit(problem, path, "stiffness")


@pytest.mark.exhaustive
def test_it_is_the_fit_of_the_exact_solution(fit_result: ph.Fit) -> None:
    best, covariance = curve_fit(_exact, T, _data()["rail.displacement"], (10.0, 0.4), xtol=1e-12, ftol=1e-12)
    assert fit_result.converged
    np.testing.assert_allclose(list(fit_result.values.values()), best, rtol=1e-5)
    np.testing.assert_allclose(fit_result.covariance, covariance, rtol=1e-3)
    left = _data()["rail.displacement"] - _exact(T, *best)
    np.testing.assert_allclose(fit_result.residuals[0]["rail.displacement"], left, atol=1e-5)
    np.testing.assert_allclose(fit_result.noise, np.sqrt(left @ left / (len(T) - 2)), rtol=1e-5)
    assert fit_result.problem.parameters["stiffness"] == fit_result.values["stiffness"]
    assert fit_result.names == ("stiffness", "damping")
    assert "stiffness = " in repr(fit_result)
    assert "noise" in fit_result._repr_html_()


@pytest.mark.exhaustive
def test_intervals_are_students(fit_result: ph.Fit) -> None:
    # The 97.5 % quantile of Student's distribution with 59 degrees of freedom, from a table.
    centre = np.array(list(fit_result.values.values()))
    np.testing.assert_allclose(fit_result.intervals[:, 1] - centre, 2.00100 * fit_result.deviations, rtol=1e-5)
    np.testing.assert_allclose(fit_result.intervals.mean(axis=1), centre, rtol=1e-12)


@pytest.mark.exhaustive
def test_bounds_hold_and_known_noise_counts(problem: ph.Problem) -> None:
    result = ph.fit(
        problem, _data(), {"stiffness": (5.0, 15.0), "damping": (0.0, 3.0)}, sigma=SIGMA, integrator="rkmk4"
    )
    assert result.values["stiffness"] == pytest.approx(15.0, rel=1e-6)
    assert list(result.at_bound) == [True, False]
    # The model doesn't fit there.
    assert result.noise > 1.5
    assert "at its bound" in repr(result)


@pytest.mark.exhaustive
def test_missing_values_are_left_out(problem: ph.Problem, fit_result: ph.Fit) -> None:
    data = _data()
    data["rail.displacement"][::3] = np.nan
    with pytest.raises(ValueError, match=r"21 values that are not finite, the first at t = 0.*missing=True"):
        ph.fit(problem, data, ["stiffness", "damping"])
    result = ph.fit(problem, data, ["stiffness", "damping"], integrator="rkmk4", missing=True)
    known = np.isfinite(data["rail.displacement"])
    best, _ = curve_fit(_exact, T[known], data["rail.displacement"][known], (10.0, 0.4), xtol=1e-12, ftol=1e-12)
    np.testing.assert_allclose(list(result.values.values()), best, rtol=1e-5)
    assert result.deviations[0] / result.noise > fit_result.deviations[0] / fit_result.noise
    assert np.array_equal(np.isfinite(result.residuals[0]["rail.displacement"]), known)


@pytest.mark.exhaustive
def test_several_runs_tell_more_than_one(problem: ph.Problem, fit_result: ph.Fit) -> None:
    problems = [problem, _oscillator(-0.5)]
    data = [_data(), _data(1, -0.5)]
    result = ph.fit(problems, data, ["stiffness", "damping"], integrator="rkmk4")
    values = np.concatenate([d["rail.displacement"] for d in data])
    both = lambda t, k, c: np.concatenate([_exact(T, k, c), _exact(T, k, c, -0.5)])  # noqa: E731
    best, covariance = curve_fit(both, np.concatenate([T, T]), values, (10.0, 0.4), xtol=1e-12, ftol=1e-12)
    np.testing.assert_allclose(list(result.values.values()), best, rtol=1e-5)
    np.testing.assert_allclose(result.covariance, covariance, rtol=1e-3)
    assert len(result.problem) == len(result.residuals) == 2


@pytest.mark.exhaustive
def test_intervals_hold_as_often_as_they_say(problem: ph.Problem) -> None:
    """In 95 of 100 seeds: fewer than 89, or all, would come about once in a hundred tries."""
    held = np.zeros(2)
    for seed in range(100):
        result = ph.fit(problem, _data(seed), ["stiffness", "damping"], integrator="rkmk4")
        low, high = result.intervals.T
        held += (low <= [STIFFNESS, DAMPING]) & (high >= [STIFFNESS, DAMPING])
    assert (held >= 89).all()
    assert (held < 100).all()


@pytest.mark.parametrize(
    ("data", "parameters", "options", "text"),
    [
        ({}, "stifness", {}, "has no parameter 'stifness'.*stiffness"),
        ({}, {"stiffness": (0, 5)}, {}, "Bounds of `stiffness`.*must enclose its first guess"),
        ({}, {"stiffness": 3.0}, {}, "stiffness"),
        ({}, [], {}, "at least one parameter"),
        ({"rail.displacement": None, "rail.angle": T}, "stiffness", {}, "rail.displacement"),
        ({"rail.displacement": T[:5]}, "stiffness", {}, r"must have shape \(61,\)"),
        ({"time": T - 1}, "stiffness", {}, "the problem starts at 0"),
        ({"time": np.zeros(61)}, "stiffness", {}, "has 0 twice"),
        ({"time": None}, "stiffness", {}, 'instants of its values as "time"'),
        ({}, "stiffness", {"sigma": -1.0}, "`sigma` must be positive"),
        ({}, "stiffness", {"sigma": {"block.x": 1.0}}, "rail.displacement"),
        ({}, "stiffness", {"confidence": 95}, "`confidence` must lie between 0 and 1"),
        ({"time": T[1:2], "rail.displacement": T[1:2]}, ["stiffness", "damping"], {}, "1 measured values can't tell 2"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_any_run(
    problem: ph.Problem, data: dict[str, Any], parameters: Any, options: dict[str, Any], text: str
) -> None:
    data = {name: x for name, x in {**_data(), **data}.items() if x is not None}
    with pytest.raises(ValueError, match=text):
        ph.fit(problem, data, parameters, **options)


@pytest.mark.exhaustive
def test_numbers_that_the_data_dont_depend_on_are_named(problem: ph.Problem) -> None:
    with pytest.raises(ValueError, match="don't depend on side at the first guess"):
        ph.fit(problem, _data(), ["stiffness", "side"], integrator="rkmk4")


def test_as_many_data_sets_as_problems(problem: ph.Problem) -> None:
    with pytest.raises(ValueError, match="2 problems and 1 data sets"):
        ph.fit([problem, problem], [_data()], "stiffness")
