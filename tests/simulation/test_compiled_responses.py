"""Events with which compiled steps deal by themselves, and those that they leave to the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.simulation.events import sampling
from polhode.simulation.events.event_functions import EventFunctions
from polhode.simulation.events.handler import EventHandler
from polhode.spaces import Rn

OSCILLATOR = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], -y[0]]))
START = jnp.array([1.0, 0.0])


def kick(t, y):
    return y * jnp.array([1.0, -0.5])


def concrete_kick(t, y):
    return y * jnp.array([1.0, -0.5 + 0.0 * float(y[1])])


def same(a, b):
    """Whether frames and events are equal to the last bit."""
    pairs = zip(jax.tree.leaves((a.t, a.state, a.events)), jax.tree.leaves((b.t, b.state, b.events)), strict=True)
    for x, y in pairs:
        np.testing.assert_array_equal(x, y)


def test_more_events_than_a_block_has_rows_are_those_of_a_cosine(monkeypatch):
    monkeypatch.setattr(EventHandler, "act", lambda *_: pytest.fail("compiled steps left an event to the host"))
    zero = ph.Event(lambda t, y: y[0], name="zero")
    run = ph.simulate(OSCILLATOR, "rkmk4", state0=START, t1=1000.0, h=0.01, save_every=500, events=zero)
    assert len(run.events) == 318
    np.testing.assert_allclose(run.events.t, (np.arange(318) + 0.5) * np.pi, rtol=0, atol=1e-7)
    np.testing.assert_allclose(np.asarray(run.events.before)[:, 0], 0, atol=2e-12)
    np.testing.assert_allclose(run.t, 5.0 * np.arange(201), rtol=1e-15)
    np.testing.assert_allclose(np.asarray(run.state)[:, 0], np.cos(run.t), atol=1e-7)


@pytest.mark.exhaustive
@pytest.mark.parametrize("schedule", [{"save_every": 3}, {"save_at": np.linspace(0, 6, 601)}], ids=["steps", "times"])
def test_the_host_and_compiled_steps_make_the_same_run(schedule, monkeypatch):
    calls, act = [], EventHandler.act
    monkeypatch.setattr(EventHandler, "act", lambda self, t, *args: calls.append(t) or act(self, t, *args))
    watch = ph.Event(lambda t, y: y[1], name="watch")

    def run(action):
        calls.clear()
        # The last frame of a step lies at an event: sin(t) = 0 at 0.05 · 60 = 3 s is near, t = 3 s is it.
        ticks = ph.Event(lambda t, y: jnp.sin(np.pi * t / 1.5), name="tick")
        events = [ph.Event(lambda t, y: y[0] - 0.3, action, direction=-1), watch, ticks]
        return ph.simulate(OSCILLATOR, "rkmk4", state0=START, t1=6.0, h=0.05, events=events, **schedule)

    compiled = run(kick)
    assert not calls
    on_host = run(concrete_kick)
    assert len(calls) == sum(name == "event" for name in on_host.events.name) > 0
    same(compiled, on_host)
    assert "python_events" not in compiled.stats
    assert on_host.stats["python_events"] == {"event": len(calls)}


@pytest.mark.exhaustive
def test_two_actions_at_one_instant_act_in_order():
    first = ph.Event(lambda t, y: t - 0.5, lambda t, y: y + 1.0, name="add")
    second = ph.Event(lambda t, y: t - 0.5, lambda t, y: 2.0 * y, name="double")
    field = ph.VectorField(Rn(1), lambda t, y: jnp.zeros(1))
    run = ph.simulate(field, "rkmk4", state0=jnp.zeros(1), t1=1.0, h=0.3, events=[first, second])
    assert run.events.name == ["add", "double"]
    np.testing.assert_array_equal(np.asarray(run.events.after)[:, 0], [1.0, 2.0])
    assert float(run.state[-1, 0]) == 2.0


def test_compiled_steps_count_events():
    zero = ph.Event(lambda t, y: y[0], name="zero")
    run = ph.simulate(OSCILLATOR, "rkmk4", state0=START, t1=30.0, h=0.05, events=zero, max_events=4, throw=False)
    assert run.stats["result"] == ph.Result.events_accumulate
    assert len(run.events) == 4


@pytest.mark.parametrize("action", [kick, concrete_kick], ids=["compiled", "host"])
def test_events_a_little_apart_do_not_accumulate(action):
    """With a coarse tolerance all of them keep the count of a crowd, to which none of them adds."""
    ticks = ph.Event(lambda t, y: jnp.sin(2 * np.pi * t), action, tolerance=1e-6, name="tick")
    run = ph.simulate(OSCILLATOR, "rkmk4", state0=START, t1=15.2, h=0.1, events=ticks)
    assert len(run.events) == 30


@pytest.mark.exhaustive
def test_the_host_and_compiled_steps_find_the_same_zeno_point():
    def drop(bounce):
        ground = ph.Event(lambda t, y: y[0], bounce, direction=-1, name="ground")
        fall = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], -9.81]))
        return ph.simulate(fall, "rkmk4", state0=START, t1=3.0, h=0.05, events=ground, throw=False)

    compiled, on_host = drop(kick), drop(concrete_kick)
    assert compiled.stats["result"] == on_host.stats["result"] == ph.Result.events_accumulate
    same(compiled, on_host)
    # Falls between impacts last half as long each time.
    np.testing.assert_allclose(compiled.stats["t_reached"], 3 * np.sqrt(2 / 9.81), atol=1e-9)


def test_an_action_that_returns_another_structure_is_named():
    swap = ph.Event(lambda t, y: y[0], lambda t, y: [y[0], -y[1]], name="swap")
    with pytest.raises(ph.SimulationError, match=r"action of event `swap` at t = 1.57.* got PyTreeDef\(\[\*, \*\]\)"):
        ph.simulate(OSCILLATOR, "rkmk4", state0=START, t1=2.0, h=0.05, events=swap)


@pytest.mark.exhaustive
def test_an_action_that_breaks_a_constraint_is_explained():
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.02), position=(0, 0, -0.5))
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    problem = model.problem("SE3", t1=0.1, h=0.01)
    leave = ph.Event(lambda t, y: t - 0.055, lambda t, y: (y[0], y[1] + 1.0), name="leave")
    with pytest.raises(ph.SimulationError, match=r"action of event `leave` at t = 0.055"):
        ph.simulate(problem, events=leave)


@pytest.mark.exhaustive
def test_steps_that_are_not_searched_have_nothing_to_find(monkeypatch):
    # Sines of up to three periods in a step, with all offsets: many touch zero nearly, some twice.
    key = jax.random.split(jax.random.key(1), 4)
    height, rate, phase = (jax.random.uniform(k, (4000,), minval=0.01, maxval=6.0) for k in key[:3])
    offset = jax.random.uniform(key[3], (4000,), minval=-8.0, maxval=8.0)

    def function(s, numbers):
        h, w, p, b = numbers
        return jnp.stack([b + h * jnp.sin(w**2 / 2 * s + p)])

    functions = EventFunctions((), OSCILLATOR, (0,), (False,), 1e-12, 7, (False,))

    def search(numbers):
        at = lambda s: sampling.Sample(s, *jax.jvp(lambda s: function(s, numbers), (s,), (1.0,)))  # noqa: E731
        first, last = at(jnp.asarray(0.0)), at(jnp.asarray(1.0))
        skip, rounding = jnp.zeros((), bool), jnp.asarray(1e-14)
        calm = sampling._is_calm(functions, jnp.sign(first.values), at, (first, last), skip)
        return calm, sampling.find_crossing(functions, jnp.sign(first.values), at, first, last, rounding, skip)

    numbers = (height, rate, phase, offset)
    calm, crossing = jax.jit(jax.vmap(search))(numbers)
    monkeypatch.setattr(sampling, "_is_calm", lambda *_: jnp.zeros((), bool))

    def whole_search(numbers):
        at = lambda s: sampling.Sample(s, *jax.jvp(lambda s: function(s, numbers), (s,), (1.0,)))  # noqa: E731
        first, last = at(jnp.asarray(0.0)), at(jnp.asarray(1.0))
        skip, rounding = jnp.zeros((), bool), jnp.asarray(1e-14)
        return sampling.find_crossing(functions, jnp.sign(first.values), at, first, last, rounding, skip)

    whole = jax.jit(jax.vmap(whole_search))(numbers)
    for x, y in zip(jax.tree.leaves(crossing), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(x, y)
    # Nearly all of those without a crossing are recognised, and crossings are in the others.
    crossed = np.asarray(whole.crossed)
    assert 1000 < crossed.sum() < 3000
    assert np.asarray(calm)[~crossed].mean() > 0.7
    assert not np.asarray(calm)[crossed].any()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("count", "compiled"), [(2, True), (5, False)])
def test_impacts_of_large_systems_are_left_to_the_host(count, compiled, monkeypatch):
    """Compiled into the steps of 60 unknowns they take minutes, and gigabytes."""
    model = ph.Model()
    below = model.ground
    for k in range(count):
        body = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(k + 0.5, 0, 0))
        joint = model.add(ph.joints.Revolute(below, body, point=(k, 0, 0), axis=(0, 1, 0)))
        below = body
    problem = model.problem("SO3xR3", t1=0.1, h=1e-2)
    seen = []

    class SeenError(Exception):
        pass

    def stop_here(handler, _):
        seen.append(handler._detection_parts()[1])
        raise SeenError

    monkeypatch.setattr(EventHandler, "stepper", stop_here)
    with pytest.raises(SeenError):
        ph.simulate(problem, "herk4", events=ph.events.stop(joint, -0.3, 0.3, 0.5))
    assert [responses is not None for responses in seen] == [compiled]
