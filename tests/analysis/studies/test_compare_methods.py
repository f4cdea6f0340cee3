"""Formulations and methods side by side."""

from __future__ import annotations

import math

import numpy as np
import pytest

import polhode as ph


@pytest.fixture(scope="module")
def comparison() -> ph.studies.Comparison:
    return ph.studies.compare(
        ph.problems.get("free-rigid-body"),
        ["lie-midpoint", "rkmk4", "eml"],
        formulations=["SO3", "S3", "SO4"],
        steps=[0.0025, 0.00125, 0.000625],
        t1=1.0,
    )


@pytest.mark.exhaustive
def test_orders_are_those_of_the_methods(comparison: ph.studies.Comparison) -> None:
    measured = {key[1]: order for key, order in comparison.orders.items() if key[2] == "rotation"}
    assert measured["lie-midpoint"] == pytest.approx(2, abs=0.15)
    assert measured["rkmk4"] == pytest.approx(4, abs=0.2)


@pytest.mark.exhaustive
def test_formulations_agree_and_the_table_is_tidy(comparison: ph.studies.Comparison) -> None:
    table = comparison.table()
    assert set(table.formulation) == {"SO3", "S3"}
    assert len(table) == 2 * 2 * 3 * len(comparison.outputs)
    assert list(table.columns[:3]) == ["formulation", "integrator", "h"]
    assert (table.time > 0).all()
    fine = table[(table.integrator == "rkmk4") & (table.h == 0.000625) & (table.output == "rotation")]
    assert fine.error.max() < 1e-6
    assert fine.counts.all()


def test_what_does_not_go_together_says_why(comparison: ph.studies.Comparison) -> None:
    text = "\n".join(map(str, comparison.refused))
    assert "SO4: `formulation` must be one of" in text
    assert "eml in SO3: it takes" in text
    assert "not run: eml in S3" in repr(comparison)
    assert "not run" in comparison._repr_html_()


def test_the_figure_has_every_curve(comparison: ph.studies.Comparison) -> None:
    left, right = comparison.plot("rotation").axes
    legend = right.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "lie-midpoint, SO3", "rkmk4, SO3", "lie-midpoint, S3", "rkmk4, S3"
    ]  # fmt: skip
    assert (left.get_xlabel(), right.get_xlabel()) == ("step h", "time, s")
    with pytest.raises(ValueError, match="`place` was not compared"):
        comparison.plot("place")


def test_errors_on_the_plateau_do_not_count() -> None:
    """Errors are told from that of the reference, which is estimated, and from round-off."""
    problem, steps = ph.problems.get("free-rigid-body"), [0.02, 0.01, 0.0005, 0.0004]
    result = ph.studies.compare(problem, ["rkmk5"], steps=steps, outputs=["rotation"], t1=1.0, chaos=False)
    assert 0 < result.doubt["rotation"] < 1e-12
    assert [bool(x) for x in result.table().counts] == [True, True, False, False]
    assert result.orders[(result.cases[0].formulation, "rkmk5", "rotation")] == pytest.approx(5, abs=0.3)
    assert result.lyapunov is None


@pytest.mark.exhaustive
def test_whole_turns_count() -> None:
    """A crank turns by 4 rad, with a slide that carries a mass by 4: that is an angle in one, not in the other."""
    model = ph.Model()
    wheel = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), name="wheel", angular_velocity=(0, 8, 0))
    slide = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), name="block", velocity=(8, 0, 0))
    model.add(ph.joints.Prismatic(model.ground, slide, axis=(1, 0, 0), name="slide"))
    model.add(ph.joints.Revolute(model.ground, wheel, point=(0, 0, 0), axis=(0, 1, 0), name="crank"))
    problem = model.problem("minimal", t1=0.5)
    how = {"steps": [0.25], "t1": 0.5, "outputs": ["joint_positions"], "chaos": False}
    exact, forms = {"joint_positions": np.array([4.0, 4.0])}, ["minimal", "SO3xR3"]
    result = ph.studies.compare(problem, ["generalized-alpha"], formulations=forms, reference=exact, **how)
    assert [case.formulation for case in result.cases] == forms
    assert max(case.errors["joint_positions"] for case in result.cases) < 1e-8
    run = ph.simulate(problem.replace(formulation="SO3xR3"), "generalized-alpha", h=0.25)
    np.testing.assert_allclose(run.outputs["joint_positions"][-1], [4.0, 4.0], atol=1e-8)
    assert run.joints["crank"].angle[-1] == pytest.approx(4.0, abs=1e-8)
    # Whole turns are errors, of angles as of lengths.
    given = {"joint_positions": np.array([4.0, 4.1 + 2 * math.pi])}
    rows = ph.studies.work_precision(problem, ["generalized-alpha"], reference=given, **how)
    assert rows[0]["error"]["joint_positions"] == pytest.approx(0.1 + 2 * math.pi, abs=1e-8)
    given = {"joint_positions": np.array([4.0 + 2 * math.pi, 4.0])}
    far = ph.studies.convergence(problem, "generalized-alpha", **{**how, "steps": [0.25, 0.125]}, reference=given)
    assert far.errors["joint_positions"] == pytest.approx(2 * math.pi, abs=1e-8)


@pytest.mark.exhaustive
def test_end_states_beyond_the_lyapunov_time_are_warned_of() -> None:
    model = ph.Model(gravity=(0, 0, -9.81))
    upper = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0.5), name="upper")
    lower = model.add_body(mass=0.7, inertia=(0.1, 0.1, 0.1), position=(1.0, 0, 1.5), name="lower")
    model.add(ph.joints.Revolute(model.ground, upper, point=(0, 0, 0), axis=(0, 1, 0)))
    model.add(ph.joints.Revolute(upper, lower, point=(1.0, 0, 1.0), axis=(0, 1, 0)))
    problem = model.problem("minimal", t1=20.0)
    with pytest.warns(ph.studies.ChaosWarning, match=r"times the Lyapunov time.*as large as what they are errors of"):
        result = ph.studies.compare(problem, ["rkmk4"], steps=[0.02, 0.01])
    assert result.lyapunov is not None
    assert result.lyapunov.chaotic


def test_tolerances_are_compared_by_methods_with_error_control() -> None:
    result = ph.studies.compare(
        ph.problems.get("free-rigid-body"), ["rkmk54", "rkmk4"], tolerances=[1e-6, 1e-8], t1=1.0, chaos=False
    )
    assert ["rkmk4" in str(each) for each in result.refused] == [True]
    assert result.by == "rtol"
    errors = result.table().groupby("rtol").error.max()
    assert errors[1e-8] < errors[1e-6]


def test_bad_input_is_refused() -> None:
    problem = ph.problems.get("free-rigid-body")
    with pytest.raises(ValueError, match="either `steps` or `tolerances`"):
        ph.studies.compare(problem, ["rkmk4"])
    with pytest.raises(ValueError, match="Nothing can be run: eml in"):
        ph.studies.compare(problem, ["eml"], steps=[0.1])
    with pytest.raises(ValueError, match="formulation"):
        ph.studies.compare(ph.problems.get("mass-spring"), ["rkmk4"], formulations=["SO3"], steps=[0.1])
