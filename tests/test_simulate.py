"""The driver: steps, saving, interpolation, failures, interruption and bad input."""

import contextlib
import json
import os
import signal
import threading
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.compiler.llvm import jit
from polhode.results.observer import BatchedObserver
from polhode.simulation import save_schedule
from polhode.simulation.loops import host
from polhode.storage.zarr_store import RunStore


class Power(eqx.Module):
    """q̇ = c qⁿ: known solutions, and blow-up in finite time for n > 1."""

    c: float
    n: int = eqx.field(static=True)

    def __call__(self, t, q):
        return self.c * q**self.n


def line(c=-1.0, n=1):
    return ph.VectorField(ph.spaces.Rn(2), Power(c, n))


@pytest.fixture(scope="module")
def top():
    return ph.problems.get("heavy-top", formulation="S3")


def test_step_count_is_whole_and_steps_are_equal(top):
    run = ph.simulate(top, "rkmk4", h=0.3e-3, t1=0.1)
    assert run.stats["steps"] == 334
    assert run.meta["h"] == 0.1 / 334
    np.testing.assert_array_equal(run.t, np.arange(335) * (0.1 / 334))
    assert run.t[-1] == pytest.approx(0.1, abs=1e-16)


def test_frames_do_not_depend_on_how_they_are_saved(top):
    every = ph.simulate(top, "rkmk4", h=1e-3, t1=0.1)
    seventh = ph.simulate(top, "rkmk4", h=1e-3, t1=0.1, save_every=7)
    ends = ph.simulate(top, "rkmk4", h=1e-3, t1=0.1, save_every=None)
    kept = [*range(0, 100, 7), 100]
    np.testing.assert_array_equal(seventh.t, every.t[kept])
    # Programs of different sizes, so the last bit may differ.
    for run, rows in ((seventh, kept), (ends, [0, 100])):
        np.testing.assert_allclose(run.outputs["axis"], every.outputs["axis"][rows], rtol=0, atol=1e-15)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ["rkmk54", "rkmk4", "cf4", "rk4"])
def test_interpolation_order(top, name):
    """Errors between steps fall with the declared order + 1, and the state stays on the space."""
    times = np.array([0.011, 0.0237, 0.049])
    fine = ph.simulate(top, "rkmk6", h=1e-5, t1=0.05, save_at=times)
    errors = []
    for h in (1e-3, 5e-4):
        run = ph.simulate(top, name, h=h, t1=0.05, save_at=times)
        errors.append(np.abs(run.outputs["rotation"] - fine.outputs["rotation"]).max())
        if name != "rk4":
            assert run.residuals["manifold"].max() < 1e-14
    order = ph.integrators.get(name).interpolation_order
    assert errors[0] / errors[1] > 2 ** (min(order, ph.integrators.get(name).order) - 0.4)


def test_save_times_on_the_grid_are_landed_on(top):
    every = ph.simulate(top, "rkmk4", h=1e-3, t1=0.05)
    at = ph.simulate(top, "rkmk4", h=1e-3, t1=0.05, save_at=every.t[[0, 1, 17, 50]])
    # Two programs, so the last bit may differ.
    np.testing.assert_allclose(at.outputs["axis"], every.outputs["axis"][[0, 1, 17, 50]], rtol=0, atol=1e-15)


def test_save_at_stops_the_saving_not_the_run(top):
    run = ph.simulate(top, "rkmk54", rtol=1e-6, t1=0.1, save_at=[0.02])
    assert len(run.t) == 1
    assert run.stats["t_reached"] == 0.1


def test_backward_in_time_returns_to_the_start(top):
    there = ph.simulate(top, "rkmk6", h=2e-4, t1=0.1, save_every=None)
    end = jax.tree.map(lambda x: x[-1], there.state)
    back = ph.simulate(top, "rkmk6", h=2e-4, t0=0.1, t1=0.0, state0=end, save_every=None)
    np.testing.assert_allclose(back.outputs["rotation"][-1], there.outputs["rotation"][0], atol=1e-9)
    assert back.t[-1] == pytest.approx(0.0, abs=1e-15)


