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


FREE_FALL = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], -G]))
STEPS: dict[str, dict[str, Any]] = {
    "constant": {"h": 0.05},
    "some": {"h": 0.05, "save_every": 4},
    "at times": {"h": 0.1, "save_at": np.linspace(0, 1.5, 16)},
    "breakpoints": {"h": 0.05, "breakpoints": (0.0, 0.5, 1.5), "save_every": 2},
    "controlled": {"rtol": 1e-9, "save_at": np.linspace(0, 1.5, 16), "max_steps": 64},
}


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("steps", STEPS)
def test_a_traced_run_is_that_of_the_host(steps):
    start, options = jnp.array([1.0, 0.0]), STEPS[steps]
    host = ph.simulate(FREE_FALL, "rkmk54", state0=start, **ball(), **options)
    traced = jax.jit(lambda y: ph.simulate(FREE_FALL, "rkmk54", state0=y, **ball(), **options))(start)
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
    make = lambda height: ph.simulate(FREE_FALL, "rkmk4", state0=jnp.array([height, 0.0]), h=0.05, **ball())  # noqa: E731
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


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("steps", [{"h": 0.05}, {"rtol": 1e-9, "max_steps": 64}], ids=["constant", "controlled"])
def test_derivatives_pass_through_events(steps, mode):
    def end(x):
        run = ph.simulate(
            FREE_FALL, "rkmk54", state0=jnp.array([x[0], 0.0]), save_every=None, **ball(x[1], t1=1.3), **steps
        )
        return run.state[-1]

    x = jnp.array([1.0, 0.8])
    np.testing.assert_allclose(end(x), exact(x[0], x[1], 1.3), atol=1e-10)
    np.testing.assert_allclose(mode(end)(x), jax.jacfwd(lambda x: exact(x[0], x[1], 1.3))(x), atol=1e-8)


def exact_everywhere(x, times):
    """Heights at some times before the third bounce, and the times of the first two."""
    first = jnp.sqrt(2 * x[0] / G)
    speed = x[1] * G * first
    second = first + 2 * speed / G
    flights = [(0.0, x[0], 0.0), (first, 0.0, speed), (second, 0.0, x[1] * speed)]
    heights = [z + v * (times - t) - G * (times - t) ** 2 / 2 for t, z, v in flights]
    return jnp.concatenate(
        (jnp.select([times < first, times < second], heights[:2], heights[2]), jnp.stack((first, second)))
    )


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mode", [jax.jacrev, jax.jacfwd])
@pytest.mark.parametrize("steps", ["some", "constant", "at times", "controlled"])
@pytest.mark.exhaustive
def test_second_derivatives_pass_through_events(steps, mode):
    def seen(x):
        run = ph.simulate(FREE_FALL, "rkmk54", state0=jnp.array([x[0], 0.0]), **ball(x[1]), **STEPS[steps])
        return jnp.concatenate((run.state[:, 0], run.events.t[:2]))

    x = jnp.array([1.0, 0.8])
    times = ph.simulate(FREE_FALL, "rkmk54", state0=jnp.array([1.0, 0.0]), **ball(), **STEPS[steps]).t
    truth = jax.hessian(lambda x: exact_everywhere(x, jnp.asarray(times)))(x)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(mode(seen)))(x), truth, atol=1e-7)
    assert np.abs(truth).max() > 1


@pytest.mark.exhaustive
def test_the_table_of_events_can_be_used_inside():
    def run(height):
        return ph.simulate(FREE_FALL, "rkmk4", state0=jnp.stack((height, 0.0 * height)), h=0.1, **ball(t1=1.0))

    def known(height):
        events = run(height).events
        assert len(events) == 1
        assert events.name == ["bounce"]
        assert events.t.shape == (1,)
        return events.t[-1]

    np.testing.assert_allclose(jax.grad(known)(1.0), 0.5 * np.sqrt(2 / G), rtol=1e-9)

    def unknown(height):
        events = run(height).events
        for what in (len, lambda events: events.name):
            with pytest.raises(ValueError, match="inside jit and vmap"):
                what(events)
        assert events.names == ("bounce",)
        assert events.t.shape == events.happened.shape == (8,)
        return events.count, jnp.sum(jnp.where(events.happened, events.t, 0.0)), events.number

    count, time, number = jax.vmap(unknown)(jnp.array([1.0, 6.0]))
    assert count.tolist() == [1, 0]
    np.testing.assert_allclose(time, [np.sqrt(2 / G), 0.0], rtol=1e-11)
    assert number[:, :2].tolist() == [[0, -1], [-1, -1]]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(jax.jacrev, id="first"),
        pytest.param(lambda f: jax.jacfwd(jax.jacrev(f)), id="second", marks=pytest.mark.exhaustive),
    ],
)
def test_events_at_one_instant_have_derivatives_of_their_own(mode):
    """Two balls that land together, the one by chance with the other."""
    system = ph.VectorField(Rn(4), lambda t, y: jnp.array([y[1], -G, y[3], -G]))
    options = ball(t1=1.0)
    options["events"] = [
        ph.Event(lambda t, y, k=k: y[k], lambda t, y, k=k: y.at[k + 1].multiply(-0.8), direction=-1) for k in (0, 2)
    ]

    def seen(x):
        start = jnp.stack((x[0], 0.0 * x[0], x[1], 0.0 * x[1]))
        run = ph.simulate(system, "rkmk4", state0=start, h=0.1, **options)
        return jnp.stack((*run.state[-1, ::2], *run.events.t, run.events.before[1, 0]))

    def truth(x):
        each = lambda h: exact_everywhere(jnp.stack((h, 0.8)), jnp.ones(1))  # noqa: E731
        a, b = each(x[0]), each(x[1])
        # The first one moves on for as long as the second one is later.
        return jnp.stack((a[0], b[0], a[1], b[1], 0.8 * G * a[1] * (b[1] - a[1]) - G * (b[1] - a[1]) ** 2 / 2))

    x = jnp.array([1.0, 1.0])
    np.testing.assert_allclose(mode(seen)(x), mode(truth)(x), atol=1e-9)


