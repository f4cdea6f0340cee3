"""Statics and vibrations of rods against beam theory and published values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import polhode as ph
from polhode.analysis.statics import equilibrium, modes


def straight(edges: int, clamped: tuple[str, ...], **options: Any) -> tuple[ph.Model, Any]:
    """A slender rod of length 1 along x with E I = 1, mass 1 per length."""
    stiffness = np.array([1.0, 1.0, 1.0, 1e6, 1e6, 1e6])
    section = ph.rods.Section(stiffness=stiffness, mass=1.0, inertia=(1e-6, 1e-6, 2e-6))
    points = np.zeros((edges + 1, 3))
    points[:, 0] = np.linspace(0, 1, edges + 1)
    model = ph.Model()
    return model, model.add_rod(points=points, section=section, clamped=clamped, **options)


@pytest.mark.exhaustive
def test_cantilever_frequencies_converge_at_second_order() -> None:
    exact = np.array([1.8751040687119611, 4.694091132974174]) ** 2
    errors = []
    for edges in (10, 20):
        model, _ = straight(edges, ("first",))
        result = modes(*model.assemble(), number=4).frequencies
        np.testing.assert_allclose(result[::2], result[1::2], rtol=1e-8)
        errors.append(result[::2] / exact - 1)
    assert np.abs(errors[1]).max() < 5e-3
    np.testing.assert_allclose(errors[0] / errors[1], [4, 4], rtol=0.15)


@pytest.mark.exhaustive
def test_free_beam_has_six_zero_modes() -> None:
    model, _ = straight(60, ())
    result = modes(*model.assemble(), number=8)
    np.testing.assert_array_equal(result.frequencies[:6], np.zeros(6))
    np.testing.assert_allclose(result.frequencies[6:], 4.730040744862704**2, rtol=3e-3)


@pytest.mark.exhaustive
def test_moment_rolls_a_rod_up_to_a_ring() -> None:
    model, rod = straight(8, ("first",))
    axis = np.asarray(rod.last.R)[:, 0]
    model.add(ph.forces.Torque(rod.last, lambda t: 2 * np.pi * t * jnp.asarray(axis)))
    system, state = model.assemble("SE3")
    result = equilibrium(system, state, times=np.linspace(1 / 8, 1, 8))
    # A moment with a fixed axis has no potential, so its stiffness does not tell.
    assert result.unstable is None
    assert result.stable is None
    points = np.asarray(rod.points(system)(result.t, result.state))
    assert np.linalg.norm(points[-1] - points[0]) < 1e-8
    assert np.linalg.norm(points[4] - points[0]) > 0.3
    # An eighth of a turn is one step, whatever the stress of the stiff directions: no halving, few corrections.
    assert np.all(result.iterations <= 6)


@pytest.mark.exhaustive
def test_derivatives_of_the_tip_with_respect_to_stiffness_and_load() -> None:
    def tip(p: Any) -> Any:
        section = ph.rods.Section(stiffness=p[0] * jnp.array([1.0, 1.2, 1.1, 50, 50, 80]), mass=1.0, inertia=np.ones(3))
        model = ph.Model()
        rod = model.add_rod(points=np.eye(3)[:1] * np.arange(4)[:, None] / 3, section=section, clamped=("first",))
        model.add(ph.forces.PointForce(rod.last, p[1] * jnp.array([-0.1, 0.3, 1.0])))
        system, state = model.assemble()
        return system.pose(equilibrium(system, state).state[0], rod.last).x

    at, step = np.array([1.3, 0.8]), 1e-4
    place = jax.jit(tip)
    central = np.stack([(place(at + e) - place(at - e)) / (2 * step) for e in step * np.eye(2)], axis=1)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(tip))(at), central, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(place(at), tip(at), atol=1e-12)


@pytest.mark.exhaustive
def test_large_rod_bends_like_a_cantilever() -> None:
    model, rod = straight(1000, ("first",))
    model.add(ph.forces.PointForce(rod.last, (0, 0, -1.0)))
    system, state = model.assemble()
    result = equilibrium(system, state)
    # F L² / E I = 1, from the elliptic integrals of the elastica.
    np.testing.assert_allclose(system.pose(result.state[0], rod.last).x, elastica(1.0), atol=1e-5)


def elastica(load: float) -> np.ndarray:
    """Tip of a cantilever of length and bending stiffness 1 under a load across it: θ'' = -F cos θ."""

    def ends(bent: np.ndarray) -> np.ndarray:
        run = solve_ivp(rates, (0, 1), [0, bent[0], 0, 0], rtol=1e-11, atol=1e-12)
        return run.y[:, -1]

    def rates(s: float, y: np.ndarray) -> list[float]:
        return [y[1], -load * np.cos(y[0]), np.cos(y[0]), np.sin(y[0])]

    bent = brentq(lambda k: ends(np.array([k]))[1], 0.0, 2 * load, xtol=1e-14)
    x, z = ends(np.array([bent]))[2:]
    return np.array([x, 0, -z])
