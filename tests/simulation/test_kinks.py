"""Kinks of loads: where steps end there, and what it costs in accuracy where they don't."""

from __future__ import annotations

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import polhode as ph
from polhode.simulation.stepping.constant import constant_segments
from polhode.simulation.stepping.grid_steps import PiecewiseSteps, grid_steps
from polhode.simulation.stepping.kinks import choose_end_points
from polhode.simulation.stepping.segments import Breakpoints
from polhode.time_functions import kinks_of

KNOTS = np.array([0.0, 0.3733, 0.6171, 0.8319, 1.3])
HEIGHTS = np.array([0.0, 30.0, -20.0, 10.0, 0.0])


class Driven(eqx.Module):
    """A damped oscillator under a load that is a table."""

    table: ph.PiecewiseLinear

    @property
    def breakpoints(self):
        return self.table.breakpoints

    @property
    def kinks(self):
        return self.table.kinks

    def __call__(self, t, y):
        return jnp.stack((y[1], self.table(t) - 0.3 * y[1] - 9 * jnp.sin(y[0])))


START = jnp.array([0.1, 0.0])


def driven(heights=HEIGHTS, knots=KNOTS):
    return ph.VectorField(ph.spaces.Rn(2), Driven(ph.PiecewiseLinear(knots, heights)))


def exact(knots=KNOTS, heights=HEIGHTS, t1=1.0):
    y, ends = np.array([0.1, 0.0]), [*knots[knots < t1], t1]
    for a, b in itertools.pairwise(ends):
        f = lambda t, y: [y[1], np.interp(t, knots, heights) - 0.3 * y[1] - 9 * np.sin(y[0])]  # noqa: E731
        y = solve_ivp(f, (a, b), y, rtol=1e-13, atol=1e-14, method="DOP853").y[:, -1]
    return y


def end(h, method="rk4", **how):
    return ph.simulate(driven(), method, state0=START, t1=1.0, h=h, **how)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("method", "order"), [("rk4", 4), ("rk6", 6), ("rkmk3", 3)])
def test_orders_are_kept_across_kinks_off_the_grid_without_a_restart(method, order):
    runs = [end(h, method) for h in (0.02, 0.01)]
    errors = [np.max(np.abs(run.state[-1] - exact())) for run in runs]
    assert np.log2(errors[0] / errors[1]) > order - 0.5
    assert [run.meta["legs"] for run in runs][1][1][0] == KNOTS[1]
    assert set(KNOTS[1:4].tolist()) <= set(np.asarray(runs[0].t).tolist())
    assert np.max(np.diff(runs[0].t)) <= 0.02 * (1 + 1e-12)


def test_the_run_is_one_march_and_its_steps_survive_a_store(tmp_path):
    run = end(0.01, save_every=None, store=tmp_path / "run.zarr")
    assert len(run.meta["legs"]) == 4
    longer = ph.resume(tmp_path / "run.zarr", problem=driven(), t1=1.2)
    np.testing.assert_allclose(longer.state[-1], exact(t1=1.2), atol=1e-6)
    segments = constant_segments(0.0, 1.0, 0.01, Breakpoints(stops=(0.3733, 0.8319)))
    (stepper,) = [segment.stepper for segment in segments]
    assert isinstance(stepper, PiecewiseSteps)
    again = grid_steps([*map(float, stepper.numbers()), np.nan])
    jax.tree.map(np.testing.assert_array_equal, again, stepper)
    (constant,) = [s.stepper for s in constant_segments(0.0, 1.0, 0.3, Breakpoints())]
    jax.tree.map(np.testing.assert_array_equal, grid_steps(list(map(float, constant.numbers()))), constant)


def test_frames_between_steps_and_runs_back_in_time_are_right():
    at = np.array([0.1, 0.365, 0.3733, 0.375, 0.99, 1.0])
    frames = end(0.01, save_at=at).state
    np.testing.assert_allclose(frames[-1], exact(), atol=1e-6)
    np.testing.assert_allclose(frames[2], exact(t1=0.3733), atol=1e-6)
    back = ph.simulate(driven(), "rk4", state0=jnp.asarray(exact()), t0=1.0, t1=0.0, h=0.01)
    np.testing.assert_allclose(back.state[-1], [0.1, 0.0], atol=1e-5)
    half = end(0.02, estimate_error=True).stats["error_estimate"]["state"]["error"]
    assert 1 / 3 < half / np.max(np.abs(end(0.02).state[-1] - exact())) < 5


