"""Errors that a second run with half the step tells of every output."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.spaces import Rn

TOP = ph.problems.get("heavy-top")


@pytest.fixture(scope="module")
def exact():
    return ph.simulate(TOP, "rkmk6", h=1e-4, save_at=np.linspace(0, 0.5, 51))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "given",
    [
        {"integrator": "lie-midpoint", "h": 1e-3},
        {"integrator": "rkmk4", "h": 1e-3},
        {"integrator": "rkmk4", "h": 1e-3, "breakpoints": (0.0707, 0.2)},
        {"integrator": "rkmk54", "rtol": 1e-6},
    ],
    ids=["lie-midpoint", "rkmk4", "breakpoints", "controlled"],
)
def test_estimates_are_within_a_factor_of_two_or_three_of_the_error(given, exact):
    run = ph.simulate(TOP, t1=0.5, save_at=exact.t, estimate_error=True, **given)
    estimates = run.stats["error_estimate"]
    for name in ("centre_of_mass", "axis"):
        true = np.max(np.abs(run.outputs[name] - exact.outputs[name]))
        assert 0.3 < estimates[name]["error"] / true < 3.0, name
        size = np.max(np.abs(run.outputs[name]))
        assert estimates[name]["digits"] == pytest.approx(math.log10(size / estimates[name]["error"]), abs=1e-9)


def test_the_frames_are_those_of_a_run_without():
    plain = ph.simulate(TOP, "rkmk4", h=1e-3, t1=0.1)
    run = ph.simulate(TOP, "rkmk4", h=1e-3, t1=0.1, estimate_error=True)
    assert run.state[0].tobytes() == plain.state[0].tobytes()
    assert "error_estimate" not in plain.stats


def test_a_result_that_is_wrong_altogether_has_no_digits():
    run = ph.simulate(TOP, "rkmk4", h=1e-2, t1=1.0, estimate_error=True, throw=False)
    assert run.stats["error_estimate"]["centre_of_mass"]["digits"] < 1.0


def test_a_second_run_that_fails_says_so():
    # Half the step reaches the time at which the field leaves the numbers.
    field = ph.VectorField(Rn(1), lambda t, y: jnp.where(jnp.abs(t - 0.25) < 0.01, jnp.nan, -y))
    run = ph.simulate(field, "lie-euler", h=0.5, t1=1.0, state0=jnp.ones(1), estimate_error=True)
    assert "half the step" in run.stats["error_estimate"]["failed"]


def test_what_is_estimated_reaches_the_store(tmp_path):
    path = tmp_path / "run.zarr"
    run = ph.simulate(TOP, "rkmk4", h=1e-3, t1=0.1, estimate_error=True, store=path)
    plain = ph.simulate(TOP, "rkmk4", h=1e-3, t1=0.1, estimate_error=True)
    assert ph.load(path).stats["error_estimate"] == run.stats["error_estimate"] == plain.stats["error_estimate"]
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


def test_states_are_compared_where_there_are_no_outputs():
    decay = ph.VectorField(Rn(1), lambda t, y: -y)
    run = ph.simulate(decay, "rk4", h=0.1, t1=1.0, state0=jnp.ones(1), estimate_error=True)
    true = np.max(np.abs(run.state[:, 0] - np.exp(-run.t)))
    assert 0.5 < run.stats["error_estimate"]["state"]["error"] / true < 2


def test_a_run_that_was_ended_is_not_estimated(monkeypatch):
    class Ended(Exception):
        pass

    def second(*_):
        raise Ended

    monkeypatch.setattr("polhode.simulation.simulate.estimate_run_error", second)
    run = ph.simulate(TOP, "rkmk54", rtol=1e-8, max_steps=20, estimate_error=True, throw=False)
    assert run.stats["result"] is ph.Result.max_steps_reached
    with pytest.raises(Ended):
        ph.simulate(TOP, "rkmk4", h=1e-3, t1=0.01, estimate_error=True)
