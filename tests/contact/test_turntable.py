"""A ball that rolls on a turning table: its contact runs over both, and its circle has 2/7 of the table's rate."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph

RATE, RADIUS = 2.0, 0.1


def end(formulation: str, h: float) -> np.ndarray:
    """Where the ball is after a second."""
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    table = model.add_body(
        mass=5.0,
        shape=ph.shapes.Cylinder(3.0, 0.1),
        position=(0, 0, -0.05),
        angular_velocity=(0, 0, RATE),
        name="table",
    )
    model.add(ph.joints.PrescribedRotation(model.ground, table, axis=(0, 0, 1), angle=lambda t: RATE * t, name="drive"))
    model.add(ph.joints.Revolute(model.ground, table, point=(0, 0, 0), axis=(0, 0, 1), name="axle"))
    (x, y), (u, v) = START
    ball = model.add_body(
        mass=2.0, shape=ph.shapes.Sphere(RADIUS), position=(x, y, RADIUS), velocity=(u, v, 0),
        angular_velocity=((RATE * x - v) / RADIUS, (u + RATE * y) / RADIUS, 1.0), name="ball",
    )  # fmt: skip
    model.add_contact(table, ball, friction=0.8)
    run = ph.simulate(model.problem(t1=1.0, h=h, formulation=formulation), "moreau")
    return np.asarray(run.bodies["ball"].position)[-1, :2]


START = (0.8, 0.0), (0.3, 0.4)


@pytest.mark.parametrize(
    "formulation", ["minimal", *(pytest.param(f, marks=pytest.mark.exhaustive) for f in ("SE3", "SO3xR3"))]
)
@pytest.mark.exhaustive
def test_the_circle_is_of_order_2(formulation):
    """Rolling gives v̇ = κΩ × v with κ = 2/7 for a ball of even density."""
    place, speed = np.array(START)
    k = 2 / 7 * RATE
    around = np.array([[np.sin(k), np.cos(k) - 1], [1 - np.cos(k), np.sin(k)]]) / k
    exact = place + around @ speed
    coarse, fine = (np.linalg.norm(end(formulation, h) - exact) for h in (0.005, 0.0025))
    assert fine < 1e-4
    assert np.log2(coarse / fine) == pytest.approx(2, abs=0.1)
