from __future__ import annotations

import io
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import polhode as ph
from polhode.frames import Frames
from polhode.results.audit.block_statistics import is_drifting, is_growing, series_statistics, span
from polhode.solution.solution import Solution

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


def test_a_run_that_was_killed_has_an_audit():
    """It has not counted its steps."""
    frames = Frames(S, np.ones((len(S), 3)), {}, {"energy": 5.0 + 0 * S}, {}, None)
    for meta, hidden in (({"h": 1e-4}, False), ({"h": 0.5}, True), ({}, False)):
        meta = {"promises": {}, "kinks_within_steps": 1, "order": 2, **meta}
        audit = Solution(frames, {"result": ph.Result.interrupted, "t_reached": 1.0}, meta).audit()
        assert ("kinks of loads" in str(audit)) == hidden


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


@pytest.mark.exhaustive
def test_real_runs_are_judged_by_the_tolerance_of_their_own_solver():
    pendulum = ph.problems.get("heavy-top-constrained")
    for tolerance in (1e-4, 1e-10):
        method = ph.integrators.get("generalized-alpha", rtol=tolerance, atol=tolerance)
        audit = ph.simulate(pendulum, method, h=1e-3, t1=0.02).audit()
        scale = audit["position"].allowed / (10 * tolerance)
        assert audit["position"].verdict == "kept"
        assert 1 <= scale <= 200
    assert audit["position"].allowed < 1e-6


def test_a_drift_of_what_the_motion_keeps_is_said_in_words_whatever_is_promised():
    """The heavy top with a step a hundred times too large: its energy is off by hundreds, and nothing failed."""
    top = ph.problems.get("heavy-top")
    poor, fine = (ph.simulate(top, "rkmk4", h=h, t1=1.0).audit() for h in (1e-2, 1e-4))
    assert fine.accurate
    assert not fine.remarks
    assert poor["energy"].accuracy == "wrong"
    assert not poor.accurate
    assert poor.kept
    assert any("energy drifted by" in remark and "the step is too large" in remark for remark in poor.remarks)
    assert poor.remarks[0] in str(poor)
    assert poor.remarks[0] in poor._repr_html_()
    loose = ph.simulate(top, "rkmk32", rtol=0.3, t1=1.0).audit()
    assert any("tolerances are too loose" in remark for remark in loose.remarks)


@pytest.mark.parametrize(("drift", "said"), [(1e-4, "accurate"), (5e-3, "coarse"), (0.4, "wrong")])
def test_accuracy_is_measured_against_what_is_exchanged(drift, said):
    exchange = np.cos(20 * S)
    energies = {"kinetic_energy": 100 + exchange, "potential_energy": -exchange}
    solution = run({"energy": 100 + 2 * drift * S})
    frames = solution.frames._replace(outputs=energies)
    row = Solution(frames, solution.stats, solution.meta).audit()["energy"]
    assert row.accuracy == said
    assert row.relative == pytest.approx(drift)


def with_energies(kinetic, potential, **meta):
    """A run that reports the parts of its energy."""
    solution = run({"energy": kinetic + potential}, **meta)
    outputs = {"kinetic_energy": kinetic, "potential_energy": potential}
    return Solution(solution.frames._replace(outputs=outputs), solution.stats, solution.meta).audit()["energy"]


@pytest.mark.parametrize("zero", [-1e4, 0.0, 0.5, 1e4])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e6])
def test_where_a_potential_has_its_zero_makes_no_difference_to_the_accuracy(zero, size):
    wave = 0.5 + 0.5 * np.cos(20 * S)
    row = with_energies(size * (wave + 0.02 * S), size * (zero - wave))
    assert row.accuracy == "wrong"
    assert row.relative == pytest.approx(0.02, rel=0.05)
    assert with_energies(size * (wave + 1e-4 * S), size * (zero - wave)).accuracy == "accurate"
    assert with_energies(size * wave, size * (zero - wave)).relative == 0