def test_controlled_steps_end_at_all_kinks():
    how = {"state0": jnp.array([0.1, 0.0]), "t1": 1.0, "rtol": 1e-8}
    run = ph.simulate(driven(), "dopri5", **how)
    assert set(KNOTS[1:4].tolist()) <= set(np.asarray(run.t).tolist())
    np.testing.assert_allclose(run.state[-1], exact(), atol=1e-6)
    assert run.stats["rejected"] < 5
    back = ph.simulate(driven(), "dopri5", **{**how, "state0": run.state[-1], "t0": 1.0, "t1": 0.0})
    assert KNOTS[2] in np.asarray(back.t)
    np.testing.assert_allclose(back.state[-1], [0.1, 0.0], atol=1e-5)


@pytest.mark.exhaustive
def test_they_hold_inside_transformations():
    def final(heights, **how):
        return ph.simulate(driven(heights), "rk4", state0=START, t1=1.0, save_every=None, **how).state[-1]

    host = end(0.02).state[-1]
    np.testing.assert_allclose(jax.jit(lambda x: final(x, h=0.02))(HEIGHTS), host, rtol=1e-12)
    direction = np.array([0.0, 1.0, 0.5, -1.0, 0.0])
    gradient = jax.grad(lambda x: final(x, h=0.02)[0])(jnp.asarray(HEIGHTS)) @ direction
    sides = [final(jnp.asarray(HEIGHTS + s * 1e-4 * direction), h=0.02)[0] for s in (1, -1)]
    assert gradient == pytest.approx((sides[0] - sides[1]) / 2e-4, rel=1e-6)


@pytest.mark.exhaustive
def test_events_keep_kinks_at_the_ends_of_steps_inside_transformations():
    """Later events must not carry ends of controlled steps away from the kinks."""
    kick = ph.Event(lambda t, y: y[1] - 1.0, lambda t, y: y * jnp.array([1.0, -0.5]), direction=-1)

    def final(heights, **how):
        run = ph.simulate(driven(heights), "dopri5", state0=START, t1=1.0, events=kick, max_events=4, **how)
        return run.t, run.state, run.events.t

    for how in ({"h": 0.02, "save_every": 7}, {"rtol": 1e-9, "save_every": None, "max_steps": 256}):
        host = final(HEIGHTS, **how)
        traced = jax.jit(lambda x, how=how: final(x, **how))(HEIGHTS)
        assert len(host[2])
        for a, b in zip(traced[:2], host[:2], strict=True):
            np.testing.assert_allclose(a, b, atol=1e-10)
    direction = np.array([0.0, 1.0, 0.5, -1.0, 0.0])
    last = lambda s: final(HEIGHTS + s * direction, **how)[1][-1, 0]  # noqa: E731
    slope, sides = jax.grad(last)(0.0), [last(s) for s in (1e-4, -1e-4)]
    assert slope == pytest.approx((sides[0] - sides[1]) / 2e-4, rel=1e-4)


def test_pieces_of_a_run_have_each_step_once():
    run = end(0.1, breakpoints=(0.0, 0.5), save_every=1)
    starts, spacings, counts = np.array(run.meta["legs"]).T
    assert counts.sum() == run.stats["steps"] == len(run.t) - 1
    np.testing.assert_allclose(starts[1:], (starts + counts * spacings)[:-1], rtol=1e-14)


def test_recorded_signals_finer_than_steps_cost_no_steps():
    """Of a smooth signal, kinks inside steps cost less accuracy than the straight lines between its points."""
    knots = np.linspace(0.0, 1.0, 1501)
    table = driven(5 * np.sin(7 * knots), knots)
    run = ph.simulate(table, "rk4", state0=START, t1=1.0, h=0.01)
    assert run.stats["steps"] == 100
    assert run.meta["kinks_within_steps"] > 1000
    (remark,) = [remark for remark in run.audit().remarks if "kinks" in remark]
    assert (
        f"inside steps ({run.meta['kinks_within_steps']} of them), where the method has order 2 instead of 4" in remark
    )
    assert not any(
        "kinks" in remark for run in (end(0.02), end(0.02, "lie-midpoint")) for remark in run.audit().remarks
    )
    f = lambda t, y: [y[1], 5 * np.sin(7 * t) - 0.3 * y[1] - 9 * np.sin(y[0])]  # noqa: E731
    smooth = solve_ivp(f, (0, 1), [0.1, 0.0], rtol=1e-12, atol=1e-13).y[:, -1]
    np.testing.assert_allclose(run.state[-1], smooth, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "h", "kinks", "chosen"),
    [
        ("rk4", 0.01, (0.31, 0.5), "grid"),
        ("rk4", 0.01, (0.305, 0.5), "march"),
        ("lie-midpoint", 0.01, (0.305, 0.5), "inside"),
        ("generalized-alpha", 0.01, (0.305, 0.309), "restart"),
        ("bdf", 0.01, (0.305, 0.5), "restart"),
        ("rk4", 0.01, tuple(np.linspace(0.003, 0.99, 40)), "inside"),
    ],
)
def test_where_steps_end_depends_on_the_order_and_the_number_of_kinks(method, h, kinks, chosen):
    found = choose_end_points(Breakpoints((0.7,)), kinks, ph.integrators.get(method), 0.0, 1.0, h)
    by = {"march": len(found.breakpoints.stops) > 1, "inside": bool(found.inside), "restart": len(found[0].inner) > 1}
    assert by == {name: name == chosen for name in by}


