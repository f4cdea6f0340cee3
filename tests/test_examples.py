"""The programs in `examples/` and the notebook at the top run, print what theory says, and write what they promise."""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import nbformat
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    def numbers(name: str, written: str) -> list[list[float]]:
        """Numbers in each line that a program prints."""
        monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
        matplotlib.use("agg")
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        plt.close("all")
        assert (tmp_path / written).stat().st_size > 10_000
        return [[float(x) for x in NUMBER.findall(line)] for line in capsys.readouterr().out.splitlines()]

    return numbers


@pytest.mark.exhaustive
def test_mechanism(run):
    torque, force, turned, (work, gain) = run("mechanism.py", "mechanism.html")
    assert torque == pytest.approx([13.0], abs=0.01)
    assert force == pytest.approx([112.6], abs=0.1)
    assert turned == pytest.approx([8.0], abs=1e-6)
    assert work == pytest.approx(gain, abs=0.01)


@pytest.mark.exhaustive
def test_robot(run):
    _, *joints = run("robot.py", "robot.html")
    assert len(joints) == 3
    for angle, target, torque in joints:
        assert abs(angle - target) < 0.1
        assert abs(torque) < 80


@pytest.mark.exhaustive
def test_hopper(run):
    (flight, highest), (carried, weight), (moved, _) = run("hopper.py", "hopper.html")
    # Up from 0.53 m, where the legs are stretched, and down to 0.45 m or somewhat lower.
    assert flight == pytest.approx(sum((2 * (highest - start) / 9.81) ** 0.5 for start in (0.53, 0.45)), abs=0.12)
    assert highest > 0.6
    assert carried == pytest.approx(weight, abs=0.01)
    assert weight == pytest.approx(7.6 * 9.81, abs=0.01)
    assert moved < 1e-12


@pytest.mark.exhaustive
def test_spacecraft(run):
    (heading, wheel), (_, torque), (momentum,) = run("spacecraft.py", "spacecraft.png")
    assert heading == pytest.approx(-90.0, abs=1e-3)
    assert wheel == pytest.approx(629.9, abs=0.1)
    assert 0.2 < torque < 0.25
    assert momentum < 1e-10


# The tutorial on cables, which always runs, has the same between two points.
@pytest.mark.exhaustive
def test_cable(run):
    (sag, catenary), (force,), frequencies = run("cable.py", "cable.png")
    assert abs(sag / catenary - 1) < 2e-3
    # Half of the weight stands on each mast.
    assert force > 0.5 * 0.5 * 10 * 9.81
    assert frequencies == sorted(frequencies)


@pytest.mark.exhaustive
def test_grains(run):
    (count, before, after), (force, weight), (speed,) = run("grains.py", "grains.html")
    assert count == 96
    assert after < 0.7 * before
    assert force == pytest.approx(weight, rel=0.02)
    # Without friction spheres roll on for a while; they fell at up to a metre a second.
    assert speed < 50.0


@pytest.mark.exhaustive
def test_study(run):
    *methods, (members, _, mean, deviation) = run("study.py", "study.png")
    orders, errors, _ = zip(*(line[-3:] for line in methods), strict=True)
    assert orders == pytest.approx((2, 3, 4, 5), abs=0.3)
    assert [*errors] == sorted(errors, reverse=True)
    assert members == 64
    assert 0 < deviation < abs(mean)


def test_every_program_is_listed_and_short():
    overview = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f"[{path.name}]({path.name})" in overview
        assert f"test_{path.stem}" in globals()
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 60


def test_the_notebook_at_the_top_is_its_page_without_results():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        book = nbformat.read(ROOT / "quickstart.ipynb", as_version=4)
        nbformat.validate(book)
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    page, notebook = notebooks.QUICKSTART
    assert notebook.read_text(encoding="utf-8") == notebooks.notebook_text(page, results=False)
    assert not any(cell.get("outputs") for cell in book.cells)
