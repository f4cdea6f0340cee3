"""The page beside other codes shows what ran, and polhode still says what stands there."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import polhode as ph
from polhode.cli import markdown_section, peers
from polhode.cli.benchmark import SECTION

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "compare"
PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
TOLD = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
START, END = markdown_section.marks(SECTION)
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TOLD[TOLD.index(START) : TOLD.index(END)].splitlines()[3:]
    if line.startswith("|")
]
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*_*.py"))


def script(row):
    return f"{row[0].split(',')[0].replace(' ', '_')}_{row[1].lower()}"


def test_the_page_has_every_script_and_the_table():
    assert re.findall(r'--8<-- "benchmarks/compare/(\w+)\.py"', PAGE) == [script(row) for row in ROWS]
    assert sorted(map(script, ROWS)) == SCRIPTS
    assert f'--8<-- "benchmarks/RESULTS.md:{SECTION}"' in PAGE


def test_figures_of_long_runs_are_those_of_the_benchmarks():
    table = [line.strip("|").split("|") for line in PAGE[PAGE.index("## Long runs") :].splitlines() if "|" in line][2:]
    assert len(table) == 8
    for _, other, ours, ratio in table:
        values = [cell.split()[0] for cell in (other, ours, ratio)]
        assert all(re.search(rf"(?<![\d.]){re.escape(value)}(?![\d.]*\d)", TOLD) for value in values), values


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", [row for row in ROWS if row[1] in ("polhode", "MuJoCo")], ids=script)
def test_scripts_are_as_accurate_as_the_table_says(row):
    name, case = script(row), peers.CASES[script(row).rsplit("_", 1)[0]]
    command = [sys.executable, str(FOLDER / "measure.py"), "search", str(FOLDER / f"{name}.py")]
    done = subprocess.run(
        [*command, *map(repr, (case.goal, *case.reference))],
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert row[2] == f"{found['by']} = {peers.round_text(found['value'], 3)}"
    assert row[3] == f"{int(found['told']['steps']):,}"
    assert found["off"] == pytest.approx(float(row[4]), rel=0.5)
    assert found["reached"]
    assert float(row[4]) <= case.goal


@pytest.mark.exhaustive
def test_the_reference_of_the_linkage_comes_from_two_methods_and_two_kinds_of_coordinates():
    parts = runpy.run_path(str(FOLDER / "four_bar_polhode.py"))
    problem = parts["prepare"](5e-4)
    for method, formulation in (("herk5", "SO3xR3"), ("rkmk6", "minimal")):
        run = ph.simulate(problem.replace(formulation=formulation), method, save_every=None)
        x, _, z = run.bodies["coupler"].position[-1]
        found = x, z, run.joints["D"].angle[-1]
        np.testing.assert_allclose(found, peers.CASES["four_bar"].reference, rtol=0, atol=1e-10)


@pytest.mark.exhaustive
def test_the_reference_of_the_cantilever_is_far_closer_than_its_goal():
    parts = runpy.run_path(str(FOLDER / "cantilever_polhode.py"))
    tips = [np.array(parts["march"](parts["prepare"](0.1 / edges))["numbers"]) for edges in (80, 160)]
    # Both errors, of the edges and of the steps, are of order 2.
    limit = tips[1] + (tips[1] - tips[0]) / 3
    np.testing.assert_allclose(limit, peers.CASES["cantilever"].reference, rtol=0, atol=2e-5)