def test_an_instant_at_which_one_of_several_loads_jumps_is_no_kink():
    ramp, jump = ph.PiecewiseLinear((0.0, 1.0, 2.0), (0, 1, 0)), ph.PiecewiseLinear((1.0, 1.0), (0.0, 4.0))
    assert kinks_of(ramp, jump) == (0.0, 2.0)
    model = ph.Model()
    body = model.add_body(mass=2.0, inertia=(1, 1, 1))
    for load in (ramp, jump):
        model.add(ph.forces.PointForce(body, ph.PiecewiseLinear(load.times, np.outer(load.values, np.eye(3)[0]))))
    system = model.problem("SE3", t1=1.0).system
    assert (system.kinks(), system.breakpoints()) == ((0.0, 2.0), (0.0, 1.0, 2.0))


class Push(eqx.Module):
    """A recorded force along x."""

    values: object

    def __call__(self, t):
        return ph.PiecewiseLinear(np.linspace(0, 1, 41), self.values)(t) * jnp.eye(3)[0]


@pytest.mark.exhaustive
def test_members_of_ensembles_with_tables_of_their_own_run_in_lanes():
    signal = ph.Parameter("height", 30.0) * np.sin(np.linspace(0, 9, 41))
    model = ph.Model()
    body = model.add_body(mass=2.0, inertia=(1, 1, 1), name="body")
    model.add(ph.forces.PointForce(body, Push(signal)))
    problem = model.problem("SE3", t1=1.0, h=0.025)
    result = ph.ensemble(problem, "rkmk4", parameters={"height": [10.0, 20.0, 30.0]}, save_every=1)
    assert result.stats["by"] == "lanes"
    single = ph.simulate(problem.replace(height=20.0), "rkmk4")
    positions = np.asarray(result.dataset["outputs.positions"])[1]
    np.testing.assert_array_equal(positions, single.outputs["positions"])


JUMPS = np.array([0.0, 0.2137, 0.2137, 0.25, 0.25, 0.6171, 0.8319, 0.8319, 1.3])
LEVELS = np.array([0.0, 30.0, -20.0, -20.0, 5.0, 40.0, 10.0, -30.0, 0.0])


def piecewise(t1=1.0, at=()):
    """The oscillator under a load with jumps, integrated piece by piece."""
    y, ends = np.array([0.1, 0.0]), np.unique([0.0, *JUMPS[t1 > JUMPS], *at, t1])
    states = []
    for a, b in itertools.pairwise(ends):
        k = np.searchsorted(JUMPS, 0.5 * (a + b)) - 1
        load = lambda t, k=k: LEVELS[k] + (t - JUMPS[k]) / (JUMPS[k + 1] - JUMPS[k]) * (LEVELS[k + 1] - LEVELS[k])  # noqa: E731
        f = lambda t, y, load=load: [y[1], load(t) - 0.3 * y[1] - 9 * np.sin(y[0])]  # noqa: E731
        y = solve_ivp(f, (a, b), y, rtol=1e-13, atol=1e-14, method="DOP853").y[:, -1]
        states += [y] if b in at or not at else []
    return np.array(states) if at else y


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("method", "order"), [("rk4", 4), ("rk6", 6), ("rkmk5", 5), ("dopri5", 5)])
def test_orders_are_kept_across_jumps_within_one_march(method, order):
    """Also of methods that remember the last stage."""
    runs = [ph.simulate(driven(LEVELS, JUMPS), method, state0=START, t1=1.0, h=h) for h in (0.02, 0.005)]
    errors = [np.max(np.abs(run.state[-1] - piecewise())) for run in runs]
    assert errors[1] < errors[0] / 4 ** (order - 0.7) + 1e-12
    assert set(JUMPS[1:8].tolist()) <= set(np.asarray(runs[0].t).tolist())
    assert np.max(np.diff(runs[0].t)) <= 0.02 * (1 + 1e-12)
    assert runs[0].meta["breakpoints"] == [0.2137, 0.25, 0.8319]


