from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import polhode as ph
from polhode.cli import app
from polhode.cli.run_report import _time_of_a_step
from polhode.experiments import Check, Outcome, registry
from polhode.problems import registry as problem_registry

FAST = ["run", "heavy-top", "--step", "1e-3", "--t1", "0.05"]


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def polhode(*arguments):
    command = [sys.executable, "-m", "polhode", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_run_json_is_one_object_with_the_documented_keys(tmp_path):
    done = polhode(*FAST, "--json", "--out", tmp_path / "run.zarr", "--set", "mass=14.5", "--integrator", "cf4")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    documented = (
        "problem integrator t1 steps problem_time_s build_time_s compile_time_s wall_time_s us_per_step final "
        "invariants residuals stats result"
    )
    assert set(documented.split()) <= set(found)
    assert (found["problem"], found["integrator"], found["t1"], found["steps"]) == ("heavy-top", "cf4", 0.05, 50)
    loaded = ph.load(tmp_path / "run.zarr")
    assert loaded.meta["parameters"]["mass"] == 14.5
    np.testing.assert_array_equal(found["final"]["centre_of_mass"], loaded.outputs["centre_of_mass"][-1])
    energy = loaded.invariants["energy"]
    assert found["invariants"]["energy"] == np.max(np.abs(energy - energy[0]))
    assert found["residuals"]["manifold"] == np.max(loaded.residuals["manifold"])
    # A few milliseconds say nothing about a step.
    assert found["us_per_step"] is None or found["wall_time_s"] >= 0.05
    assert found["result"] == found["stats"]["result"] == "successful"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "heavy-tip"], "Did you mean `heavy-top`? Known: "),
        (["run", "heavy-top", "--integrator", "rkmk44"], "Did you mean `rkmk4`? Known: "),
        (["run", "heavy-top", "--step", "1e-3", "--rtol", "1e-6"], "not both"),
        (["run", "heavy-top", "--step", "-1"], "`h` must be positive"),
        (["run", "heavy-top", "--step", "5"], "larger than the span"),
        (["run", "heavy-top", "--set", "mas=2"], "Did you mean `mass`?"),
        (["run", "heavy-top", "--set", "mass"], "takes KEY=VALUE"),
        (["run", "heavy-top", "--set", "mass=1", "--set", "mass=2"], "given twice"),
        (["run", "heavy-top", "--step", "much"], "step"),
        (["run"], "Missing argument"),
        (["run", "heavy-top", "--option", "coordinates"], "`--option` takes KEY=VALUE"),
        (["run", "heavy-top", "--option", "order=4"], "`rkmk4` has no option `order`"),
        (
            [
                "convergence",
                "heavy-top",
                "--integrator",
                "rkmk4,cf4",
                "--steps",
                "1e-2:1e-3:2",
                "--option",
                "rho_inf=1",
            ],
            "`rkmk4` has no option `rho_inf`",
        ),
        (["convergence", "nothing.urdf", "--integrator", "rkmk4", "--steps", "1e-2:1e-3:2"], "There is no file"),
        (["list", "cats"], "'problems'"),
        (["convergence", "heavy-top", "--integrator", "rkmk4", "--steps", "1:2"], "H0:H1:N"),
        (["convergence", "heavy-top", "--integrator", "rkmk4", "--steps", "1:0:3"], "positive step sizes"),
        (["convergence", "heavy-top", "--integrator", "rkmk4", "--steps", "1e-2:1e-3:2", "--plot", "a.txt"], ".png"),
        (["export", "nothing.zarr", "a.csv"], "is not a run of polhode"),
        (["reproduce", "nothing"], "There is no experiment `nothing`"),
        (["reproduce"], "name experiments"),
    ],
)
def test_wrong_usage(arguments, said):
    result = call(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert result.stdout == ""


@pytest.mark.exhaustive
def test_wrong_usage_as_a_process():
    done = polhode("run", "heavy-tip", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean `heavy-top`?" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_prints_tables_and_says_what_it_chose():
    result = call("run", "heavy-top", "--t1", "0.01")
    assert result.exit_code == 0
    assert "heavy-top: rkmk4 (recommended), h = 0.0001 (recommended), t = 0 … 0.01" in result.stderr
    for word in ("centre of mass", "Audit", "manifold", "kept", "100 steps", "made in", "compiled in", "optimised"):
        # Lines end anywhere.
        assert word in " ".join(result.stdout.split())


def test_quiet_is_quiet(monkeypatch):
    # An audit that nobody sees would evaluate the whole run.
    monkeypatch.setattr(ph.Solution, "audit", lambda _: pytest.fail("audited"))
    result = call(*FAST, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_a_failing_run_keeps_and_reports_what_was_computed(tmp_path):
    # So large a step of a fast top overflows within a few steps.
    arguments = ["run", "heavy-top", "--integrator", "rk4", "--step", "0.5", "--t1", "500"]
    result = call(*arguments, "--json", "--out", tmp_path / "run.zarr")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["result"] == "nonfinite_state"
    assert "nonfinite_state" in result.stderr
    loaded = ph.load(tmp_path / "run.zarr")
    assert loaded.stats["result"] is ph.Result.nonfinite_state
    assert 0 < loaded.stats["t_reached"] < 500
    assert np.isfinite(np.asarray(loaded.outputs["rotation"])).all()


def test_a_failure_says_where_its_frames_are(tmp_path):
    arguments = ["run", "heavy-top", "--integrator", "rk4", "--step", "0.5", "--t1", "500", "--quiet"]
    told = call(*arguments)
    assert "With `--out RUN.zarr`" in told.stderr
    stored = call(*arguments, "--out", tmp_path / "run.zarr")
    assert f"It is stored in {tmp_path / 'run.zarr'}" in stored.stderr
    assert "error.solution" not in told.stderr + stored.stderr


def test_times_of_steps_are_told_of_runs_that_are_long_enough():
    stats = {"steps": 40_000, "rejected": 10_000, "wall_time_s": 0.1}
    assert _time_of_a_step(stats) == pytest.approx(2.0)
    assert _time_of_a_step({**stats, "wall_time_s": 0.01}) is None
    assert _time_of_a_step({**stats, "steps": 0, "rejected": 0}) is None


def test_options_of_integrators():
    result = call(*FAST, "--option", "coordinates=cayley", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["integrator"], found["options"]) == ("rkmk4", {"coordinates": "cayley"})
    plain = json.loads(call(*FAST, "--json").stdout)
    assert "options" not in plain
    assert found["final"]["centre_of_mass"] != plain["final"]["centre_of_mass"]
    assert "rkmk4 (coordinates=cayley)" in call(*FAST, "--option", "coordinates=cayley").stderr
    listed = json.loads(call("list", "integrators", "--json").stdout)["details"]
    assert listed["generalized-alpha"]["options"]["rho_inf"] == 0.9


def test_out_replaces_runs_only_and_only_when_a_new_one_is_made(tmp_path):
    path = tmp_path / "run.zarr"
    assert call(*FAST, "--quiet", "--out", path).exit_code == 0
    assert call(*FAST, "--step", "-1", "--out", path).exit_code == 2
    assert len(ph.load(path).t) == 51
    result = call(*FAST, "--save-every", "10", "--out", path)
    assert result.exit_code == 0
    assert "replaced the earlier run" in result.stderr
    assert len(ph.load(path).t) == 6
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    result = call(*FAST, "--out", tmp_path / "folder")
    assert result.exit_code == 1
    assert "not a run of polhode" in result.stderr
    assert (tmp_path / "folder" / "file").read_text() == "mine"


def test_list(monkeypatch):
    listed = call("list", "problems").stdout
    assert all(name in listed for name in ph.problems.names())
    # With --json all of them are assembled, which takes most of a minute.
    cheap = {name: problem_registry.builder_of(name) for name in ("heavy-top", "free-rigid-body")}
    monkeypatch.setattr(problem_registry, "_BUILDERS", cheap)
    monkeypatch.setattr(problem_registry, "_modules", frozenset)
    for kind, some in (("problems", "heavy-top"), ("integrators", "rkmk4")):
        assert some in call("list", kind).stdout
        found = json.loads(call("list", kind, "--json").stdout)
        assert some in found[kind]
        assert set(found["details"]) == set(found[kind])
    assert call("list", "experiments").exit_code == 0


def test_integrators_for_a_problem_are_listed_with_reasons():
    shown = call("list", "integrators", "--for", "spring-pendulum", "--json")
    rows = {row["name"]: row for row in json.loads(shown.stdout)["integrators"]}
    assert rows["eml"]["suited"]
    assert not rows["herk4"]["suited"]
    assert "takes" in rows["herk4"]["reason"]
    assert "why not" in call("list", "--for", "spring-pendulum").stdout
    in_momenta = call("list", "--for", "heavy-top", "--set", "formulation=cotangent", "--json")
    assert {row["name"]: row for row in json.loads(in_momenta.stdout)["integrators"]}["symplectic"]["suited"]
    assert call("list", "--set", "formulation=cotangent").exit_code == 2
    assert call("list", "problems", "--for", "spring-pendulum").exit_code == 2
    assert call("list", "integrators", "--for", "no-such-problem").exit_code == 2


@pytest.mark.exhaustive
def test_convergence(tmp_path):
    arguments = ["convergence", "heavy-top", "--integrator", "rkmk4,lie-midpoint", "--steps", "4e-3:1e-3:3"]
    result = call(*arguments, "--t1", "0.1", "--json", "--plot", tmp_path / "orders.png")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["orders"]["rkmk4"]["centre_of_mass"] == pytest.approx(4, abs=0.3)
    assert found["orders"]["lie-midpoint"]["centre_of_mass"] == pytest.approx(2, abs=0.3)
    assert len(found["errors"]["rkmk4"]["rotation"]) == len(found["steps"]["rkmk4"]) == 3
    assert (tmp_path / "orders.png").read_bytes().startswith(b"\x89PNG")


def test_export_of_a_damaged_run_says_so(tmp_path):
    call(*FAST, "--out", tmp_path / "run.zarr")
    (tmp_path / "run.zarr" / "time" / "c" / "0").write_bytes(b"x")
    result = call("export", tmp_path / "run.zarr", tmp_path / "run.csv")
    assert (result.exit_code, (tmp_path / "run.csv").exists()) == (1, False)
    assert "damaged" in result.stderr


@pytest.mark.exhaustive
def test_export(tmp_path):
    call(*FAST, "--quiet", "--out", tmp_path / "run.zarr")
    for ending in ("csv", "nc", "png", "html"):
        result = call("export", tmp_path / "run.zarr", tmp_path / f"run.{ending}")
        assert result.exit_code == 0, result.output
        assert (tmp_path / f"run.{ending}").stat().st_size > 1000
        result = call(*FAST, "--export", tmp_path / f"again.{ending}")
        assert result.exit_code == 0, result.output
        assert (tmp_path / f"again.{ending}").stat().st_size > 1000
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "run.csv").read_bytes()
    assert call("export", tmp_path / "run.zarr", tmp_path / "run.xyz").exit_code == 2
    refused = call(*FAST, "--out", tmp_path / "not.zarr", "--export", tmp_path / "run.xyz")
    assert refused.exit_code == 2
    assert "must end in one of .csv" in refused.output
    assert not (tmp_path / "not.zarr").exists()
    assert call(*FAST, "--export", tmp_path / "no" / "run.csv").exit_code == 1
    assert call("export", tmp_path / "run.zarr", tmp_path / "no" / "run.csv").exit_code == 1


def test_reproduce(tmp_path, monkeypatch):
    toys = {
        "900-1": registry.Experiment("900-1", "900", "Good", lambda: Outcome([Check("one", 1, 1, True)])),
        "901-1": registry.Experiment("901-1", "901", "Bad", lambda: Outcome([Check("two", 2, 3, False)])),
    }
    monkeypatch.setattr(registry, "_experiments", lambda: toys)
    result = call("reproduce", "--paper", "900", "--out", tmp_path / "good", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["checks"][0]["name"] == "one"
    result = call("reproduce", "--all", "--out", tmp_path / "all")
    assert result.exit_code == 1
    assert "1 of 2 checks failed" in result.stderr
    assert (tmp_path / "all" / "index.html").exists()


def test_the_command_says_where_a_run_is_far_off():
    result = call("run", "heavy-top", "--step", "0.02", "--t1", "1")
    assert "the step is too large" in result.stdout + result.stderr
    fine = call("run", "heavy-top", "--step", "1e-3", "--t1", "0.1")
    assert "too large" not in fine.stdout + fine.stderr
    body = json.loads(call("run", "heavy-top", "--step", "0.02", "--t1", "1", "--json").stdout)
    assert not body["audit"]["accurate"]
    assert "the step is too large" in body["audit"]["remarks"][0]


def test_runs_are_gone_on_with_from_the_shell(tmp_path):
    given = ("--integrator", "rkmk4", "--step", "1e-3")
    whole, part = tmp_path / "whole.zarr", tmp_path / "part.zarr"
    assert call("run", "heavy-top", *given, "--t1", "0.1", "--out", str(whole)).exit_code == 0
    assert call("run", "heavy-top", *given, "--t1", "0.04", "--out", str(part)).exit_code == 0
    result = call("resume", str(part), "--t1", "0.1", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["stats"]["t_reached"] == 0.1
    a, b = ph.load(whole), ph.load(part)
    assert a.t.tobytes() == b.t.tobytes()
    assert a.state[0].tobytes() == b.state[0].tobytes()
    behind = call("resume", str(part), "--t1", "0.05")
    assert behind.exit_code == 2
    assert "lies behind" in behind.stderr


def test_digits_and_breakpoints_from_the_shell():
    given = ("run", "heavy-top", "--integrator", "rkmk4", "--step", "1e-3", "--t1", "0.1")
    result = call(*given, "--estimate-error", "--breakpoint", "0.0505", "--breakpoint", "0.07", "--json")
    body = json.loads(result.stdout)
    assert 3 < body["stats"]["error_estimate"]["centre_of_mass"]["digits"] < 12
    assert body["steps"] > 100
    assert "digits" in call(*given, "--estimate-error").stdout
