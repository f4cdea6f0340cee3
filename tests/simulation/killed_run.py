"""A process that makes runs when it is told to, so that it can be killed meanwhile: `python killed_run.py KIND`.

Reads one JSON order per line from standard input and answers each with one line. Beside every run it keeps a log that
has nothing to do with the store: for each block of steps when it began and ended, on a clock that all processes share,
and how many frames there are by then.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import polhode as ph
from polhode.simulation.loops import host


class Kind(NamedTuple):
    """A run of one kind, with a constant `h` or with `rtol`.

    - `probe`: time in the run after which its pace is known. - `named`: whether the store can tell what was run.
    """

    problem: Callable[[], Any]
    method: str
    how: dict[str, Any]
    probe: float
    named: bool = True


def pendulum(formulation: str) -> Callable[[], Any]:
    def made() -> Any:
        model = ph.Model(gravity=(0, 0, -9.81))
        arm = model.add_body(
            mass=2, inertia=(0.01, 0.2, 0.2), position=(0.5, 0, 0), angular_velocity=(0, 1.0, 0), velocity=(0, 0, -0.5)
        )
        model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
        return model.problem(formulation, t1=1.0)

    return made


def named(name: str, **parameters: Any) -> Callable[[], Any]:
    return lambda: ph.problems.get(name, **parameters)


KINDS = {
    "unconstrained": Kind(named("heavy-top"), "rkmk4", {"h": 1e-4, "save_every": 100}, 1.0),
    "controlled": Kind(named("heavy-top"), "rkmk54", {"rtol": 1e-9, "save_every": 50, "max_steps": 10**9}, 2.0),
    "herk5": Kind(pendulum("SE3"), "herk5", {"h": 1e-3, "save_every": 50}, 0.5, named=False),
    "generalized-alpha": Kind(pendulum("SE3"), "generalized-alpha", {"h": 1e-3, "save_every": 50}, 0.5, named=False),
    "eml": Kind(pendulum("livens"), "eml", {"h": 1e-3, "save_every": 50}, 0.5, named=False),
    "rod": Kind(named("roll-up", n=1), "generalized-alpha", {"h": 1e-3}, 0.3),
    "particles": Kind(named("torus", n=4), "rodrigues", {"h": 1e-4, "save_every": 100}, 0.5),
}


def main() -> None:
    kind = KINDS[sys.argv[1]]
    problem = kind.problem()
    for line in sys.stdin:
        answer = ORDERS[(order := json.loads(line)).pop("do")](kind, problem, **order)
        print(json.dumps(answer), flush=True)


def reference(kind: Kind, problem: Any, seconds: float, out: str) -> dict[str, Any]:
    """A run without interruption, in memory, that takes about so many seconds; written without any of our stores."""
    t1, took = kind.probe, 0.0
    # Until it takes long enough to tell; the first time more than steps takes time.
    for k in range(10):
        took = ph.simulate(problem, kind.method, t1=t1, **kind.how).stats["wall_time_s"]
        if k and took > 0.5:
            break
        t1 *= min(10.0, max(1.0, 0.8 / took))
    t1 *= seconds / took
    if "h" in kind.how:
        t1 = kind.how["h"] * round(t1 / kind.how["h"])
    run = ph.simulate(problem, kind.method, t1=t1, **kind.how)
    np.savez(out, allow_pickle=False, **recorded(run))
    return {"t1": t1, "took": run.stats["wall_time_s"], **_counts(run)}


def recorded(run: ph.Solution) -> dict[str, np.ndarray]:
    """All there is of a run: what xarray shows, and the leaves of its frames."""
    variables = {str(name): values.values for name, values in run.to_xarray().variables.items()}
    return {**variables, **{f"leaf {k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(run.frames))}}


def run(kind: Kind, problem: Any, store: str, log: str, t1: float, when_full: str, refusing: str) -> dict[str, Any]:
    """A run into a store."""
    return _run_logged(
        lambda: ph.simulate(problem, kind.method, t1=t1, **kind.how, store=store, when_full=when_full), log, refusing
    )


def resume(kind: Kind, problem: Any, store: str, log: str, when_full: str, refusing: str) -> dict[str, Any]:
    """The rest of a run, of a problem that the store knows by name or that is made again."""
    again = None if kind.named else problem
    return _run_logged(lambda: ph.resume(store, problem=again, when_full=when_full), log, refusing)


ORDERS = {"reference": reference, "run": run, "resume": resume}


def _counts(run: Any) -> dict[str, Any]:
    return {"result": run.stats["result"].name, "steps": run.stats["steps"], "rejected": run.stats["rejected"]}


def _run_logged(act: Callable[[], Any], log: str, refusing: str) -> dict[str, Any]:
    block, opened = host._Run.block, pathlib.Path.open
    with open(log, "ab", buffering=0) as file:

        def logged(self: Any, steps: int) -> Any:
            file.write(f"began {time.monotonic()}\n".encode())
            p, buffer = jax.block_until_ready(block(self, steps))
            # The frame at the start is not in a buffer.
            file.write(f"ended {time.monotonic()} {self.saved_count + int(buffer.count) + 1}\n".encode())
            return p, buffer

        host._Run.block = logged
        pathlib.Path.open = _refuse(opened, Path(refusing)) if refusing else opened
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ph.InterruptionWarning)
                run = act()
            return {"said": "", **_counts(run), "at": time.monotonic()}
        except (ph.SimulationError, KeyboardInterrupt) as error:
            return {"said": str(error), **_counts(error.solution), "at": time.monotonic()}
        finally:
            host._Run.block, pathlib.Path.open = block, opened


def _refuse(opened: Any, flag: Path) -> Any:
    """`Path.open`; once there is that file, only as many bytes as it names can be written, as on a disk that fills."""
    left: list[int] = []

    def refused(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        file = opened(self, mode, *rest, **more)
        if mode == "wb" and (left or flag.exists()):
            left[:] = left or [int(flag.read_text() or "0")]
            return LimitedFile(file, left)
        return file

    return refused


class LimitedFile:
    """A file on a disk with a few bytes left."""

    def __init__(self, file: Any, left: list[int]) -> None:
        self.file, self.left = file, left

    def __enter__(self) -> LimitedFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()

    def write(self, data: bytes) -> int:
        written = self.file.write(data[: self.left[0]])
        self.left[0] -= written
        if written < len(data):
            self.file.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written


if __name__ == "__main__":
    main()
