"""Paths of equilibria stay on their branch: limit points, drives over many turns, kinks, and joints half a turn off."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import polhode as ph
from polhode.analysis.statics import EquilibriumError, equilibrium
from polhode.spaces import Rn
from polhode.systems.mechanical import Mechanical

HEIGHT, SPRING, LENGTH = 0.2, 1000.0, float(np.hypot(1.0, 0.2))


def resistance(z: Any) -> Any:
    """Of two bars from (±1, 0) that meet at height z, against a load downwards."""
    return -2 * SPRING * (1 - LENGTH / np.sqrt(1 + z * z)) * z


LIMIT = float(np.max(resistance(np.linspace(0, HEIGHT, 100001))))
"""The largest dead load that the bars carry before they snap through."""


def truss(load: float, growth: Any = lambda t: t) -> tuple[Any, Any]:
    def force(t: Any, q: Any, v: Any) -> Any:
        return 2 * SPRING * (LENGTH / jnp.sqrt(1 + q * q) - 1) * q - load * growth(t)

    return Mechanical(Rn(1), jnp.eye(1), force), (jnp.array([HEIGHT]), jnp.zeros(1))


def near(share: float) -> float:
    """The height under a share of the limit load, on the side of the start."""
    top = float(np.linspace(0, HEIGHT, 100001)[np.argmax(resistance(np.linspace(0, HEIGHT, 100001)))])
    return float(brentq(lambda z: resistance(z) - share * LIMIT, top, HEIGHT, xtol=1e-15))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("times", [(0, 1), (0, 0.4, 1), tuple(np.linspace(0, 1, 8))])
def test_below_the_limit_the_path_is_that_of_the_bars(times: Any) -> None:
    path = equilibrium(*truss(0.98 * LIMIT), times=times).path
    heights = [near(0.98 * t) if t else HEIGHT for t in times]
    np.testing.assert_allclose(path.state[0][:, 0], heights, atol=1e-11)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("times", [(0, 1), (0, 0.5, 1), tuple(np.linspace(0, 1, 7)), tuple(np.linspace(0, 1, 12))])
@pytest.mark.parametrize("share", [1.2, 1.5, 4.0])
def test_a_path_ends_at_its_limit_point_with_a_word(share: float, times: Any) -> None:
    with pytest.raises(EquilibriumError, match=r"path of equilibria ends at t = .* limit point") as caught:
        equilibrium(*truss(share * LIMIT), times=times)
    result = caught.value.equilibrium
    assert not result.converged
    np.testing.assert_allclose(result.t, 1 / share, rtol=4e-3 * share)
    assert result.t <= 1 / share
    assert np.all(result.path.state[0][:, 0] > near(0.999999))


@pytest.mark.exhaustive
@pytest.mark.parametrize("steps", [2, 3, 6])
def test_load_steps_do_not_lead_to_the_far_branch(steps: int) -> None:
    with pytest.raises(EquilibriumError, match=r"path of equilibria ends at 83\..* % of the load"):
        equilibrium(*truss(1.2 * LIMIT), t=1.0, steps=steps)
    ends = equilibrium(*truss(0.9 * LIMIT), t=1.0, steps=steps)
    np.testing.assert_allclose(ends.state[0], near(0.9), atol=1e-11)


@pytest.mark.exhaustive
def test_inside_transformations_there_is_no_other_branch_either() -> None:
    def end(load: Any) -> Any:
        return equilibrium(*truss(load), times=jnp.array([0.0, 0.5, 1.0])).state[0][0]

    both = jax.jit(lambda loads: jax.lax.map(jax.value_and_grad(end), loads))(jnp.array([0.9, 1.3]) * LIMIT)
    step = 1e-5
    slope = (near(0.9 + step) - near(0.9 - step)) / (2 * step * LIMIT)
    np.testing.assert_allclose([x[0] for x in both], [near(0.9), slope], rtol=1e-6)
    assert np.isnan(both[0][1])


@pytest.mark.exhaustive
def test_paths_may_have_kinks_and_loads_may_jump() -> None:
    def force(t: Any, q: Any, v: Any) -> Any:
        # Beyond q = 0.37 a stop that is a thousand times as stiff.
        return t - q - 1e3 * jnp.maximum(q - 0.37, 0.0)

    stopped = Mechanical(Rn(1), jnp.eye(1), force)
    path = equilibrium(stopped, (jnp.zeros(1), jnp.zeros(1)), times=[0.0, 1.0, 0.2]).path
    np.testing.assert_allclose(path.state[0][:, 0], [0, 0.37 + 0.63 / 1001, 0.2], atol=1e-12)
    switched = equilibrium(*truss(0.5 * LIMIT, lambda t: jnp.where(t > 0.3, 1.0, 0.0)), times=[0.0, 1.0])
    np.testing.assert_allclose(switched.state[0], near(0.5), atol=1e-11)


def driven(formulation: str, angle: Any) -> ph.Problem:
    model = ph.Model()
    arm = model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.3), name="arm")
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 0, 1), name="pin"))
    model.add(ph.joints.PrescribedRotation(model.ground, arm, axis=(0, 0, 1), angle=angle, name="drive"))
    model.add(ph.forces.SpringDamper(model.ground, arm, (0.0, 2.0, 0), (0.3, 0, 0), stiffness=5.0, length=1.0))
    return model.problem(formulation, t1=10.0, repair=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SO3xR3", pytest.param("minimal", marks=pytest.mark.exhaustive)])
def test_a_drive_is_followed_however_far_it_turns_in_a_step(formulation: str) -> None:
    problem = driven(formulation, lambda t: t)
    for times in ((0, 2.0), (0, 3.0), (0, 2.5, 5.0, 7.5, 10.0), (0, 10.0)):
        rest = ph.equilibrium(problem, times=np.array(times))
        R = np.asarray(rest.bodies["arm"].rotation)
        np.testing.assert_allclose(R[:2, 0], (np.cos(times[-1]), np.sin(times[-1])), atol=1e-9)
        if formulation == "minimal":
            np.testing.assert_allclose(rest.state[0][0], times[-1], atol=1e-9)


@pytest.mark.exhaustive
def test_a_joint_half_a_turn_off_is_no_equilibrium() -> None:
    problem = driven("SO3xR3", lambda t: t)
    with pytest.raises(EquilibriumError, match=r"half a turn off\. Start closer, or give `times`"):
        ph.equilibrium(problem, t=3.0)
