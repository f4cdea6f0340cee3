"""Equilibria know whether they hold."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polhode as ph
from polhode.analysis.statics import equilibrium, modes

FORMULATIONS = ("SO3xR3", "euler-parameters", "euler-angles-kinematic", "minimal")
SLOW = [pytest.param(name, marks=pytest.mark.exhaustive) for name in FORMULATIONS]


def pendulum(height: float, formulation: str = "SE3") -> tuple[Any, Any]:
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.15), position=(0, 0, height), name="bob")
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    return model.assemble(formulation)


@pytest.mark.parametrize("formulation", ["SE3", *SLOW])
def test_a_pendulum_stands_unstably(formulation: str) -> None:
    with pytest.warns(ph.UnstableEquilibriumWarning, match=r"in 1 direction, .*`bob` turns about \(0, 1, 0\)"):
        result = equilibrium(*pendulum(0.7, formulation))
    assert (result.unstable, result.stable) == (1, False)


@pytest.mark.parametrize("formulation", ["SE3", *SLOW])
def test_a_pendulum_hangs_stably(formulation: str) -> None:
    # Warnings are errors in tests.
    result = equilibrium(*pendulum(-0.7, formulation))
    assert (result.unstable, result.stable) == (0, True)


def chain(side: float) -> tuple[Any, Any]:
    """Three links between two points 2 apart, below (-1) or above (1) them: a trapezium at rest by symmetry."""
    places = [(-1.0, 0, 0), (-0.5, 0, side * 0.8), (0.5, 0, side * 0.8), (1.0, 0, 0)]
    model = ph.Model(gravity=(0, 0, -9.81))
    inner = [model.add_point(mass=0.3, position=place, name=f"p{k}") for k, place in enumerate(places[1:3])]
    ends = [model.ground, *inner, model.ground]
    for k in range(3):
        model.add(ph.joints.Distance(ends[k], ends[k + 1], first_point=places[k], second_point=places[k + 1]))
    return model.assemble()


@pytest.mark.exhaustive
def test_an_arch_of_links_falls_in_all_its_directions() -> None:
    assert equilibrium(*chain(-1)).unstable == 0
    with pytest.warns(ph.UnstableEquilibriumWarning, match=r"in 3 directions, .*`p"):
        result = equilibrium(*chain(1))
    # Two points with three links: one motion in the plane, two out of it.
    assert result.unstable == 3


@pytest.mark.exhaustive
def test_a_cable_is_judged_as_by_its_modes() -> None:
    for side in (1.0, -1.0):
        problem = ph.problems.hanging_cable(n=6, gravity=side * 9.81)
        with warnings.catch_warnings(record=True) as text:
            warnings.simplefilter("always")
            result = equilibrium(problem)
        growing = int(np.sum(np.real(modes(problem, result.state).eigenvalues) > 1e-9))
        assert result.unstable == growing
        assert (growing > 0) == (side < 0)
        assert any(w.category is ph.UnstableEquilibriumWarning for w in text) == (growing > 0)
