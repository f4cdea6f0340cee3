"""Runs with contacts that go on, in lanes, inside of transformations and with events."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.simulation.loops import host

G = 9.81


@pytest.fixture(scope="module")
def problem():
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    ball = ph.shapes.Sphere(0.1)
    friction, speed = ph.Parameter("friction", 0.1), ph.Parameter("speed", 2.0)
    model.add_body(mass=2.0, shape=ball, position=(0, 0, 0.3), velocity=(speed, 0, -1.0), name="ball")
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0.5, 0.05, 0.1), name="other")
    model.contacts(friction=friction, restitution=0.5)
    return model.problem(t1=0.6, h=0.01)


@pytest.fixture(scope="module")
def run(problem):
    return ph.simulate(problem)


def assert_same_bytes(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_runs_go_on_to_the_same_bytes(problem, run, tmp_path):
    ph.simulate(problem, store=tmp_path / "run.zarr", max_steps=23, throw=False)
    assert_same_bytes(ph.resume(tmp_path / "run.zarr", problem=problem, max_steps=1000).frames, run.frames)
    extended = ph.simulate(problem, initial=ph.simulate(problem, t1=0.3), t1=0.6)
    assert_same_bytes(*(jax.tree.map(lambda x: x[-1], each.frames) for each in (extended, run)))


@pytest.mark.exhaustive
def test_members_of_ensembles_are_single_runs(problem):
    samples = {"friction": np.array([0.05, 0.1, 0.3]), "speed": np.array([1.0, 2.0, 5.0])}
    members = ph.ensemble(problem, samples=samples, save_every=10)
    assert members.stats["by"] == "lanes"
    for k in range(3):
        alone = ph.simulate(problem.replace(**{name: x[k] for name, x in samples.items()}), save_every=10).to_xarray()
        for name in ("state.1", "outputs.positions"):
            np.testing.assert_array_equal(members.dataset[name][k].values, alone[name].values)


@pytest.mark.exhaustive
def test_runs_inside_jit_are_those_outside(problem, run):
    inside = jax.jit(lambda x: ph.simulate(problem.replace(friction=x)).state)(0.1)
    for x, y in zip(jax.tree.leaves(inside), jax.tree.leaves(run.state), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


@pytest.mark.exhaustive
def test_runs_inside_jit_take_problems_from_outside(problem):
    """The check of overlaps refused the tracers of a function that has no argument in the problem."""
    end = lambda speed: speed * ph.simulate(problem, throw=False).state[1][-1]  # noqa: E731
    np.testing.assert_allclose(jax.jit(end)(2.0), end(2.0), atol=1e-12)


@pytest.mark.exhaustive
def test_contacts_close_and_open_by_name():
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    ball = model.add_body(mass=2.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, 0.3), name="ball")
    # From the end of a step on.
    pull = lambda t: jnp.array([0.0, 0.0, jnp.where(t > 0.35, 40.0, 0.0)])  # noqa: E731
    model.add(ph.forces.PointForce(ball, pull))
    model.contacts()
    problem, h = model.problem(t1=0.5, h=0.01), 0.01
    events = ph.simulate(problem, events=ph.events.contact("floor", ball)).events
    assert list(events.name) == ["floor/ball closes", "floor/ball opens"]
    assert abs(events.t[0] - np.sqrt(2 * 0.2 / G)) < h
    assert abs(events.t[1] - 0.35 - np.sqrt(2e-6 / (20 - G))) < 1e-4
    with pytest.raises(ValueError, match="No rule lets 'floor' and 'bell' touch; these may touch: `ground`"):
        ph.simulate(problem, events=ph.events.contact("floor", "bell"))
    with pytest.raises(ValueError, match="got 3"):
        ph.events.contact("floor", 3)


@pytest.mark.parametrize("h", [0.01, pytest.param(0.0173, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_bounces_within_a_step_are_events_at_their_instants(h):
    # On a plane with a tilt, along its normal: the ball rises and falls as on a level one with less weight.
    tilt, fall, e = 0.3, 0.4, 0.6
    turn = np.array([[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]])
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(rotation=turn, name="slope"))
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=turn @ (0, 0, fall + 0.1), name="ball")
    model.contacts(restitution=e)
    run = ph.simulate(model.problem(t1=1.2, h=h), "moreau", events=ph.events.contact("slope", "ball"))
    weight, instants, speed = G * np.cos(tilt), [], np.sqrt(2 * G * np.cos(tilt) * fall)
    instant = speed / weight
    for _ in range(3):
        rebound = e * speed
        # The way of 1e-6 before and after the impact itself.
        before, after = ((u - np.sqrt(u * u - 2e-6 * weight)) / weight for u in (speed, rebound))
        instants += [instant - before, instant + after]
        instant, speed = instant + 2 * rebound / weight, rebound
    assert list(run.events.name[:6]) == ["slope/ball closes", "slope/ball opens"] * 3
    np.testing.assert_allclose(run.events.t[:6], instants, rtol=0, atol=1e-10)


def test_runs_start_with_the_forces_of_a_trial_step(problem, run, monkeypatch):
    advance, is_tried = host._Run._advance, host._Run._is_tried
    monkeypatch.setattr(host._Run, "_is_tried", lambda loop: False)
    evaluated = ph.simulate(problem, t1=0.02)
    assert np.max(np.abs(run.multipliers[0])) > 1.0
    np.testing.assert_allclose(run.multipliers[0], evaluated.multipliers[0], rtol=0, atol=1e-8)
    assert not np.any(run.multipliers[0][-6:])

    def fail(loop, n_limit):
        p, buffer = advance(loop, n_limit)
        failures.append(n_limit)
        return (p._replace(result=np.int32(1)) if failures == [0, 1] else p), buffer

    failures = []
    monkeypatch.setattr(host._Run, "_is_tried", is_tried)
    monkeypatch.setattr(host._Run, "_advance", fail)
    other = ph.simulate(problem, t1=0.02)
    assert failures[:3] == [0, 1, 1]
    np.testing.assert_allclose(other.multipliers[0], run.multipliers[0], rtol=0, atol=1e-8)
