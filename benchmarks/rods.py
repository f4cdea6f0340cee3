"""Rods beside PyElastica and Exudyn's geometrically exact beam, in one run.

    python benchmarks/rods.py [scaling] [spaghetti] [roll-up] [slender] [--sizes 16 64 256 …] [--peer-share 0.05]

`scaling`: time per step of `herk5` and generalized-α on the flying spaghetti without shear, of PyElastica's position
Verlet and of Exudyn's generalized-α on the same rod with shear, for the numbers of edges in `--sizes`.
`spaghetti`: N = 16; time to a temporal error of 1e-4 of the length at t = 2.5.
`roll-up`: the same of a clamped rod that an end moment rolls up, without damping, beside PyElastica alone.
`slender`: a clamped rod of radius/length 1e-3 that sinks under its own weight, 1.25 periods of the first bending mode;
the same question. PyElastica runs over `--peer-share` of that time and its cost is extrapolated linearly.

Temporal errors are the largest distance of a node from where the same code and model has it with much smaller steps,
over the length of the rod. Times are CPU seconds of one core, the best of three repetitions, final state only; wall
time stands beside them, compile time apart. Generalized-α has ρ∞ = 0.9 and modified Newton in both codes; of Exudyn's
sparse and dense solver the faster counts. Tables go to standard error, one JSON object to standard output.
Needs the extra `benchmarks`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np
import rod_models as peer
from optimised_code import with_most_effort

import polhode as ph

REPEATS = 3
TOLERANCE = 1e-4
FINER = 2**0.5

Run = Callable[[float, int], tuple[float, float, np.ndarray]]
"""From end time and number of steps to seconds of the steps, of the whole call, and the nodes (n + 1, 3)."""
Rows = dict[str, dict[str, float | str]]


# --- polhode ----------------------------------------------------------------------------------------------------------


def polhode_run(problem: ph.Problem, method: ph.integrators.AbstractIntegrator) -> Run:
    def run(t1: float, steps: int) -> tuple[float, float, np.ndarray]:
        began = time.perf_counter()
        result = ph.simulate(problem, method, h=t1 / steps, t1=t1, save_every=None, throw=False)
        wall, march = time.perf_counter() - began, result.stats["wall_time_s"]
        points = np.asarray(result.outputs["nodes"][-1])
        return march, wall, points if result.stats["result"] == ph.Result.successful else np.full_like(points, np.nan)

    return run


def integrator(name: str) -> ph.integrators.AbstractIntegrator:
    options = {"rho_inf": 0.9, "newton": "modified"} if name == "generalized-alpha" else {}
    return ph.integrators.get(name, **options)


@functools.cache
@functools.cache
def named_run(name: str, n: int, constrained: str, method: str, **options: float) -> tuple[Run, float]:
    """A warm run of polhode and the seconds of its compilation."""
    problem = ph.problems.get(name, n=n, constrained=constrained, **options)
    return warm(polhode_run(problem, integrator(method)))


def spaghetti_run(n: int, constrained: str, method: str) -> tuple[Run, float]:
    return named_run("flying-spaghetti", n, constrained, method)


def roll_up_run(n: int, constrained: str, method: str) -> tuple[Run, float]:
    return named_run("roll-up", n, constrained, method, damping=0.0)


@functools.cache
def cantilever_run(n: int, constrained: str) -> tuple[Run, float]:
    case, model = peer.Cantilever(), ph.Model(gravity=peer.Cantilever().gravity)
    section = case.section
    rod = model.add_rod(
        points=np.linspace(0.0, case.length, n + 1)[:, None] * np.array([1.0, 0.0, 0.0]),
        section=ph.rods.Section(
            np.concatenate((section.bending, section.stretching)), mass=section.mass, inertia=section.inertia
        ),
        constrained=constrained,
        clamped="first",
    )
    system, state0 = model.assemble("S3|xR3")
    outputs = {"nodes": rod.points(system)}
    problem = ph.Problem(
        "cantilever", system, state0, (0.0, case.period), {}, "", outputs, {}, {}, "generalized-alpha", 0.1
    )
    return warm(polhode_run(problem, integrator("generalized-alpha")))


def warm(run: Run, t1: float = 1e-5) -> tuple[Run, float]:
    first = run(t1, 2)[1]
    with_most_effort(lambda: run(t1, 2))
    return run, first - run(t1, 2)[1]


# --- the peers --------------------------------------------------------------------------------------------------------


def elastica_run(make: Callable[[], tuple]) -> Run:
    return lambda t1, steps: peer.elastica_run(make, t1, steps)


def exudyn_run(make: Callable[[], peer.ExudynRod], *, dense: bool = True) -> Run:
    """With the solver that is faster in a short run; dense ones take long for many edges."""
    trials = {sparse: peer.exudyn_run(make, 1e-3, 20, sparse=sparse)[0] for sparse in (True, False)[: 1 + dense]}
    sparse = min(trials, key=lambda kind: trials[kind])
    return lambda t1, steps: peer.exudyn_run(make, t1, steps, sparse=sparse)


# --- what is measured -------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """CPU and wall seconds of one run, its steps and its error."""

    cpu: float
    wall: float
    steps: int
    error: float


def distance(a: np.ndarray, b: np.ndarray, length: float) -> float:
    """The largest distance of a node over the length; infinite for a run that failed."""
    gap = float(np.max(np.linalg.norm(a - b, axis=1))) / length
    return gap if np.isfinite(gap) else np.inf


def best(run: Run, t1: float, steps: int, error: float = np.nan) -> Cost:
    runs = [run(t1, steps) for _ in range(REPEATS)]
    if not all(np.isfinite(x).all() for _, _, x in runs):
        return Cost(np.nan, np.nan, steps, np.inf)  # a run that failed ends early, and its time means nothing
    return Cost(min(cpu for cpu, _, _ in runs), min(wall for _, wall, _ in runs), steps, error)


def cheapest(run: Run, t1: float, start: int, exact: np.ndarray, length: float, most: int = 10**6) -> Cost:
    """The fewest steps in a row √2 apart from which on the error is below the tolerance."""
    steps, good = start, None
    while steps <= most:
        error = distance(run(t1, steps)[2], exact, length)
        if error <= TOLERANCE and good is not None:
            return best(run, t1, *good)
        good = (steps, error) if error <= TOLERANCE else None
        steps = max(steps + 1, round(steps * FINER))
    return Cost(np.nan, np.nan, most, np.inf)


def row(cost: Cost, nodes: int, compile_s: float = 0.0) -> dict[str, float | str]:
    return {
        "time to 1e-4 [ms]": cost.cpu * 1e3,
        "wall [ms]": cost.wall * 1e3,
        "steps": cost.steps,
        "error": cost.error,
        "us/step": cost.cpu / cost.steps * 1e6,
        "us/(step node)": cost.cpu / cost.steps / nodes * 1e6,
        "compile [s]": compile_s,
    }


def ratios(rows: Rows, to: str) -> Rows:
    """Adds how many times as long as each run that of `to` takes."""
    of = float(rows[to]["time to 1e-4 [ms]"])
    return {name: {**r, f"time of {to} over this": of / float(r["time to 1e-4 [ms]"])} for name, r in rows.items()}


# --- scaling ----------------------------------------------------------------------------------------------------------


def scaling(options: argparse.Namespace) -> Rows:
    codes: dict[str, Callable[[int], tuple[Run, float]]] = {
        "PyElastica position Verlet": lambda n: warm(elastica_run(lambda: peer.elastica_spaghetti(n))),
        "Exudyn generalized-alpha": lambda n: (exudyn_run(lambda: peer.exudyn_spaghetti(n), dense=n <= 64), 0.0),
        "polhode herk5": lambda n: spaghetti_run(n, "kirchhoff", "herk5"),
        "polhode generalized-alpha": lambda n: spaghetti_run(n, "kirchhoff", "generalized-alpha"),
    }
    rows: Rows = {}
    for code, make in codes.items():
        results: dict[int, float] = {}
        for n in options.sizes:
            if code.startswith("Exudyn") and n > options.exudyn_most:
                continue
            run, compile_s = make(n)
            steps = int(np.clip(options.work // n, 20, 400))
            cost = best(run, steps * 0.5 * peer.LENGTH / n / 100.0, steps)
            results[n] = cost.cpu / steps * 1e6
            rows[f"{code}, N = {n}"] = {
                "us/step": results[n],
                "wall us/step": cost.wall / steps * 1e6,
                "us/(step node)": results[n] / (n + 1),
                "compile [s]": compile_s,
            }
            show(rows, f"{code}, N = {n}")
        large = [n for n in results if n >= 64 and np.isfinite(results[n])]
        if len(large) > 1:
            slope = np.polyfit(np.log(large), np.log([results[n] for n in large]), 1)[0]
            rows[f"{code}, exponent from N = {large[0]} to {large[-1]}"] = {"exponent": float(slope)}
            show(rows, f"{code}, exponent from N = {large[0]} to {large[-1]}")
    return rows


# --- flying spaghetti and roll-up -------------------------------------------------------------------------------------

ELASTICA_SHEAR = "PyElastica, with shear, position Verlet"


def spaghetti(options: argparse.Namespace) -> Rows:
    n, t1 = 16, 2.5
    theirs = elastica_run(lambda: peer.elastica_spaghetti(n))
    compile_s = warm(theirs)[1]
    ends = {"PyElastica": theirs(t1, 20_000)[2]}
    rows = {ELASTICA_SHEAR: row(cheapest(theirs, t1, 417, ends["PyElastica"], peer.LENGTH), n + 1, compile_s)}
    show(rows, ELASTICA_SHEAR)
    _ours(rows, ends, spaghetti_run, n, t1)
    exudyn = exudyn_run(lambda: peer.exudyn_spaghetti(n))
    ends["Exudyn"] = exudyn(t1, 2000)[2]
    name = "Exudyn, with shear, generalized-alpha"
    rows[name] = row(cheapest(exudyn, t1, 50, ends["Exudyn"], peer.LENGTH, 2000), n + 1)
    show(rows, name)
    return ratios(rows, ELASTICA_SHEAR) | _converged_run(ends)


def roll_up(options: argparse.Namespace) -> Rows:
    n, t1 = 16, 2.5
    theirs = elastica_run(lambda: peer.elastica_roll_up(n))
    compile_s = warm(theirs)[1]
    # Its errors halve with the step here, from 600 steps to 40,000: the limit is extrapolated.
    ends = {"PyElastica": 2 * theirs(t1, 80_000)[2] - theirs(t1, 40_000)[2]}
    rows = {ELASTICA_SHEAR: row(cheapest(theirs, t1, 40_000, ends["PyElastica"], peer.LENGTH), n + 1, compile_s)}
    show(rows, ELASTICA_SHEAR)
    _ours(rows, ends, roll_up_run, n, t1)
    tips = {name: x[-1:] for name, x in ends.items()}  # the clamp of PyElastica halves an edge
    return ratios(rows, ELASTICA_SHEAR) | _converged_run(tips)


def _ours(
    rows: Rows, ends: dict[str, np.ndarray], ours: Callable[[int, str, str], tuple[Run, float]], n: int, t1: float
) -> None:
    """Adds polhode's rows, and the nodes where its models converge to."""
    for constrained, text, methods in (
        ("none", "with shear", ("herk5", "rkmk4", "generalized-alpha")),
        ("kirchhoff", "without shear", ("herk5", "generalized-alpha")),
    ):
        # The equations are the same for all methods, so one solution of order 5 serves all.
        ends[text] = ours(n, constrained, "herk5")[0](t1, 5000)[2]
        for method in methods:
            run, compile_s = ours(n, constrained, method)
            name = f"polhode, {text}, {method}"
            rows[name] = row(cheapest(run, t1, 50, ends[text], peer.LENGTH, 20_000), n + 1, compile_s)
            show(rows, name)


