"""Bodies that go farther in a step than they are thick: they touch, or the run says that it has missed it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.spaces import Rn
from polhode.systems.mechanical import FunctionContacts, Mechanical


def thrown(speed: float, start: float, angle: float = 0.0) -> ph.Model:
    """A ball of 20 cm towards a plate of 10 cm, whose top is at 0."""
    model = ph.Model()
    model.ground.add_shape(ph.shapes.Box((400, 400, 0.1), position=(0, 0, -0.05), name="plate"))
    velocity = (speed * np.tan(angle), 0, -speed)
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, start), velocity=velocity, name="ball")
    model.contacts()
    return model


def run(model: ph.Model, method: str, t1: float = 0.1) -> Any:
    return ph.simulate(model.problem("SO3xR3", t1=t1, h=0.005), integrator=method)


def attempt(model: ph.Model, method: str, t1: float) -> Any:
    """The run, or None if it says that it has missed a contact."""
    try:
        return run(model, method, t1)
    except ph.SimulationError as error:
        if "contact_missed" not in str(error):
            raise
        return None


def test_a_fast_ball_does_not_pass_through_a_plate() -> None:
    """It goes half a metre in each step: what is behind the plate a step ahead has gone through it."""
    last = run(thrown(100.0, 2.6), "moreau").bodies["ball"]
    np.testing.assert_allclose(last.position[-1], (0, 0, 0.1), rtol=0, atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "rattle", "generalized-alpha"])
def test_what_passes_through_a_plate_is_said(method: str) -> None:
    rng, missed = np.random.default_rng(0), 0
    for _ in range(20):
        model = thrown(10 ** rng.uniform(1, 2.5), rng.uniform(0.5, 4), rng.uniform(-0.9, 0.9))
        found = attempt(model, method, 0.5)
        if found is None:
            missed += 1
        else:
            height = found.bodies["ball"].position[:, 2]
            assert abs(height[-1] - 0.1) < 1e-9
            assert np.min(height) > 0.1 - 1e-6
    assert missed < 4 if method == "moreau" else 0 < missed < 20


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "rattle"])
@pytest.mark.parametrize("speed", [3.0, 15.0, 40.0])
def test_balls_hit_or_fly_past_each_other(speed: float, method: str) -> None:
    for beside in (0.05, 0.15, 0.19, 0.21, 0.25, 0.4):
        model = ph.Model()
        for name, place, velocity in (("one", (-1.0, 0, 0), (speed, 0, 0)), ("other", (0, beside, 0), (0, 0, 0))):
            model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=place, velocity=velocity, name=name)
        model.contacts()
        found = attempt(model, method, 2.0 / speed + 0.05)
        hits = found is None or np.max(np.abs(found.bodies["other"].velocity)) > 1e-9
        assert hits == (beside < 0.2)


@pytest.mark.exhaustive
def test_a_gap_that_is_a_function_is_passed_by() -> None:
    """A point that flies past a circle within one step: there is no sphere that says where the circle ends."""
    contacts = FunctionContacts(lambda t, q: jnp.sqrt(q @ q)[None] - 0.1, number=1)
    point = Mechanical(Rn(2), np.eye(2), lambda t, q, v: jnp.zeros(2), contact_set=contacts)
    start = (np.array([-0.35, 0.2]), np.array([100.0, 0.0]))
    last = ph.simulate(point, "rattle", t1=0.02, h=0.005, state0=start)
    np.testing.assert_allclose(last.state[1][-1], (100, 0), rtol=0, atol=1e-12)
