"""Runs that go on, in memory and from disk, to the bytes of one long run."""

from __future__ import annotations

import pickle
import shutil
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.compiler.cache import disk_cache
from polhode.compiler.llvm import jit
from polhode.simulation.checkpoint.checkpoint import StoredCheckpoint
from polhode.simulation.loops import host
from polhode.spaces import Rn
from polhode.storage import RunStore


def assert_same_bytes(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype
        assert x.tobytes() == y.tobytes()


def pendulum_model(friction=None):
    model = ph.Model(gravity=(0, 0, -9.81))
    arm = model.add_body(
        mass=2, inertia=(0.01, 0.2, 0.2), position=(0.5, 0, 0), angular_velocity=(0, 1.0, 0), velocity=(0, 0, -0.5)
    )
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
    if friction is not None:
        model.add(ph.forces.Load(arm, friction))
    return model


CASES = {
    "rkmk4": lambda: (ph.problems.get("heavy-top"), "rkmk4", {"h": 1e-3, "t1": 0.6}),
    "rkmk54 controlled": lambda: (ph.problems.get("heavy-top"), "rkmk54", {"rtol": 1e-9, "t1": 0.6}),
    "controlled, saved at times": lambda: (
        ph.problems.get("heavy-top"),
        "cf43",
        {"rtol": 1e-8, "t1": 0.6, "save_at": np.linspace(0, 0.6, 301)},
    ),
    "herk5": lambda: (pendulum_model().problem("SE3", t1=0.4), "herk5", {"h": 1e-3}),
    "herk54 controlled": lambda: (pendulum_model().problem("S3xR3", t1=2.0), "herk54", {"rtol": 1e-9}),
    "generalized-alpha": lambda: (
        pendulum_model().problem("SE3", t1=0.4),
        ph.integrators.get("generalized-alpha", newton="modified"),
        {"h": 1e-3},
    ),
    "generalized-alpha controlled": lambda: (
        pendulum_model().problem("SO3xR3", t1=0.4),
        ph.integrators.get("generalized-alpha", constraint="stabilized-index-2"),
        {"rtol": 1e-6},
    ),
    "eml": lambda: (pendulum_model().problem("livens", t1=0.4), "eml", {"h": 2e-3}),
    "symplectic": lambda: (
        ph.problems.get("heavy-top", formulation="cotangent"),
        "symplectic4",
        {"h": 1e-3, "t1": 0.3},
    ),
    "particles": lambda: (ph.problems.get("torus"), "rodrigues", {"h": 1e-3, "t1": 0.3}),
    "rod": lambda: (ph.problems.get("roll-up", n=4), "generalized-alpha", {"h": 1e-3, "t1": 0.1}),
}
LONG = ("eml", "generalized-alpha controlled", "herk54 controlled", "rod", "particles")


def snapshots(monkeypatch, folder, problem, method, how):
    """A run in small blocks, with a copy of its store after every publication: what a kill there would leave."""
    path, copies = folder / "run.zarr", []
    monkeypatch.setattr(host, "_next_block", lambda *_: 37)
    monkeypatch.setattr(host, "_FIRST_BLOCK", 23)
    monkeypatch.setattr("polhode.storage.store._INTERVAL_S", 0.0)
    monkeypatch.setattr("polhode.storage.store._SHARE", 1e9)
    take = RunStore._record

    def copied(self, written):
        take(self, written)
        copies.append(folder / f"copy-{len(copies)}.zarr")
        shutil.copytree(self.path, copies[-1])

    append = RunStore.append

    def slowly(self, *args):
        # Steps are made faster than stores are published, and there shall be many states.
        time.sleep(0.02)
        return append(self, *args)

    monkeypatch.setattr(RunStore, "_record", copied)
    monkeypatch.setattr(RunStore, "append", slowly)
    whole = ph.simulate(problem, method, **how, store=path)
    monkeypatch.undo()
    return whole, copies


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.exhaustive if c in LONG else ()) for c in CASES])
def test_every_published_state_continues_to_the_bytes_of_an_uninterrupted_run(case, tmp_path, monkeypatch):
    problem, method, how = CASES[case]()
    whole, copies = snapshots(monkeypatch, tmp_path, problem, method, how)
    assert len(copies) > 3
    alone = ph.simulate(problem, method, **how)
    assert_same_bytes(alone.frames, whole.frames)
    for copy in copies[:: max(1, len(copies) // 4)]:
        part = ph.load(copy)
        assert len(part.t) <= len(whole.t)
        assert_same_bytes(part.t, whole.t[: len(part.t)])
        on = ph.simulate(problem, method, **how, store=copy, resume=True)
        assert_same_bytes(on.frames, whole.frames)
        assert on.stats["steps"] == whole.stats["steps"]
        assert on.stats["rejected"] == whole.stats["rejected"]
        assert on.stats["result"] is ph.Result.successful


def crossing():
    return ph.Event(lambda t, state: state[0][0, 0], name="crossing")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "how",
    [
        {"save_every": 1},
        pytest.param({"watched": True}, marks=pytest.mark.exhaustive),
        pytest.param({"save_every": 3}, marks=pytest.mark.exhaustive),
        pytest.param({"save_at": np.linspace(0, 0.1, 21)}, marks=pytest.mark.exhaustive),
        pytest.param({"breakpoints": [0.03, 0.06]}, marks=pytest.mark.exhaustive),
    ],
    ids=lambda how: next(iter(how)),
)
def test_a_run_that_has_reached_its_limit_of_steps_continues_to_the_same_bytes(how, tmp_path):
    how = dict(how)
    watched = how.pop("watched", False)

    def events():
        return {"events": crossing()} if watched else {}

    top = ph.problems.get("heavy-top")
    whole = ph.simulate(top, "rkmk54", rtol=1e-8, t1=0.1, **how, **events())
    attempts = whole.stats["steps"] + whole.stats["rejected"]
    for limit in (1, 5, 6, 7, attempts // 2, attempts - 1):
        path = tmp_path / f"{limit}.zarr"
        part = ph.simulate(
            top, "rkmk54", rtol=1e-8, t1=0.1, **how, **events(), max_steps=limit, store=path, throw=False
        )
        assert part.stats["result"] is ph.Result.max_steps_reached
        assert part.stats["steps"] + part.stats["rejected"] == limit
        on = ph.resume(path, max_steps=1000, **events())
        assert_same_bytes(on.frames, whole.frames)
        assert (on.stats["steps"], on.stats["rejected"]) == (whole.stats["steps"], whole.stats["rejected"])
        if watched:
            assert len(whole.events) > 1
            assert_same_bytes(on.events.t, whole.events.t)


@pytest.mark.exhaustive
@pytest.mark.parametrize("save_every", [1, 4])
def test_a_run_that_has_reached_its_limit_of_events_continues_to_the_same_bytes(save_every, tmp_path):
    top, how = ph.problems.get("heavy-top"), {"h": 1e-3, "t1": 0.1, "save_every": save_every}
    whole = ph.simulate(top, "rkmk4", events=crossing(), **how)
    for limit in (1, 2):
        path = tmp_path / f"{limit}.zarr"
        part = ph.simulate(top, "rkmk4", events=crossing(), max_events=limit, throw=False, store=path, **how)
        assert part.stats["result"] is ph.Result.events_accumulate
        assert len(part.events) == limit < len(whole.events)
        on = ph.resume(path, max_events=100, events=crossing())
        assert_same_bytes(on.frames, whole.frames)


def test_named_problems_are_rebuilt_from_the_store(tmp_path, monkeypatch):
    problem = ph.problems.get("heavy-top", mass=7.0)
    method = ph.integrators.get("rkmk54", coordinates="cayley")
    whole, copies = snapshots(monkeypatch, tmp_path, problem, method, {"rtol": 1e-8, "t1": 0.3})
    on = ph.resume(copies[2])
    assert_same_bytes(on.frames, whole.frames)
    assert on.meta["parameters"]["mass"] == 7.0


QUICK = {
    "falling-block": {"edge": 2},
    "free-rigid-body": {},
    "heavy-top-constrained": {},
    "mass-spring": {},
    "pendulum-chain": {},
    "spring-pendulum": {},
}
"""Problems whose runs begin soon, and parameters for which they do."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.exhaustive) for n in ph.problems.names()]
)
def test_every_problem_continues_from_what_its_store_says(name, tmp_path):
    problem = ph.problems.get(name, **QUICK.get(name, {}))
    start, h = problem.t_span[0], problem.h
    ph.simulate(problem, t1=start + 2 * h, store=tmp_path / "run.zarr")
    on = ph.resume(tmp_path / "run.zarr", t1=start + 4 * h)
    whole = ph.simulate(problem, t1=start + 4 * h)
    assert on.meta["parameters"] == whole.meta["parameters"]
    assert_same_bytes(on.frames, whole.frames)


@pytest.mark.exhaustive
def test_a_finished_run_is_extended(tmp_path):
    top = ph.problems.get("heavy-top")
    long = ph.simulate(top, "rkmk4", h=1e-3, t1=0.2)
    ph.simulate(top, "rkmk4", h=1e-3, t1=0.1, store=tmp_path / "run.zarr")
    assert_same_bytes(ph.resume(tmp_path / "run.zarr", t1=0.2).frames, long.frames)
    # An end off the grid of the first run: the rest has equal steps of its own.
    odd = ph.resume(tmp_path / "run.zarr", t1=0.2503)
    assert float(odd.t[-1]) == pytest.approx(0.2503, abs=1e-15)
    assert np.diff(odd.t)[201:] == pytest.approx(0.0503 / 51)
    exact = ph.simulate(top, "rkmk6", h=1e-4, t1=0.2503, save_every=None)
    assert odd.outputs["centre_of_mass"][-1] == pytest.approx(exact.outputs["centre_of_mass"][-1], abs=1e-4)
    controlled = tmp_path / "controlled.zarr"
    ph.simulate(top, "rkmk54", rtol=1e-9, t1=0.1, store=controlled)
    further = ph.resume(controlled, t1=0.2503)
    assert further.outputs["centre_of_mass"][-1] == pytest.approx(exact.outputs["centre_of_mass"][-1], abs=1e-7)


def test_what_can_not_continue_is_explained(tmp_path):
    top, path = ph.problems.get("heavy-top"), tmp_path / "run.zarr"
    with pytest.raises(ph.StoreError, match="does not exist"):
        ph.resume(path)
    ph.simulate(top, "rkmk4", h=1e-3, t1=0.1, store=path)
    assert len(ph.resume(path).t) == 101
    for arguments, message in [
        (
            (ph.problems.get("heavy-top", mass=8.0), "rkmk4"),
            r"of another problem and set of outputs: `mass` is 15\.0 there and 8\.0 here",
        ),
        ((top, "rkmk3"), "of another method: "),
        ((top, "cf4"), "of another method: the method is 'RKMK' there and 'CommutatorFree' here"),
        ((top, ph.integrators.get("rkmk4", coordinates="cayley")), "of another method: `coordinates` is"),
    ]:
        with pytest.raises(ValueError, match=message):
            ph.simulate(*arguments, h=1e-3, t1=0.1, store=path, resume=True)
    with pytest.raises(ValueError, match=r"lies behind t = 0\.1"):
        ph.resume(path, t1=0.05)
    with pytest.raises(ValueError, match="needs inf steps for the span"):
        ph.resume(path, t1=1e308)
    with pytest.raises(ValueError, match="must be a name or an integrator, got 3"):
        ph.resume(path, integrator=3)
    with pytest.raises(ValueError, match="saves other frames"):
        ph.simulate(top, "rkmk4", h=1e-3, t1=0.1, save_every=2, store=path, resume=True)
    saved = ph.simulate(top, "rkmk4", h=1e-3, t1=0.1)
    saved.save(tmp_path / "saved.zarr")
    with pytest.raises(ph.StoreError, match="no checkpoint"):
        ph.resume(tmp_path / "saved.zarr")
    model = pendulum_model().problem("minimal", t1=0.1)
    ph.simulate(model, "rkmk4", h=1e-3, store=tmp_path / "model.zarr")
    with pytest.raises(ValueError, match="system or model of your own"):
        ph.resume(tmp_path / "model.zarr", t1=0.2)
    assert float(ph.resume(tmp_path / "model.zarr", t1=0.2, problem=model).t[-1]) == pytest.approx(0.2)


@pytest.mark.exhaustive
def test_runs_that_failed_for_good_are_not_repeated(tmp_path):
    field = ph.VectorField(ph.spaces.Rn(1), lambda t, y: y * y)
    how = {"state0": jnp.ones(1), "t1": 2.0, "store": tmp_path / "run.zarr", "throw": False}
    run = ph.simulate(field, "rkmk4", h=1e-2, **how)
    assert run.stats["result"] is ph.Result.nonfinite_state
    with pytest.raises(ValueError, match="ended with nonfinite_state at t = 1"):
        ph.resume(tmp_path / "run.zarr", problem=field)
    few = ph.simulate(field, "rkmk54", rtol=1e-6, max_steps=10, overwrite=True, **{**how, "t1": 0.9})
    assert few.stats["result"] is ph.Result.max_steps_reached
    with pytest.raises(ValueError, match="give a larger `max_steps`"):
        ph.resume(tmp_path / "run.zarr", problem=field)
    on = ph.resume(tmp_path / "run.zarr", problem=field, max_steps=1000)
    assert on.state[-1] == pytest.approx(10.0, rel=1e-5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", ["rkmk4", "rkmk54 controlled", "generalized-alpha", "herk5"])
def test_runs_continue_in_memory_with_all_that_the_method_remembers(case):
    problem, method, how = CASES[case]()
    end = how.get("t1", problem.t_span[1])
    first = ph.simulate(problem, method, **{**how, "t1": end / 2})
    second = ph.simulate(problem, method, initial=first, t1=end)
    assert float(second.t[0]) == float(first.t[-1])
    assert_same_bytes(jax.tree.map(lambda x: x[0], second.state), jax.tree.map(lambda x: x[-1], first.state))
    whole = ph.simulate(problem, method, **how)
    if "h" in how:
        assert_same_bytes(second.frames, jax.tree.map(lambda x: x[len(first.t) - 1 :], whole.frames))
        assert second.stats["steps"] == whole.stats["steps"] - first.stats["steps"]
    else:
        # One long run doesn't end a step in the middle.
        name = next(iter(problem.outputs))
        np.testing.assert_allclose(second.outputs[name][-1], whole.outputs[name][-1], atol=1e-6)


@pytest.mark.exhaustive
def test_runs_begin_in_any_frame_of_another_also_where_it_would_be_refused_as_a_start():
    problem = ph.problems.get("heavy-top-constrained", formulation="SO3xR3")
    coarse = ph.simulate(problem, "generalized-alpha", h=2e-3, t1=0.2)
    assert np.max(coarse.residuals["velocity"]) > 1e-4
    middle = jax.tree.map(lambda x: jnp.asarray(x[20]), coarse.state)
    with pytest.raises(ValueError, match="violates the constraints on velocities"):
        ph.simulate(problem, "generalized-alpha", h=2e-3, t0=0.04, state0=middle)
    on = ph.simulate(problem, initial=coarse[20], t1=0.2)
    assert float(on.t[0]) == pytest.approx(0.04)
    assert on.meta["integrator"]["name"] == "generalized-alpha"
    np.testing.assert_allclose(on.outputs["centre_of_mass"][-1], coarse.outputs["centre_of_mass"][-1], atol=2e-2)
    last = ph.simulate(problem, initial=coarse[-1], t1=0.3)
    one = ph.simulate(problem, "generalized-alpha", h=2e-3, t1=0.3)
    assert_same_bytes(last.outputs["centre_of_mass"], one.outputs["centre_of_mass"][100:])
    other = ph.simulate(problem, "herk4", h=1e-3, initial=coarse[20], t1=0.1)
    assert other.meta["integrator"]["name"] == "herk4"


@pytest.mark.exhaustive
def test_a_stored_run_is_gone_on_from_in_memory(tmp_path):
    problem, method, how = CASES["generalized-alpha"]()
    ph.simulate(problem, method, **how, store=tmp_path / "run.zarr")
    on = ph.simulate(problem, initial=ph.load(tmp_path / "run.zarr"), t1=0.8)
    whole = ph.simulate(problem, method, **{**how, "t1": 0.8})
    assert_same_bytes(on.outputs["positions"], whole.outputs["positions"][400:])


@pytest.fixture
def made(monkeypatch):
    """Programs of XLA and of LLVM that are compiled from now on, while nothing is kept between processes."""
    result = []

    def note(event, seconds, **_):
        del seconds
        if event == "/jax/core/compile/backend_compile_duration":
            result.append("XLA")

    def code(self, *args, **options):
        result.append("LLVM")
        init(self, *args, **options)

    init = jit.CompiledFunction.__init__
    monkeypatch.setattr(jit.CompiledFunction, "__init__", code)
    monkeypatch.setattr(disk_cache, "is_on", lambda: False)
    jax.monitoring.register_event_duration_secs_listener(note)
    yield result
    jax.monitoring.unregister_event_duration_listener(note)


def test_runs_that_continue_compile_nothing(made, tmp_path):
    problem, path = ph.problems.get("heavy-top", gravity=9.7), tmp_path / "run.zarr"
    # A number of frames that no other test has, so that single operations on them are not compiled yet.
    how = {"h": 1e-3, "integrator": ph.integrators.get("rkmk4", coordinates="cayley")}
    first = ph.simulate(problem, **how, t1=0.023, store=path)
    assert "LLVM" in made
    made.clear()
    ph.simulate(problem, **how, initial=ph.simulate(problem, **how, t1=0.023), t1=0.04)
    ph.simulate(problem, initial=first[10], t1=0.04)
    ph.resume(path, t1=0.03)
    ph.simulate(problem, initial=ph.load(path)[5], t1=0.0405)
    assert made == []


def test_nonsense_in_the_place_of_a_run_is_refused():
    top = ph.problems.get("heavy-top")
    run = ph.simulate(top, "rkmk4", h=1e-2, t1=0.1)
    for bad, message in [
        ({"initial": 3}, "must be a Solution"),
        ({"initial": run, "state0": top.state0}, "Give either"),
        ({"initial": run, "t1": 0.1}, "span is empty"),
        ({"resume": True}, "give its path"),
    ]:
        with pytest.raises(ValueError, match=message):
            ph.simulate(top, "rkmk4", **bad)
    with pytest.raises(IndexError):
        run[99]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"h": 5e-4}, "made with h = 0.001"),
        ({"rtol": 1e-9, "h": None, "integrator": "rkmk4"}, "error estimate"),
        ({"state0": (np.eye(3), np.array([0.0, 1.0, 2.0]))}, "began in another state"),
        ({"t0": -0.1}, "began in another state or at another time"),
        ({"breakpoints": (0.0205,)}, "without a breakpoint at t = 0.0205"),
        ({"overwrite": True}, "give either"),
        ({"estimate_error": True}, "from its start"),
        ({"when_full": 3}, "when_full"),
        ({"overwrite": "no"}, "must be True or False"),
    ],
    ids=lambda x: str(x)[:30],
)
def test_what_is_asked_besides_must_be_that_of_the_run(given, said, tmp_path):
    top, how = ph.problems.get("heavy-top"), {"integrator": "rkmk4", "h": 1e-3, "t1": 0.05}
    path = tmp_path / "run.zarr"
    ph.simulate(top, **how, store=path)
    with pytest.raises(ValueError, match=said):
        ph.simulate(top, **{**how, **given}, store=path, resume=True)
    other = ph.problems.get("heavy-top", angular_velocity=(0.0, 100.0, -4.6))
    with pytest.raises(ValueError, match="began in another state"):
        ph.simulate(other, **how, store=path, resume=True)
    assert len(ph.simulate(top, **how, store=path, resume=True).t) == 51


PULSE = ph.PiecewiseLinear((0.5, 0.5, 0.502, 0.502), (0.0, 500.0, 500.0, 0.0))


def push(t, x):
    return jnp.stack((x[1], PULSE(t)))


class PushedBody(eqx.Module):
    breakpoints: tuple = eqx.field(static=True, default=PULSE.breakpoints)

    def __call__(self, t, x):
        return push(t, x)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("how", [{"integrator": "rkmk4", "h": 0.01}, {"integrator": "rkmk54", "rtol": 1e-6}], ids=str)
@pytest.mark.parametrize("end", [0.3, 0.5, 0.502])
@pytest.mark.parametrize("field", [push, PushedBody()], ids=["given", "named"])
def test_jumps_at_and_beyond_the_end_are_hit_by_runs_that_continue(how, end, field, tmp_path):
    system, start = ph.VectorField(Rn(2), field), jnp.zeros(2)
    given = {"breakpoints": PULSE.breakpoints} if field is push else {}
    first = ph.simulate(system, **how, **given, state0=start, t1=end, store=tmp_path / "run.zarr")
    assert first.state[-1, 1] == pytest.approx(1.0 if end == 0.502 else 0.0, abs=1e-12)
    stored = ph.resume(tmp_path / "run.zarr", 1.0, problem=system)
    memory = ph.simulate(system, initial=ph.simulate(system, **how, **given, state0=start, t1=end), t1=1.0)
    for run in (stored, memory):
        assert run.state[-1, 1] == pytest.approx(1.0, abs=1e-9)


def test_a_jump_at_the_start_of_a_backward_run_is_not_seen():
    step = ph.PiecewiseLinear((0.0, 0.0, 1.0, 1.0), (0.0, 1.0, 1.0, 1e6))
    system = ph.VectorField(Rn(1), lambda t, x: step(t)[None])
    how = {"integrator": "rkmk4", "h": 0.1, "state0": jnp.zeros(1), "breakpoints": (0.0, 1.0)}
    assert ph.simulate(system, **how, t1=1.0).state[-1, 0] == pytest.approx(1.0, abs=1e-9)
    assert ph.simulate(system, **how, t0=1.0, t1=0.0).state[-1, 0] == pytest.approx(-1.0, abs=1e-9)


def test_a_short_extension_does_not_shorten_the_steps_after_it(tmp_path):
    system, path = ph.VectorField(Rn(2), lambda t, x: jnp.stack((x[1], -x[0]))), tmp_path / "run.zarr"
    ph.simulate(system, "rkmk4", h=0.01, t1=1.0, state0=jnp.ones(2), store=path)
    ph.resume(path, 1.005, problem=system)
    stored = ph.resume(path, 2.0, problem=system)
    first = ph.simulate(system, "rkmk4", h=0.01, t1=1.0, state0=jnp.ones(2))
    memory = ph.simulate(system, initial=ph.simulate(system, initial=first, t1=1.003), t1=2.0)
    for run, begin in ((stored, 1.005), (memory, 1.003)):
        after = np.diff(np.asarray(run.t)[np.asarray(run.t) >= begin])
        assert after.min() > 0.0099


def test_memory_of_other_steps_is_not_used(tmp_path):
    top = ph.problems.get("heavy-top-constrained")
    first = ph.simulate(top, "generalized-alpha", h=1e-3, t1=0.02)
    # A copy has the state alone.
    alone = ph.simulate(top, initial=pickle.loads(pickle.dumps(first)), h=2e-3, t1=0.04)
    further = ph.simulate(top, initial=first, h=2e-3, t1=0.04)
    assert_same_bytes(alone.state, further.state)


def test_inside_transformations_nothing_is_gone_on_with_in_silence():
    system = ph.VectorField(Rn(1), lambda t, y: -y)
    first = ph.simulate(system, "rkmk4", h=0.1, t1=1.0, state0=jnp.ones(1))
    with pytest.raises(ValueError, match="Inside jit, grad or vmap a run can't go on"):
        jax.jit(lambda: ph.simulate(system, initial=first, t1=2.0).state)()


def test_solutions_travel_between_processes():
    run = ph.simulate(ph.problems.get("heavy-top"), "rkmk4", h=1e-3, t1=0.01)
    copy = pickle.loads(pickle.dumps(run))
    assert_same_bytes(run.frames, copy.frames)
    assert copy.stats == run.stats


def test_memory_of_another_version_of_a_method_is_refused(tmp_path, monkeypatch):
    """A run can begin in its last frame all the same."""
    problem, path, method = ph.problems.get("heavy-top"), tmp_path / "run.zarr", "rkmk4"
    ph.simulate(problem, method, h=1e-3, t1=2e-3, store=path)
    of = StoredCheckpoint.of
    other = lambda contents: of({name: x for name, x in contents.items() if name != "progress-0"})  # noqa: E731
    monkeypatch.setattr(StoredCheckpoint, "of", other)
    with pytest.raises(ValueError, match=r"`.*run\.zarr` can't go on to the same bytes.* begin in its last frame"):
        ph.resume(path, t1=4e-3)
    run = ph.simulate(problem, method, h=1e-3, t1=4e-3, initial=ph.load(path))
    assert run.t[0] == 2e-3
    assert run.stats["result"] == ph.Result.successful
