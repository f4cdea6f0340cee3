"""Time per step of constrained multibody models, beside Exudyn in the same run.

    python benchmarks/multibody.py [top] [slider-crank] [puma] [chain]     # prints one JSON object; all by default

Generalized-α with ρ∞ = 0.9 and constant steps in both codes, the same bodies and joints, one thread, no files, final
state only. Exudyn runs with full and modified Newton and with its dense and sparse solvers, and the fastest counts.
Times are those of marching, once everything is compiled with most effort, as it is after some seconds of running; what
the first call takes besides is reported apart, and so is what each later call takes before and after its steps. Every
figure is the best of several repetitions, and the ratio is the one to quote.
Needs the extra `benchmarks`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import exudyn_models as peer
import jax.numpy as jnp
import numpy as np
from optimised_code import with_most_effort

import polhode as ph
from polhode.problems._closed_loops import about
from polhode.problems.named.puma import link_frames

REPEATS = 3


def polhode_run(problem: ph.Problem, h: float, steps: int, **options: Any) -> tuple[dict[str, float], ph.Solution]:
    """Microseconds per step with the host's share, and the run."""
    method = ph.integrators.get("generalized-alpha", rho_inf=0.9, **options)

    def march() -> ph.Solution:
        return ph.simulate(problem, method, h=h, t1=steps * h, save_every=None)

    began = time.perf_counter()
    run = march()
    first, best, call = time.perf_counter() - began, np.inf, np.inf
    with_most_effort(march)
    for _ in range(2 * REPEATS):
        began = time.perf_counter()
        run = march()
        call = min(call, time.perf_counter() - began)
        best = min(best, run.stats["wall_time_s"])
    result = {
        "polhode [us/step]": best / steps * 1e6,
        "polhode first call [s]": first,
        "polhode call without its steps [s]": call - best,
        "polhode Newton iterations": run.stats["newton_iterations"],
    }
    return result, run


def exudyn_run(make: Callable[[], tuple[Any, Any]], h: float, steps: int) -> tuple[dict[str, float], np.ndarray]:
    """Microseconds per step in Exudyn's fastest setting, and where the last body is."""
    times, end = {}, np.zeros(3)
    for modified in (False, True):
        for sparse in (False, True):
            mbs, body = make()
            if sparse or mbs.systemData.ODE2Size() < 200:
                label = f"{'modified' if modified else 'full'} Newton, {'sparse' if sparse else 'dense'}"
                times[label] = min(
                    peer.solve(*make()[:1], h, steps, modified=modified, sparse=sparse) for _ in range(REPEATS)
                )
                peer.solve(mbs, h, steps, modified=modified, sparse=sparse)
                end = peer.position(mbs, body)
    label = min(times, key=lambda name: times[name])
    return {"Exudyn [us/step]": times[label] * 1e6, f"Exudyn setting: {label}": 1.0}, end


def compare(name: str, ours: dict[str, float], theirs: dict[str, float], **more: float) -> dict[str, float]:
    ratio = theirs["Exudyn [us/step]"] / ours["polhode [us/step]"]
    rows = {**ours, **theirs, **more, "ratio Exudyn / polhode": ratio}
    return {f"{name}: {key}": value for key, value in rows.items()}


def top() -> dict[str, float]:
    exact = np.array([0.17334396409838604, 0.64008859207056879, -0.74849079113358131])
    problem = ph.problems.get("heavy-top-constrained", formulation="SO3xR3")
    ours, run = polhode_run(problem, 1e-4, 10_000)
    theirs, end = exudyn_run(peer.heavy_top, 1e-4, 10_000)
    errors = {
        "polhode error": float(np.linalg.norm(run.outputs["centre_of_mass"][-1] - exact)),
        "Exudyn error": float(np.linalg.norm(end - exact)),
    }
    return compare("constrained heavy top", ours, theirs, **errors)


def slider_crank() -> dict[str, float]:
    exact = 0.2407195737296
    problem = ph.problems.get("slider-crank", formulation="SO3xR3")
    ours, run = polhode_run(problem, 1e-3, 5000)
    theirs, end = exudyn_run(lambda: peer.slider_crank(problem), 1e-3, 5000)
    errors = {
        "polhode error": abs(float(run.outputs["slider"][-1]) - exact),
        "Exudyn error": abs(float(end[0]) - exact),
    }
    return compare("slider-crank", ours, theirs, **errors)


