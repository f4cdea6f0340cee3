"""Whole robots, from their files to the page: time to the first result, time a step, pages.

    python benchmarks/robots.py [panda] [cmu] … [--coordinates minimal] [--steps-only] [--json]

All robots by default. Of each, one command makes the page: `polhode run FILE --export page.html`. Its CPU time is
measured in units, that of a process that imports JAX and compiles one tiny function: the mean of the least of three
before the commands of a robot and the least of three after them, since machines don't run evenly. The command runs
twice with a home and a cache folder of its own, so that the second run finds only what the first one kept; a third
run, cold and without `--export`, tells what the page takes. The library's sources are compiled to bytecode before, as
they are where it is installed. A step is timed in this process, with constant steps of
the size that the problem has and only the final state saved, by the processor time of the loop: the least of several
runs of a thousand steps, 20,000 of fast ones. `quick` is that of the first thousand steps, `µs` that of code compiled
with most effort, as it is after some seconds of running; `first` is the processor time from the file to the first
twenty steps, in seconds, without what is kept only with empty caches. The command runs the method that `problem`
chooses.

Robots of URDF files without constraints are timed with `rkmk4`, and `peer` is the time of four calls of Pinocchio's
articulated-body algorithm; others with generalized-α, and `peer` is a step of MuJoCo's `implicitfast` with the same
file without contacts, of order 1. The runs of both take turns: `µs / peer` is the ratio of the least, `median` that of
the ratios of pairs.

The last columns are the size of the page, and how many of the meshes that the file names lie where they are looked
for. Needs the extra `survey`, which brings the files of the robots; the leg, with two closed loops in the manner of
Cassie's, is our own: Cassie's is in these packages as SDF only.
"""

from __future__ import annotations

import argparse
import compileall
import dataclasses
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from optimised_code import with_most_effort
from robot_peers import REPEATS, forward_dynamics, implicit_step

import polhode as ph

if sys.platform == "win32":
    sys.exit("The CPU time of other processes is not measured on Windows.")
import resource

TINY = "import jax, jax.numpy as j; jax.jit(lambda x: j.sin(x) @ x)(j.ones(3)).block_until_ready()"
STEPS = 1000
"""Steps of a run that is timed: all codes go the same way."""
LONG = 20_000
"""Steps of a run of explicit steps, which take some microseconds."""
SETTINGS = ("JAX_", "XLA_", "POLHODE_")
"""Variables of the environment that change how long things take."""


class Robot(NamedTuple):
    """Where a robot's file is: in a package, or beside this script; `floating`: whether its root is let go."""

    package: str
    file: str
    floating: bool = False

    @property
    def path(self) -> Path:
        """Raises LookupError where nothing is there."""
        if not self.package:
            return Path(__file__).parent / self.file
        for file in importlib.metadata.files(self.package) or []:
            if str(file).endswith(self.file):
                return Path(str(file.locate())).resolve()
        raise LookupError(f"{self.package} has no {self.file}; install `polhode[survey]`")


DATA = "example-robot-data"
ROBOTS = {
    "panda": Robot(DATA, "panda_description/urdf/panda.urdf"),
    "arm": Robot("robosuite", "robots/panda/robot.xml"),
    "ur5": Robot(DATA, "ur_description/urdf/ur5_robot.urdf"),
    "talos": Robot(DATA, "talos_data/robots/talos_full_v2.urdf", floating=True),
    "quadruped": Robot(DATA, "anymal_c_simple_description/urdf/anymal.urdf", floating=True),
    "leg": Robot("", "models/leg.xml"),
    "humanoid": Robot("gymnasium", "envs/mujoco/assets/humanoid.xml"),
    "talos-reduced": Robot(DATA, "talos_data/robots/talos_reduced.urdf"),
    "cmu": Robot("dm_control", "walkers/assets/humanoid_CMU_V2020.xml"),
    "shadow": Robot("gymnasium-robotics", "assets/hand/reach.xml"),
    "adroit": Robot("gymnasium-robotics", "adroit_hand/adroit_hammer.xml"),
    "dog": Robot("dm_control", "suite/dog.xml"),
    "fruit-fly": Robot("dm_control", "fruitfly_v2/fruitfly.xml"),
}


@dataclasses.dataclass
class Row:
    """Measurements of a robot; times of commands in units."""

    robot: str
    freedoms: int = 0
    constraints: int = 0
    method: str = ""
    unit: float = 0.0
    cold: float = np.nan
    again: float = np.nan
    without_page: float = np.nan
    first: float = np.nan
    stepped_by: str = ""
    quick: float = np.nan
    microseconds: float = np.nan
    peer: float = np.nan
    ratio: float = np.nan
    page: int = 0
    meshes: int = 0
    missing: int = 0
    trouble: str = ""


# --- commands ---------------------------------------------------------------------------------------------------------