def test_second_run_compiles_nothing(top, monkeypatch):
    compiled, build = [], jit.CompiledFunction.__init__
    monkeypatch.setattr(jit.CompiledFunction, "__init__", lambda *a: (compiled.append("machine code"), build(*a))[1])
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if "backend_compile" in event else None
    )
    ph.simulate(top, "rkmk3", h=1e-3, t1=0.05)
    assert compiled
    compiled.clear()
    ph.simulate(top, "rkmk3", h=0.5e-3, t0=0.1, t1=0.05 + 0.1, save_every=7)
    assert not compiled


@pytest.mark.parametrize("how", [{"h": 1e-2}, {"rtol": 1e-6}])
def test_divergence_stops_with_code_time_and_frames(how, tmp_path):
    path = tmp_path / "blow.zarr"
    integrator = "rkmk4" if "h" in how else "rkmk54"
    start = jnp.array([1.0, 2.0])
    with pytest.raises(ph.SimulationError, match=r"nonfinite_state|step_too_small") as caught:
        ph.simulate(line(1.0, 3), integrator, state0=start, t1=10.0, store=path, **how)
    run = caught.value.solution
    # The exact solution of q̇ = q³ from 2 is infinite at t = 1/8.
    assert run.stats["t_reached"] == pytest.approx(0.125, abs=0.02)
    assert np.isfinite(run.state).all()
    stored = ph.load(path)
    np.testing.assert_array_equal(stored.t, run.t)
    np.testing.assert_array_equal(stored.state, run.state)
    assert stored.stats["result"] == run.stats["result"]


def test_throw_false_returns_the_code():
    run = ph.simulate(line(1.0, 3), "rkmk4", state0=jnp.ones(2), t1=10.0, h=1e-2, throw=False)
    assert run.stats["result"] is ph.Result.nonfinite_state


def test_a_failure_on_the_way_is_not_hidden_by_steps_that_come_after_inside_transformations():
    # The field is none for two steps only, and a run that went on from the last good state would look well.
    system = ph.VectorField(ph.spaces.Rn(1), lambda t, y: jnp.where(jnp.abs(t - 0.25) < 0.06, jnp.nan, -y))

    @jax.jit
    def run(start):
        found = ph.simulate(system, "lie-euler", h=0.1, t1=1.0, state0=start)
        return found.state, found.stats["result"]

    state, result = run(jnp.ones(1))
    assert int(result) == ph.Result.nonfinite_state
    np.testing.assert_allclose(state[3:, 0], 0.9**2)


def test_too_many_steps():
    run = ph.simulate(line(), "rkmk54", state0=jnp.ones(2), t1=10.0, rtol=1e-8, max_steps=20, throw=False)
    assert run.stats["result"] is ph.Result.max_steps_reached
    assert run.stats["steps"] + run.stats["rejected"] == 20


@contextlib.contextmanager
def sent(path, *signals):
    """These signals to this process, half a second apart, once a run has a few frames in a store."""

    def frames():
        try:
            return len(ph.load(path).t)
        except ph.StoreError:
            return 0

    def send():
        # Not before steps are made: Ctrl-C while compiling ends the program, as it should.
        deadline = time.monotonic() + 300
        while frames() < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        for signal_ in signals:
            os.kill(os.getpid(), signal_)
            time.sleep(0.5)

    # Shells start programs in the background with SIGINT ignored, others with SIGHUP.
    before = {s: signal.signal(s, signal.default_int_handler) for s in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)}
    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_script_that_handles_signals_gets_them_when_everything_is_stored(top, tmp_path, name):
    path, number, stored = tmp_path / "run.zarr", getattr(signal, name), []
    with sent(path, number):
        signal.signal(number, lambda *_: stored.append(len(ph.load(path).t)))
        with pytest.warns(ph.InterruptionWarning, match="A signal ended the run at t = "):
            run = ph.simulate(top, "rkmk4", h=1e-7, t1=100.0, save_every=100_000, store=path)
    assert run.stats["result"] is ph.Result.interrupted
    assert len(run.t) > 2
    assert stored == [len(run.t)]
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, None])
def test_signals_that_are_ignored_or_not_handled_by_python_end_no_run(top, tmp_path, monkeypatch, handler):
    append, sent_ = RunStore.append, []

    def signalling(self, *rest):
        append(self, *rest)
        signal.raise_signal(signal.SIGTERM)
        sent_.append(1)

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    monkeypatch.setattr(RunStore, "append", signalling)
    # None: a program that Python runs in handles it.
    monkeypatch.setattr(signal, "getsignal", lambda number: handler)
    try:
        run = ph.simulate(top, "rkmk4", h=1e-3, t1=0.01, store=tmp_path / "run.zarr")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert sent_
    assert run.stats["result"] is ph.Result.successful


