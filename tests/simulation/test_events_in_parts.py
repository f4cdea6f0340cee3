"""Runs in parts have the events of the whole run, those at their ends included, to the last bit."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import polhode as ph
from polhode.spaces import Rn


class SlidingBlock(eqx.Module):
    """A block on a spring, held by friction of a given sign."""

    friction: Array

    def __call__(self, t, y):
        return jnp.array([y[1], -y[0] - self.friction])


def reverse(t, y, system):
    return eqx.tree_at(lambda s: s.field.friction, system, jnp.where(y[0] > 0, -0.05, 0.05))


BLOCK = ph.VectorField(Rn(2), SlidingBlock(jnp.asarray(-0.05)))
REST = ph.Event(lambda t, y: y[1], lambda t, y: y.at[1].set(0.0), change=reverse, name="rest")
TICK = ph.Event(lambda t, y: jnp.sin(2 * jnp.pi * t), lambda t, y: y.at[1].add(0.01), name="tick")
BLOCK_START = jnp.array([2.0, 0.0])

BALL = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], 0.0]))
BALL_START = jnp.array([1.0, -2.0])


def hit():
    return ph.Event(lambda t, y: y[0], lambda t, y: y.at[1].multiply(-1.0), direction=-1, name="hit")


def same(whole, *parts):
    """Whether parts have the events and the end of the whole, to the last bit."""
    assert [name for part in parts for name in part.events.name] == whole.events.name
    np.testing.assert_array_equal(np.concatenate([part.events.t for part in parts]), whole.events.t)
    for side in ("before", "after"):
        leaves = [jax.tree.leaves(getattr(part.events, side)) for part in parts]
        for mine, *others in zip(jax.tree.leaves(getattr(whole.events, side)), *leaves, strict=True):
            np.testing.assert_array_equal(np.concatenate(others), mine)
    for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(parts[-1].state), strict=True):
        np.testing.assert_array_equal(a[-1], b[-1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("every", [1, None])
@pytest.mark.exhaustive
def test_an_event_at_the_end_of_a_part_comes_in_the_next(every, tmp_path):
    def run(**options: Any):
        return ph.simulate(BALL, "rkmk4", t1=options.pop("t1", 1.0), save_every=every, events=hit(), **options)

    whole = run(state0=BALL_START, h=0.125)
    np.testing.assert_allclose(whole.events.t, [0.5], atol=1e-12)
    np.testing.assert_allclose(whole.state[-1], [1.0, 2.0], atol=1e-12)
    first = run(state0=BALL_START, h=0.125, t1=0.5, store=tmp_path / "ball")
    same(whole, first, run(initial=first))
    same(whole, first, run(initial=ph.load(tmp_path / "ball")))
    same(whole, ph.resume(tmp_path / "ball", 1.0, problem=BALL, events=hit()))


@pytest.mark.exhaustive
@pytest.mark.parametrize("steps", [{"rtol": 1e-9}, {"h": 0.1}], ids=["controlled", "other"])
def test_another_method_continues_with_the_event_at_the_end(steps, tmp_path):
    ph.simulate(BALL, "rkmk4", state0=BALL_START, h=0.125, t1=0.5, events=hit(), store=tmp_path / "ball")
    beside = ph.Event(lambda t, y: y[0] - 9, name="beside")
    run = ph.simulate(BALL, "dopri5", initial=ph.load(tmp_path / "ball"), t1=1.0, events=[beside, hit()], **steps)
    assert run.events.name == ["hit"]
    np.testing.assert_allclose(run.state[-1], [1.0, 2.0], atol=1e-9)
    # Back in time nothing is met that was not met on the way.
    first = ph.simulate(BALL, "rkmk4", state0=BALL_START, h=0.125, t1=0.5, events=hit())
    back = ph.simulate(BALL, initial=first, t1=0.0, events=hit())
    assert not len(back.events)


@pytest.mark.exhaustive
@pytest.mark.parametrize("middle", [1.0, 4.0])
def test_what_events_have_changed_continues(middle, tmp_path):
    events, options = [REST, TICK], {"h": 0.125, "state0": BLOCK_START}
    whole = ph.simulate(BLOCK, "rkmk4", t1=7.0, events=events, **options)
    first = ph.simulate(BLOCK, "rkmk4", t1=middle, events=events, store=tmp_path / "block", **options)
    same(whole, first, ph.simulate(BLOCK, initial=first, t1=7.0, events=events))
    same(whole, first, ph.simulate(BLOCK, initial=ph.load(tmp_path / "block"), t1=7.0, events=events))
    same(whole, ph.resume(tmp_path / "block", 7.0, problem=BLOCK, events=events))


def test_a_changed_system_continues_without_events_and_is_refused_where_it_is_not_known():
    options: dict[str, Any] = {"h": 0.125, "state0": BLOCK_START}
    whole = ph.simulate(BLOCK, "rkmk4", t1=5.0, events=REST, **options)
    first = ph.simulate(BLOCK, "rkmk4", t1=4.0, events=REST, **options)
    assert len(first.events) == len(whole.events) == 1
    second = ph.simulate(BLOCK, initial=ph.simulate(BLOCK, initial=first, t1=4.5), t1=5.0)
    np.testing.assert_array_equal(second.state[-1], whole.state[-1])
    other = ph.simulate(BLOCK, "dopri5", initial=first, rtol=1e-11, t1=5.0)
    np.testing.assert_allclose(other.state[-1], whole.state[-1], atol=1e-5)
    with pytest.raises(ValueError, match=r"have changed the system before t = 3\.75"):
        ph.simulate(BLOCK, initial=first[30], t1=5.0)
    assert len(ph.simulate(BLOCK, initial=first[20], t1=4.0, events=REST).events) == 1


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [{"h": 0.125}, {"rtol": 1e-8}], ids=["constant", "controlled"])
def test_a_run_continues_after_its_terminal_event(steps, tmp_path):
    def events(terminal: bool):
        end = ph.Event(lambda t, y: t - 2.3, lambda t, y: y.at[0].add(0.1), terminal=terminal, name="end")
        beside = ph.Event(lambda t, y: t - 2.3, lambda t, y: y.at[1].add(0.3), name="beside")
        return [end, beside, TICK]

    options: dict[str, Any] = {"t1": 5.0, **steps}
    whole = ph.simulate(BLOCK, "rkmk54", state0=BLOCK_START, events=events(False), **options)
    first = ph.simulate(BLOCK, "rkmk54", state0=BLOCK_START, events=events(True), store=tmp_path / "block", **options)
    assert first.events.name[-2:] == ["end", "beside"]
    np.testing.assert_array_equal(first.state[-1], first.events.before[-2])
    for initial in (first, ph.load(tmp_path / "block")):
        same(whole, first, ph.simulate(BLOCK, initial=initial, t1=5.0, events=events(True)))
    # A script that is started again has its end; `resume` with an end goes on.
    again = ph.simulate(
        BLOCK, "rkmk54", state0=BLOCK_START, events=events(True), store=tmp_path / "block", resume=True, **options
    )
    assert again.t[-1] == ph.resume(tmp_path / "block", problem=BLOCK, events=events(True)).t[-1] == first.t[-1]
    same(whole, ph.resume(tmp_path / "block", 5.0, problem=BLOCK, events=events(True)))


def arm(formulation: str):
    """Two bars with a stop between them and a clock whose ticks lie on the grid."""
    model = ph.Model(gravity=(0, 0, -9.81))
    upper = model.add_body(
        mass=1.1, inertia=(0.03, 0.045, 0.05), position=(0.31, 0, 0), velocity=(0, 0, -0.155),
        angular_velocity=(0, 0.5, 0),
    )  # fmt: skip
    lower = model.add_body(
        mass=0.8, inertia=(0.03, 0.033, 0.05), position=(0.97, 0, 0), velocity=(0, 0, -0.89),
        angular_velocity=(0, 2, 0),
    )  # fmt: skip
    model.add(ph.joints.Revolute(model.ground, upper, point=(0, 0, 0), axis=(0, 1, 0)))
    elbow = model.add(ph.joints.Revolute(upper, lower, point=(0.7, 0, 0), axis=(0, 1, 0)))
    tick = ph.Event(lambda t, s: jnp.sin(8 * jnp.pi * t), name="tick")
    return model.problem(formulation, t1=0.75, h=1 / 64), [ph.events.stop(elbow, -0.4, 0.5, 0.7), tick]


ALPHA = ph.integrators.get("generalized-alpha", constraint="stabilized-index-2")


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("formulation", "method", "h"),
    [
        ("minimal", "rkmk4", 1 / 64),
        ("SO3xR3", "herk4", 1 / 64),
        ("SE3", "bdf", 1 / 128),
        ("minimal", "bdf", 1 / 128),
        ("SO3xR3", ALPHA, 1 / 128),
        ("livens", "eml", 1 / 128),
        ("SO3xR3", "rattle", 1 / 128),
    ],
)
@pytest.mark.exhaustive
def test_parts_equal_the_whole_in_all_coordinates(formulation, method, h, tmp_path):
    problem, events = arm(formulation)
    whole = ph.simulate(problem, method, h=h, events=events)
    assert {"stop lower", "tick"} <= {*whole.events.name}
    first = ph.simulate(problem, method, h=h, t1=0.375, events=events, store=tmp_path / "arm")
    same(whole, first, ph.simulate(problem, initial=first, t1=0.75, events=events))
    same(whole, ph.resume(tmp_path / "arm", 0.75, problem=problem, integrator=method, events=events))
