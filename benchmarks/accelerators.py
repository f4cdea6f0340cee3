"""Times by an accelerator and by the processor: `python benchmarks/accelerators.py [single|tops|cranks|particles …]`.

Everything is run once to compile and once more for its time, which is wall time; an accelerator beside all threads of
the machine's processors for ensembles, and beside one core for particles, which is what `simulate` takes there.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import jax
import numpy as np

import polhode as ph


def run_twice(call: Any) -> tuple[Any, list[float]]:
    """Result, and wall times with compiling and without."""
    times = []
    result = None
    for _ in range(2):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return result, times


def report(what: str, times: list[float], work: int, unit: str) -> None:
    first, again = times
    print(f"{what}: first {first:.2f} s, again {again:.3f} s, {1e6 * again / work:.3g} us a {unit}", flush=True)


def single() -> None:
    """Runs of small systems, which belong on the processor, whatever JAX's default device."""
    for name, method, steps in (("heavy-top", "rkmk4", 100_000), ("slider-crank", "generalized-alpha", 1000)):
        problem = ph.problems.get(name)
        result, times = run_twice(
            lambda p=problem, m=method, n=steps: ph.simulate(p, m, h=1e-3, t1=1e-3 * n, save_every=None)
        )
        report(f"{name} x {steps:,} steps, {result.stats['compiled']['by']}", times, steps, "step")


def beside(what: str, ensemble: Any, counts: tuple[int, ...], steps: int) -> None:
    """An ensemble by lanes of the processor's vectors on all its threads and by the accelerator."""
    for count in counts:
        ends = {}
        for by in ("lanes", "devices"):
            result, times = run_twice(lambda n=count, by=by: ensemble(n, by=by, save_every=None))
            assert result.stats["failed"] == 0
            report(f"{count:,} {what} x {steps} steps by {by}", times, count * steps, "step and member")
            ends[by] = [result.dataset[name].values[:, -1] for name in result.dataset if str(name).startswith("state.")]
        gap = max(float(np.abs(x - y).max()) for x, y in zip(*ends.values(), strict=True))
        print(f"  states at the end differ by {gap:.1e} at most", flush=True)


def tops() -> None:
    top = ph.problems.get("heavy-top", formulation="S3")

    def ensemble(count: int, **how: Any) -> Any:
        return ph.ensemble(top, "rkmk4", parameters={"mass": np.linspace(13.0, 17.0, count)}, h=1e-5, t1=1e-2, **how)

    beside("tops", ensemble, (1024, 16_384, 262_144), 1000)


def cranks() -> None:
    crank = ph.problems.get("slider-crank")

    def ensemble(count: int, **how: Any) -> Any:
        speeds = crank.parameters["crank_speed"] * np.linspace(0.8, 1.2, count)
        return ph.ensemble(crank, "generalized-alpha", parameters={"crank_speed": speeds}, h=1e-3, t1=0.2, **how)

    beside("slider-cranks", ensemble, (1000, 32_768), 200)


def particles() -> None:
    """Bonded blocks, and grains in contact, by the accelerator and by one core."""
    from particles import block, case, grains, problem

    steps = 200
    for device in (jax.devices()[0], jax.devices("cpu")[0]):
        for edge in (22, 46, 100) if device.platform != "cpu" else (22, 46):
            for name, layout, touching in (("block", block, False), ("grains", grains, True)):
                for dtype in ("float32", "float64"):
                    asked = problem(case(layout(edge), touching), dtype)

                    def run(asked: Any = asked, device: Any = device) -> Any:
                        with jax.default_device(device):
                            return ph.simulate(asked, h=asked.h, t1=asked.h * steps, save_every=None)

                    what = f"{name} {edge}^3 x {steps} steps, {dtype}, {device.device_kind}"
                    try:
                        report(what, run_twice(run)[1], steps * edge**3, "particle-step")
                    except Exception as error:
                        print(f"{what}: {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    parts = {"single": single, "tops": tops, "cranks": cranks, "particles": particles}
    for part in sys.argv[1:] or parts:
        start = time.perf_counter()
        parts[part]()
        print(f"  {part}: {time.perf_counter() - start:.0f} s in all", flush=True)
