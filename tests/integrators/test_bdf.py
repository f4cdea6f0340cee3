"""BDF methods on the tumbling body, whose motion is known to 1e-12, and on a stiff mechanism."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.integrators import BDF
from polhode.spaces import Rn
from polhode.systems.mechanical import Mechanical

sys.path.insert(0, str(Path(__file__).parents[1] / "verification"))

import cells
from tumbling import VALUES, form_of

FORM = form_of(BDF())
COUNTS = {1: 400, 2: 200, 3: 200, 4: 200, 5: 120}


def end(t1: float = 1.0, values: Any = VALUES, method: BDF | None = None, **how: Any) -> tuple[Any, ...]:
    """Attitude, velocity and multipliers at the end, and the run."""
    system, state, _ = FORM.make(values)
    run = ph.simulate(system, method or BDF(), t1=t1, state0=state, **how)
    assert int(run.stats["result"]) == ph.Result.successful
    return *FORM.view(jax.tree.map(lambda x: x[-1], run.state), values), run.multipliers[-1], run


def errors(**how: Any) -> tuple[list[float], ph.Solution]:
    """Of attitude, velocity and multipliers at t = 1."""
    *result, run = end(**how)
    motion = FORM.motion(1.0)
    assert FORM.multipliers is not None
    exact = (*motion[:2], FORM.multipliers(motion))
    return [float(np.linalg.norm(np.asarray(a) - b)) for a, b in zip(result, exact, strict=True)], run


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_constant_steps_have_the_highest_order_in_attitude_velocity_and_multipliers(order: int) -> None:
    count, method = COUNTS[order], BDF(max_order=order)
    coarse, fine = (errors(h=1 / n, method=method)[0] for n in (count, 2 * count))
    observed = np.log2(np.array(coarse) / fine)
    assert np.all(np.abs(observed - order) < (0.15 if order < 5 else 0.3)), observed


@pytest.mark.exhaustive
def test_errors_follow_the_tolerance_and_constraints_hold_at_every_one() -> None:
    tolerances = np.array([1e-4, 1e-6, 1e-8, 1e-10])
    result = []
    for rtol in tolerances:
        gaps, run = errors(rtol=float(rtol), atol=float(rtol))
        result.append(gaps)
        assert run.residuals["position"].max() < 1e-11
        assert run.residuals["velocity"].max() < 1e-10
    # Errors of steps are controlled: the sum goes with the power k/(k + 1) of the tolerance, here 5/6.
    # Multipliers go along, though nobody estimates their errors.
    slopes = np.polyfit(np.log(tolerances), np.log(result), 1)[0]
    assert np.all((slopes > 0.78) & (slopes < 1.0)), result
    assert run.stats["steps"] < 400


@pytest.mark.exhaustive
def test_tolerances_choose_high_orders_for_smooth_motion_and_take_fewer_steps() -> None:
    few, many = (errors(rtol=1e-8, atol=1e-8, method=BDF(max_order=k))[1].stats["steps"] for k in (5, 2))
    assert few < many / 5


def stiff() -> tuple[Mechanical, Any]:
    """x'' = -k (x - cos t) - d (x' + sin t) - cos t, with modes that decay at 1e3 and 1e5 1/s: x = cos t."""

    def force(t: Any, q: Any, v: Any) -> Any:
        return -1e8 * (q - jnp.cos(t)) - 1e5 * (v + jnp.sin(t)) - jnp.cos(t)

    return Mechanical(Rn(1), jnp.eye(1), force), (jnp.array([1.0]), jnp.zeros(1))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("order", "most"), [(2, 1200), (5, 200)])
def test_stiff_motion_takes_steps_of_the_slow_part_only(order: int, most: int) -> None:
    """Velocities of stiff motion are off by the errors of positions over the step: estimates must not see these."""
    system, start = stiff()
    for tolerance in (1e-5, 1e-6):
        how = {"rtol": tolerance, "atol": tolerance, "t1": 3.0, "state0": start}
        run = ph.simulate(system, BDF(max_order=order), **how)
        assert abs(run.state[0][-1, 0] - np.cos(3.0)) < 1e-7
        assert abs(run.state[1][-1, 0] + np.sin(3.0)) < 10 * tolerance
        # Steps of explicit methods would be below 3e-5.
        assert run.stats["steps"] < most
        assert run.stats["rejected"] < 10