def test_small_oscillations_are_measured_by_themselves_and_rest_by_rounding():
    wave = 5e-7 * np.cos(20 * S) ** 2
    assert with_energies(wave + 2e-6 * S, -9.81 - wave).accuracy == "wrong"
    assert with_energies(1e-30 * S, -9.81 + 1e-14 * S).relative == 0
    assert with_energies(0 * S, -9.81 + 1e-10 * S).accuracy == "accurate"
    assert with_energies(wave + 2e-6 * S, -wave, scales={"energy": 1.0}).accuracy == "accurate"


@pytest.mark.parametrize(("mass", "angle", "h"), [(1e-8, 1.0, 0.05), (1.0, 1e-3, 0.02)])
def test_light_pendulums_and_small_swings_are_found_wrong(mass, angle, h):
    def audit(method, h):
        return ph.simulate(system, method, state0=start, h=h, t1=5.0, throw=False).audit()

    model = ph.Model(gravity=(0, 0, -9.81))
    bob = model.add_body(mass=mass, inertia=(0.01 * mass,) * 3, position=(np.sin(angle), 0, -np.cos(angle)))
    model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    system, start = model.assemble("minimal")
    assert audit("lie-euler", h)["energy"].accuracy == "wrong"
    assert audit("rkmk4", h / 10).accurate


def test_invariants_that_start_near_zero_raise_no_alarm():
    """An energy of -1e-4 by where its potential has its zero, and an eccentricity vector of 2e-6."""
    assert run({"energy": -1e-4 + 2.7e-4 * S}).audit().accurate
    assert run({"eccentricity": 2e-6 + 5e-6 * np.stack([S, -S], axis=1)}).audit()["eccentricity"].accuracy == "accurate"
    assert not run({"eccentricity": 2e-6 + 0.1 * S}).audit().accurate


def test_coarse_runs_are_remarked_on_but_not_wrong():
    audit = run({"spin": 1 + 5e-3 * S}).audit()
    assert audit.remarks == ("spin drifted by 0.5 %: coarse",)
    assert audit.accurate
    assert audit.remarks[0] in str(audit)
    wave = np.cos(20 * S)
    row = with_energies(1 + wave + 1e-2 * S, -wave)
    assert row.remark == "energy drifted by 0.5 % of what is exchanged: coarse"
    gap = run(residuals={"position": 5e-3 + 0 * S}).audit()["position"]
    assert gap.remark == "position is off by 0.5 % of the size of the system: coarse"


def test_numbers_beyond_all_bounds_are_wrong():
    for end in (np.nan, np.inf):
        broken = np.r_[np.ones(4000), end]
        assert with_energies(broken, broken).accuracy == "wrong"
        assert run({"spin": broken}).audit()["spin"].accuracy == "wrong"


def left_alone(joint):
    """Two bodies on which nothing acts from outside."""
    model = ph.Model(gravity=(0, 0, 0))
    one = model.add_body(mass=2.0, inertia=(0.3, 0.4, 0.5), position=(0, 0, 0), angular_velocity=(0.1, 1, 0.2))
    two = model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.25), position=(1, 0, 0), velocity=(0, 0.3, 0.4))
    model.add(joint(model, one, two))
    return model


def spring(model, one, two):
    ends = {"first_point": (0, 0.1, 0), "second_point": (1, 0, 0)}
    return ph.forces.SpringDamper(one, two, **ends, stiffness=20.0)


@pytest.mark.parametrize("formulation", ["euler-angles", "SE3"])
@pytest.mark.sampled(8)
def test_bodies_left_alone_report_their_momenta(formulation):
    system, start = left_alone(spring).assemble(formulation)
    fine, coarse = (ph.simulate(system, "rkmk4", state0=start, h=h, t1=2.0) for h in (0.01, 0.6))
    for name in ("linear_momentum", "angular_momentum"):
        assert fine.audit()[name].accuracy == "accurate"
        assert fine.audit()[name].verdict == "not promised"
    np.testing.assert_allclose(fine.invariants["linear_momentum"][0], [0, 0.3, 0.4], atol=1e-14)
    np.testing.assert_allclose(fine.invariants["angular_momentum"][0], [0.03, 0.0, 0.4], atol=1e-14)
    assert coarse.audit()["angular_momentum"].accuracy != "accurate"