def puma_arm() -> peer.PumaArm:
    """Data of the robot, with soft controllers that let it swing by half a radian and sag."""
    p = {name: np.asarray(value) for name, value in ph.problems.get("puma").parameters.items() if name != "formulation"}
    return peer.PumaArm(
        d=p["d"],
        a=p["a"],
        turns=[np.asarray(about(0, angle)) for angle in p["alpha"]],
        masses=p["masses"],
        centres=p["centres"],
        inertias=p["inertias"],
        start=p["start"],
        proportional=np.array([400.0, 400.0, 400.0, 1.0, 1.0, 0.1]),
        derivative=np.array([4.0, 4.0, 1.0, 0.01, 0.01, 0.001]),
        gravity=np.array([0.0, 0.0, -9.81]),
        jump=0.5,
        frames=[type(f)(*map(np.asarray, f)) for f in link_frames(p, jnp.asarray(p["start"]))],
        place=lambda angles: link_frames(p, jnp.asarray(angles)),
    )


def puma_system(arm: peer.PumaArm, formulation: str) -> ph.Problem:
    model, links = ph.Model(gravity=arm.gravity), []
    for i in range(6):
        x, R = arm.frames[i + 1]
        link = model.add_body(
            mass=arm.masses[i],
            inertia=arm.inertias[i],
            position=x + R @ arm.centres[i],
            rotation=R,
            name=f"link-{i + 1}",
            check_inertia=False,
        )
        before = links[-1] if links else model.ground
        joint = ph.joints.Revolute(before, link, point=arm.frames[i].x, axis=arm.frames[i].R[:, 2])
        model.add(joint)
        model.add(ph.forces.PD(joint, arm.proportional[i], arm.derivative[i], target=arm.jump))
        links.append(link)
    system, state0 = model.assemble(formulation)
    outputs = {"last": lambda t, state: system.pose(state[0], links[-1]).x}
    return ph.Problem(
        "puma-swing", system, state0, (0.0, 1.0), {}, "", outputs, {}, {}, integrator="generalized-alpha", h=1e-3
    )


def puma() -> dict[str, float]:
    arm, rows = puma_arm(), {}
    for formulation in ("minimal", "SO3xR3"):
        problem = puma_system(arm, formulation)

        def make(problem: ph.Problem = problem, tree: bool = formulation == "minimal") -> tuple[Any, Any]:
            return peer.puma_tree(arm) if tree else peer.puma(problem, arm)

        # Errors are those of the first second; costs of ten, so that neither code's beginning counts.
        ours = min(
            (polhode_run(problem, 1e-3, 10_000, newton=newton)[0] for newton in ("full", "modified")),
            key=lambda row: row["polhode [us/step]"],
        )
        theirs, _ = exudyn_run(make, 1e-3, 10_000)
        run, end = polhode_run(problem, 1e-3, 1000)[1], exudyn_run(make, 1e-3, 1000)[1]
        # A tenth of the step; Exudyn's own refinement has to end at the same place.
        fine = polhode_run(problem, 1e-4, 10_000)[1].outputs["last"][-1]
        errors = {
            "polhode error": float(np.linalg.norm(run.outputs["last"][-1] - fine)),
            "Exudyn error": float(np.linalg.norm(end - fine)),
        }
        mbs, body = make()
        peer.solve(mbs, 1e-4, 10_000, modified=False, sparse=False)
        errors["Exudyn error of a tenth of the step"] = float(np.linalg.norm(peer.position(mbs, body) - fine))
        rows |= compare(f"Puma, {formulation}", ours, theirs, **errors)
    return rows


def chain() -> dict[str, float]:
    rows: dict[str, float] = {}
    times = {}
    for n, steps in ((10, 5000), (100, 500), (1000, 50)):
        problem = ph.problems.get("body-chain", n=n, formulation="SO3xR3")
        ours = min(
            (polhode_run(problem, 1e-3, steps, newton=newton)[0] for newton in ("full", "modified")),
            key=lambda row: row["polhode [us/step]"],
        )
        times[n] = ours["polhode [us/step]"]
        theirs, _ = exudyn_run(lambda problem=problem: peer.body_chain(problem), 1e-3, steps)
        rows |= compare(f"chain of {n}", ours, theirs)
    rows["chain: exponent of growth from 100 to 1000"] = float(np.log10(times[1000] / times[100]))
    return rows


CASES = {"top": top, "slider-crank": slider_crank, "puma": puma, "chain": chain}


def main() -> None:
    rows: dict[str, float] = {}
    for name in sys.argv[1:] or CASES:
        rows |= CASES[name]()
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
