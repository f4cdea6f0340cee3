"""Studies as they print, and what they say to a model in the place of a problem."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polhode as ph
from polhode.analysis import studies


@pytest.fixture(scope="module")
def pendulum():
    model = ph.Model(gravity=(0, 0, -9.81))
    bob = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(1, 0, 0), name="bob")
    model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
    return model


@pytest.fixture(scope="module")
def comparison(pendulum):
    problem = pendulum.problem("minimal", t1=0.2, name="swing")
    outputs = ["positions", "kinetic_energy"]
    return studies.compare(problem, ["rkmk3", "rkmk4", "rodrigues"], steps=[0.02, 0.01], outputs=outputs, chaos=False)


@pytest.mark.exhaustive
def test_comparisons_print_a_line_for_each_output_and_method(comparison):
    title, head, *rows = repr(comparison).split("\n")
    assert title.startswith("Comparison of swing at t = 0.2, against ")
    assert head.split() == ["output", "method", "in", "least", "error", "at", "h", "steps", "time", "order"]
    cells = [re.split(r"  +", row.strip()) for row in rows[:4]]
    assert [each[:-7] for each in cells] == [["positions"], [], ["kinetic energy"], []]
    assert [each[-7] for each in cells] == ["rkmk3", "rkmk4"] * 2
    (best,) = (case for case in comparison.cases if (case.integrator, case.value) == ("rkmk3", 0.01))
    assert cells[0][-5] == f"{best.errors['positions']:.1e}"
    assert cells[0][-1] == f"{comparison.orders['minimal', 'rkmk3', 'positions']:.1f}"
    assert rows[4].startswith("not run: rodrigues in minimal: ")
    assert max(map(len, rows[:4])) < 100
    for text in ("<th>least error</th>", "kinetic energy", "not run: rodrigues"):
        assert text in comparison._repr_html_()


def test_convergence_prints_a_table(pendulum):
    result = studies.convergence(pendulum.problem("minimal", t1=0.2, name="swing"), "rkmk3", [0.02, 0.01], chaos=False)
    title, head, *rows = repr(result).split("\n")
    assert "rkmk3 on swing at t = 0.2" in title
    assert head.split() == ["error", "of", "h", "=", "0.02", "h", "=", "0.01", "order"]
    assert len(rows) == len(result.errors)
    assert f"{result.errors['positions'][0]:.1e}" in repr(result)
    assert f"{result.errors['positions'][0]:.1e}" in result._repr_html_()


TAKERS = {
    "simulate": lambda m: ph.simulate(m),
    "suited": lambda m: ph.integrators.suited(m),
    "compare": lambda m: studies.compare(m, ["rkmk4"], steps=[0.1]),
    "convergence": lambda m: studies.convergence(m, "rkmk4", [0.1, 0.05]),
    "work_precision": lambda m: studies.work_precision(m, ["rkmk4"], steps=[0.1]),
    "lyapunov": lambda m: studies.lyapunov(m),
    "fit": lambda m: ph.fit(m, {"positions": np.zeros(3)}, {}),
    "ensemble": lambda m: ph.ensemble(m, parameters={"mass": [1.0]}),
    "equilibrium": lambda m: ph.equilibrium(m),
    "modes": lambda m: ph.modes(m),
    "linearise": lambda m: ph.linearise(m),
}


@pytest.mark.parametrize("name", TAKERS)
def test_a_model_in_place_of_a_problem_is_told_what_makes_one(pendulum, name):
    with pytest.raises(ValueError, match=r"must be a Problem.*got Model\. Pass `model\.problem\(\.\.\.\)`"):
        TAKERS[name](pendulum)