@pytest.mark.exhaustive
def test_balls_that_land_together_by_chance_have_derivatives_of_their_own():
    heights, weights = (1.2, 2.0), (1.0, 2.0)
    fall = (2 * heights[0] / G) ** 0.5
    start = jnp.array([*heights, 0.0, 0.5 * G * fall - heights[1] / fall])
    model = ph.Model(gravity=(0, 0, -G))
    guides = []
    for height, mass in zip(heights, weights, strict=True):
        ball = model.add_body(mass=mass, inertia=(0.1, 0.1, 0.1), position=(3 * mass, 0, height))
        guides.append(model.add(ph.joints.Prismatic(model.ground, ball, axis=(0, 0, 1))))
    floors = [
        event
        for guide, height, e in zip(guides, heights, (0.7, 0.4), strict=True)
        for event in ph.events.stop(guide, lower=-height, restitution=e)
    ]
    problem = model.problem("minimal", t1=0.8, h=0.05)

    def ends(x):
        state0 = (tuple(x[k : k + 1] - heights[k] for k in range(2)), x[2:])
        (one, two), _ = ph.simulate(problem, "rkmk4", state0=state0, events=floors, save_every=None).state
        return jnp.stack((one[-1, 0], two[-1, 0])) + jnp.array(heights)

    def exact(x):
        rate, landing = jnp.sqrt(x[2:] ** 2 + 2 * G * x[:2]), (x[2:] + jnp.sqrt(x[2:] ** 2 + 2 * G * x[:2])) / G
        return jnp.array([0.7, 0.4]) * rate * (0.8 - landing) - 0.5 * G * (0.8 - landing) ** 2

    np.testing.assert_allclose(ends(start), exact(start), atol=1e-12)
    np.testing.assert_allclose(jax.jacfwd(ends)(start), jax.jacfwd(exact)(start), atol=1e-11)


@pytest.mark.exhaustive
def test_a_stop_has_derivatives_with_respect_to_where_it_is():
    """A free wheel: its angle is u (1 + e) - e ω t behind a stop at u."""
    model = ph.Model()
    wheel = model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0), angular_velocity=(0, 0, 2.0))
    hinge = model.add(ph.joints.Revolute(model.ground, wheel, point=(0, 0, 0), axis=(0, 0, 1), name="hinge"))
    problem = model.problem("minimal", t1=1.0, h=0.1)

    def angle(x):
        stop = ph.events.stop(hinge, upper=x[0], restitution=x[1])
        run = ph.simulate(problem, "rkmk4", events=stop, max_events=2, save_every=None)
        return run.joints["hinge"].angle[-1]

    x = jnp.array([1.0, 0.5])
    second, first = jax.jacfwd(lambda x: (jax.grad(angle)(x),) * 2, has_aux=True)(x)
    np.testing.assert_allclose(first, [1 + x[1], x[0] - 2.0], atol=1e-9)
    np.testing.assert_allclose(second, [[0, 1], [1, 0]], atol=1e-9)


@pytest.mark.exhaustive
def test_a_traced_run_ends_at_a_terminal_event_and_with_too_many():
    ground = ph.Event(lambda t, y: y[0], terminal=True)
    start = jnp.array([1.0, 0.0])
    run = jax.jit(lambda y: ph.simulate(FREE_FALL, "rkmk4", state0=y, h=0.05, t1=1.0, events=ground))(start)
    assert int(run.stats["result"]) == ph.Result.event_reached
    np.testing.assert_allclose(run.stats["t_reached"], np.sqrt(2 / G), atol=1e-11)
    assert np.isnan(run.state[-1]).all()
    assert np.isfinite(run.state[run.t < 0.45]).all()
    few = jax.jit(lambda y: ph.simulate(FREE_FALL, "rkmk4", state0=y, h=0.05, **ball(max_events=2)))(start)
    assert int(few.stats["result"]) == ph.Result.events_accumulate


def test_changes_of_the_system_are_refused_inside():
    change = ph.Event(lambda t, y: y[0], change=lambda t, y, system: system, name="mode")
    with pytest.raises(ValueError, match="`mode` changes the system"):
        jax.jit(lambda y: ph.simulate(FREE_FALL, "rkmk4", state0=y, h=0.05, t1=1.0, events=change))(
            jnp.array([1.0, 0.0])
        )


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
