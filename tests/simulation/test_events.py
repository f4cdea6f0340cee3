"""Events against exact solutions: when they come, what they do, and that everything else stays as it is."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy.special import ellipk

import polhode as ph
from polhode.spaces import Rn

G = 9.81


def free_fall():
    """A ball that falls freely: (height, velocity)."""
    return ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], -G]))


def bounce(restitution, **options):
    given: dict[str, Any] = {"direction": -1, "name": "bounce", **options}
    return ph.Event(lambda t, y: y[0], lambda t, y: y.at[1].multiply(-restitution), **given)


def bounces(restitution, count):
    """When a ball from 1 m at rest is on the ground."""
    first = np.sqrt(2 / G)
    return first + 2 * first * np.cumsum([0, *restitution ** np.arange(1, count)])


STEPS: dict[str, dict[str, Any]] = {"large": {"h": 0.05}, "small": {"h": 0.001}, "controlled": {"rtol": 1e-9}}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("method", ["dopri5", "rkmk54", "implicit-midpoint"])
@pytest.mark.parametrize("steps", STEPS)
def test_a_bouncing_ball_meets_the_ground_when_it_must(method, steps):
    if steps == "controlled" and method == "implicit-midpoint":
        pytest.skip("has no estimate")
    start = jnp.array([1.0, 0.0])
    run = ph.simulate(free_fall(), method, state0=start, t1=3.0, events=[bounce(0.8)], **STEPS[steps])
    exact = bounces(0.8, 6)
    assert len(run.events) == 6
    np.testing.assert_allclose(run.events.t, exact, atol=1e-11)
    np.testing.assert_allclose(run.events.after[:, 1], -0.8 * run.events.before[:, 1], rtol=0)
    assert run.events.name == ["bounce"] * 6
    # What comes after the last one is the exact parabola.
    since = run.t[-1] - exact[-1]
    speed = 0.8**6 * G * exact[0]
    np.testing.assert_allclose(run.state[-1], [speed * since - G * since**2 / 2, speed - G * since], atol=1e-9)


@pytest.mark.exhaustive
def test_saved_frames_stay_where_they_are_asked_for():
    at = np.linspace(0, 3, 61)
    options: dict[str, Any] = {"state0": jnp.array([1.0, 0.0]), "t1": 3.0, "events": bounce(0.8)}
    by_step = ph.simulate(free_fall(), "rkmk4", h=0.05, **options)
    np.testing.assert_allclose(by_step.t, at, atol=1e-14)
    by_time = ph.simulate(free_fall(), "rkmk54", rtol=1e-9, save_at=at, **options)
    np.testing.assert_array_equal(by_time.t, at)
    np.testing.assert_allclose(by_time.state, by_step.state, atol=1e-10)
    between = ph.simulate(free_fall(), "rkmk54", h=0.3, save_at=at, **options)
    np.testing.assert_allclose(between.state, by_step.state, atol=1e-10)
    assert np.min(by_time.state[:, 0]) >= 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [{"h": 0.01}, {"rtol": 1e-12}], ids=["constant", "controlled"])
def test_a_pendulum_against_a_stop_swings_for_elliptic_integrals(steps):
    # With the stop at the bottom each swing is half a period, and the modulus sin(θmax/2) shrinks with restitution.
    field = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], -jnp.sin(y[0])]))
    stop = ph.Event(lambda t, y: y[0], lambda t, y: y.at[1].multiply(-0.7), direction=-1, name="stop")
    amplitude = 2.5
    run = ph.simulate(field, "rkmk54", state0=jnp.array([amplitude, 0.0]), t1=13.0, events=stop, **steps)
    moduli = np.sin(amplitude / 2) * 0.7 ** np.arange(10)
    times = ellipk(moduli[0] ** 2) + np.concatenate(([0], np.cumsum(2 * ellipk(moduli[1:] ** 2))))
    times = times[times < 13]
    assert len(times) == 4
    np.testing.assert_allclose(run.events.t, times, atol=1e-9)


class SlidingBlock(eqx.Module):
    """A block of unit mass on a spring of unit stiffness, held by friction of a given sign, or stuck."""

    friction: Array
    free: Array

    def __call__(self, t, y):
        return self.free * jnp.array([y[1], -y[0] - self.friction])


@pytest.mark.exhaustive
@pytest.mark.parametrize("steps", [{"h": 0.02}, {"rtol": 1e-11}], ids=["constant", "controlled"])
def test_a_block_with_dry_friction_stops_where_it_must(steps):
    mu = 0.3

    def turned(t, y, system):
        stuck = jnp.abs(y[0]) <= mu
        return eqx.tree_at(
            lambda s: (s.field.friction, s.field.free),
            system,
            (jnp.where(y[0] > 0, -mu, mu), jnp.where(stuck, 0.0, 1.0)),
        )

    at_rest = ph.Event(lambda t, y: y[1], lambda t, y: y.at[1].set(0.0), change=turned, name="at rest")
    system = ph.VectorField(Rn(2), SlidingBlock(jnp.asarray(-mu), jnp.asarray(1.0)))
    run = ph.simulate(system, "rkmk54", state0=jnp.array([2.0, 0.0]), t1=12.0, events=at_rest, **steps)
    # Half-cycles of π about ±μ: 2 → -1.4 → 0.8 → -0.2, where friction holds it.
    np.testing.assert_allclose(run.events.t, np.pi * np.arange(1, 4), atol=1e-9)
    np.testing.assert_allclose(run.events.after[:, 0], [-1.4, 0.8, -0.2], atol=1e-9)
    held = run.state[run.t > 3 * np.pi + 0.1]
    assert len(held)
    assert np.all(held == run.events.after[-1])


def test_a_terminal_event_ends_the_run_in_its_last_frame():
    ground = ph.Event(lambda t, y: y[0], terminal=True)
    run = ph.simulate(free_fall(), "rkmk4", state0=jnp.array([1.0, 0.0]), h=0.01, t1=3.0, events=ground)
    assert run.stats["result"] == ph.Result.event_reached
    assert run.stats["t_reached"] == run.t[-1] == run.events.t[0]
    np.testing.assert_allclose(run.t[-1], np.sqrt(2 / G), atol=1e-12)
    # A second run begins there, without a second event.
    on = ph.simulate(free_fall(), "rkmk4", initial=run, t1=1.0, h=0.01, events=ground)
    assert on.stats["result"] == ph.Result.successful
    assert not len(on.events)
    np.testing.assert_allclose(on.t[1], run.t[-1] + (1 - run.t[-1]) / (len(on.t) - 1), atol=1e-12)


def test_crossings_of_one_direction_count():
    field = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], -y[0]]))
    watched = [ph.Event(lambda t, y: y[0], direction=d, name=str(d)) for d in (-1, 0, 1)]
    run = ph.simulate(field, "rkmk6", state0=jnp.array([1.0, 0.0]), h=0.1, t1=10.0, events=watched)
    zeros = np.pi * (np.arange(3) + 0.5)
    for name, exact in {"-1": zeros[::2], "0": zeros, "1": zeros[1::2]}.items():
        result = run.events.t[np.array(run.events.name) == name]
        np.testing.assert_allclose(result, exact, atol=1e-8)


def test_several_events_of_a_step_come_in_order_and_together():
    field = ph.VectorField(Rn(1), lambda t, y: jnp.ones(1))
    watched = [ph.Event(lambda t, y, c=c: y[0] - c, name=str(c)) for c in (0.7, 0.2, 0.2, 0.5)]
    run = ph.simulate(field, "rkmk4", state0=jnp.zeros(1), h=1.0, t1=1.0, events=watched)
    np.testing.assert_allclose(run.events.t, [0.2, 0.2, 0.5, 0.7], atol=1e-12)
    assert run.events.name == ["0.2", "0.2", "0.5", "0.7"]
    assert run.events.number.tolist() == [1, 2, 3, 0]
    assert run.stats["steps"] == 1


def test_an_event_at_the_start_or_at_the_end_of_a_step_comes_once():
    field = ph.VectorField(Rn(1), lambda t, y: jnp.ones(1))
    watched = [ph.Event(lambda t, y, c=c: y[0] - c, name=str(c)) for c in (0.0, 0.5, 1.0)]
    run = ph.simulate(field, "rkmk4", state0=jnp.zeros(1), h=0.25, t1=2.0, events=watched)
    np.testing.assert_allclose(run.events.t, [0.5, 1.0], atol=1e-12)
    np.testing.assert_array_equal(run.t, np.arange(9) / 4)
    back = ph.simulate(field, "rkmk4", state0=2 * jnp.ones(1), t0=2.0, h=0.3, t1=-1.0, events=watched)
    np.testing.assert_allclose(back.events.t, [1.0, 0.5, 0.0], atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("restitution", [0.5, 0.0])
def test_bounces_that_accumulate_end_the_run_with_a_remedy(restitution):
    options: dict[str, Any] = {"state0": jnp.array([1.0, 0.0]), "h": 0.05, "t1": 3.0}
    with pytest.raises(ph.SimulationError, match="come to rest"):
        ph.simulate(free_fall(), "rkmk4", events=bounce(restitution), **options)
    run = ph.simulate(free_fall(), "rkmk4", events=bounce(restitution), throw=False, **options)
    assert run.stats["result"] == ph.Result.events_accumulate
    whole = np.sqrt(2 / G) * (1 + 2 * restitution / (1 - restitution))
    np.testing.assert_allclose(run.stats["t_reached"], whole, atol=1e-8)
    few = ph.simulate(free_fall(), "rkmk4", events=bounce(0.9), max_events=3, throw=False, **options)
    assert len(few.events) == 3


def test_a_rotating_body_stays_on_its_space():
    problem = ph.problems.get("free-rigid-body")
    angle = ph.Event(lambda t, state: state[0][0, 0] - 0.3, name="a third")
    runs = [ph.simulate(problem, "rkmk54", h=h, t1=1.0, events=angle) for h in (0.004, 0.001)]
    assert len(runs[0].events) == len(runs[1].events) > 2
    np.testing.assert_allclose(runs[0].events.t, runs[1].events.t, atol=1e-6)
    R = runs[1].events.before[0]
    np.testing.assert_allclose(R[:, 0, 0], 0.3, atol=1e-11)
    np.testing.assert_allclose(np.swapaxes(R, 1, 2) @ R, np.broadcast_to(np.eye(3), R.shape), atol=1e-14)


def test_wrong_events_are_explained():
    start: dict[str, Any] = {"state0": jnp.array([1.0, 0.0]), "h": 0.1, "t1": 1.0}
    wrong_ones: list[tuple[Any, str]] = [
        (3.0, "must be a list of polhode.Event"),
        (ph.Event(lambda t, y: y), r"must return one floating-point number, got shape \(2,\)"),
        (ph.Event(lambda t, y: y[0] if y[0] > 0 else y[1], name="mine"), "`mine` can't be traced"),
        (ph.Event("height"), "no output `height`"),
    ]
    for wrong, message in wrong_ones:
        with pytest.raises(ValueError, match=message):
            ph.simulate(free_fall(), "rkmk4", events=wrong, **start)
    with pytest.raises(ValueError, match="direction"):
        ph.Event(lambda t, y: y[0], direction=2)


@pytest.mark.exhaustive
def test_accelerations_that_detection_knows_are_those_of_the_next_step():
    """A step with a known slope is the step without, to the last bit, and takes the slope that it is given."""
    field = lambda t, y: jnp.array([y[1], -jnp.sin(y[0]) + 0.1 * t])  # noqa: E731
    y, t, h = jnp.array([0.3, 0.4]), jnp.asarray(0.7), jnp.asarray(0.05)
    for name in ("rkmk4", "rkmk4-2c", "cf4"):
        method = ph.integrators.get(name)

        def end(slope, method=method):
            system = ph.VectorField(Rn(2), field, slope=slope)
            return np.asarray(method.step(system, t, h, method.init(system, t, h, y))[0].state)

        np.testing.assert_array_equal(end(field(t, y)), end(None))
        assert np.all(end(field(t, y) + 1.0) != end(None))


class _Pushed(eqx.Module):
    """A mass whose load at the jump itself is that before it."""

    breakpoints = (0.31,)

    def __call__(self, t, y):
        return jnp.array([y[1], jnp.where(t <= 0.31, 1.0, -2.0)])


@pytest.mark.exhaustive
def test_watching_velocities_changes_no_step_and_knows_no_slope_across_jumps():
    system, watch = ph.VectorField(Rn(2), _Pushed()), ph.Event(lambda t, y: y[1] + 100.0)
    alone, watched = (
        ph.simulate(system, "rkmk4", state0=jnp.zeros(2), t1=1.0, h=0.1, events=events) for events in ((), watch)
    )
    np.testing.assert_array_equal(watched.state, alone.state)
    np.testing.assert_allclose(watched.state[-1, 1], 0.31 - 2 * 0.69, atol=1e-14)
