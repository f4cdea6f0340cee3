"""One model by one code: the largest step that is accurate enough, and what a run with it costs.

    python measure.py search SCRIPT GOAL VALUE…    # halves the step until numbers are within GOAL of the values
    python measure.py once SCRIPT STEP             # one run, from the start of the process to its end

A script has `FIRST`, the name of what is halved and its first value, `prepare(value)`, and `march(prepared)`. That
returns the `numbers` at the end, the number of `steps`, and what else there is to tell; `marching` is the seconds of
the steps alone, where the code says so. Both commands print one line of X needs nothing but the code.
"""

from __future__ import annotations

import json
import math
import resource
import runpy
import sys
import time
from pathlib import Path
from typing import Any

HALVINGS, LONGEST = 24, 60.0
"""The search ends after so many halvings, or with a run that computes for so many seconds besides compiling."""
REPEATS, ENOUGH = 20, 2.0
"""Runs to take the least time of: at most so many, and at least three, while they take less than so many seconds."""


def search(script: dict[str, Any], goal: float, reference: list[float]) -> dict[str, Any]:
    """The largest step with which this code is within `goal`, and with half of which it is so, too.

    One step alone could be close by chance, where the error changes its sign. Without such a step: that of the least
    error, and `reached` is false.
    """
    ((name, value),) = script["FIRST"].items()
    tried: list[dict[str, Any]] = []
    why = ""
    for _ in range(HALVINGS):
        began = time.process_time()
        try:
            told = plain(script["march"](script["prepare"](value)))
            off = max(abs(a - b) for a, b in zip(told["numbers"], reference, strict=True))
        except Exception as error:  # each code has errors of its own for steps that are too large
            told, off, why = None, math.inf, f"{type(error).__name__}: {error}"
        tried.append({"told": told, "off": off if math.isfinite(off) else math.inf, "value": value})
        if len(tried) > 1 and max(row["off"] for row in tried[-2:]) <= goal:
            return {"by": name, "reached": True, **tried[-2]}
        # The first one compiles.
        if len(tried) > 1 and time.process_time() - began > LONGEST:
            break
        value /= 2
    best = min(tried, key=lambda row: row["off"])
    if best["told"] is None:
        raise SystemExit(f"No run came to its end: {why}")
    return {"by": name, "reached": best["off"] <= goal, **best}


def least_times(script: dict[str, Any], value: float) -> dict[str, float]:
    """Processor's seconds of `march` and seconds of its steps, each the least of several."""
    spent: list[float] = []
    marching: list[float] = []
    while len(spent) < 3 or (len(spent) < REPEATS and sum(spent) < ENOUGH):
        prepared = script["prepare"](value)
        began = time.process_time()
        told = script["march"](prepared)
        spent.append(time.process_time() - began)
        # What a code says may be wall time, the longer one where others use the processor.
        marching.append(min(told.get("marching", spent[-1]), spent[-1]))
    return {"seconds": min(spent), "marching": min(marching)}


def memory() -> float:
    """The most that this process has held, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        # What `resource` says begins with the peak of the process that started this one.
        lines = [line.split() for line in status.read_text().splitlines()]
        return next(int(line[1]) for line in lines if line[0] == "VmHWM:") / 1e3
    # macOS counts bytes there.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def plain(told: dict[str, Any]) -> dict[str, Any]:
    """Numbers of NumPy and JAX as those of Python, without the time of steps."""
    numbers = [float(x) for x in told["numbers"]]
    return {"numbers": numbers} | {key: float(x) for key, x in told.items() if key not in ("numbers", "marching")}


def main(task: str, script: str, value: str, *reference: str) -> None:
    known = runpy.run_path(script)
    if task == "search":
        found = search(known, float(value), [float(x) for x in reference])
        print(json.dumps({**found, **least_times(known, found["value"])}))
    else:
        told = plain(known["march"](known["prepare"](float(value))))
        print(json.dumps({**told, "memory": memory()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
