"""Times and memory of ensembles: `python benchmarks/ensembles.py [tops|cranks|many|memory …]`, all by default.

Times are of the processor, of all threads together, after one ensemble has been run to compile; wall time beside.
"""

import resource
import sys
import time

import numpy as np

import polhode as ph


def time_call(call):
    """Result, processor time and wall time of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    return result, time.process_time() - cpu, time.perf_counter() - wall


def tops(steps, count, workers, **options):
    top = ph.problems.get("heavy-top", formulation="S3")
    masses = np.linspace(13.0, 17.0, count)
    how = {"h": 1e-5, "t1": 1e-5 * steps, "workers": workers, **options}
    return lambda: ph.ensemble(top, "rkmk4", parameters={"mass": masses}, **how)


def one_core():
    tops(10, 1024, 1)()
    for steps in (4000, 20_000):
        result, cpu, _ = min((time_call(tops(steps, 1024, 1)) for _ in range(3)), key=lambda each: each[1])
        each = 1e6 / steps / 1024
        print(f"1,024 tops x {steps} steps, one thread, us a step and member: {cpu * each:.4f}")
        print(f"  wall time of starts, steps and outputs: {result.stats['wall_time_s'] * each:.4f}")


def cranks():
    crank, count, most, longer = ph.problems.get("slider-crank"), 1000, 2000, 200
    speeds = crank.parameters["crank_speed"] * np.linspace(0.8, 1.2, count)
    how = {"h": 1e-3, "save_every": None}

    def members(steps):
        spans = how | {"t1": 1e-3 * steps, "workers": 1}
        return lambda: ph.ensemble(crank, "generalized-alpha", parameters={"crank_speed": speeds}, **spans)

    def single():
        # So long that most of it runs in code compiled with most effort; the first one compiles it.
        return ph.simulate(crank, "generalized-alpha", **(how | {"t1": 1e-3 * most * longer}))

    members(10)(), single()
    result, alone, _ = min((time_call(single) for _ in range(3)), key=lambda each: each[1])
    b = 1e6 * alone / most / longer
    print(f"a single slider-crank, {most * longer:,} steps, {result.stats['compiled']['by']}: {b:.3f} us a step")
    took = {}
    for steps in (400, most):
        _, took[steps], _ = min((time_call(members(steps)) for _ in range(3)), key=lambda each: each[1])
        a = 1e6 * took[steps] / steps / count
        print(f"1,000 slider-cranks x {steps} steps, all included: {a:.3f} us a step and member; ratio {b / a:.2f}")
    a = 1e6 * (took[most] - took[400]) / (most - 400) / count
    fixed = took[400] - 400 * count * a * 1e-6
    print(f"  each further step {a:.3f} us; ratio {b / a:.2f}; models, starts and checks {fixed:.2f} s")


def many():
    tops(10, 10_000, 2)()
    _, cpu, wall = time_call(tops(1000, 10_000, 2))
    print(f"10,000 tops x 1,000 steps, two threads: {cpu:.2f} s of processors, wall {wall:.2f} s")


def memory():
    _, cpu, wall = time_call(tops(100, 100_000, 2, keep=False, quantiles=[0.5], save_every=10))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"statistics of 100,000 tops, 11 instants: peak {peak:.2f} GB, {cpu:.1f} s of processors, wall {wall:.1f} s")


if __name__ == "__main__":
    parts = {"tops": one_core, "cranks": cranks, "many": many, "memory": memory}
    for part in sys.argv[1:] or parts:
        parts[part]()
        sys.stdout.flush()
