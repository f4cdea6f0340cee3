"""What runs tell of their times, and show on standard error."""

from __future__ import annotations

import dataclasses
import io
import time

import jax.numpy as jnp
import pytest
from rich.console import Console

import polhode as ph
from polhode.compiler.compile_report import CompileReport
from polhode.simulation import progress_display
from polhode.simulation.loops import native
from polhode.spaces import Rn

TIMES = ("build_time_s", "compile_time_s", "wall_time_s")


def run(rate=1.0, **given):
    system = ph.VectorField(Rn(1), lambda t, y: -rate * y)
    return ph.simulate(system, "rk4", **{"h": 0.1, "t1": 1.0, "state0": jnp.ones(1), **given})


def test_a_run_reports_three_times_and_what_executed_it():
    first, again = run(1.25), run(1.25)
    for result in (first, again):
        assert all(result.stats[key] > 0 for key in TIMES)
        assert result.stats["compiled"]["operations"] > 10
        assert result.stats["compiled"]["by"] == "optimised"
    # A program with a function of the user's is of this process only.
    assert (first.stats["compiled"]["kept"], again.stats["compiled"]["kept"]) == (False, True)
    assert again.stats["compile_time_s"] < first.stats["compile_time_s"]


def test_making_a_problem_is_timed_separately_from_its_runs(tmp_path):
    problem = ph.problems.get("heavy-top")
    assert problem.build_time > 0
    # Longer than any of the runs takes.
    problem = dataclasses.replace(problem, build_time=1e3)
    for how in ({"t1": 1e-3, "store": tmp_path / "run.zarr"}, {"t1": 1e-3}):
        began = time.perf_counter()
        stats = ph.simulate(problem, **how).stats
        whole = time.perf_counter() - began
        assert stats["problem_time_s"] == 1e3
        assert 0 < sum(stats[key] for key in TIMES) < whole
    began = time.perf_counter()
    stats = ph.resume(tmp_path / "run.zarr", t1=2e-3).stats
    assert 0 < stats["problem_time_s"] < 1e3
    assert stats["problem_time_s"] + sum(stats[key] for key in TIMES) < time.perf_counter() - began
    assert run(1.75).stats["problem_time_s"] == 0
    assert problem.replace(mass=14.0).build_time != problem.build_time
    model = ph.Model()
    model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0))
    assert model.problem(t1=1.0).build_time > 0


def test_steps_that_xla_compiles_are_reported(monkeypatch):
    monkeypatch.setattr(native, "on_host", lambda tree: False)
    assert run(1.5).stats["compiled"] == {"operations": None, "by": "xla", "kept": False}


def test_stats_are_kept_in_stores(tmp_path):
    stored = run(store=tmp_path / "run.zarr")
    loaded = ph.load(tmp_path / "run.zarr").stats
    assert {key: loaded[key] for key in (*TIMES, "compiled")} == {
        key: stored.stats[key] for key in (*TIMES, "compiled")
    }


def test_without_progress_and_without_a_terminal_little_is_written(capsys):
    run()
    assert capsys.readouterr() == ("", "")
    run(progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    # The bar, as it is when it is full, and nothing else.
    (line,) = err.split("\n")[:-2]
    assert line.startswith("run ━")
    assert "t = 1" in line


def displayed_text(terminal):
    """What is written of a run with all its stages."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None)
    show = progress_display.TerminalProgress("four[bar]", 0.0, 2.0, console)
    show.stage("finding a consistent start")
    show.stage("recording a step")
    show.stage(CompileReport(9768, "quick", False).activity)
    for t in (0.5, 2.0):
        show.update(t)
    show.stage(CompileReport(None, "xla", False).activity)
    show.update(2.0)
    compiled = CompileReport(9768, "optimised", True)._asdict()
    times = dict(zip(("problem_time_s", *TIMES), (0.75, 0.5, 1.25, 3.0), strict=True))
    show.finish({**times, "compiled": compiled})
    return file.getvalue()


def test_a_terminal_sees_each_stage():
    text = displayed_text(True)
    assert "four[bar]: compiling 9,768 operations to quickly compiled machine code" in text
    assert "t = 2" in text
    last = text.strip().splitlines()[-1]
    assert "problem made in 0.75 s, checked and started in 0.5 s, compiled in 1.25 s (9,768 operations" in last
    assert last.endswith("run in 3 s")


def test_a_file_gets_the_full_bar_only():
    text = displayed_text(False)
    assert "compil" not in text
    assert text.count("four[bar]") == 1


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (CompileReport(1200, "quick", False), "compiling 1,200 operations to quickly compiled machine code"),
        (CompileReport(1200, "optimised", False), "compiling 1,200 operations to optimised machine code"),
        (CompileReport(None, "xla", False), "compiling with XLA"),
    ],
)
def test_what_is_compiled_is_reported(form, said):
    assert form.activity == said
