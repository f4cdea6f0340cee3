"""Bounces that no impulse within the cone of friction, or no room, allows: the contact ends at rest instead."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph


def lever(friction: float, formulation: str, gap: float = 0.0) -> ph.Problem:
    """A rod that hangs 20° from upright, hinged so low that its tip runs into the floor on its way down.

    It begins when it has this gap.
    """
    tilt, length = np.deg2rad(20.0), 1.0
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    height = length * np.cos(tilt) + 0.01 + gap
    tip = np.array([length * np.sin(tilt), 0, 0.01 + gap])
    ball = model.add_body(
        mass=1.0, inertia=(0.1, 0.1, 0.1), position=tip, shape=ph.shapes.Sphere(0.01), name="ball",
        angular_velocity=(0, 1.0, 0), velocity=np.cross((0, 1.0, 0), tip - (0, 0, height)),
    )  # fmt: skip
    model.add(ph.joints.Revolute(model.ground, ball, point=(0, 0, height), axis=(0, 1, 0), name="hinge"))
    model.contacts(friction=friction, restitution=0.5)
    return model.problem(t1=0.1, h=1e-3, formulation=formulation)


@pytest.mark.parametrize("formulation", ["minimal", pytest.param("SO3xR3", marks=pytest.mark.exhaustive)])
def test_a_lever_that_friction_jams_stops_dead(formulation):
    """Friction up to tan 20° = 0.364 lets the tip bounce with e times its speed; with more, nothing turns it back."""
    bounces, jams = (ph.simulate(lever(mu, formulation)) for mu in (0.2, 0.5))
    spin = lambda run: np.asarray(run.bodies["ball"].angular_velocity)[:, 1]  # noqa: E731
    rate = spin(bounces)
    after = rate[np.argmax(rate * rate[0] < 0)]
    assert after == pytest.approx(-0.5 * rate[0], rel=0.02)
    # The load of the step of the impact opens the gap by its way, which the next one closes.
    assert np.max(np.abs(spin(jams)[4:])) < 1e-12


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_a_lever_jams_wherever_in_a_step_it_arrives(formulation):
    """Runs in redundant coordinates ended by `contact_unsolved`, as velocities at the impact agreed with no joint."""
    for gap in (1e-4, 2e-3, 2.13e-3, 2.77e-3):
        ball = ph.simulate(lever(0.5, formulation, gap)).bodies["ball"]
        assert np.max(np.abs(np.asarray(ball.angular_velocity)[-50:])) < 1e-12
        # It has entered by what it turned within the step of the impact at most.
        assert np.asarray(ball.position)[-1, 2] == pytest.approx(0.01, abs=2e-6)


@pytest.mark.exhaustive
def test_a_ball_in_a_narrow_slit_comes_to_rest():
    """Its bounce would be through the other wall within the step."""
    model = ph.Model(units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="left", normal=(1, 0, 0)))
    model.ground.add_shape(ph.shapes.Plane(name="right", normal=(-1, 0, 0), point=(0.2001, 0, 0)))
    ball = ph.shapes.Sphere(0.1)
    model.add_body(mass=1.0, shape=ball, position=(0.10005, 0, 0), velocity=(-1, 0, 0), name="ball")
    model.contacts(friction=0.0, restitution=0.5)
    run = ph.simulate(model.problem(t1=0.05, h=5e-3))
    speed = np.abs(np.asarray(run.bodies["ball"].velocity)[:, 0])
    assert np.all(np.diff(speed) < 1e-12)
    assert speed[-1] < 0.02
