"""Quantities that Lie-group methods keep, with controls that must fail."""

import numpy as np
import pytest

import polhode as ph


@pytest.fixture(scope="module")
def non_planar():
    q = np.array([[0.6, 0.48, 0.64], [-0.36, 0.8, 0.48]])
    omega = np.cross(q, [[1.0, -0.5, 0.3], [0.2, 1.5, -0.7]])
    return ph.problems.get("pendulum-chain", n=2, q=q, omega=omega)


def _violations(run):
    q, w = run.outputs["directions"], run.outputs["angular_velocities"]
    return np.abs(np.linalg.norm(q, axis=-1) - 1).max(), np.abs(np.sum(q * w, axis=-1)).max()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["lie-euler-heun", "rkmk4", "rkmk4-2c", "cf4", "cg4"])
def test_tangent_bundle_of_spheres_is_kept(non_planar, name):
    run = ph.simulate(non_planar, name, h=5 / 2000, t1=5.0)
    length, tangency = _violations(run)
    assert length < 1e-13
    assert tangency < 1e-13
    assert {r.quantity: r.verdict for r in run.audit().rows}["manifold"] == "kept"


def test_classical_rk4_leaves_both(non_planar):
    length, tangency = _violations(ph.simulate(non_planar, "rk4", h=5 / 2000, t1=5.0))
    assert length > 1e-10
    assert tangency > 1e-10


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("problem", "formulation"), [("heavy-top", "lie-poisson"), ("free-rigid-body", "coadjoint")])
def test_coadjoint_orbits_are_kept(problem, formulation):
    p = ph.problems.get(problem, formulation=formulation)
    run = ph.simulate(p, "rkmk4", h=p.h * 2, save_every=20)
    names = [n for n, promise in run.meta["promises"].items() if n != "manifold" and promise == "round-off"]
    assert names
    for name in names:
        values = np.asarray(run.invariants[name])
        assert np.abs(values - values[0]).max() < 1e-11 * max(1.0, np.abs(values).max()), name
    control = ph.simulate(p, "rk4", h=p.h * 20, save_every=20)
    worst = max(np.abs(np.asarray(control.invariants[n]) - np.asarray(control.invariants[n])[0]).max() for n in names)
    assert worst > 1e-9
