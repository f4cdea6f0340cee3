"""A run goes from task to plan to loop to solution: no part reaches back, and one loop serves all runs on the host."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from source_counts import source_tree

import polhode as ph
from polhode.simulation.checkpoint.previous_run import PreviousRun
from polhode.simulation.derivatives import checkpointed_run
from polhode.simulation.run_plan import identify, plan_run
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.step_request import StepRequest
from polhode.simulation.task import Task
from polhode.spaces import Rn

FALL = ph.VectorField(Rn(2), lambda t, y: jnp.array([y[1], -9.81]))
BOUNCE = ph.Event(lambda t, y: y[0], lambda t, y: y.at[1].multiply(-0.8), direction=-1, name="bounce")


def same_bytes(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


@pytest.mark.exhaustive
def test_no_loop_needs_the_task_or_the_plan_of_a_solution():
    """Nor what a loop steps with, or a checkpoint keeps."""
    imports = source_tree().needs(False)

    def needs(module, found):
        for other in imports[module] - found:
            found.add(other)
            needs(other, found)
        return found

    later = {f"polhode.simulation.{name}" for name in ("task", "run_plan", "metadata", "run", "simulate")}
    rooms = tuple(f"polhode.simulation.{name}." for name in ("loops", "stepping", "events", "derivatives"))
    modules = [name for name in imports if name.startswith(rooms)]
    assert len(modules) > 25
    assert {name: sorted(needs(name, set()) & later) for name in modules if needs(name, set()) & later} == {}


@pytest.mark.parametrize("steps", [{"h": 0.05}, {"rtol": 1e-8}], ids=["constant", "controlled"])
def test_a_previous_run_is_the_same_from_memory_and_from_its_store(tmp_path, steps):
    start = {"state0": jnp.array([1.0, 0.0]), "events": BOUNCE}
    run = ph.simulate(FALL, "rkmk54", t1=1.0, store=tmp_path / "run", **start, **steps)
    in_memory = PreviousRun.of_solution(run, None, None)
    stored = PreviousRun.of_solution(ph.load(tmp_path / "run"), None, None)
    assert (in_memory.t, in_memory.steps) == (stored.t, stored.steps)
    assert same_bytes(in_memory.state, stored.state)
    task = Task.prepare(FALL, None, None, 2.0, None, events=(BOUNCE,), previous=in_memory)
    one, other = (previous.continue_as(identify(task)) for previous in (in_memory, stored))
    assert one.start is not None
    assert other.start is not None
    assert one.start.events is not None
    assert same_bytes(one.start, other.start)
    assert one.aftermath is not None
    assert other.aftermath is not None
    assert one.aftermath.names == other.aftermath.names
    assert same_bytes(one.aftermath.signs, other.aftermath.signs)
    ends = [segment.stepper.numbers() for segment in (one.segment, other.segment) if segment is not None]
    assert len(ends) == 2
    assert same_bytes(*ends)
    other_method = Task.prepare(FALL, "rk4", None, 2.0, None, events=(BOUNCE,), previous=in_memory)
    assert in_memory.continue_as(identify(other_method)).start is None


@pytest.mark.parametrize("at", [None, np.array([0.0, 0.0431, 0.1, 0.2])], ids=["at steps", "at times"])
def test_a_checkpointed_run_is_the_run_of_the_host(monkeypatch, at):
    monkeypatch.setattr(checkpointed_run, "_FIRST_STEPS", 4)
    task = Task.prepare(FALL, "rk4", None, 0.2, jnp.array([1.0, 0.0]))
    schedule = SaveSchedule(None if at is not None else 3, at)
    plan = plan_run(task, StepRequest(0.004, breakpoints=[0.05, 0.0731]), schedule).plan
    run = checkpointed_run.CheckpointedRun.of(
        plan.segments, plan.integrator, schedule, plan.system, plan.start.state, plan.observer
    )
    assert run is not None
    save = {"save_every": 3} if at is None else {"save_at": at}
    host = ph.simulate(FALL, "rk4", h=0.004, t1=0.2, state0=jnp.array([1.0, 0.0]), breakpoints=[0.05, 0.0731], **save)
    assert same_bytes(run.frames, host.frames)
    # Every step lies after one checkpoint of its own segment, and restarts are remembered.
    assert sorted(run.before) == [k for k, segment in enumerate(plan.segments) if k and segment.after_jump]
    numbers = [checkpoint.n for checkpoint in run.checkpoints]
    assert numbers == sorted(set(numbers))
    assert {checkpoint.segment for checkpoint in run.checkpoints} == set(range(len(plan.segments)))
    steps = [int(n) for _, p in run.chunks(back=False) for n in p.n[1:]]
    assert steps == list(range(1, host.stats["steps"] + 1))