def cpu(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """CPU time of a process in seconds, and the last line that it left on standard error where it failed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = done.stderr.strip().splitlines() or ["nothing said"]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, lines[-1] if done.returncode else ""


def plain() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}


def unit() -> float:
    return min(cpu([sys.executable, "-c", TINY], plain())[0] for _ in range(3))


def time_commands(robot: Robot, row: Row) -> None:
    # Without, each process compiles all sources where PYTHONDONTWRITEBYTECODE is set.
    compileall.compile_dir(Path(ph.__file__).parent, quiet=1)
    before = unit()
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as other:
        page = Path(home) / "page.html"
        command = [sys.executable, "-m", "polhode", "run", str(robot.path), "--quiet"]
        command += ["--set", "floating=true"] if robot.floating else []
        times = []
        for more, folder in ((["--export", str(page)], home), (["--export", str(page)], home), ([], other)):
            seconds, trouble = cpu(command + more, plain() | {"HOME": folder, "XDG_CACHE_HOME": folder})
            row.trouble = row.trouble or trouble
            times.append(seconds)
        row.unit = (before + unit()) / 2
        row.cold, row.again, row.without_page = (seconds / row.unit for seconds in times)
        row.page = page.stat().st_size if page.exists() else 0


# --- steps ------------------------------------------------------------------------------------------------------------


def time_steps(robot: Robot, problem: ph.Problem, began: float, row: Row) -> None:
    urdf = robot.path.suffix == ".urdf"
    row.stepped_by = method = "rkmk4" if urdf and not row.constraints else "generalized-alpha"

    def march(steps: int) -> float:
        # The clock of the loop counts this thread's processor time, so that other work on the machine counts little.
        with mock.patch.object(time, "perf_counter", time.thread_time):
            run = ph.simulate(problem, method, h=problem.h, t1=steps * problem.h, save_every=None)
        return 1e6 * run.stats["wall_time_s"] / steps

    march(20)
    row.first = time.process_time() - began
    row.quick = march(STEPS)
    with_most_effort(lambda: march(STEPS // 10))
    peer: Callable[[], float] = lambda: np.nan  # noqa: E731
    if urdf:
        peer = forward_dynamics(robot.path, robot.floating)
    elif robot.package:
        peer = implicit_step(robot.path, STEPS)
    turns = np.array([(march(LONG if urdf else STEPS), peer()) for _ in range(2 * REPEATS)])
    row.microseconds, row.peer = turns.min(0)
    row.ratio = float(np.median(turns[:, 0] / turns[:, 1]))


def count_meshes(path: Path, notes: list[Any], row: Row) -> None:
    """Meshes that the file names, and those that a warning said are missing."""
    names = set(re.findall(r"<mesh\b[^>]*\b(?:filename|file)=[\"']([^\"']+)", path.read_text(encoding="utf-8")))
    text = " ".join(str(note.message) for note in notes)
    row.meshes, row.missing = len(names), sum(name.rpartition("/")[2] in text for name in names)


def measure_row(name: str, coordinates: str | None, steps_only: bool) -> Row:
    robot, row = ROBOTS[name], Row(name)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        options: dict[str, Any] = {"floating": True} if robot.floating else {}
        began = time.process_time()
        model = ph.load_model(robot.path, **options)
        problem = model.problem() if coordinates is None else model.problem(coordinates)
        count_meshes(robot.path, notes, row)
        system: Any = problem.system
        row.freedoms = int(np.size(problem.state0[1]))
        row.constraints = int(getattr(system, "m", 0))
        row.method = problem.integrator
        try:
            time_steps(robot, problem, began, row)
        except ph.SimulationError as error:
            row.trouble = str(error.reason)[:200]
        if not steps_only:
            time_commands(robot, row)
    return row


# --- table ------------------------------------------------------------------------------------------------------------

HEAD = (
    "| | velocities, constraints | method | unit, s | cold | again | without the page | first, s | steps of "
    "| quick, µs | µs | peer, µs | µs / peer | median | page, kB | meshes |"
)


def line(row: Row) -> str:
    columns = [
        row.robot,
        f"{row.freedoms}, {row.constraints}",
        f"`{row.method}`",
        *(f"{x:.3g}" for x in (row.unit, row.cold, row.again, row.without_page, row.first)),
        f"`{row.stepped_by}`",
        *(f"{x:.3g}" for x in (row.quick, row.microseconds, row.peer, row.microseconds / row.peer, row.ratio)),
        f"{row.page / 1000:.0f}",
        f"{row.meshes - row.missing} of {row.meshes}" if row.meshes else "none named",
    ]
    return f"| {' | '.join(columns)} |" + (f" {row.trouble}" if row.trouble else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", choices=[[], *ROBOTS], metavar="ROBOT", help=f"of {', '.join(ROBOTS)}")
    parser.add_argument("--coordinates", help="instead of those that `problem` chooses; the commands choose theirs")
    parser.add_argument("--steps-only", action="store_true", help="without the commands")
    parser.add_argument("--json", action="store_true", help="rows as JSON objects")
    options = parser.parse_args()
    print(f"{HEAD}\n{'|---' * HEAD.count(' | ')}|---|", flush=True)
    for name in options.robots or ROBOTS:
        row = measure_row(name, options.coordinates, options.steps_only)
        print(json.dumps(dataclasses.asdict(row)) if options.json else line(row), flush=True)


if __name__ == "__main__":
    main()
