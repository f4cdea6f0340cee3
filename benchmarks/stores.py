"""What a store costs a run: time with a store over time without, and how far the disk lags behind.

`python benchmarks/stores.py` prints one line a run. Both runs of a pair are made in turn, and the median of the ratios
counts; compiling is not part of it.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path

import polhode as ph

RUNS = {
    "heavy top, rkmk4, every step": (lambda: ph.problems.get("heavy-top"), {"integrator": "rkmk4", "h": 2e-6}),
    "heavy top, rkmk4, every 100th": (
        lambda: ph.problems.get("heavy-top"),
        {"integrator": "rkmk4", "h": 2e-7, "save_every": 100},
    ),
    "Puma, generalized-α, every 10th": (
        lambda: ph.problems.get("puma"),
        {"integrator": "generalized-alpha", "h": 5e-5, "save_every": 10},
    ),
    "roll-up of 16 edges, generalized-α": (
        lambda: ph.problems.get("roll-up", n=16),
        {"integrator": "generalized-alpha", "h": 5e-4, "save_every": 10},
    ),
}


def seconds(problem: ph.Problem, how: dict, store: Path | None) -> float:
    """Wall time of a run, without compiling."""
    run = ph.simulate(problem, **how, store=store)
    if store is not None:
        shutil.rmtree(store)
    return run.stats["wall_time_s"]


def main() -> None:
    for name, (make, how) in RUNS.items():
        problem = make()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.zarr"
            seconds(problem, how, path)
            pairs = [(seconds(problem, how, None), seconds(problem, how, path)) for _ in range(7)]
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{name}: {statistics.median(a for a, _ in pairs):.2f} s without, ratio {ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
