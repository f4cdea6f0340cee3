from __future__ import annotations

import base64
import csv
import json
import re

import numpy as np
import pytest

import polhode as ph
from polhode import experiments
from polhode.experiments import Check, Outcome, experiment, registry
from polhode.viewing import plots


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.setattr(registry, "_EXPERIMENTS", {})
    # Only the toys are there, not the papers' experiments.
    monkeypatch.setattr(registry, "_experiments", lambda: registry._EXPERIMENTS)
    h = np.array([0.1, 0.05, 0.025])

    @experiment("900-10", paper="900", title="Good & true")
    def good():
        """Fig. 1 of nothing."""
        figure = plots.convergence({"rk": (h, h**4)})
        checks = [
            Check("order", 4, np.float64(4.0), np.bool_(True)),
            Check("steps", "fewer from N = 3 on", [1, 2], True, explanation="The paper says <always>."),
        ]
        return Outcome(
            checks, {"errors of rk": figure}, {"curve": {"h": h, "e": h**4}, "odd": {"a": np.eye(2), "b": h}}
        )

    @experiment("900-9", paper="900", title="Raises")
    def raises():
        raise ZeroDivisionError("a & b")

    @experiment("901-1", paper="901", title="Fails")
    def fails():
        return Outcome([Check("too small", 1e-8, 2e-8, False)])


def test_report_holds_checks_figures_and_data(toys, tmp_path, capsys):
    report = ph.reproduce("900-10", out=tmp_path / "out")
    assert report.passed
    assert report.checks[0] == {
        "experiment": "900-10", "name": "order", "claimed": 4, "measured": 4.0, "passed": True, "explanation": "",
    }  # fmt: skip
    text = report.path.read_text()
    assert "all 2 checks passed" in text
    assert "Good &amp; true" in text
    assert "The paper says &lt;always&gt;." in text
    assert not re.search(r'(src|href)="https?:', text)
    picture = base64.b64decode(re.search(r"data:image/svg\+xml;base64,([^\"]+)", text)[1])
    assert picture == (tmp_path / "out/figures/900-10/errors-of-rk.svg").read_bytes()
    with (tmp_path / "out/data/900-10/curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["e"]) for row in rows] == [0.1**4, 0.05**4, 0.025**4]
    np.testing.assert_array_equal(np.load(tmp_path / "out/data/900-10/odd.npz")["a"], np.eye(2))
    for link in re.findall(r'href="(data/[^"]+)"', text):
        assert (tmp_path / "out" / link).is_file()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "2 of 2 checks passed" in captured.err


def test_a_small_report_is_one_page_with_small_pictures(toys, tmp_path):
    report = ph.reproduce("900-10", out=tmp_path, small=True, progress=False)
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "checks.json"}
    text = report.path.read_text()
    picture = base64.b64decode(re.search(r"data:image/webp;base64,([^\"]+)", text)[1])
    assert picture[8:12] == b"WEBP"
    assert len(picture) < 30_000
    assert 'href="data/' not in text
    assert "all 2 checks passed" in text


def test_a_failing_experiment_does_not_stop_the_others(toys, tmp_path):
    report = ph.reproduce(["900-9", "901-1", "900-10"], out=tmp_path, progress=False)
    assert not report.passed
    assert [check["passed"] for check in report.checks] == [False, False, True, True]
    assert report.checks[0]["measured"] == "ZeroDivisionError: a & b"
    assert json.loads((tmp_path / "checks.json").read_text()) == report.checks
    text = report.path.read_text()
    assert "2 of 4 checks failed" in text
    assert "ZeroDivisionError: a &amp; b" in text


def test_an_experiment_without_checks_fails(toys):
    experiment("902-1", paper="902", title="Says nothing")(lambda: Outcome([]))
    report = ph.reproduce("902-1", progress=False)
    assert report.path is None
    assert not report.passed
    assert "no checks" in report.checks[0]["measured"]


def test_short_versions_run_where_there_are_some(toys, tmp_path):
    short = Outcome([Check("short", 1, 1, True)])
    experiment("902-1", paper="902", title="Long", quick=lambda: short)(lambda: Outcome([Check("long", 1, 1, True)]))
    names = ["902-1", "900-10"]
    assert [c["name"] for c in ph.reproduce(names, progress=False).checks] == ["long", "order", "steps"]
    report = ph.reproduce(names, tmp_path, quick=True, progress=False)
    assert [c["name"] for c in report.checks] == ["short", "order", "steps"]
    assert "quick: fewer steps" in report.path.read_text()


@pytest.mark.exhaustive
def test_processes_find_the_same_in_the_same_order(tmp_path, capsys):
    names = ["001-1", "000-11"]
    alone, shared = (ph.reproduce(names, tmp_path / f"{n}", workers=n) for n in (1, 2))
    assert [c["name"] for c in alone.checks] == [c["name"] for c in shared.checks]
    assert [c["passed"] for c in alone.checks] == [c["passed"] for c in shared.checks]
    assert shared.path.read_text().index("001-1") < shared.path.read_text().index("000-11")
    assert shared.entries[0].outcome.figures
    assert "[2/2]" in capsys.readouterr().err


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_impossible_numbers_of_processes_are_refused(toys, workers):
    with pytest.raises(ValueError, match="workers"):
        ph.reproduce("900-10", workers=workers)


def test_names_are_in_order_and_unknown_ones_are_explained(toys):
    assert experiments.names() == ["900-9", "900-10", "901-1"]
    assert experiments.names("900") == ["900-9", "900-10"]
    with pytest.raises(ValueError, match=r"no experiment `900-11`\. Did you mean `900-1"):
        ph.reproduce(["900-9", "900-11"])
    with pytest.raises(ValueError, match="Papers: 900, 901"):
        experiments.names("999")
    with pytest.raises(ValueError, match="at least one"):
        ph.reproduce([])
    with pytest.raises(ValueError, match="two experiments `900-9`"):
        experiment("900-9", paper="900", title="Again")(lambda: Outcome([]))