def _converged_run(ends: dict[str, np.ndarray]) -> Rows:
    return {
        f"converged, {code}": {"distance from polhode with shear": distance(x, ends["with shear"], peer.LENGTH)}
        for code, x in ends.items()
        if code != "with shear"
    }


# --- slender cantilever -----------------------------------------------------------------------------------------------


def slender(options: argparse.Namespace) -> Rows:
    n, case, rows = options.edges, peer.Cantilever(), {}
    t1 = 1.25 * case.period
    ends: dict[str, np.ndarray] = {}
    share = options.peer_share * t1
    early: dict[str, np.ndarray] = {}
    for constrained in options.models:
        run, compile_s = cantilever_run(n, constrained)
        ends[constrained] = run(t1, 10_000)[2]
        early[constrained] = run(share, 1000)[2]
        name = f"polhode, constrained = {constrained}, generalized-alpha"
        rows[name] = row(cheapest(run, t1, 50, ends[constrained], case.length, 20_000), n + 1, compile_s)
        show(rows, name)
    rows |= _slender_elastica(options, case, n, t1, share, early)
    exudyn = exudyn_run(lambda: peer.exudyn_cantilever(case, n))
    ends["Exudyn"] = exudyn(t1, 3200)[2]
    name = "Exudyn, generalized-alpha"
    rows[name] = row(cheapest(exudyn, t1, 50, ends["Exudyn"], case.length, 3200), n + 1)
    show(rows, name)
    first = ends[options.models[0]]
    for code, x in ends.items():
        rows[f"converged, {code}, whole time"] = {
            "tip": str(x[-1].round(5)),
            "distance from the first model": distance(x, first, case.length),
        }
    return ratios({k: r for k, r in rows.items() if "us/step" in r}, ELASTICA) | {
        k: r for k, r in rows.items() if "us/step" not in r
    }


