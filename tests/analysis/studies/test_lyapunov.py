"""Lyapunov exponents that are known, and motions that have none."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.analysis.studies.lyapunov import _estimate
from polhode.spaces import Rn


def _of(field: Any, state0: Any, t1: float, h: float) -> ph.Problem:
    state0 = np.asarray(state0, float)
    system = ph.VectorField(Rn(len(state0)), field)
    return ph.Problem("field", system, state0, (0.0, t1), {}, "", {}, {}, {}, "rk4", h)


def _lorenz(t: Any, y: Any) -> Any:
    return jnp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])


@pytest.mark.exhaustive
def test_the_exponent_of_lorenz() -> None:
    """0.9056: J. C. Sprott, Chaos and Time-Series Analysis (2003)."""
    result = ph.studies.lyapunov(_of(_lorenz, (1, 1, 20), 400.0, 0.01))
    assert result.exponent == pytest.approx(0.9056, abs=3 * result.deviation)
    assert result.deviation < 0.03
    assert result.chaotic
    assert result.time == pytest.approx(1 / 0.9056, rel=0.05)
    assert "Lyapunov time 1." in repr(result)


def test_linear_growth_of_a_saddle_goes_on_to_the_largest_number() -> None:
    result = ph.studies.lyapunov(_of(lambda t, y: jnp.stack([2 * y[0], -y[1]]), (0, 1), 500.0, 0.05), "rk6")
    assert result.exponent == pytest.approx(2.0, rel=1e-6)
    assert 340 < result.t[-1] < 360


def test_a_pendulum_that_swings_has_none() -> None:
    result = ph.studies.lyapunov(_of(lambda t, y: jnp.stack([y[1], -jnp.sin(y[0])]), (1, 0), 200.0, 0.05))
    assert not result.chaotic
    assert result.time == np.inf
    assert "no exponential growth" in repr(result)
    # Periods depend on the amplitude, so deviations grow in proportion to time.
    assert 1.0 < result.growth[-1] < 6.0


@pytest.mark.exhaustive
def test_constrained_coordinates_show_the_same_growth() -> None:
    model = ph.Model(gravity=(0, 0, -9.81))
    upper = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0.5), name="upper")
    lower = model.add_body(mass=0.7, inertia=(0.1, 0.1, 0.1), position=(1.0, 0, 1.5), name="lower")
    model.add(ph.joints.Revolute(model.ground, upper, point=(0, 0, 0), axis=(0, 1, 0)))
    model.add(ph.joints.Revolute(upper, lower, point=(1.0, 0, 1.0), axis=(0, 1, 0)))
    minimal = ph.studies.lyapunov(model.problem("minimal", t1=60.0), "rkmk4", h=0.004)
    held = ph.studies.lyapunov(model.problem("SO3xR3", t1=60.0), "herk4", h=0.004)
    assert minimal.chaotic
    assert held.exponent == pytest.approx(minimal.exponent, abs=4 * (held.deviation + minimal.deviation))
    # While both runs are the same motion, growth is, up to that of the coordinates.
    assert abs(held.growth - minimal.growth)[:40].max() < 3


def test_bad_input() -> None:
    problem = _of(_lorenz, (1, 1, 20), 1.0, 0.01)
    with pytest.raises(ValueError, match="must be a Problem"):
        ph.studies.lyapunov(problem.system)
    with pytest.raises(ValueError, match="after the start"):
        ph.studies.lyapunov(problem, t1=-1.0)


def test_scatter_of_noisy_growth_is_its_standard_error() -> None:
    t = np.arange(1.0, 257.0)
    noise = np.cumsum(np.random.default_rng(3).standard_normal(256))
    result = _estimate(t, 0.5 * t + noise)
    # The rate of a walk over n steps scatters by 1/√n.
    assert result.deviation == pytest.approx(1 / np.sqrt(192), rel=0.5)
