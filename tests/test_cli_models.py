from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import polhode as ph
from polhode.cli import app, models

PENDULUM = """<mujoco model="pendulum"><worldbody><body name="bob"><joint name="pivot" axis="0 1 0" limited="true"
range="-90 90"/><geom type="capsule" fromto="0 0 0 0 0 -1" size="0.02"/></body></worldbody></mujoco>"""


@pytest.fixture
def pendulum(tmp_path):
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM)
    return path


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_a_model_file_runs_with_joints_set(pendulum):
    result = call(
        "run",
        pendulum,
        "--set",
        "pivot=0.5",
        "--set",
        "pivot.velocity=-1",
        "--t1",
        "0.1",
        "--json",
        "--set",
        "limits=false",
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["problem"], found["integrator"], found["steps"]) == ("pendulum", "rkmk4", 50)
    assert (found["joints"], found["bodies"]) == (["pivot"], ["bob"])
    assert found["parameters"]["positions"] == {"pivot": 0.5}
    assert found["parameters"]["formulation"] == "minimal"
    assert found["choice"]["coordinates"].startswith("`minimal`: ")
    assert found["choice"]["method"].startswith("`rkmk4`: ")
    assert found["invariants"]["energy"] < 1e-8
    assert {"shapes"} <= {item["what"] for item in found["not_carried"]}
    # θ ≈ 0.5 - t - (3g/4l) sin(0.5) t² to second order in the time.
    assert found["final"]["joint_positions"][0] == pytest.approx(0.5 - 0.1 - 7.36 * 0.479 * 0.01, abs=6e-3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.urdf"], "There is no file"),
        (["{pendulum}", "--set", "pivt=1"], "Did you mean `pivot`?"),
        (["{pendulum}", "--set", "floating=perhaps"], "true or false"),
        (["{pendulum}", "--set", "floating=true"], "<freejoint/>"),
    ],
)
def test_wrong_model_files_and_settings_are_wrong_usage(pendulum, arguments, said):
    result = call("run", *(a.format(pendulum=pendulum) for a in arguments))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_orders_on_a_model_file(pendulum):
    arguments = ["convergence", pendulum, "--set", "pivot=0.5", "--integrator", "lie-midpoint", "--t1", "0.2", "--json"]
    result = call(*arguments, "--steps", "2e-2:1e-2:2", "--option", "coordinates=cayley")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["options"] == {"coordinates": "cayley"}
    assert found["reference"]["lie-midpoint"].startswith("rkmk6")
    assert found["orders"]["lie-midpoint"]["joint_positions"] == pytest.approx(2, abs=0.2)


def test_reasons_are_told_where_something_was_chosen(capsys):
    model = ph.Model()
    model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0))
    models.explain(model.problem(t1=1.0), method=True)
    assert capsys.readouterr().err == "  `SO3xR3`: no joint carries a body\n  `rkmk4`: " + (
        "explicit and of order 4: no constraints, and nothing too fast for steps of 0.001\n"
    )
    models.explain(model.problem(t1=1.0), method=False)
    assert "rkmk4" not in capsys.readouterr().err
    models.explain(model.problem("SE3", t1=1.0, integrator="rkmk4"), method=True)
    assert capsys.readouterr().err == ""