def test_stiff_motion_takes_a_fifth_of_the_steps_of_generalized_alpha() -> None:
    system, start = stiff()
    how = {"rtol": 1e-7, "atol": 1e-7, "t1": 3.0, "state0": start}
    ours, theirs = (ph.simulate(system, name, **how) for name in ("bdf", "generalized-alpha"))
    assert ours.stats["steps"] < theirs.stats["steps"] / 5
    gaps = [abs(run.state[1][-1, 0] + np.sin(3.0)) for run in (ours, theirs)]
    assert gaps[0] < 2 * gaps[1]


def test_stiff_motion_with_constant_steps_starts_with_order_one() -> None:
    system, start = stiff()
    # Explicit steps would spoil it.
    run = ph.simulate(system, "bdf", h=0.02, t1=3.0, state0=start)
    gaps = np.abs(run.state[0][:, 0] - np.cos(run.t))
    # The first step has order 1: h²/2 is damped by the slower of the fast modes, 1e3 1/s. Later ones have order 5.
    assert gaps.max() < 1.1 * 0.02**2 / 2 / (1 + 1e3 * 0.02)
    assert gaps[run.t > 1].max() < 1e-9


@pytest.mark.exhaustive
def test_runs_go_back_in_time() -> None:
    system = Mechanical(Rn(1), jnp.eye(1), lambda t, q, v: -q)
    start = (jnp.array([np.cos(2.0)]), jnp.array([-np.sin(2.0)]))
    for how in ({"h": 0.01}, {"rtol": 1e-10, "atol": 1e-10}):
        run = ph.simulate(system, "bdf", t0=2.0, t1=0.0, state0=start, **how)
        assert abs(run.state[0][-1, 0] - 1) < 1e-7


@pytest.mark.exhaustive
def test_frames_between_steps_have_the_order_of_the_method() -> None:
    def gap(count: int) -> float:
        middle = (np.floor(0.77 * count) + 0.5) / count
        system, state, _ = FORM.make(VALUES)
        run = ph.simulate(system, BDF(max_order=4), h=1 / count, t1=1.0, state0=state, save_at=np.array([middle]))
        attitude, velocity = FORM.view(jax.tree.map(lambda x: x[-1], run.state), VALUES)
        exact = FORM.motion(float(middle))
        return float(np.abs(attitude - exact[0]).max() + np.abs(velocity - exact[1]).max())

    assert np.log2(gap(100) / gap(200)) > 3.7


@pytest.mark.exhaustive
def test_a_continued_run_is_the_uninterrupted_one_to_the_byte(tmp_path: Path) -> None:
    system, state, _ = FORM.make(VALUES)
    how = {"rtol": 1e-6, "atol": 1e-6, "state0": state}
    whole = ph.simulate(system, "bdf", t1=1.0, **how)
    half = ph.simulate(system, "bdf", t1=1.0, max_steps=20, throw=False, store=tmp_path / "run", **how)
    assert half.stats["steps"] == 20
    rest = ph.resume(tmp_path / "run", problem=system, max_steps=4096)
    assert np.array_equal(rest.state[1][-1], whole.state[1][-1])


@pytest.mark.exhaustive
def test_modified_newton_reaches_the_same_solution() -> None:
    full, modified = (errors(h=1e-2, method=BDF(newton=kind))[1] for kind in ("full", "modified"))
    assert np.abs(full.state[1][-1] - modified.state[1][-1]).max() < 1e-8
    assert modified.residuals["position"].max() < 1e-11


@pytest.mark.exhaustive
def test_derivatives_along_chosen_steps_are_those_of_differences() -> None:
    def value(values: Any) -> Any:
        attitude, velocity, multipliers, _ = end(0.3, values, rtol=1e-9, atol=1e-9, save_every=None)
        return jnp.sum(attitude[0]) + velocity[1] + 0.1 * multipliers[2]

    gradient = np.asarray(jax.grad(value)(jnp.asarray(VALUES)))
    along = jax.jvp(value, (jnp.asarray(VALUES),), (jnp.asarray(cells.DIRECTION),))[1]
    assert abs(float(along) - gradient @ cells.DIRECTION) < 1e-9
    difference = [(float(value(VALUES + 1e-3 * e)) - float(value(VALUES - 1e-3 * e))) / 2e-3 for e in np.eye(3)]
    assert np.abs(gradient - difference).max() < 1e-4