def test_momenta_that_cancel_are_measured_by_those_of_single_bodies():
    """Two bodies of 1000 kg at 1 m/s against each other, which start at once or from rest."""
    kinetic = {"kinetic_energy": 1000 + 0 * S}
    for started, said in ((kinetic, "accurate"), ({"kinetic_energy": 1000 * S}, "wrong")):
        solution = run({"linear_momentum": 1.0 * np.stack([S, S, S], axis=1)})
        frames = solution.frames._replace(outputs=started)
        assert Solution(frames, solution.stats, solution.meta).audit()["linear_momentum"].accuracy == said


@pytest.mark.exhaustive
def test_joints_between_bodies_keep_momenta_and_those_on_the_ground_do_not():
    between = left_alone(lambda model, one, two: ph.joints.Spherical(one, two, point=(0.5, 0, 0)))
    system, start = between.assemble("SO3xR3", repair=True)
    audit = ph.simulate(system, "herk5", state0=start, h=0.01, t1=1.0).audit()
    assert audit["linear_momentum"].accuracy == audit["angular_momentum"].accuracy == "accurate"
    held = left_alone(lambda model, one, two: ph.joints.Spherical(model.ground, two, point=(0.5, 0, 0)))
    assert set(held.assemble("SE3", repair=True)[0].invariants()) == {"energy"}
    assert set(between.assemble("minimal", repair=True)[0].invariants()) == {"energy"}


@pytest.mark.exhaustive
def test_euler_angles_that_lose_momentum_in_a_long_run_are_remarked_on():
    model = ph.Model(gravity=(0, 0, 0))
    model.add_body(mass=2.0, inertia=(0.3, 0.4, 0.5), angular_velocity=(0.1, 1, 0.2))
    system, start = model.assemble("euler-angles")
    audit = ph.simulate(system, "rkmk4", state0=start, h=0.05, t1=3000.0, save_every=10).audit()
    assert audit["angular_momentum"].accuracy == "coarse"
    assert any(remark.startswith("angular momentum drifted by") for remark in audit.remarks)
    assert not audit.accurate


def test_ranges_of_long_columns_are_found_chunk_by_chunk():
    class Column:
        """A column that counts how much of it is alive."""

        shape, largest = (1_000_000, 2), 0

        def __len__(self):
            return self.shape[0]

        def __getitem__(self, rows):
            self.largest = max(self.largest, rows.stop - rows.start)
            here = np.arange(rows.start, rows.stop, dtype=float)
            return np.stack([here, -here], axis=1)

    column = Column()
    tracemalloc.start()
    low, high = span(column)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (low.tolist(), high.tolist()) == ([0, -999_999], [999_999, 0])
    assert peak < 0.5 * 16 * len(column)


@pytest.mark.exhaustive
def test_several_runs_in_one_solution_are_audited_one_by_one():
    decay = ph.VectorField(ph.spaces.Rn(1), lambda t, y: -y)
    batch = jax.vmap(lambda y: ph.simulate(decay, "rk4", state0=y, h=0.1, t1=1.0))(jnp.ones((3, 1)))
    with pytest.raises(ValueError, match=r"several runs .*jax.tree.map\(lambda x: x\[k\], solution\)"):
        batch.audit()
    assert jax.tree.map(lambda x: x[1], batch).audit().kept


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
    seen = series_statistics(np.arange(400.0), walks.T, False, lambda t: np.ones(len(t), bool))
    assert np.sum(is_drifting(seen) | is_growing(seen)) <= 8


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


@pytest.mark.exhaustive
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
