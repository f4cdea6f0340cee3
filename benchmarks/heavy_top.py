"""Time per step on the heavy top, beside Exudyn in the same run.

    python benchmarks/heavy_top.py            # prints one JSON object

Same model (rotation about a fixed point), same method (Runge–Kutta 4 on the rotation's Lie algebra), same steps, one
thread, no files, final state only. Compile time is reported apart. Every figure is the best of several repetitions, and
the ratio is the one to quote. Needs the extra `benchmarks`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

REPEATS = 5
BATCH = 1024
# For wide batches: XLA's option that computes what several outputs share only once.
WIDE = "--xla_backend_extra_options=xla_cpu_use_multi_output_fusion=true"


def polhode_single() -> dict[str, float]:
    import numpy as np

    import polhode as ph

    rows = {}
    for formulation in ("S3", "SO3"):
        problem = ph.problems.get("heavy-top", formulation=formulation)
        for steps, label in ((10_000, "1e4"), (1_000_000, "1e6")):
            h = 1.0 / steps
            first = ph.simulate(problem, "rkmk4", h=h, save_every=None)
            rows.setdefault(f"compile {formulation} [s]", first.stats["compile_time_s"])
            best = np.inf
            for _ in range(REPEATS if steps < 100_000 else 2):
                began = time.perf_counter()
                run = ph.simulate(problem, "rkmk4", h=h, save_every=None)
                best = min(best, time.perf_counter() - began)
            rows[f"polhode {formulation}, {label} steps [us/step]"] = best / steps * 1e6
        error = np.abs(run.outputs["centre_of_mass"][-1] - problem.reference["centre_of_mass"]["value"]).max()
        rows[f"error {formulation} at h = 1e-6"] = float(error)
    return rows


def polhode_batch() -> dict[str, float]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import polhode as ph

    problem = ph.problems.get("heavy-top", formulation="S3")
    steps = 1000

    def end(mass):
        run = ph.simulate(problem.replace(mass=mass), "rkmk4", h=1e-4, t1=steps * 1e-4, save_every=None)
        return jax.tree.map(lambda x: x[-1], run.state)

    batch = jax.jit(jax.vmap(end))
    masses = 15.0 * jnp.linspace(0.9, 1.1, BATCH)
    began = time.perf_counter()
    jax.block_until_ready(batch(masses))
    compile_time = time.perf_counter() - began
    best = np.inf
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(batch(masses))
        best = min(best, time.perf_counter() - began)
    return {"us/step/system": best / steps / BATCH * 1e6, "compile [s]": compile_time}


def exudyn_single(steps: int = 100_000) -> dict[str, float]:
    """Exudyn's RK44 on a rotation-vector Lie-group node with the same inertia and load."""
    import exudyn as exu
    import numpy as np
    from exudyn.itemInterface import LoadForceVector, MarkerBodyPosition, NodeRigidBodyRotVecLG, ObjectRigidBody

    best, error = np.inf, np.inf
    for _ in range(REPEATS):
        mbs = exu.SystemContainer().AddSystem()
        node = mbs.AddNode(
            NodeRigidBodyRotVecLG(referenceCoordinates=[0.0] * 6, initialVelocities=[0, 0, 0, 0, 150.0, -4.61538])
        )
        # The node is the fixed point: a translational mass so large that it stays, the inertia about that point, and
        # the weight at the centre of mass.
        body = mbs.AddObject(
            ObjectRigidBody(mass=1e20, inertia=[15.234375, 0.46875, 15.234375, 0, 0, 0], nodeNumber=node)
        )
        marker = mbs.AddMarker(MarkerBodyPosition(bodyNumber=body, localPosition=[0, 1.0, 0]))
        mbs.AddLoad(LoadForceVector(markerNumber=marker, loadVector=[0, 0, -15.0 * 9.81]))
        mbs.Assemble()
        settings = exu.SimulationSettings()
        settings.timeIntegration.numberOfSteps = steps
        settings.timeIntegration.endTime = 1.0
        settings.timeIntegration.verboseMode = 0
        settings.solution.file.write = False
        settings.show.statistics = settings.show.computationTime = False
        settings.parallel.numberOfThreads = 1
        began = time.perf_counter()
        mbs.SolveDynamic(settings, solverType=exu.DynamicSolverType.RK44)
        best = min(best, time.perf_counter() - began)
        end = mbs.GetObjectOutputBody(body, exu.OutputVariableType.Position, [0, 1.0, 0])
        error = float(np.abs(end - np.array([0.17334396409839, 0.64008859207057, -0.74849079113358])).max())
    return {
        "Exudyn RK44, Lie-group node [us/step]": best / steps * 1e6,
        f"error Exudyn at h = {1 / steps:g}": error,
    }


def main() -> None:
    rows = polhode_single()
    for label, flags in (("default flags", ""), ("multi-output fusion", WIDE)):
        out = subprocess.run(
            [sys.executable, __file__, "batch"],
            env={**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()},
            capture_output=True,
            text=True,
            check=True,
        )
        for key, value in json.loads(out.stdout.splitlines()[-1]).items():
            rows[f"batch of {BATCH}, {label} [{key}]"] = value
    try:
        rows |= exudyn_single()
        for formulation in ("S3", "SO3"):
            key = f"polhode {formulation}, 1e6 steps [us/step]"
            rows[f"ratio Exudyn / polhode {formulation}"] = rows["Exudyn RK44, Lie-group node [us/step]"] / rows[key]
    except ImportError:
        print("Exudyn is not installed; pip install 'polhode[benchmarks]' for the comparison.", file=sys.stderr)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    if sys.argv[1:] == ["batch"]:
        print(json.dumps(polhode_batch()))
    else:
        main()
