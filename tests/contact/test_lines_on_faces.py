"""Flat faces on the sides of cylinders that are longer: two points along a line, wherever it ends."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph

RADIUS, HEIGHT, MASS, G = 0.5, 0.2, 2.0, 9.81
BESIDE = ph.rotation_vector((np.pi / 2, 0, 0))


def rocking(method: str, t1: float):
    """A plate of 0.6 by 0.4 m on a cylinder of 2 m along y, on which it rolls to and fro."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Cylinder(RADIUS, 2.0, rotation=BESIDE))
    plate = model.add_body(
        mass=MASS, shape=ph.shapes.Box((0.6, 0.4, HEIGHT)), position=(0, 0, RADIUS + 0.5 * HEIGHT),
        velocity=(0.05 * 0.5 * HEIGHT, 0, 0), angular_velocity=(0, 0.05, 0), name="plate",
    )  # fmt: skip
    model.add_contact(model.ground, plate, friction=1.0)
    return ph.simulate(model.problem("SO3xR3", t1=t1, h=0.002), integrator=method)


def check(run) -> None:
    """It neither sinks nor tips, and loses nothing."""
    assert np.min(run.contacts["plate"].gap) > -1e-8
    assert np.max(np.abs(run.bodies["plate"].angular_velocity[:, 0])) < 1e-11
    assert abs(run.dissipated["impact"][-1]) < 1e-7


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "rattle", "generalized-alpha"])
def test_a_plate_rocks_on_a_cylinder(method: str) -> None:
    run = rocking(method, 1.5)
    check(run)
    rate, t = run.bodies["plate"].angular_velocity[:, 1], run.t
    rises = np.flatnonzero((rate[:-1] < 0) & (rate[1:] >= 0))
    zeros = t[rises] - rate[rises] * np.diff(t)[rises] / np.diff(rate)[rises]
    inertia = MASS / 12 * (0.6**2 + HEIGHT**2) + MASS * (0.5 * HEIGHT) ** 2
    period = 2 * np.pi / np.sqrt(MASS * G * (RADIUS - 0.5 * HEIGHT) / inertia)
    np.testing.assert_allclose(np.diff(zeros), period, rtol=2e-4)
