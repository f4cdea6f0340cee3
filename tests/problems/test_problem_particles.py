"""Problems of bonded particles: what their motions keep, and that parameters mean what they say."""

import numpy as np
import pytest

import polhode as ph


def _total(run):
    return sum(np.asarray(part) for part in run.outputs["energies"].values())


def test_the_pendulum_hangs_where_its_potential_is_least():
    problem = ph.problems.get("pendulum-3d", angle=0.0, angular_velocity=(0.0, 0.0, 0.3))
    run = ph.simulate(problem, h=0.05)
    np.testing.assert_allclose(run.outputs["axis"], np.tile([0.0, 0.0, 1.0], (201, 1)), atol=1e-14)
    small = ph.simulate(ph.problems.get("pendulum-3d", mg_over_j=4.0, angle=1e-3, angular_velocity=(0, 0, 0)), h=0.01)
    swing = np.asarray(small.outputs["axis"])[:, 0]
    np.testing.assert_allclose(swing, 1e-3 * np.cos(2 * np.asarray(small.t)), atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shear", ["objective", "literal"])
def test_the_torus_bounces_off_the_wall(shear):
    problem = ph.problems.get("torus", n=12, shear=shear, duration=3.0)
    run = ph.simulate(problem, h=2e-3, save_every=10)
    P, E = np.asarray(run.outputs["linear_momentum"]), _total(run)
    assert P[0, 0] == pytest.approx(-12)
    assert P[-1, 0] > 0
    assert np.max(np.abs(P[:, 1:])) < 1e-12
    assert np.max(np.abs(E / E[0] - 1)) < 5e-3
    assert run.outputs["positions"].shape == (151, 12, 3)
    away = ph.simulate(ph.problems.get("torus", n=12, shear=shear, wall=False, duration=0.2), h=2e-3)
    assert away.audit().kept
    assert {"linear_momentum", "energy"} <= set(away.invariants)


@pytest.mark.exhaustive
def test_the_block_falls_and_rebounds_with_its_energy():
    problem = ph.problems.get("falling-block", edge=2, height=0.01, duration=0.1)
    run = ph.simulate(problem, save_every=20)
    low = np.min(np.asarray(run.outputs["positions"])[..., 2], axis=1)
    assert low[0] == pytest.approx(0.02)
    assert np.max(np.asarray(run.outputs["energies"]["wall"])) > 0
    assert low.min() > 0
    assert np.ptp(_total(run)) < 1e-3 * np.max(np.asarray(run.outputs["energies"]["translation"]))
    weak = ph.simulate(ph.problems.get("falling-block", edge=2, height=0.01, duration=0.1, strength=1.0), save_every=20)
    assert np.sum(np.asarray(weak.outputs["whole"])[-1] == 0) > 0


@pytest.mark.exhaustive
def test_the_pile_comes_to_rest_inside_its_box():
    problem = ph.problems.get("grain-pile", grains=6, duration=0.4)
    run = ph.simulate(problem, save_every=200)
    parts = {name: np.asarray(part) for name, part in run.outputs["energies"].items()}
    assert parts["translation"][-1] + parts["rotation"][-1] < 0.05 * parts["translation"].max()
    x = np.asarray(run.outputs["positions"])[-1]
    assert x.min() > 0
    assert np.all(x[:, :2] < 2.6 * 0.01 * max(1, round(3 ** (1 / 3))))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("torus", {"n": 2}, "at least 3"),
        ("torus", {"wall": 1}, "True or False"),
        ("torus", {"shear": "litteral"}, "Did you mean `literal`"),
        ("torus", {"contact": -1.0}, "must not be negative"),
        ("pendulum-3d", {"mg_over_j": 0.0}, "greater than zero"),
        ("falling-block", {"edge": 0}, "at least 1"),
        ("grain-pile", {"grains": 2.5}, "integer"),
        ("grain-pile", {"diameter": 1e300}, "no finite numbers"),
    ],
)
def test_bad_parameters_are_named(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        ph.problems.get(name, **parameters)
