"""The roll-up against an implementation of rod and methods that shares nothing with the package."""

from __future__ import annotations

import numpy as np
import planar_rod
import pytest

import polhode as ph


def _late(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.exhaustive)


@pytest.mark.exhaustive
def test_the_stress_of_the_constrained_shear_shows() -> None:
    with_stress, without = (planar_rod.roll_up(2, 128, sheared, 0.5)[0] for sheared in (True, False))
    assert np.max(np.abs(with_stress - without)) > 1e-6


@pytest.mark.parametrize(
    ("order", "sheared"),
    [_late(2, True), _late(3, True), _late(2, False), _late(3, False)],
)
def test_half_explicit_steps_on_the_roll_up_are_those_of_an_independent_planar_rod(order: int, sheared: bool) -> None:
    """Methods that drift show whether shear has a stress besides its multiplier, and how multipliers are carried."""
    problem = ph.problems.get("roll-up", constrained_stress=sheared)
    method = ph.integrators.get(f"herk{order}", family="authors")
    run = ph.simulate(problem, method, h=2.0**-8, t1=0.5)
    x, multipliers = planar_rod.roll_up(order, 128, sheared, 0.5)
    nodes = np.asarray(run.outputs["nodes"])[-1, 1:]
    assert np.max(np.abs(nodes - np.stack([x[:, 0], 0 * x[:, 0], -x[:, 1]], 1))) < 1e-11
    assert run.multipliers is not None
    found = np.asarray(run.multipliers[-1]).reshape(planar_rod.N, 2)
    # One of both shears is that in the plane of motion; our Φ is Δs times the strain as there.
    largest = np.max(np.abs(multipliers))
    assert np.max(np.abs(np.abs(found).max(axis=1) - np.abs(multipliers))) < 1e-9 * largest
    assert np.max(np.abs(found).min(axis=1)) < 1e-9 * largest