@pytest.mark.parametrize("throw", [True, False])
def test_ctrl_c_reaches_the_script_with_the_run_as_far_as_it_came(top, tmp_path, throw, recwarn):
    path, after = tmp_path / "run.zarr", []
    options = {"h": 1e-7, "t1": 100.0, "save_every": 100_000, "store": path, "throw": throw, "overwrite": True}

    def loop():
        for _ in range(2):
            ph.simulate(top, "rkmk4", **options)
            after.append("went on")

    with sent(path, signal.SIGINT), pytest.raises(KeyboardInterrupt, match=r"t = .*error\.solution") as caught:
        loop()
    assert not after
    # Of a class derived from it Python makes another status.
    assert type(caught.value) is KeyboardInterrupt
    assert caught.value.solution.stats["result"] is ph.Result.interrupted
    assert len(ph.load(path).t) == len(caught.value.solution.t) > 2
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]
    assert not [w for w in recwarn if issubclass(w.category, ph.InterruptionWarning)]


def test_a_second_ctrl_c_ends_at_once_with_everything_written(top, tmp_path, monkeypatch):
    path, blocks = tmp_path / "run.zarr", []
    append = RunStore.append

    def pressing(self, frames, *rest):
        append(self, frames, *rest)
        blocks.append(len(frames.t))
        if sum(blocks) > 2:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunStore, "append", pressing)
    with sent(path), pytest.raises(KeyboardInterrupt) as caught:
        ph.simulate(top, "rkmk4", h=1e-7, t1=100.0, save_every=100_000, store=path)
    assert caught.value.repeated
    assert len(ph.load(path).t) == len(caught.value.solution.t) == sum(blocks)


def test_full_disk_keeps_everything_in_memory(top, tmp_path, monkeypatch):
    def full(self, *_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunStore, "append", full)
    with pytest.raises(ph.SimulationError, match=r"No space left.*Nothing is on disk") as caught:
        ph.simulate(top, "rkmk4", h=1e-3, t1=0.1, store=tmp_path / "run.zarr")
    assert caught.value.solution.stats["result"] is ph.Result.store_failed
    assert len(caught.value.solution.t) >= 1


def test_a_store_that_fails_at_the_end_keeps_the_run(top, tmp_path, monkeypatch):
    def full(self, stats):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunStore, "close", full)
    run = ph.simulate(top, "rkmk4", h=1e-3, t1=0.1, store=tmp_path / "run.zarr", throw=False)
    assert run.stats["result"] is ph.Result.store_failed
    assert run.t[-1] == pytest.approx(0.1)


def test_full_buffers_do_not_inflate_the_blocks(monkeypatch):
    """Blocks end early where every step is saved; their length once grew tenfold with each, beyond all integers."""
    monkeypatch.setattr(save_schedule, "_BUFFER_SIZES", (1, 4))
    run = ph.simulate(line(), "rkmk3", state0=jnp.ones(2), t1=1.0, h=0.01)
    assert len(run.t) == 101
    np.testing.assert_allclose(run.state[:, 0], np.exp(-run.t), rtol=1e-7)