@pytest.mark.exhaustive
def test_controlled_steps_see_both_sides_of_a_jump():
    at = [0.2, 0.2137, 0.22, 0.7, 1.0]
    for method in ("dopri5", "cf43"):
        how = {"state0": START, "t1": 1.0, "rtol": 1e-10, "save_at": np.array(at)}
        run = ph.simulate(driven(LEVELS, JUMPS), method, **how)
        np.testing.assert_allclose(run.state, piecewise(at=tuple(at)), atol=1e-6)
    run = ph.simulate(driven(LEVELS, JUMPS), "dopri5", state0=START, t1=1.0, rtol=1e-8)
    assert run.stats["rejected"] < 8
    back = ph.simulate(driven(LEVELS, JUMPS), "dopri5", state0=run.state[-1], t0=1.0, t1=0.0, rtol=1e-8)
    np.testing.assert_allclose(back.state[-1], START, atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_jumps_hold_inside_transformations_and_for_derivatives(method):
    at = np.array([0.21, 0.2137, 0.22, 0.99])

    def final(levels, **how):
        return ph.simulate(driven(levels, JUMPS), method, state0=START, t1=1.0, h=0.02, **how).state

    host = final(LEVELS, save_at=at)
    np.testing.assert_allclose(host, piecewise(at=tuple(at)), atol=1e-4)
    np.testing.assert_allclose(jax.jit(lambda x: final(x, save_at=at))(LEVELS), host, rtol=1e-11)
    direction = np.array([0.0, 1.0, 0.5, -1.0, 0.3, 2.0, 0.0, 1.0, 0.0])
    last = lambda x: final(x, save_at=at)[2, 0] + final(x, save_every=None)[-1, 0]  # noqa: E731
    sides = [last(jnp.asarray(LEVELS + s * 1e-4 * direction)) for s in (1, -1)]
    assert jax.grad(last)(jnp.asarray(LEVELS)) @ direction == pytest.approx((sides[0] - sides[1]) / 2e-4, rel=1e-6)
    traced = jax.jit(jax.grad(last))(jnp.asarray(LEVELS)) @ direction
    assert traced == pytest.approx((sides[0] - sides[1]) / 2e-4, rel=1e-6)


@pytest.mark.exhaustive
def test_events_are_found_between_jumps():
    """Events next to jumps, some of them in the first step after one."""
    kick = ph.Event(lambda t, y: y[0] - 0.3, lambda t, y: y * jnp.array([1.0, -0.5]), direction=1, name="kick")

    def run(**how):
        return ph.simulate(driven(LEVELS, JUMPS), "dopri5", state0=START, t1=1.0, events=kick, **how)

    fine = run(rtol=1e-12)
    assert len(fine.events) > 1
    for how in ({"h": 0.01}, {"rtol": 1e-9}):
        np.testing.assert_allclose(run(**how).events.t, fine.events.t, atol=1e-6)
    traced = jax.jit(lambda levels: ph.simulate(
        driven(levels, JUMPS), "dopri5", state0=START, t1=1.0, h=0.01, events=kick, max_events=8
    ).events.t)(LEVELS)  # fmt: skip
    np.testing.assert_allclose(traced[: len(fine.events)], run(h=0.01).events.t, atol=1e-11)


def test_runs_with_jumps_survive_a_store(tmp_path):
    for how in ({"h": 0.01}, {"rtol": 1e-9}):
        place = tmp_path / ("run" + "".join(how))
        ph.simulate(driven(LEVELS, JUMPS), "dopri5", state0=START, t1=0.5, store=place, **how)
        longer = ph.resume(place, problem=driven(LEVELS, JUMPS), t1=1.0)
        np.testing.assert_allclose(longer.state[-1], piecewise(), atol=1e-5)
    (segment,) = constant_segments(0.0, 1.0, 0.01, Breakpoints(stops=(0.3, 0.4), jumps=(0.4,), at_end=True))
    again = grid_steps([*map(float, segment.stepper.numbers()), np.nan])
    jax.tree.map(np.testing.assert_array_equal, again, segment.stepper)
