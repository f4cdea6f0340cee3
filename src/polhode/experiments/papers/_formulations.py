"""Runs of one problem in several coordinates: errors at the end, Newton iterations, and how long they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import polhode as ph
from polhode.experiments.registry import Check
from polhode.integrators.base import AbstractIntegrator

LABELS = {
    "SO3xR3": "RV (Lie group)",
    "euler-angles": "Rxyz",
    "euler-parameters": "EP",
    "minimal": "minimal coordinates",
}


def alpha(**how: Any) -> AbstractIntegrator:
    """Generalized-α as the paper ran it: ρ∞ = 0.9, Newton's method from zero, to 1e-8 of the first residual."""
    return ph.integrators.get("generalized-alpha", **{"rho_inf": 0.9, "predictor": "zero", "rtol": 1e-8, **how})


def place_of(h: float, steps: np.ndarray) -> int:
    """Where a step size is among others."""
    return int(np.argmin(np.abs(np.log(steps / h))))


class Study(NamedTuple):
    """For each step size: norm of the error of the output at the end, mean Newton iterations, microseconds a step,
    operations in the text of the program.

    NaN where a run failed, and for operations where XLA compiles; shape (k,) each.
    """

    h: np.ndarray
    error: np.ndarray
    iterations: np.ndarray
    microseconds: np.ndarray
    operations: np.ndarray

    def at(self, h: float) -> int:
        """Where a step size is."""
        return place_of(h, self.h)


def study(
    problem: ph.Problem,
    integrator: AbstractIntegrator | str,
    steps: Sequence[float],
    output: str,
    exact: Any,
    t1: float | None = None,
    frames: int | None = None,
) -> Study:
    """Runs with constant steps; one object of a problem shares compiled programs among them.

    `frames`: instants to save besides the start, for programs shared with runs that need them; None for the end only.
    """
    rows, duration = [], t1 or problem.t_span[1]
    for h in steps:
        every = None if frames is None else round(duration / h) // frames
        run = ph.simulate(problem, integrator, h=h, t1=t1, save_every=every, throw=False)
        good = run.stats["result"] == ph.Result.successful
        error = np.linalg.norm(np.asarray(run.outputs[output][-1]) - exact) if good else np.nan
        microseconds = 1e6 * run.stats["wall_time_s"] / max(run.stats["steps"], 1)
        operations = run.stats["compiled"]["operations"] or np.nan
        rows.append((error, run.stats["newton_iterations"], microseconds, operations) if good else (np.nan,) * 4)
    return Study(np.asarray(steps, dtype=float), *np.array(rows).T)


def studies(
    problems: Mapping[str, ph.Problem],
    integrator: AbstractIntegrator | str,
    steps: Sequence[float],
    output: str,
    exact: Any,
    frames: int | None = None,
) -> dict[str, Study]:
    """Formulation → study of the problem in it."""
    return {f: study(p, integrator, steps, output, exact, frames=frames) for f, p in problems.items()}


def problems_by_formulation(name: str, formulations: Sequence[str]) -> dict[str, ph.Problem]:
    """Formulation → the problem `name` in it."""
    return {f: ph.problems.get(name, formulation=f) for f in formulations}


def work(results: Mapping[str, Study], h: float) -> list[float]:
    """Newton iterations of a step times operations of the program, which every run counts alike.

    Where XLA compiles and operations are unknown, iterations alone.
    """
    iterations, operations = (
        np.array([getattr(s, name)[s.at(h)] for s in results.values()]) for name in ("iterations", "operations")
    )
    return [float(x) for x in (iterations * operations if np.isfinite(operations).all() else iterations)]


def times(results: Mapping[str, Study], h: float) -> str:
    """Wall times of a step in words; they are of this machine, and no check compares them."""
    each = (f"{LABELS.get(f, f)} {s.microseconds[s.at(h)]:.3g}" for f, s in results.items())
    return f"Wall time of a step here, µs: {', '.join(each)}."


def steps_to(s: Study, goal: float) -> float:
    """h⁻¹ of a run with the error `goal`, interpolated between the first run below it and the one before.

    NaN if no run gets there, or the first one does already.
    """
    k = int(np.argmax(s.error < goal))
    if k == 0 or not np.isfinite(s.error[k - 1]):
        return float("nan")
    (h1, h0), (e1, e0) = np.log(s.h[k - 1 : k + 1]), np.log(s.error[k - 1 : k + 1])
    return float(np.exp(-(h0 + (h1 - h0) * (np.log(goal) - e0) / (e1 - e0))))


def curves(results: Mapping[str, Study], column: str = "error") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For `polhode.viewing.plots.convergence`."""
    return {LABELS.get(name, name): (s.h, getattr(s, column)) for name, s in results.items()}


def columns(results: Mapping[str, Study]) -> dict[str, dict[str, np.ndarray]]:
    """For the data of an outcome."""
    return {LABELS.get(name, name): s._asdict() for name, s in results.items()}


def order_checks(results: Mapping[str, Study], points: int = 3, within: float = 0.25) -> list[Check]:
    """Order 2 from the smallest steps."""
    checks = []
    for name, s in results.items():
        slope = float(np.polyfit(np.log(s.h[-points:]), np.log(s.error[-points:]), 1)[0])
        checks.append(Check(f"order, {LABELS.get(name, name)}", 2, slope, abs(slope - 2) < within))
    return checks