def test_blocks_follow_the_steps_that_were_made():
    assert host._next_block(4096, 1e-9) == 40961
    assert host._next_block(4096, 1e9) == 410
    assert host._next_block(0, 0.1) == 1


@pytest.mark.parametrize("store", [False, True])
def test_an_unforeseen_error_loses_no_frames(monkeypatch, tmp_path, store):
    frames = BatchedObserver.frames

    def broken(self, t, *others):
        if t[0] > 0.5:
            raise ZeroDivisionError("a bar of length zero")
        return frames(self, t, *others)

    monkeypatch.setattr(save_schedule, "_BUFFER_SIZES", (1, 4))
    monkeypatch.setattr(BatchedObserver, "frames", broken)
    path = tmp_path / "run.zarr" if store else None
    arguments = {"state0": jnp.ones(2), "t1": 1.0, "h": 0.01, "store": path, "overwrite": True}
    with pytest.raises(ph.SimulationError, match=r"unexpected_error.*ZeroDivisionError: a bar of length") as caught:
        ph.simulate(line(), "rkmk3", **arguments)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    run = caught.value.solution
    assert len(run.t) == 2 + 13 * 4
    assert run.stats["t_reached"] == pytest.approx(0.57)
    again = ph.simulate(line(), "rkmk3", **arguments, throw=False)
    assert again.stats["result"] is ph.Result.unexpected_error
    assert "ZeroDivisionError" in again.stats["error"]
    if path is not None:
        assert len(ph.load(path).t) == len(again.t)
        assert ph.load(path).stats["result"] is ph.Result.unexpected_error


@pytest.mark.parametrize("method", ["append", "close"])
def test_any_error_of_a_store_keeps_the_run(top, tmp_path, monkeypatch, method):
    def broken(self, *_):
        raise KeyError("chunk")

    monkeypatch.setattr(RunStore, method, broken)
    run = ph.simulate(top, "rkmk4", h=1e-3, t1=0.1, store=tmp_path / "run.zarr", throw=False)
    assert run.stats["result"] is ph.Result.store_failed
    assert len(run.t) >= 1


def test_a_diagnosis_that_fails_does_not_cost_the_run(monkeypatch):
    def broken(self, t, state):
        raise IndexError("no such joint")

    monkeypatch.setattr(ph.VectorField, "diagnose", broken)
    run = ph.simulate(line(1.0, 3), "rkmk4", state0=jnp.ones(2), t1=10.0, h=1e-2, throw=False)
    assert run.stats["diagnosis"] == "No diagnosis: IndexError: no such joint"
    assert np.isfinite(run.state).all()


BAD = [
    ({"h": -1e-3}, r"`h` must be positive, got -0.001"),
    ({"h": 0.0}, r"`h` must be positive"),
    ({"h": float("nan")}, r"`h` must be finite"),
    ({"h": 2.0}, r"`h` = 2 is larger than the span 1"),
    ({"h": "fast"}, r"`h` must be numeric"),
    ({"h": 1e-3, "rtol": 1e-6}, r"both a constant step h = 0.001 and tolerances"),
    ({"rtol": 1e-6}, r"`rkmk4` has no error estimate.*rkmk54"),
    ({"integrator": "rkmk54", "rtol": -1.0}, r"must not be negative"),
    ({"integrator": "rkmk54", "rtol": 0.0, "atol": 0.0}, r"not both zero"),
    ({"integrator": "rkmk44"}, r"There is no integrator `rkmk44`. Did you mean `rkmk4`"),
    ({"integrator": 3}, r"`integrator` must be a name"),
    ({"t1": 0.0}, r"the span is empty"),
    ({"t1": float("inf")}, r"`t1` must be finite"),
    ({"save_every": 0}, r"`save_every` must be an integer of at least 1"),
    ({"save_every": 1.5}, r"`save_every` must be an integer of at least 1"),
    ({"save_at": [0.5, 0.2]}, r"strictly from t0 towards t1"),
    ({"save_at": [0.5, 2.0]}, r"outside the span"),
    ({"save_at": []}, r"non-empty"),
    ({"state0": (np.array([1.0, 0.1, 0, 0]), np.zeros(3))}, r"state0.*project"),
    ({"state0": (np.array([1.0, 0, 0, 0]), np.array([np.nan, 0, 0]))}, r"state0.*(finite|NaN)"),
    ({"state0": (np.array([1.0, 0, 0]), np.zeros(3))}, r"state0.*shape"),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=[str(b) for b, _ in BAD])
