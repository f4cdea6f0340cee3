"""The same models run by polhode and by other codes: scripts, in processes of their own, and what they cost."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

REPEATS = 3
"""Runs that find what the first one left; the least counts."""


class Case(NamedTuple):
    """A model that several codes run.

    - `what`: the numbers that the scripts print. - `reference`: their values, to compare with. - `codes`: who runs it.
    """

    what: str
    reference: tuple[float, ...]
    codes: tuple[str, ...]


CASES = {
    # The same digits come from polhode and from Exudyn with h = 1e-4.
    "four_bar": Case(
        "x, z of the coupler (m), angle of the rocker", (0.500136, 0.386258, 0.199653), ("exudyn", "mujoco")
    ),
    # `ph.problems.get("heavy-top").reference`: Taylor series and DOP853 at 1e-13.
    "heavy_top": Case(
        "centre of mass (m)", (0.17334396409838604, 0.6400885920705688, -0.7484907911335813), ("diffrax",)
    ),
    # polhode with 320 edges and h = 2.5e-4.
    "cantilever": Case("x, z of the tip (m)", (0.224082, -0.871914), ("pyelastica",)),
    "ring": Case("mean radius", (15 + 0.75 / math.sqrt(0.05) * math.sin(math.sqrt(0.05) / 15 * 100),), ("lammps",)),
}

TITLES = {
    "polhode": "polhode",
    "exudyn": "Exudyn",
    "mujoco": "MuJoCo",
    "diffrax": "diffrax",
    "pyelastica": "PyElastica",
    "lammps": "LAMMPS",
}


NEEDED = {"lammps": "lammps mpich"}
"""Packages to install where that isn't the name alone."""

HEADS = (
    "model", "code", "numbers at the end", "off by", "besides", "first run, CPU s", "again, CPU s", "warm, s",
    "memory, MB",
)  # fmt: skip


class Measured(NamedTuple):
    """One model by one code.

    - `numbers`: at the end; `off` by that much from the reference. - `besides`: what else the script tells.
    - `first`, `again`: CPU seconds of a whole process with empty caches, and of the next ones.
    - `warm`: wall seconds of the script when it is run once more in one process: model and steps. - `memory`: the peak
      of that process in MB.
    """

    model: str
    code: str
    numbers: list[float]
    off: float
    besides: dict[str, float]
    first: float
    again: float
    warm: float
    memory: float


class FailedError(Exception):
    """A script ended badly."""


def folder() -> Path:
    """Where the scripts are: in an installed package within it, in a checkout beside the sources."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "_benchmarks"
    return inside if inside.is_dir() else package.parents[1] / "benchmarks" / "compare"


def installed(python: str, code: str) -> str | None:
    """The version of a code for some Python; None if it isn't there."""
    line = f"import importlib.metadata as m; print(m.version({code!r}))"
    done = subprocess.run([python, "-c", line], check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def measured(model: str, code: str, python: str) -> Measured:
    """Run a script again and again. Raises FailedError if it ends badly."""
    script = folder() / f"{model}_{code}.py"
    with tempfile.TemporaryDirectory() as place:
        first, told = _process([python, str(script)], Path(place))
        again = min(_process([python, str(script)], Path(place))[0] for _ in range(REPEATS))
        _, warm = _process([python, "-c", _TWICE, str(script)], Path(place))
    numbers = told.pop("numbers")
    off = max(abs(a - b) for a, b in zip(numbers, CASES[model].reference, strict=True))
    return Measured(model, code, numbers, off, told, first, again, warm["seconds"], warm["memory"])


def table(rows: list[Measured]) -> list[str]:
    """Lines of Markdown."""
    return [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|", *map(_line, rows)]


def machine(versions: dict[str, str]) -> str:
    """The machine that all this ran on, and versions."""
    told = ", ".join(f"{TITLES.get(code, code)} {version}" for code, version in versions.items())
    return f"{_processor()}, Python {platform.python_version()}; {told}."


def _line(row: Measured) -> str:
    besides = ", ".join(f"{key} {value:.0e}" for key, value in row.besides.items())
    numbers = ", ".join(f"{number:.7f}" for number in row.numbers)
    return (
        f"| {row.model.replace('_', ' ')} | {TITLES[row.code]} | {numbers} | {row.off:.0e} | {besides} | "
        f"{row.first:.1f} | {row.again:.1f} | {row.warm:.2g} | {row.memory:.0f} |"
    )


_TWICE = """
import contextlib, io, json, pathlib, resource, runpy, sys, time
with contextlib.redirect_stdout(io.StringIO()):
    runpy.run_path(sys.argv[1])
    began = time.perf_counter()
    runpy.run_path(sys.argv[1])
seconds, status = time.perf_counter() - began, pathlib.Path("/proc/self/status")
# What `resource` says begins with the peak of the process that started this one; Linux counts kilobytes, macOS bytes.
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
if status.exists():
    lines = [line.split() for line in status.read_text().splitlines()]
    peak = next(int(line[1]) for line in lines if line[0] == "VmHWM:") / 1e3
print(json.dumps({"seconds": seconds, "memory": peak}))
"""


def _process(command: list[str], caches: Path) -> tuple[float, dict[str, Any]]:
    """CPU seconds of a process, and what it printed last."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(caches), "NUMBA_CACHE_DIR": str(caches / "numba")}
    errors = caches / "errors.txt"
    with errors.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, env=environment, cwd=caches, text=True)
    assert process.stdout is not None
    with process.stdout as out:
        told = out.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    lines = list(_json(told))
    if process.returncode or not lines:
        said = errors.read_text(encoding="utf-8").strip()[-500:]
        raise FailedError(f"{Path(command[-1]).name} ended with {process.returncode}: {said}")
    return used.ru_utime + used.ru_stime, lines[-1]


def _json(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
