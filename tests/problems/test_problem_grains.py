"""Problems of grains with friction: the slope in a drum, the flow out of a hopper, and where the energy goes."""

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph

G = 9.81


def free_surface(x, radius, bins=9):
    """Slope in degrees of the highest grains over the middle of a drum; x has shape (frames, n, 3)."""
    edges = np.linspace(-0.6 * radius, 0.6 * radius, bins + 1)
    which = np.digitize(x[..., 0], edges) - 1
    tops = [np.where(which == k, x[..., 2], -np.inf).max(axis=1).mean() for k in range(bins)]
    return np.degrees(np.arctan(-np.polyfit(0.5 * (edges[1:] + edges[:-1]), tops, 1)[0]))


@pytest.mark.exhaustive
def test_the_slope_in_a_drum_grows_with_friction():
    """In a steady flow the drum works as the weight does at the lever of its centre of mass."""
    slopes = []
    for friction in (0.0, 0.2, 0.5):
        problem = ph.problems.get(
            "rotating-drum", friction=friction, wall_friction=1.6 * friction, duration=2.4, angular_velocity=1.5
        )
        run = ph.simulate(problem, save_every=40)
        late = np.asarray(run.t) > 1.2
        x, m = np.asarray(run.outputs["positions"])[late], np.asarray(problem.system.masses)
        slopes.append(free_surface(x, problem.parameters["radius"]))
        assert np.degrees(np.mean(run.outputs["slope"][late])) == pytest.approx(slopes[-1], abs=3)
        work, t = np.asarray(run.outputs["wall_work"])[late], np.asarray(run.t)[late]
        power = 1.5 * G * np.mean(-x[..., 0] @ m)
        assert np.ptp(work) / np.ptp(t) == pytest.approx(power, rel=0.1, abs=1e-3)
        lost = sum(np.asarray(part)[-1] for part in run.outputs["dissipation"].values())
        assert np.ptp(run.invariants["energy_balance"]) < 1e-11 * lost
    assert abs(slopes[0]) < 3
    assert slopes[0] + 8 < slopes[1] < slopes[2] - 3
    assert 22 < slopes[2] < 34


@pytest.mark.exhaustive
def test_a_hopper_runs_evenly_and_keeps_its_grains_where_its_hole_is_small():
    problem = ph.problems.get("hopper")
    run = ph.simulate(problem, save_every=40)
    m, t = np.asarray(problem.system.masses), np.asarray(run.t)
    gone = np.asarray(run.outputs["discharged"]) / m.sum()
    np.testing.assert_allclose(gone, (np.asarray(run.outputs["positions"])[..., 2] < 0) @ m / m.sum(), rtol=1e-12)
    assert gone[-1] == pytest.approx(1)
    # A liquid would run with the root of its height, the last half at 0.6 of the first.
    halves = np.array_split(np.flatnonzero((gone > 0.15) & (gone < 0.85)), 2)
    first, last = (np.polyfit(t[part], gone[part], 1)[0] for part in halves)
    assert last / first == pytest.approx(1, abs=0.15)
    lost = {name: np.asarray(part)[-1] for name, part in run.outputs["dissipation"].items()}
    assert np.ptp(run.invariants["energy_balance"]) < 1e-11 * lost["sliding"]
    assert abs(lost["numerical"]) < 0.02 * sum(lost.values())
    # In the end they rest in the bin and lean on each other.
    assert np.asarray(run.outputs["energies"]["translation"])[-1] < 1e-3 * sum(lost.values())
    assert np.mean(run.outputs["contact_counts"][-1]) > 3

    shut = ph.simulate(problem.replace(hole=0.02, duration=0.6), save_every=40)
    gone = np.asarray(shut.outputs["discharged"]) / m.sum()
    assert gone[-1] < 0.05
    assert gone[-1] == gone[len(gone) // 2]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["rotating-drum", "hopper"])
def test_a_run_with_contacts_is_taken_up_to_the_same_bytes(name, tmp_path):
    problem = ph.problems.get(name, grains=60)
    half, end = 500 * problem.h, 1000 * problem.h
    whole = ph.simulate(problem, t1=end, save_every=100)
    ph.simulate(problem, t1=half, save_every=100, store=tmp_path / "run.zarr")
    on = ph.resume(tmp_path / "run.zarr", t1=end)
    assert np.asarray(whole.outputs["contact_counts"])[-1].sum() > 30
    for a, b in zip(on.state, whole.state, strict=True):
        assert np.asarray(a)[-1].tobytes() == np.asarray(b)[-1].tobytes()


@pytest.mark.parametrize("turn", [-0.4, 0.0, 0.6])
def test_the_slope_is_the_angle_of_the_bed(turn):
    problem = ph.problems.get("rotating-drum", grains=8, spread=0.0)
    x = np.random.default_rng(0).uniform(-1, 1, (8, 3)) * (0.03, 0.02, 0.005) - (0, 0, 0.04)
    x[:, 0] -= x[:, 0].mean()
    c, s = np.cos(turn), np.sin(turn)
    # A positive turn about y takes the bed to negative x.
    state = problem.state0._replace(x=jnp.asarray(x @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]).T))
    assert float(problem.outputs["slope"](0.0, state)) == pytest.approx(turn, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("rotating-drum", {"grains": 3000}, "which fill the drum"),
        ("rotating-drum", {"radius": 0.004}, "at most 0"),
        ("rotating-drum", {"width": 0.015, "grains": 50}, "period"),
        ("rotating-drum", {"spread": 1.0}, "below 1"),
        ("rotating-drum", {"seed": -1}, "whole number"),
        ("rotating-drum", {"restitution": 1.5}, "restitution"),
        ("hopper", {"hole": 0.2}, "below twice the `radius`"),
        ("hopper", {"half_angle": 2.0}, "between 0.05 and π/2"),
        ("hopper", {"radius": 0.005, "hole": 0.005}, "no grain is in the tube"),
        ("hopper", {"friction": -0.1}, "must not be negative"),
        ("hopper", {"grains": 0}, "at least 1"),
    ],
)
def test_bad_parameters_are_named(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        ph.problems.get(name, **parameters)