def test_bad_input_is_named_before_compiling(top, bad, message):
    arguments = {"integrator": "rkmk4", "t1": 1.0, **bad}
    with pytest.raises(ValueError, match=f"(?s){message}"):
        ph.simulate(top, **arguments)


def test_bare_system_needs_state_and_end():
    with pytest.raises(ValueError, match="bare system needs"):
        ph.simulate(line(), "rkmk4", h=0.1)


def test_wrong_kind_of_system_is_explained():
    class Other(ph.systems.AbstractSystem):
        @property
        def state_space(self):
            return ph.spaces.Rn(2)

        def residuals(self, t, state):
            return {"manifold": jnp.zeros(())}

    with pytest.raises(
        ValueError, match=r"takes a first-order system \(`VectorField`\), and this system can't be written"
    ):
        ph.simulate(Other(), "rkmk4", state0=jnp.ones(2), t1=1.0, h=0.1)


def test_conversions_are_used():
    class Wrapped(ph.systems.AbstractSystem):
        @property
        def state_space(self):
            return ph.spaces.Rn(2)

        def residuals(self, t, state):
            return {"manifold": jnp.zeros(())}

        def conversions(self):
            return (ph.systems.Conversion(line()),)

    run = ph.simulate(Wrapped(), "rkmk6", state0=jnp.ones(2), t1=1.0, h=0.05, save_every=None)
    np.testing.assert_allclose(run.state[-1], np.exp(-1.0), rtol=1e-9)


# --- constrained systems ----------------------------------------------------------------------------------------------


def pendulum(frequency=0.0):
    """A point mass on a rod of length 1 whose pivot moves up and down with an amplitude of 0.1."""

    def rod(t, x):
        pivot = jnp.array([0.0, 0.1 * jnp.sin(frequency * t)])
        return 0.5 * ((x - pivot) @ (x - pivot) - 1.0)[None]

    weight = lambda t, x, v: jnp.array([0.0, -9.81])  # noqa: E731
    return ph.systems.Mechanical(ph.spaces.Rn(2), jnp.eye(2), weight, rod, 1)


HANGING = (jnp.array([0.6, -0.8]), jnp.array([0.8, 0.6]))


@pytest.mark.parametrize(
    ("state0", "what"),
    [
        ((jnp.array([0.6, -0.9]), jnp.array([0.9, 0.6])), r"positions at t = 0: number 0 of 1 by 0\.085\. Solve Φ = 0"),
        (
            (jnp.array([0.6, -0.9]), HANGING[1]),
            r"positions at t = 0: number 0 of 1 by 0\.085, and those on velocities at t = 0: number 0 of 1 by 0\.06\.",
        ),
        ((HANGING[0], jnp.array([0.0, 1.0])), r"velocities at t = 0: number 0 of 1 by 0\.8"),
    ],
)
@pytest.mark.parametrize("integrator", ["herk2", "generalized-alpha"])
def test_a_start_off_the_constraints_is_refused(state0, what, integrator):
    with pytest.raises(ValueError, match=f"`state0` violates the constraints on {what}"):
        ph.simulate(pendulum(), integrator, state0=state0, t1=0.1, h=0.01)