@pytest.mark.exhaustive
@pytest.mark.parametrize("problem", ["slider-crank", "andrews"])
def test_errors_follow_the_tolerance_on_mechanisms(problem: str) -> None:
    task = ph.problems.get(problem)
    runs = [
        ph.simulate(task, "bdf", rtol=r, atol=r, save_every=None, max_steps=100_000) for r in (1e-6, 1e-8, 1e-10, 1e-12)
    ]
    *result, exact = (run.state[1][-1] for run in runs)
    gaps = [float(np.abs(x - exact).max()) for x in result]
    # Andrews' mechanism turns at thousands of rad/s: at 1e-6 its error is not yet proportional to anything.
    slope = np.log(gaps[1] / gaps[2]) / np.log(1e2)
    assert 0.75 < slope < 1.0, gaps
    assert gaps[0] > 30 * gaps[1]
    assert all(run.residuals["position"].max() < 1e-11 for run in runs)


def test_breakpoints_restart_the_method() -> None:
    """A force that jumps at t = 1: before it nothing is seen of it, and after it the order comes back."""

    def force(t: Any, q: Any, v: Any) -> Any:
        return -q + jnp.where(t < 1.0, 0.0, 1.0)

    system, start = Mechanical(Rn(1), jnp.eye(1), force), (jnp.array([1.0]), jnp.zeros(1))
    exact = lambda t: np.cos(t) if t < 1 else 1 + np.cos(t) - np.cos(t - 1)  # noqa: E731
    for how in ({"h": 0.01}, {"rtol": 1e-10, "atol": 1e-10}):
        run = ph.simulate(system, "bdf", t1=2.0, state0=start, breakpoints=[1.0], **how)
        assert max(abs(x[0] - exact(t)) for t, x in zip(run.t, run.state[0], strict=True)) < 1e-8


def pulse_model(begin: float) -> Any:
    """A body that a pulse of two milliseconds and impulse 1 sets in motion."""
    times = (begin, begin, begin + 0.002, begin + 0.002)
    push = ph.PiecewiseLinear(times, np.outer((0, 500.0, 500.0, 0), (1.0, 0, 0)))
    model = ph.Model()
    model.add(ph.forces.PointForce(model.add_body(mass=1.0, inertia=(1, 1, 1)), push))
    return model.problem("SE3", t1=0.6)


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("begin", [0.02, 0.5])
def test_short_pulses_between_breakpoints_are_seen_as_a_whole(begin: float) -> None:
    """Legs with fewer steps than the order: what follows behind them must not be taken for their past."""
    problem = pulse_model(begin)
    for h in (1e-2, 5e-4):
        assert abs(ph.simulate(problem, "bdf", h=h, save_every=None).state[1][-1, 3] - 1) < 1e-11


@pytest.mark.exhaustive
@pytest.mark.parametrize("begin", [0.02, 0.5])
def test_short_pulses_are_seen_inside_transformations(begin: float) -> None:
    problem = pulse_model(begin)
    last = lambda start: ph.simulate(problem, "bdf", h=1e-2, state0=start, save_every=None).state[1][-1, 3]  # noqa: E731
    assert abs(jax.jit(last)(problem.state0) - 1) < 1e-11


@pytest.mark.exhaustive
def test_a_batch_of_runs_with_tolerances_chooses_orders_and_steps_for_each_member() -> None:
    def last(rate: Any) -> Any:
        system = Mechanical(Rn(1), jnp.eye(1), lambda t, q, v: -rate * rate * q)
        how = {"rtol": 1e-8, "atol": 1e-8, "t1": 1.0, "save_every": None}
        return ph.simulate(system, "bdf", state0=(jnp.ones(1), jnp.zeros(1)), **how).state[0][-1, 0]

    rates = np.array([0.5, 3.0, 20.0])
    result = jax.vmap(last)(jnp.asarray(rates))
    assert np.abs(result - np.cos(rates)).max() < 1e-5
    # Under `vmap` steps are found first and then made again, with the orders that were chosen for them.
    assert abs(last(3.0) - result[1]) < 1e-12


def test_wrong_orders_are_explained() -> None:
    for order in (0, 6):
        with pytest.raises(ValueError, match="max_order"):
            BDF(max_order=order)
    assert BDF().promises["velocity"] == "newton"
