"""Events that come and go within one step are found, however fast their functions change."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import polhode as ph
from polhode.spaces import Rn

OSCILLATOR = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], -4 * y[0]]))
START = jnp.array([1.0, 0.0])


def wheel(formulation: str, speed: float):
    """A wheel that turns evenly, and its axle."""
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), angular_velocity=(0, 0, speed))
    axle = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 0, 1)))
    return model.problem(formulation, t1=3.0), axle


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("formulation", "method", "steps"),
    [
        ("minimal", "rkmk4", {"h": 1.0}),
        ("minimal", "rkmk54", {"rtol": 1e-8}),
        ("minimal", "implicit-midpoint", {"h": 0.5}),
        ("SO3xR3", "herk4", {"h": 1.0}),
        ("SE3", "herk5", {"h": 0.5}),
        ("SO3xR3", "generalized-alpha", {"h": 0.1}),
    ],
)
def test_half_turns_within_a_step_are_all_found(formulation, method, steps):
    problem, axle = wheel(formulation, 11.0)
    half = ph.Event(lambda t, state, system: jnp.sin(axle.value(system, t, state)), name="half a turn")
    run = ph.simulate(problem, method, events=half, **steps)
    np.testing.assert_allclose(run.events.t, np.pi * np.arange(1, 11) / 11.0, atol=1e-11)


def clocks(speed: Any):
    return [
        ph.Event(lambda t, y: jnp.sin(speed * t + 0.3), name="tick"),
        ph.Event(lambda t, y: y[0] - 0.2, name="height"),
        ph.Event(lambda t, y: jnp.sin(2 * (speed * t + 0.3)), lambda t, y: y, name="half tick"),
    ]


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [{"h": 0.5}, {"rtol": 1e-7, "max_steps": 400}], ids=["constant", "controlled"])
def test_clocks_lose_no_tick_on_the_host_and_in_batches(steps):
    method = "rkmk4" if "h" in steps else "dopri5"

    def run(speed):
        return ph.simulate(
            OSCILLATOR, method, state0=START, t1=3.0, events=clocks(speed), save_every=None, max_events=130, **steps
        )

    speeds = jnp.array([25.0, 40.0])
    batch = jax.jit(jax.vmap(lambda speed: run(speed).stats["events"]))(speeds)
    for k, speed in enumerate(speeds):
        host = run(float(speed))
        for name, rate in (("tick", 1), ("half tick", 2)):
            exact = (np.pi * np.arange(1, int(rate * (3 * speed + 0.3) / np.pi) + 1) / rate - 0.3) / float(speed)
            result = host.events.t[np.array(host.events.name) == name]
            np.testing.assert_allclose(result, exact, atol=1e-11)
        traced = np.asarray(batch["t"][k])[np.asarray(batch["number"][k]) >= 0]
        np.testing.assert_allclose(traced, host.events.t, atol=1e-11)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("speed", "shift", "share", "span"),
    [
        # Passages that last a fifth of the time between two looks, and less than that.
        (410.58, 0.0, 0.914, (1.8, 2.0)),
        (137.0, 0.89, 0.1, (0.0, 0.6)),
        (9.0, -0.999, 0.0, (0.0, 3.0)),
    ],
)
def test_functions_with_many_and_short_crossings_are_followed(speed, shift, share, span):
    def value(t, height, sin):
        return sin(speed * t + 0.088) + shift + share * height

    def exact(t):
        return value(t, np.cos(2 * t), np.sin)

    t0, t1 = span
    start = jnp.array([np.cos(2 * t0), -2 * np.sin(2 * t0)])
    event = ph.Event(lambda t, y: value(t, y[0], jnp.sin))
    run = ph.simulate(OSCILLATOR, "rkmk6", state0=start, h=0.2, t0=t0, t1=t1, events=event, save_every=None)
    times = np.linspace(t0, t1, 50001)
    values = exact(times)
    places = np.flatnonzero(values[:-1] * values[1:] < 0)
    zeros = [brentq(exact, times[k], times[k + 1], xtol=1e-14) for k in places]
    assert len(run.events) == len(zeros)
    np.testing.assert_allclose(run.events.t, np.array(zeros, float), atol=2e-6)


def test_a_sampled_controller_holds_its_torque_from_tick_to_tick():
    # The torque is read at every tick and held; the loop is unstable only because of that.
    stiffness, damping, inertia, period, ticks = 40.0, 4.0, 0.1, 0.06, 10
    field = ph.VectorField(Rn(3), lambda t, y: jnp.array([y[1], y[2] / inertia, 0.0]))
    tick = ph.Event(
        lambda t, y: jnp.sin(jnp.pi * t / period), lambda t, y: y.at[2].set(-stiffness * y[0] - damping * y[1])
    )
    start = jnp.array([0.3, 0.0, -stiffness * 0.3])
    end = (ticks + 0.2) * period
    y = np.array([0.3, 0.0])
    for k in range(ticks + 1):
        force = -stiffness * y[0] - damping * y[1]
        span = period if k < ticks else 0.2 * period
        motion = lambda t, y, force=force: [y[1], force / inertia]  # noqa: E731
        y = solve_ivp(motion, (0, span), y, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    each: list[dict[str, Any]] = [{"h": 0.2}, {"rtol": 1e-8}]
    for steps in each:
        run = ph.simulate(field, "rkmk54", state0=start, t1=end, events=tick, **steps)
        np.testing.assert_allclose(run.events.t, period * np.arange(1, ticks + 1), atol=1e-11)
        np.testing.assert_allclose(run.state[-1, :2], y, rtol=1e-8)


@pytest.mark.exhaustive
def test_events_of_one_instant_all_act_in_the_order_of_the_list():
    field = ph.VectorField(Rn(2), lambda t, y: jnp.ones(2))
    back = ph.Event(lambda t, y: y[0] - 0.5, lambda t, y: y.at[0].set(0.0), name="back")
    beside = ph.Event(lambda t, y: y[0] - 0.5, lambda t, y: y.at[1].add(y[0] + 10), name="beside")
    clock = ph.Event(lambda t, y: jnp.sin(20 * jnp.pi * t), lambda t, y: y.at[1].multiply(2.0), name="clock")
    for order, end in (([back, beside], [0.1, 10.6]), ([beside, back], [0.1, 11.1])):
        run = ph.simulate(field, "rkmk4", state0=jnp.zeros(2), h=0.6, t1=0.6, events=order)
        assert run.events.name == [event.name for event in order]
        np.testing.assert_allclose(run.events.t, [0.5, 0.5], atol=1e-12)
        np.testing.assert_allclose(run.state[-1], end, atol=1e-11)
    run = ph.simulate(field, "rkmk4", state0=jnp.zeros(2), h=0.52, t1=0.52, events=[beside, clock])
    assert run.events.name[-2:] == ["beside", "clock"] or run.events.name[-2:] == ["clock", "beside"]
    assert len(run.events) == 11


def test_lists_within_lists_are_lists_and_an_event_given_twice_acts_once():
    def bounce():
        return ph.Event(lambda t, y: y[0], lambda t, y: y.at[1].multiply(-0.5), direction=-1, name="bounce")

    options: dict[str, Any] = {"state0": jnp.array([0.5, -1.0]), "h": 0.125, "t1": 1.0}
    field, one = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], 0.0])), bounce()
    for twice in ([one, one], [[one], (one, [one])], [bounce(), bounce()]):
        run = ph.simulate(field, "rkmk4", events=twice, **options)
        assert len(run.events) == 1
        np.testing.assert_allclose(run.state[-1], [0.25, 0.5], atol=1e-11)