ELASTICA = "PyElastica, position Verlet at its largest stable step"


def _slender_elastica(
    options: argparse.Namespace, case: peer.Cantilever, n: int, t1: float, share: float, early: dict[str, np.ndarray]
) -> Rows:
    """At the largest stable step, over a share of the time; its error there from a run with half the step."""
    make = lambda: peer.elastica_cantilever(case, n)  # noqa: E731
    run, compile_s = warm(elastica_run(make))
    # The stiffest motion turns edges against the shear stiffness; √(GA/ρI) has no part that depends on n.
    stiffest = float(np.sqrt(case.section.stretching[0] / case.section.inertia[0]))
    fine = run(share, round(share * stiffest))[2]
    h = largest_stable_step(run, share, 2.0 / stiffest, fine, case.length)
    steps = round(share / h)
    cpu, wall, x = run(share, steps)
    over = t1 / share
    error = 4 / 3 * distance(x, fine, case.length)
    rows: Rows = {ELASTICA: row(Cost(cpu * over, wall * over, round(steps * over), error), n + 1, compile_s)}
    rows[ELASTICA] |= {"h": h, "h sqrt(GA/rhoI)": h * stiffest, "share of the time run": options.peer_share}
    rows["converged, PyElastica, share of the time"] = {"tip": str(fine[-1].round(6))} | {
        f"tip from that of polhode, {name}, over its way": float(
            np.linalg.norm(fine[-1] - x[-1]) / np.linalg.norm(x[-1] - [case.length, 0.0, 0.0])
        )
        for name, x in early.items()
    }
    show(rows, *rows)
    return rows


