"""Events inside jit, vmap and grad: those of runs on the host, with exact derivatives of what comes after."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.spaces import Rn

G = 9.81


def ball(restitution: Any = 0.8, **options: Any) -> dict[str, Any]:
    bounce = ph.Event(lambda t, y: y[0], lambda t, y: y.at[1].multiply(-restitution), direction=-1, name="bounce")
    return {"t1": 1.5, "events": bounce, "max_events": 8, **options}


FALLING = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], -G]))
STEPS: dict[str, dict[str, Any]] = {
    "constant": {"h": 0.05},
    "some": {"h": 0.05, "save_every": 4},
    "at times": {"h": 0.1, "save_at": np.linspace(0, 1.5, 16)},
    "controlled": {"rtol": 1e-9, "save_at": np.linspace(0, 1.5, 16), "max_steps": 64},
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("steps", STEPS)
def test_a_traced_run_is_that_of_the_host(steps):
    start, options = jnp.array([1.0, 0.0]), STEPS[steps]
    host = ph.simulate(FALLING, "rkmk54", state0=start, **ball(), **options)
    traced = jax.jit(lambda y: ph.simulate(FALLING, "rkmk54", state0=y, **ball(), **options))(start)
    np.testing.assert_allclose(traced.t, host.t, atol=1e-14)
    np.testing.assert_allclose(traced.state, host.state, atol=1e-10)
    assert len(host.events) == 2
    np.testing.assert_allclose(traced.events.t, host.events.t, atol=1e-11)
    np.testing.assert_allclose(traced.events.after, host.events.after, atol=1e-10)
    assert traced.events.name == host.events.name
    assert int(traced.stats["result"]) == ph.Result.successful


@pytest.mark.exhaustive
def test_a_batch_has_events_of_its_own():
    heights = jnp.array([0.5, 1.0, 2.0])
    make = lambda height: ph.simulate(FALLING, "rkmk4", state0=jnp.array([height, 0.0]), h=0.05, **ball())  # noqa: E731
    batch = jax.jit(jax.vmap(make))(heights)
    for k, height in enumerate(heights):
        one, host = jax.tree.map(lambda x, k=k: x[k], batch), make(height)
        np.testing.assert_allclose(one.events.t, host.events.t, atol=1e-11)
        np.testing.assert_allclose(one.state, host.state, atol=1e-10)
    with pytest.raises(ValueError, match="batch"):
        _ = batch.events


def exact(height, restitution, t):
    """Height and velocity after two bounces and before the third."""
    first = jnp.sqrt(2 * height / G)
    speed = G * first
    since = t - first - 2 * restitution * first
    speed = restitution**2 * speed
    return jnp.array([speed * since - G * since**2 / 2, speed - G * since])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("steps", [{"h": 0.05}, {"rtol": 1e-9, "max_steps": 64}], ids=["constant", "controlled"])
def test_derivatives_pass_through_events(steps, mode):
    def end(x):
        run = ph.simulate(
            FALLING, "rkmk54", state0=jnp.array([x[0], 0.0]), save_every=None, **ball(x[1], t1=1.3), **steps
        )
        return run.state[-1]

    x = jnp.array([1.0, 0.8])
    np.testing.assert_allclose(end(x), exact(x[0], x[1], 1.3), atol=1e-10)
    np.testing.assert_allclose(mode(end)(x), jax.jacfwd(lambda x: exact(x[0], x[1], 1.3))(x), atol=1e-8)


def test_the_time_of_an_event_has_a_derivative():
    def time(height):
        run = ph.simulate(FALLING, "rkmk4", state0=jnp.array([height, 0.0]), h=0.05, **ball())
        return run.stats["events"]["t"][0]

    np.testing.assert_allclose(jax.jit(jax.grad(time))(1.0), 0.5 * np.sqrt(2 / G), rtol=1e-9)


@pytest.mark.exhaustive
def test_a_traced_run_ends_at_a_terminal_event_and_with_too_many():
    ground = ph.Event(lambda t, y: y[0], terminal=True)
    start = jnp.array([1.0, 0.0])
    run = jax.jit(lambda y: ph.simulate(FALLING, "rkmk4", state0=y, h=0.05, t1=1.0, events=ground))(start)
    assert int(run.stats["result"]) == ph.Result.event_reached
    np.testing.assert_allclose(run.stats["t_reached"], np.sqrt(2 / G), atol=1e-11)
    assert np.isnan(run.state[-1]).all()
    assert np.isfinite(run.state[run.t < 0.45]).all()
    few = jax.jit(lambda y: ph.simulate(FALLING, "rkmk4", state0=y, h=0.05, **ball(max_events=2)))(start)
    assert int(few.stats["result"]) == ph.Result.events_accumulate


def test_changes_of_the_system_are_refused_inside():
    change = ph.Event(lambda t, y: y[0], change=lambda t, y, system: system, name="mode")
    with pytest.raises(ValueError, match="`mode` changes the system"):
        jax.jit(lambda y: ph.simulate(FALLING, "rkmk4", state0=y, h=0.05, t1=1.0, events=change))(jnp.array([1.0, 0.0]))


@pytest.mark.exhaustive
def test_stops_of_a_model_work_inside():
    model = ph.Model(gravity=(0, 0, -G))
    bar = model.add_body(mass=1.0, inertia=(0.01, 0.1, 0.1), position=(0.5, 0, 0))
    hinge = model.add(ph.joints.Revolute(model.ground, bar, point=(0, 0, 0), axis=(0, 1, 0)))
    problem = model.problem("minimal", t1=1.0, h=0.02)
    stop = ph.events.stop(hinge, upper=1.0, restitution=0.5)
    host = ph.simulate(problem, "rkmk54", events=stop)
    traced = jax.jit(lambda s: ph.simulate(problem, "rkmk54", state0=s, events=stop))(problem.state0)
    assert len(host.events) == 2
    np.testing.assert_allclose(traced.events.t, host.events.t, atol=1e-11)
    np.testing.assert_allclose(traced.state[1], host.state[1], atol=1e-10)
