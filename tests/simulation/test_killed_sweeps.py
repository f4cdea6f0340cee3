"""Sweeps that are killed at random moments: there is no store or a whole one, which goes on to the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import polhode as ph

SWEEP = """
import sys, time
sys.path.insert(0, sys.argv[3])
import ensembles_by_hand as by_hand
from polhode.simulation.ensembles import store
from polhode.storage import constant_arrays, zarr_arrays

replace = zarr_arrays.replace

def slowly(*args):
    time.sleep(0.004)
    replace(*args)

for module in (store, zarr_arrays, constant_arrays):
    module.replace = slowly
by_hand.write(store.Path(sys.argv[1]).parent / "first.zarr", resume=True)
print("begins", flush=True)
try:
    by_hand.write(store.Path(sys.argv[1]), resume=sys.argv[2] == "resume")
finally:
    print("ended", flush=True)
"""

TESTS = Path(__file__).parents[1]


def measure_sweep(path: Path) -> float:
    """How many seconds a sweep takes here that nobody kills."""
    path.parent.mkdir()
    command = [sys.executable, "-c", SWEEP, str(path), "begin", str(TESTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as sweep:
        assert sweep.stdout is not None
        assert sweep.stdout.readline() == "begins\n"
        start = time.monotonic()
        assert sweep.stdout.readline() == "ended\n"
        return time.monotonic() - start


def kill_sweep(path: Path, how: str, number: int, after: float) -> None:
    """A sweep that gets a signal so many seconds after it began."""
    command = [sys.executable, "-c", SWEEP, str(path), how, str(TESTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as sweep:
        assert sweep.stdout is not None
        assert sweep.stdout.readline() == "begins\n"
        time.sleep(after)
        os.kill(sweep.pid, number)
        assert sweep.wait(60) is not None


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda n: signal.Signals(n).name
)
def test_killed_sweeps_leave_what_continues_to_the_same_bytes(number, tmp_path, request):
    random = np.random.default_rng((request.config.getoption("--fuzz-seed"), int(number)))
    expected, reached = None, []
    whole = measure_sweep(tmp_path / "whole" / "sweep.zarr")
    for k in range(10):
        path = tmp_path / f"{k}" / "sweep.zarr"
        path.parent.mkdir()
        kill_sweep(path, "begin", number, random.uniform(0, whole))
        if expected is None:
            expected = ph.load_ensemble(path.with_name("first.zarr")).load()
        if path.exists():
            result = ph.load_ensemble(path).load()
            ran = result["result"].values == 0
            reached.append(int(ran.sum()))
            for name in ("outputs.positions", "state"):
                assert result[name].values[ran].tobytes() == expected[name].values[ran].tobytes()
        kill_sweep(path, "resume", number, random.uniform(0, 0.4 * whole))
        subprocess.run(
            [sys.executable, "-c", SWEEP, str(path), "resume", str(TESTS)], check=True, stdout=subprocess.DEVNULL
        )
        result = ph.load_ensemble(path).load()
        assert (result["result"] == 0).all()
        for name, x in expected.variables.items():
            assert result[name].values.tolist() == x.values.tolist()
        left = sorted(p.name for p in path.parent.iterdir())
        assert left == ["first.zarr", "sweep.zarr"]
    assert len(set(reached)) > 1
