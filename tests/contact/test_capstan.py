"""A chain on a cylinder: it holds up to a ratio of loads that its polygon has in closed form, and slips beyond."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import polhode as ph

RADIUS, BALL, MASS = 0.1, 0.005, 0.02
FRICTION, SLACK = 0.3, 10.0


def growth(turn: float) -> float:
    """By how much tension may grow at a ball between two links that turn by an angle.

    (T' - T) cos(turn/2) = μ (T' + T) sin(turn/2).
    """
    slope = FRICTION * np.tan(turn / 2)
    return (1 + slope) / (1 - slope)


def chain(ratio: float, count: int, wrap: float = np.pi) -> ph.Model:
    """Balls without rotation on a fixed cylinder about y, joined by rods without mass, pulled at both ends."""
    model, turn, reach = ph.Model(units="SI"), wrap / count, RADIUS + BALL
    lies = ph.rotation_vector((np.pi / 2, 0, 0))
    model.ground.add_shape(ph.shapes.Cylinder(radius=RADIUS, length=0.2, rotation=lies, name="drum"))
    angles = (np.pi - wrap) / 2 + turn * (np.arange(count) + 0.5)
    places = reach * np.stack([-np.cos(angles), 0 * angles, np.sin(angles)], axis=1)
    balls = [model.add_point(mass=MASS, position=x, name=f"ball {i}") for i, x in enumerate(places)]
    for ball in balls:
        ball.add_shape(ph.shapes.Sphere(BALL))
        model.add_contact(model.ground, ball, friction=FRICTION)
    for (first, x), (second, y) in itertools.pairwise(zip(balls, places, strict=True)):
        model.add(ph.joints.Distance(first, second, first_point=x, second_point=y))
    for ball, end, size in (
        (balls[0], angles[0] - turn / 2, -SLACK),
        (balls[-1], angles[-1] + turn / 2, ratio * SLACK),
    ):
        model.add(ph.forces.PointForce(ball, size * np.array([np.sin(end), 0, np.cos(end)])))
    return model


def simulate(model: ph.Model, method: str, t1: float, h: float):
    """A run with steps h, or with a tolerance; of balls on the bound of friction, which others hold, in few steps."""
    if method != "rkmk54":
        return ph.simulate(model.problem("SO3xR3", t1=t1, h=h), integrator=method)
    return ph.simulate(model.problem("SO3xR3", t1=t1), integrator=method, rtol=1e-8, max_steps=4000)


def speeds(run) -> np.ndarray:
    """Of all balls, (balls, frames)."""
    return np.linalg.norm([np.asarray(run.bodies[name].velocity) for name in run.bodies], axis=2)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "count"), [("moreau", 6), ("moreau", 12), ("rattle", 6), ("generalized-alpha", 6), ("rkmk54", 6)]
)
def test_a_chain_holds_up_to_the_limit_of_its_polygon_and_slips_beyond(method, count):
    """At 0.999 of the limit nothing moves; at 1.001 all balls begin with the acceleration of the recursion."""
    turn = np.pi / count
    q = growth(turn)
    limit = q**count
    # The same as Euler's and Eytelwein's ratio but for terms of the second order in the turn.
    assert limit / np.exp(FRICTION * np.pi) - 1 == pytest.approx(
        FRICTION * np.pi * (1 + FRICTION**2 * 4) * turn**2 / 12, rel=0.25
    )

    holds = simulate(chain(0.999 * limit, count), method, 1.0, 0.01)
    # Friction isn't determined: what the tolerance of impulses, 1e-10, leaves of 26 N on 0.02 kg in a step.
    assert speeds(holds).max() < 3e-9
    for name in holds.bodies:
        np.testing.assert_allclose(np.ptp(np.asarray(holds.bodies[name].position), axis=0), 0, atol=3e-10)
    contacts = [holds.contacts["drum", name] for name in holds.bodies]
    friction, normal = (
        np.array([np.linalg.norm(c.force[-1]) ** 2 - c.normal_force[-1] ** 2 for c in contacts]) ** 0.5,
        np.array([c.normal_force[-1] for c in contacts]),
    )
    assert np.all(friction / normal < FRICTION * (1 + 1e-8))
    assert np.all(friction / normal > 0.98 * FRICTION)

    slips = simulate(chain(1.001 * limit, count), method, 1e-4, 1e-4)
    lack = np.cos(turn / 2) - FRICTION * np.sin(turn / 2)
    exact = 0.001 * limit * SLACK * (q - 1) * lack / (MASS * (limit - 1))
    np.testing.assert_allclose(speeds(slips)[:, 1] / slips.t[1], exact, rtol=3e-6)
    assert all(slips.contacts["drum", name].mode[-1] == "slide" for name in slips.bodies)
