"""Statics and vibrations of rods against beam theory and published values."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.statics import equilibrium, modes

pytestmark = pytest.mark.long


def straight(edges: int, clamped: tuple[str, ...], **options: Any) -> tuple[ph.Model, Any]:
    """A slender rod of length 1 along x with E I = 1, mass 1 per length."""
    stiffness = np.array([1.0, 1.0, 1.0, 1e6, 1e6, 1e6])
    section = ph.rods.Section(stiffness=stiffness, mass=1.0, inertia=(1e-6, 1e-6, 2e-6))
    points = np.zeros((edges + 1, 3))
    points[:, 0] = np.linspace(0, 1, edges + 1)
    model = ph.Model()
    return model, model.add_rod(points=points, section=section, clamped=clamped, **options)


def test_cantilever_frequencies_converge_at_second_order() -> None:
    exact = np.array([1.8751040687119611, 4.694091132974174]) ** 2
    errors = []
    for edges in (10, 20):
        model, _ = straight(edges, ("first",))
        found = modes(*model.assemble(), number=4).frequencies
        np.testing.assert_allclose(found[::2], found[1::2], rtol=1e-8)
        errors.append(found[::2] / exact - 1)
    assert np.abs(errors[1]).max() < 5e-3
    np.testing.assert_allclose(errors[0] / errors[1], [4, 4], rtol=0.15)


def test_free_beam_has_six_zero_modes() -> None:
    model, _ = straight(60, ())
    found = modes(*model.assemble(), number=8)
    np.testing.assert_array_equal(found.frequencies[:6], np.zeros(6))
    np.testing.assert_allclose(found.frequencies[6:], 4.730040744862704**2, rtol=3e-3)


def test_moment_rolls_a_rod_up_to_a_ring() -> None:
    model, rod = straight(8, ("first",))
    axis = np.asarray(rod.last.R)[:, 0]
    model.add(ph.forces.Torque(rod.last, lambda t: 2 * np.pi * t * jnp.asarray(axis)))
    system, state = model.assemble()
    found = equilibrium(system, state, times=np.linspace(0.1, 1, 10))
    points = np.asarray(rod.points(system)(found.t, found.state))
    assert np.linalg.norm(points[-1] - points[0]) < 1e-8
    assert np.linalg.norm(points[4] - points[0]) > 0.3


def test_bend_of_45_degrees() -> None:
    # K. Bathe & S. Bolourchi; tip positions of J. Simo & L. Vu-Quoc.
    angles = np.linspace(0, np.pi / 4, 9)
    points = 100 * np.stack((1 - np.cos(angles), np.sin(angles), 0 * angles), axis=1)
    tangents = np.stack((np.sin(angles), np.cos(angles), 0 * angles), axis=1)
    up = np.tile([0.0, 0, 1], (9, 1))
    rotations = np.stack((np.cross(up, tangents), up, tangents), axis=2)
    rotations[:, :, 0] = np.cross(up, tangents)
    E, G, second = 1e7, 5e6, 1 / 12
    stiffness = np.array([E * second, E * second, 2 * G * second, G, G, E])
    section = ph.rods.Section(stiffness=stiffness, mass=1.0, inertia=(second, second, 2 * second))
    model = ph.Model()
    rod = model.add_rod(points=points, rotations=rotations, section=section, reference="as-placed", clamped=("first",))
    model.add(ph.forces.PointForce(rod.last, lambda t: jnp.array([0.0, 0.0, 600.0]) * t))
    system, state = model.assemble()
    found = equilibrium(system, state, times=[0.25, 0.5, 0.75, 1.0])
    tips = found.path.outputs["positions"][[1, 3], -1]
    np.testing.assert_allclose(tips[0], (22.33, 58.84, 40.08), rtol=0.01)
    np.testing.assert_allclose(tips[1], (15.79, 47.23, 53.37), rtol=0.01)
    # Loaded by steps, the rod ends in the same place.
    again = equilibrium(system, state, t=1.0, steps=8)
    np.testing.assert_allclose(again.path.outputs["positions"][-1, -1], tips[1], rtol=1e-9)