def test_a_start_of_another_time_is_refused():
    system = pendulum(frequency=3.0)
    q, v = HANGING
    start = (q, v + jnp.array([0.0, 0.3]))
    run = ph.simulate(system, "herk2", state0=start, t1=0.1, h=0.01, save_every=None)
    assert run.residuals["velocity"].max() < 1e-12
    with pytest.raises(ValueError, match=r"violates the constraints on positions at t = 0\.5"):
        ph.simulate(system, "herk2", state0=start, t0=0.5, t1=0.6, h=0.01)


def test_a_start_is_used_as_given_within_the_tolerance_and_unread_in_transformations():
    q, v = HANGING
    run = ph.simulate(pendulum(), "herk2", state0=(q * (1 + 5e-7), v), t1=0.1, h=0.01, save_every=None)
    assert run.residuals["position"][0] > 1e-7

    def end(scale):
        return ph.simulate(pendulum(), "herk2", state0=(q * scale, v), t1=0.1, h=0.01, save_every=None).state[0][-1, 0]

    assert jax.eval_shape(end, 1.1).shape == ()


def test_a_start_off_a_joint_names_it_and_can_be_repaired():
    model = ph.Model(gravity=(0, 0, -9.81))
    bob = model.add_point(mass=1.0, position=(1.0, 0, 0))
    model.add(ph.joints.Distance(model.ground, bob, first_point=(0, 0, 0), second_point=(1.0, 0, 0), name="rod"))
    system, (q, v) = model.assemble()
    bent = jax.tree.map(lambda x: x + 0.1, q)
    with pytest.raises(ValueError, match=r"positions at t = 0: `rod` by 0.11.*system.repaired"):
        ph.simulate(system, "herk2", state0=(bent, v), t1=0.1, h=0.01)
    system.check(0.0, system.repaired(0.0, (bent, v)))
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if "trace" in event or "compile" in event else None
    )
    system.check(0.0, (q, v))
    assert not compiled


@pytest.mark.exhaustive
def test_tolerances_pick_a_method_for_constraints():
    model = ph.Model(gravity=(0, 0, -9.81))
    bob = model.add_point(mass=1.0, position=(1.0, 0, 0))
    model.add(ph.joints.Distance(model.ground, bob, first_point=(0, 0, 0), second_point=(1.0, 0, 0)))
    run = ph.simulate(model.problem("SE3", t1=0.1), rtol=1e-4)
    assert run.meta["integrator"]["name"] == "generalized-alpha"
    assert run.meta["integrator"]["options"] == {"constraint": "stabilized-index-2"}
    assert run.residuals["velocity"].max() < 1e-9
    # A residual for each Newton iteration, and one to begin with.
    attempts = run.stats["steps"] + run.stats["rejected"]
    assert run.stats["newton_iterations"] >= 1
    assert run.stats["evaluations"] == round(attempts * (1 + run.stats["newton_iterations"]))
    explicit = ph.simulate(model.problem("SE3", t1=0.1, integrator="herk3"), rtol=1e-4)
    assert explicit.meta["integrator"]["name"] == "herk54"


def test_methods_with_an_estimate_are_those_that_take_the_system():
    with pytest.raises(ValueError, match=r"`herk4` has no error estimate.*one of generalized-alpha, bdf, herk54\.$"):
        ph.simulate(pendulum(), "herk4", state0=HANGING, t1=0.1, rtol=1e-4)


def test_a_failed_newton_iteration_does_not_blame_explicit_methods():
    alpha = ph.integrators.get("generalized-alpha", max_iterations=1, rtol=1e-15, atol=1e-300)
    run = ph.simulate(pendulum(), alpha, state0=HANGING, t1=1.0, h=0.5, throw=False)
    assert run.stats["result"] is ph.Result.newton_not_converged
    assert all("explicit" not in result.message for result in ph.Result)


def test_results_print_as_their_names_and_stay_numbers():
    result = ph.Result.max_steps_reached
    assert str(result) == f"{result}" == "max_steps_reached"
    assert (result, json.dumps(result), np.asarray(result).tolist()) == (2, "2", 2)
