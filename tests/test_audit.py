from __future__ import annotations

import io

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import polhode as ph
from polhode.audit import swells, wanders
from polhode.solution import Frames, Solution

EPS = np.finfo(float).eps
S = np.linspace(0, 1, 4001)


def run(invariants=None, residuals=None, promises=None, steps=4000, state=None, t=S, **meta):
    state = np.cos(40 * np.linspace(0, 1, len(t)))[:, None] * np.ones(3) if state is None else state
    frames = Frames(t, state, {}, invariants or {}, residuals or {}, None)
    return Solution(frames, {"steps": steps, "result": ph.Result.successful}, {"promises": promises or {}, **meta})


def verdict(series, promise, **options):
    return run({"energy": series}, promises={"energy": promise}, **options).audit()["energy"].verdict


def test_numbers_of_a_row():
    drift = np.stack([3e-6 * S, -1e-6 * S], axis=1)
    row = run({"momentum": 5.0 + drift}, promises={}).audit()["momentum"]
    assert row.verdict == "not promised"
    assert row.max_drift == pytest.approx(3e-6)
    assert row.end_drift == pytest.approx(3e-6)
    assert row.slope == pytest.approx(3e-6)


@pytest.mark.parametrize("steps", [10, 1000, 1_000_000])
@pytest.mark.parametrize("law", ["random walk", "steady"])
def test_round_off_is_kept_however_it_adds_up(steps, law):
    rng = np.random.default_rng(steps)
    errors = 3 * EPS * (rng.normal(size=steps) if law == "random walk" else np.ones(steps))
    drift = np.abs(np.cumsum(errors))[:: max(1, steps // 4000)]
    audit = run(
        residuals={"manifold": drift}, promises={"manifold": "round-off"}, steps=steps, t=np.arange(len(drift)) * 1.0
    ).audit()
    assert audit["manifold"].verdict == "kept"


@pytest.mark.parametrize("steps", [100, 10_000, 1_000_000])
def test_leaving_the_sphere_by_1e8_is_broken(steps):
    audit = run(residuals={"manifold": 1e-8 * S}, promises={"manifold": "round-off"}, steps=steps).audit()
    assert audit["manifold"].verdict == "broken"
    assert not audit.kept


def test_classical_rk4_breaks_the_promise_that_rkmk4_keeps():
    problem = ph.problems.get("free-rigid-body")
    honest = ph.simulate(problem, "rkmk4", h=0.02, t1=2.0)
    assert honest.audit()["manifold"].verdict == "kept"
    classical = ph.simulate(problem, "rk4", h=0.02, t1=2.0)
    meta = {**classical.meta, "promises": honest.meta["promises"]}
    assert Solution(classical.frames, classical.stats, meta).audit()["manifold"].verdict == "broken"


def test_invariants_are_measured_against_their_size():
    noise = 1e-12 * np.sin(50 * S)
    assert verdict(1e6 + 1e6 * noise, "round-off") == "kept"
    assert verdict(1e-5 + noise, "round-off") == "broken"
    assert verdict(0.0 + noise, "round-off", state=np.full((4001, 2), 10.0)) == "kept"
    assert verdict(0.0 + noise, "round-off", state=np.full((4001, 2), 10.0), scales={"energy": 1e-6}) == "broken"


def test_newton_promises_follow_the_tolerance():
    promise = {"position": "newton", "energy": "newton"}
    drifts = {"residuals": {"position": 5e-10 + 0 * S}, "invariants": {"energy": 1 + 2e-7 * S}}
    assert run(**drifts, promises=promise, newton_tolerance=1e-10).audit().kept
    strict = run(**drifts, promises=promise, newton_tolerance=1e-13).audit()
    assert [strict[name].verdict for name in ("position", "energy")] == ["broken", "broken"]


def test_a_state_at_rest_does_not_make_rounding_a_drift():
    rest = np.zeros((4001, 3))
    promise = {"position": "round-off", "velocity": "newton", "energy": "round-off"}
    noise = {"residuals": {"position": 2.2e-16 + 0 * S, "velocity": 1e-9 + 0 * S}, "invariants": {"energy": 1e-15 * S}}
    assert run(**noise, promises=promise, state=rest).audit().kept
    worse = {"residuals": {"position": 1e-9 * S, "velocity": 2e-7 + 0 * S}, "invariants": {"energy": 1e-9 * S}}
    assert {row.verdict for row in run(**worse, promises=promise, state=rest).audit().rows} == {"broken"}


@pytest.mark.parametrize(("where", "said"), [(slice(1, None, 2), "between steps"), (slice(0, None, 2), "broken")])
@pytest.mark.parametrize("how", [{"h": 0.5e-3}, {"rtol": 1e-6}])
def test_promises_of_steps_do_not_bind_what_lies_between(where, said, how):
    """Frames 0, 2, 4, … are ends of steps; with tolerances only the first and the last are known to be."""
    gap = np.zeros(len(S))
    gap[where] = 1e-5
    meta = {"t0": 0.0, "t1": 1.0, **how, "between_steps": True}
    promises = {"position": "newton", "manifold": "round-off"}
    series = {"residuals": {"position": gap, "manifold": gap}}
    audit = run(**series, promises=promises, **meta).audit()
    assert audit["position"].verdict == said
    assert audit["manifold"].verdict == "broken"
    assert run(**series, promises=promises, **{**meta, "between_steps": False}).audit()["position"].verdict == "broken"


def test_interpolated_frames_of_implicit_methods_break_no_promise():
    rod = lambda t, x: 0.5 * (x @ x - 1.0)[None]  # noqa: E731
    pendulum = ph.systems.Mechanical(ph.spaces.Rn(2), jnp.eye(2), lambda t, x, v: jnp.array([0.0, -9.81]), rod, 1)
    start = {"state0": (jnp.array([1.0, 0.0]), jnp.array([0.0, 4.0])), "h": 0.05, "t1": 1.0}
    between = ph.simulate(pendulum, "generalized-alpha", **start, save_at=np.linspace(0, 1, 38))
    row = between.audit()["position"]
    assert (row.promise, row.verdict) == ("newton", "between steps")
    assert row.max_drift > 10 * row.allowed
    on_steps = ph.simulate(pendulum, "generalized-alpha", **start, save_at=[0.0, 0.5, 0.75])
    assert on_steps.audit()["position"].verdict == "kept"
    # Half-explicit methods bring velocities between steps onto their constraint.
    projected = ph.simulate(pendulum, "herk3", **start, save_at=np.linspace(0, 1, 38))
    assert projected.audit()["velocity"].verdict == "kept"


@pytest.mark.parametrize("cycles", [0.8, 1.3, 5.0, 15.9, 16.0, 16.1, 200.0, 1999.0])
@pytest.mark.parametrize("phase", [0.0, 1.0, 2.5])
def test_bounded_oscillations_are_kept(cycles, phase):
    wave = np.cos(2 * np.pi * cycles * S + phase) + 0.3 * np.cos(2 * np.pi * 1.618 * cycles * S)
    assert verdict(1 + 1e-6 * wave, "bounded") == "kept"


@pytest.mark.parametrize(
    "drift",
    [
        2.0 * S + 0.5 * np.cos(400 * S),
        -(S**2),
        np.exp(3 * S) * np.cos(300 * S),
        1e-6 * np.random.default_rng(0).normal(size=4001) + 1e-7 * np.exp(16 * S),
    ],
    ids=["linear", "quadratic", "widening", "explosion from noise"],
)
def test_secular_changes_are_broken(drift):
    assert verdict(1 + 1e-6 * drift, "bounded") == "broken"


def test_random_walks_are_rarely_called_a_drift():
    rng = np.random.default_rng(7)
    walks = np.cumsum(rng.normal(size=(3000, 400)), axis=1)
    assert sum(wanders(walk) or swells(walk) for walk in walks) <= 8


def test_one_bad_component_breaks_a_vector():
    assert verdict(1 + 1e-6 * np.stack([np.cos(90 * S), 2 * S], axis=1), "bounded") == "broken"


def test_few_frames_are_undecided_and_nan_is_broken():
    t = np.linspace(0, 1, 20)
    assert verdict(1 + 1e-3 * t, "bounded", t=t) == "undecided"
    assert verdict(1 + 0 * t, "bounded", t=t) == "kept"
    assert verdict(np.r_[np.ones(4000), np.nan], "bounded") == "broken"


@pytest.mark.parametrize(("swing", "said"), [(3.0, "undecided"), (10.0, "broken")])
def test_a_motion_of_less_than_two_periods_decides_nothing(swing, said):
    state = np.stack([np.cos(swing * S), S], axis=1)
    assert verdict(1 - 1e-6 * np.cos(np.pi * S), "bounded", state=state) == said
    assert verdict(1 + 1e-9 * np.exp(16 * S) * np.cos(300 * S), "bounded", state=state) == "broken"


def test_a_quarter_of_a_pendulum_swing_breaks_no_promise_of_a_symplectic_method():
    problem = ph.problems.get("heavy-top", formulation="cotangent")
    short = ph.simulate(problem, "symplectic", h=1e-3, t1=0.05)
    assert short.audit()["energy"].verdict in ("kept", "undecided")


def test_unknown_promises_are_an_error():
    with pytest.raises(ValueError, match="'exactly'"):
        verdict(1 + 0 * S, "exactly")


def test_all_faces_show_the_same_table(spin_solution):
    audit = spin_solution.audit()
    text = io.StringIO()
    Console(file=text, width=200).print(audit.to_rich())
    for face in (str(audit), text.getvalue(), audit._repr_html_()):
        for row in audit.rows:
            assert row.quantity in face
            assert row.verdict in face
            assert f"{row.max_drift:.2e}" in face
    assert audit.to_dict()["kept"] is True
    assert [row["quantity"] for row in audit.to_dict()["rows"]] == [row.quantity for row in audit.rows]
    with pytest.raises(KeyError, match="it has energy"):
        audit["enrgy"]
