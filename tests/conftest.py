from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import polhode as ph
from polhode.compiler.cache import program_cache
from polhode.frames import Frames
from polhode.solution.solution import Solution

if "PYTEST_XDIST_WORKER" not in os.environ:
    # What is kept between processes is this session's own, and empty at first; workers share it.
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="polhode-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# Tracing and compiling make objects in such numbers that looking for cyclic garbage would take a fifth of all tests.
gc.set_threshold(100_000, 20, 100)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What has been imported and collected stays until the end: it is not looked through for garbage again."""
    gc.collect()
    gc.freeze()


class Spin(NamedTuple):
    rotation: Any
    velocity: Any


def spinning(n: int = 64, start: float = 0.0, end: float = 2.0) -> Frames:
    """A body that spins about z and runs around a circle, known in closed form."""
    t = np.linspace(start, end, n)
    c, s, zero, one = np.cos(3 * t), np.sin(3 * t), np.zeros(n), np.ones(n)
    rotation = np.stack([c, -s, zero, s, c, zero, zero, zero, one], axis=1).reshape(n, 3, 3)
    velocity = np.stack([zero, zero, 3 * one], axis=1)
    return Frames(
        t=t,
        state=Spin(rotation, velocity),
        outputs={
            "tip": rotation[:, :, 0],
            "rotation": rotation,
            "energies": {"kinetic": 4.5 * one, "potential": 0.1 * c},
            "nodes": np.stack([rotation[:, :, 0], 2 * rotation[:, :, 0]], axis=1),
        },
        invariants={"energy": 4.5 + 1e-9 * np.sin(40 * t), "momentum": velocity},
        residuals={"manifold": 1e-16 * np.abs(np.sin(17 * t))},
        multipliers=np.stack([c, s], axis=1),
    )


META = {
    "problem": "made-by-hand",
    "parameters": {"mass": 2.0, "inertia": [1.0, 2.0, 3.0], "shape": "ring"},
    "integrator": {"name": "rkmk4", "class": "RKMK"},
    "h": 0.01,
    "t0": 0.0,
    "t1": 2.0,
    "promises": {"manifold": "round-off", "energy": "bounded"},
    "version": "0.1.0",
}
STATS = {
    "steps": 63,
    "rejected": 0,
    "evaluations": 252,
    "newton_iterations": 0.0,
    "result": ph.Result.successful,
    "t_reached": 2.0,
    "wall_time_s": 0.01,
    "compile_time_s": 0.5,
}


@pytest.fixture
def spin_frames() -> Callable[..., Frames]:
    return spinning


@pytest.fixture
def spin_solution() -> Solution:
    return Solution(spinning(), dict(STATS), dict(META))


def pytest_addoption(parser):
    group = parser.getgroup("fuzz")
    group.addoption("--fuzz-seed", type=int, default=0, help="Another sequence of tries; always the same by default.")
    group.addoption("--fuzz-share", type=float, default=1.0, help="Part of the tries, or a multiple of them.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test marked `sampled(k)` every k-th stays, at least one; the others wait for `make verify`."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, each in cases.items():
        # Tests of one file begin with different cases, so that all cases occur.
        first = zlib.crc32(test.encode())
        for k, item in enumerate(each):
            marker = item.get_closest_marker("sampled")
            if marker is not None and (first + k) % min(marker.args[0], len(each)):
                item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(params=[pytest.param(0.04, id="a part"), pytest.param(1.0, id="all", marks=pytest.mark.exhaustive)])
def tries(request) -> Iterator[Callable[..., tuple[int, np.random.Generator]]]:
    """How many tries to make of a number that is meant, and a generator of random numbers. What hangs is ended."""

    def chosen(count: int, stream: int, few: int | None = None) -> tuple[int, np.random.Generator]:
        """`few`: how many of them make a part, where that is not the usual share."""
        part = few if few is not None and request.param < 1 else request.param * count
        seed = request.config.getoption("--fuzz-seed")
        number = int(part * request.config.getoption("--fuzz-share"))
        return max(1, number), np.random.default_rng((seed, stream))

    faulthandler.dump_traceback_later(_LONGEST_S, exit=True)
    yield chosen
    faulthandler.cancel_dump_traceback_later()


_LONGEST_S = 3600
"""Of all tries of a test: far more than they take."""


@pytest.fixture(autouse=True)
def _bounded_memory() -> Iterator[None]:
    """Compiled programs are kept between tests; workers that hold too many of them start afresh.

    After each test, not each file: a file's tests may compile hundreds of small programs, at more than a megabyte each.
    """
    yield
    if _resident() > max(_MEMORY, _LEFT[0] + _MORE):
        jax.clear_caches()
        program_cache.forget()
        gc.collect()
        if sys.platform == "linux":
            # The C library keeps freed memory otherwise.
            ctypes.CDLL(None).malloc_trim(0)
        _LEFT[0] = _resident()


_MEMORY = 1_000_000
"""Kilobytes: a test may take 350,000 more.

With 620,000 here and 100,000 below, starting afresh took a seventh of the CPU time of the tests of contacts.
"""

_MORE = 300_000
"""On top of what can't be given back: otherwise, once that is much, every test would compile everything anew."""

_LEFT = [0]
"""What was left after the last start."""


def _resident() -> int:
    """Memory of this process now, in kilobytes; more than enough where the system doesn't say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return _MEMORY + 1
    (line,) = (x for x in status.read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1])
