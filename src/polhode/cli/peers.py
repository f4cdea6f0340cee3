"""Runs the same models by polhode and other codes at equal errors: one script and process for each."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from polhode.environment import processor_name

REPEATS = 3
"""Number of processes with filled caches; the least time counts."""


class Case(NamedTuple):
    """A model that several codes run.

    - `what`: the numbers that the scripts print. - `reference`: their values. - `goal`: the error that each code must
      reach, the largest difference from the reference. - `codes`: who runs it, beside polhode.
    """

    what: str
    reference: tuple[float, ...]
    goal: float
    codes: tuple[str, ...]


CASES = {
    # `herk5` on SO(3)×R³ and `rkmk6` in minimal coordinates agree to 1e-10 (tests/test_compare.py).
    "four_bar": Case(
        "x, z of the coupler (m), angle of the rocker",
        (0.50013570044, 0.38625829845, 0.19965171876),
        1e-6,
        ("exudyn", "mujoco"),
    ),
    # `ph.problems.get("heavy-top").reference`: Taylor series and DOP853 at 1e-13.
    "heavy_top": Case(
        "centre of mass (m)",
        (0.17334396409838604, 0.6400885920705688, -0.7484907911335813),
        1e-6,
        ("exudyn", "diffrax"),
    ),
    # polhode with 320 edges and h = 2.5e-4. PyElastica's limit is 6e-4 from it: see docs/compare.md.
    "cantilever": Case("x, z of the tip (m)", (0.224082, -0.871914), 1e-3, ("pyelastica",)),
    "ring": Case(
        "mean radius", (15 + 0.75 / math.sqrt(0.05) * math.sin(math.sqrt(0.05) / 15 * 100),), 1e-6, ("lammps",)
    ),
}

TITLES = {
    "polhode": "polhode",
    "exudyn": "Exudyn",
    "mujoco": "MuJoCo",
    "diffrax": "diffrax",
    "pyelastica": "PyElastica",
    "lammps": "LAMMPS",
}


PACKAGES = {"lammps": "lammps mpich"}
"""Packages to install where their names differ from that of the code."""

HEADS = (
    "model, error", "code", "largest step", "steps", "its error", "other errors", "a step, µs", "warm run, CPU ms",
    "first process, CPU s", "next one, CPU s", "memory, MB",
)  # fmt: skip


class Measurement(NamedTuple):
    """Steps and times that one code needs for one model to the model's error.

    - `by`, `value`: the name and size of the largest step, or tolerance, that is accurate enough; `reached` is false
      where none was found, and then they are those of the least error. - `steps`, `off`: with it, the number of steps
      and the error. - `numbers`: at the end. - `besides`: other numbers of the script.
    - `step`: seconds of a step, within a run. - `warm`: CPU seconds of a run in a process that has made one before.
    - `first`, `again`: CPU seconds of a whole process with empty caches, and of the next ones.
    - `memory`: the peak of the first process in MB.
    """

    model: str
    code: str
    by: str
    value: float
    reached: bool
    steps: int
    off: float
    numbers: list[float]
    besides: dict[str, float]
    step: float
    warm: float
    first: float
    again: float
    memory: float


class FailedError(Exception):
    """A script failed."""


def folder() -> Path:
    """The folder of the scripts: within an installed package, or beside the sources in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "_benchmarks"
    return inside if inside.is_dir() else package.parents[1] / "benchmarks" / "compare"


def installed_version(python: str, code: str) -> str | None:
    """The version of a code in some Python environment; None if it isn't installed."""
    line = f"import importlib.metadata as m; print(m.version({code!r}))"
    process = subprocess.run([python, "-c", line], check=False, capture_output=True, text=True)
    return process.stdout.strip() if process.returncode == 0 else None


def titles(codes: list[str]) -> str:
    """Their names."""
    return ", ".join(TITLES[code] for code in codes)


def measure(model: str, code: str, python: str) -> Measurement:
    """Search the step, then run processes with it. Raises FailedError if one fails."""
    script, case = str(folder() / f"{model}_{code}.py"), CASES[model]
    command = [python, str(folder() / "measure.py")]
    with tempfile.TemporaryDirectory() as place:
        arguments = [repr(x) for x in (case.goal, *case.reference)]
        _, search = _process([*command, "search", script, *arguments], Path(place))
    with tempfile.TemporaryDirectory() as place:
        once = [*command, "once", script, repr(search["value"])]
        first, output = _process(once, Path(place))
        again = min(_process(once, Path(place))[0] for _ in range(REPEATS))
    besides = {key: x for key, x in output.items() if key not in ("numbers", "steps", "memory")}
    return Measurement(
        model, code, search["by"], search["value"], search["reached"], int(output["steps"]), search["off"],
        output["numbers"], besides, search["marching"] / output["steps"], search["seconds"], first, again,
        output["memory"],
    )  # fmt: skip


def table(rows: list[Measurement]) -> list[str]:
    """Lines of Markdown."""
    return [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|", *map(_line, rows)]


def machine(versions: dict[str, str], left_out: list[str]) -> str:
    """A sentence on the machine, the versions, and codes that are not installed."""
    codes = ", ".join(f"{TITLES.get(code, code)} {version}" for code, version in versions.items())
    absent = f" Not installed: {titles(left_out)}." if left_out else ""
    return f"{processor_name()}, {os.cpu_count()} cores, Python {platform.python_version()}; {codes}.{absent}"


def _line(row: Measurement) -> str:
    goal = f"{row.model.replace('_', ' ')}, {round_text(CASES[row.model].goal, 1)}"
    size = f"{row.by} = {round_text(row.value, 3)}{'' if row.reached else ': **not reached**'}"
    besides = ", ".join(f"{key} {round_text(value, 2)}" for key, value in row.besides.items())
    cells = (
        goal, TITLES[row.code], size, f"{row.steps:,}", round_text(row.off, 2), besides, round_text(1e6 * row.step, 2),
        round_text(1e3 * row.warm, 2), f"{row.first:.1f}", f"{row.again:.1f}", f"{row.memory:.0f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def round_text(x: float, digits: int) -> str:
    """A number rounded to some significant digits, in scientific notation only if it is small."""
    if x == 0:
        return "0"
    if abs(x) >= 0.01:
        return f"{float(f'{x:.{digits}g}'):,.10f}".rstrip("0").rstrip(".")
    mantissa, _, power = f"{x:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}"


def _process(command: list[str], caches: Path) -> tuple[float, dict[str, Any]]:
    """CPU seconds of a process, and the JSON object that it printed last."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(caches), "NUMBA_CACHE_DIR": str(caches / "numba")}
    errors = caches / "errors.txt"
    with errors.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, env=environment, cwd=caches, text=True)
    assert process.stdout is not None
    with process.stdout as out:
        text = out.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        message = errors.read_text(encoding="utf-8").strip()[-500:]
        raise FailedError(f"{' '.join(Path(x).name for x in command[2:4])} ended with {process.returncode}: {message}")
    return used.ru_utime + used.ru_stime, json.loads(lines[-1])
