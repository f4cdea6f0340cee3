"""The page beside other codes shows what ran, and polhode still says what stands there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "compare"
PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in FOLDER.joinpath("results.md").read_text(encoding="utf-8").splitlines()[2:]
    if line.startswith("|")
]
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*_*.py"))


def test_the_page_has_every_script_and_the_table():
    assert re.findall(r'--8<-- "benchmarks/compare/(\w+)\.py"', PAGE) == [
        f"{row[0].replace(' ', '_')}_{row[1].lower()}" for row in ROWS
    ]
    assert sorted(f"{row[0].replace(' ', '_')}_{row[1].lower()}" for row in ROWS) == SCRIPTS
    assert '--8<-- "benchmarks/compare/results.md"' in PAGE


def test_figures_of_long_runs_are_those_of_the_benchmarks():
    told = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    table = [line.strip("|").split("|") for line in PAGE[PAGE.index("## Long runs") :].splitlines() if "|" in line][2:]
    assert len(table) == 8
    for _, other, ours, ratio in table:
        values = [cell.split()[0] for cell in (other, ours, ratio)]
        assert all(re.search(rf"(?<![\d.]){re.escape(value)}(?![\d.]*\d)", told) for value in values), values


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row[1] in ("polhode", "MuJoCo")], ids=lambda row: "_".join(row[:2])
)
def test_scripts_say_what_the_table_says(row, tmp_path):
    script = FOLDER / f"{row[0].replace(' ', '_')}_{row[1].lower()}.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(script)], check=True, capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    numbers = json.loads(done.stdout.splitlines()[-1])["numbers"]
    np.testing.assert_allclose(numbers, [float(x) for x in row[2].split(", ")], atol=2e-7)