def largest_stable_step(run: Run, t1: float, guess: float, exact: np.ndarray, length: float) -> float:
    """The largest of some parts of a guess with which a run keeps the tolerance."""
    for part in (1.0, 0.99, 0.97, 0.95, 0.9, 0.8, 0.7):
        with np.errstate(all="ignore"):
            x = run(t1, round(t1 / (part * guess)))[2]
        if distance(x, exact, length) <= TOLERANCE:
            return part * guess
    raise RuntimeError(f"PyElastica needs steps smaller than {0.7 * guess:g} for an error of {TOLERANCE:g}.")


# --- output -----------------------------------------------------------------------------------------------------------


def show(rows: Rows, *names: str) -> None:
    for name in names:
        cells = (f"{k} {v if isinstance(v, str) else format(v, '.4g')}" for k, v in rows[name].items())
        print(f"{name}: " + ", ".join(cells), file=sys.stderr, flush=True)


CASES = {"scaling": scaling, "spaghetti": spaghetti, "roll-up": roll_up, "slender": slender}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Rods beside PyElastica and Exudyn.")
    parser.add_argument("cases", nargs="*", help="scaling, spaghetti, roll-up, slender; all by default")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256, 1024, 4096], help="edges, for scaling")
    parser.add_argument("--work", type=int, default=100_000, help="steps times edges of a run, for scaling")
    parser.add_argument("--exudyn-most", type=int, default=256, help="largest size for Exudyn")
    parser.add_argument("--edges", type=int, default=20, help="edges of the slender rod")
    parser.add_argument("--models", nargs="+", default=["none", "both"], help="`constrained` of the slender rod")
    parser.add_argument("--peer-share", type=float, default=0.05, help="part of the time PyElastica runs, for slender")
    options = parser.parse_args(given)
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    return options


def main() -> None:
    options = arguments()
    results = {name: CASES[name](options) for name in options.cases or CASES}
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
