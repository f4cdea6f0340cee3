"""Cost of a store for a run: wall time, and time of all processors, with a store over those without.

`python benchmarks/stores.py [FOLDER]` prints one line a run, with stores in FOLDER. Both runs of a pair are made in
turn, and the medians count; compiling is not part of it.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from optimised_code import wait_until_compiled

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


def seconds(problem: ph.Problem, how: dict, store: Path | None) -> tuple[float, float]:
    """Wall time of a run, and time of processors, without compiling."""
    began = time.process_time()
    run = ph.simulate(problem, **how, store=store)
    used = time.process_time() - began
    if store is not None:
        shutil.rmtree(store)
    return run.stats["wall_time_s"], used


def main() -> None:
    for name, (make, how) in RUNS.items():
        problem = make()
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
            path = Path(folder) / "run.zarr"
            for _ in range(3):
                seconds(problem, how, path)
                wait_until_compiled()
            pairs = [(seconds(problem, how, None), seconds(problem, how, path)) for _ in range(9)]
        wall, used = (statistics.median(b[k] / a[k] for a, b in pairs) for k in (0, 1))
        alone = statistics.median(a[0] for a, _ in pairs)
        print(f"{name}: {alone:.2f} s without, ratio {wall:.3f}, of processors {used:.3f}", flush=True)


if __name__ == "__main__":
    main()
