"""Events in stores: runs that are resumed are those that were never interrupted."""

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


SYSTEM = ph.VectorField(Rn(2), SlidingBlock(jnp.asarray(-0.05)))
REST = ph.Event(lambda t, y: y[1], lambda t, y: y.at[1].set(0.0), change=reverse, name="rest")
HALF = ph.Event(lambda t, y: (y[0] - 0.5) * 1.0000001, direction=-1, name="half")
START: dict[str, Any] = {"state0": jnp.array([2.0, 0.0]), "events": [REST, HALF]}


def same(a, b):
    """Whether all numbers of two runs are equal to the last bit."""
    np.testing.assert_array_equal(a.t, b.t)
    for x, y in zip(jax.tree.leaves(a.state), jax.tree.leaves(b.state), strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(a.events.t, b.events.t)
    np.testing.assert_array_equal(a.events.number, b.events.number)
    assert a.events.name == b.events.name
    np.testing.assert_array_equal(a.events.before, b.events.before)
    np.testing.assert_array_equal(a.events.after, b.events.after)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "steps",
    [{"h": 0.05}, {"rtol": 1e-8}, {"rtol": 1e-8, "save_at": np.linspace(0, 20, 101)}],
    ids=["constant", "controlled", "at times"],
)
def test_a_run_with_events_continues_where_it_was_interrupted(tmp_path, steps, monkeypatch):
    whole = ph.simulate(SYSTEM, "rkmk54", t1=20.0, store=tmp_path / "whole", **START, **steps)
    assert len(whole.events) == 9
    same(whole, ph.simulate(SYSTEM, "rkmk54", t1=20.0, **START, **steps))
    same(whole, ph.load(tmp_path / "whole"))
    # At the third event that the host has to deal with the run ends, as if it had met an error.
    from polhode.simulation.events.handler import EventHandler

    calls, act = [], EventHandler.act

    def failing(self, *args):
        calls.append(args)
        if len(calls) == 3:
            raise RuntimeError("enough")
        return act(self, *args)

    monkeypatch.setattr(EventHandler, "act", failing)
    with pytest.raises(ph.SimulationError, match="enough"):
        ph.simulate(SYSTEM, "rkmk54", t1=20.0, store=tmp_path / "part", **START, **steps)
    part = ph.load(tmp_path / "part").events
    assert 2 <= len(part) <= 4
    assert part.name == whole.events.name[: len(part)]
    with pytest.raises(ValueError, match="watches `rest`, `half`, and this one none"):
        ph.resume(tmp_path / "part", problem=SYSTEM)
    on = ph.resume(tmp_path / "part", problem=SYSTEM, events=START["events"])
    same(whole, on)
    same(whole, ph.load(tmp_path / "part"))


@pytest.mark.exhaustive
def test_a_stored_run_with_events_is_extended(tmp_path):
    long = ph.simulate(SYSTEM, "rkmk54", t1=12.0, h=0.05, **START)
    ph.simulate(SYSTEM, "rkmk54", t1=7.0, h=0.05, store=tmp_path / "run", **START)
    same(long, ph.resume(tmp_path / "run", 12.0, problem=SYSTEM, events=START["events"]))


def test_events_are_in_exports(tmp_path):
    run = ph.simulate(SYSTEM, "rkmk54", t1=7.0, h=0.05, **START)
    run.save(tmp_path / "run")
    same(run, ph.load(tmp_path / "run"))
    data = run.to_xarray()
    np.testing.assert_array_equal(data["events.time"], run.events.t)
    assert data["events.name"].values.tolist() == run.events.name
    np.testing.assert_array_equal(data["events.after.state"], run.events.after)
