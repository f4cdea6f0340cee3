"""The free rigid body in quaternions beside pydykit, in one run.

    python benchmarks/livens.py [--h 0.01] [--t1 2.0] [--repeats 3]

pydykit has the midpoint rule and the discrete-gradient method on Hamilton's equations of the body, with NumPy and
Newton's method to 1e-9; here `mph` and `emh` on the same equations, and `reml`, go on to round-off. Times are wall
seconds a step of one core, the best of the repetitions; compile time apart. pydykit prints its iterations; that goes
nowhere. Where it fails, its row says so (0.0.6 does with the discrete gradient). The table goes to standard error, one
JSON object to standard output. Needs `pip install pydykit`, which asks for Python 3.12.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np

import polhode as ph

METHODS = ("mph", "emh", "reml", "eml", "null-eml")
PEERS: dict[str, dict[str, Any]] = {
    "midpoint": {"class_name": "MidpointMultibody"},
    "discrete gradient": {
        "class_name": "DiscreteGradientMultibody",
        "increment_tolerance": 1e-9,
        "discrete_gradient_type": "Gonzalez",
    },
}
Row = dict[str, Any]


def polhode_row(method: str, h: float, t1: float, repeats: int) -> Row:
    problem = ph.problems.get("free-rigid-body", formulation="livens")
    start = time.perf_counter()
    ph.simulate(problem, method, h=h, t1=t1, save_every=None)
    first = time.perf_counter() - start
    runs = [ph.simulate(problem, method, h=h, t1=t1, save_every=None) for _ in range(repeats)]
    best = min(run.stats["wall_time_s"] / run.stats["steps"] for run in runs)
    q = np.asarray(runs[-1].state.q)[-1]
    return {"us_per_step": 1e6 * best, "first_run_s": first, "end": q.tolist()}


def peer_row(integrator: dict[str, Any], h: float, t1: float, repeats: int) -> Row:
    # Not at the top, so that the file can be read without the peer.
    from pydykit.configuration import Configuration
    from pydykit.examples import ExampleManager
    from pydykit.managers import Manager

    content = copy.deepcopy(ExampleManager().get_example("rigid_body_rotating_quaternion"))
    content["integrator"] = dict(integrator)
    content["time_stepper"].update(step_size=h, end=t1)
    best, end = np.inf, np.full(4, np.nan)
    for _ in range(repeats):
        manager = Manager()
        manager.configure(configuration=Configuration(**content))
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            result = manager.manage()
        best = min(best, time.perf_counter() - start)
        end = np.asarray(result.results)[-1, :4]
    return {"us_per_step": 1e6 * best / round(t1 / h), "end": end.tolist()}


def rows(h: float, t1: float, repeats: int) -> dict[str, Row]:
    result = {f"polhode {method}": polhode_row(method, h, t1, repeats) for method in METHODS}
    for label, integrator in PEERS.items():
        try:
            result[f"pydykit {label}"] = peer_row(integrator, h, t1, repeats)
        except Exception as error:
            result[f"pydykit {label}"] = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--h", type=float, default=0.01)
    parser.add_argument("--t1", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    results = rows(options.h, options.t1, options.repeats)
    for name, row in results.items():
        text = row.get("failed") or f"{row['us_per_step']:10.2f} µs a step, q(t1) = {np.round(row['end'], 6)}"
        print(f"{name:28s} {text}", file=sys.stderr)
    for ours, peer in (("mph", "midpoint"), ("emh", "discrete gradient")):
        both = results[f"polhode {ours}"], results[f"pydykit {peer}"]
        if "failed" not in both[1]:
            ratio = both[1]["us_per_step"] / both[0]["us_per_step"]
            print(f"pydykit {peer} over polhode {ours}: {ratio:.0f}", file=sys.stderr)
    print(json.dumps({"h": options.h, "t1": options.t1, "rows": results}))


if __name__ == "__main__":
    main()
