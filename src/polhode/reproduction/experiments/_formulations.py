"""Runs of one problem in several coordinates: errors at the end, Newton iterations, and how long they take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import polhode as ph
from polhode.integrators.base import AbstractIntegrator
from polhode.reproduction.registry import Check

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
    """For each step size: norm of the error of the output at the end, mean Newton iterations, microseconds a step.

    NaN where a run failed; shape (k,) each.
    """

    h: np.ndarray
    error: np.ndarray
    iterations: np.ndarray
    microseconds: np.ndarray

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
        time = 1e6 * run.stats["wall_time_s"] / max(run.stats["steps"], 1)
        rows.append((error, run.stats["newton_iterations"], time) if good else (np.nan,) * 3)
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


def formulated(name: str, formulations: Sequence[str]) -> dict[str, ph.Problem]:
    """Formulation → the problem `name` in it."""
    return {f: ph.problems.get(name, formulation=f) for f in formulations}


def microseconds(
    problems: Mapping[str, ph.Problem],
    integrator: AbstractIntegrator | str,
    h: float,
    frames: int | None = None,
    repeats: int = 9,
) -> dict[str, float]:
    """Formulation → microseconds of processor time a step, the median of several repetitions.

    That of a run of few steps is taken off, and with it what is done besides steps. The runs take turns: another load
    of the machine, which slows a processor down as well, falls on all of them.
    """
    found: dict[str, list[float]] = {name: [] for name in problems}
    few = 10 if frames is None else frames
    for _ in range(repeats):
        for name, problem in problems.items():
            whole = round((problem.t_span[1] - problem.t_span[0]) / h)
            short, long = (_processor_time(problem, integrator, h, count, frames) for count in (few, whole))
            found[name].append(1e6 * (long - short) / (whole - few))
    return {name: float(np.median(times)) for name, times in found.items()}


def _processor_time(
    problem: ph.Problem, integrator: AbstractIntegrator | str, h: float, steps: int, frames: int | None
) -> float:
    """Seconds that the thread of a run computes. The number of frames decides about the program, and is kept."""
    every = None if frames is None else steps // frames
    began = time.thread_time()
    ph.simulate(problem, integrator, h=h, t1=problem.t_span[0] + steps * h, save_every=every)
    return time.thread_time() - began


def steps_to(s: Study, goal: float) -> float:
    """h⁻¹ of a run with the error `goal`, interpolated between the first run below it and the one before.

    NaN if no run gets there, or the first one does already.
    """
    k = int(np.argmax(s.error < goal))
    if k == 0 or not np.isfinite(s.error[k - 1]):
        return float("nan")
    (h1, h0), (e1, e0) = np.log(s.h[k - 1 : k + 1]), np.log(s.error[k - 1 : k + 1])
    return float(np.exp(-(h0 + (h1 - h0) * (np.log(goal) - e0) / (e1 - e0))))


def curves(found: Mapping[str, Study], column: str = "error") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For `polhode.viewing.plots.convergence`."""
    return {LABELS.get(name, name): (s.h, getattr(s, column)) for name, s in found.items()}


def columns(found: Mapping[str, Study]) -> dict[str, dict[str, np.ndarray]]:
    """For the data of an outcome."""
    return {LABELS.get(name, name): s._asdict() for name, s in found.items()}


def order_checks(found: Mapping[str, Study], points: int = 3, within: float = 0.25) -> list[Check]:
    """Order 2 from the smallest steps."""
    checks = []
    for name, s in found.items():
        slope = float(np.polyfit(np.log(s.h[-points:]), np.log(s.error[-points:]), 1)[0])
        checks.append(Check(f"order, {LABELS.get(name, name)}", 2, slope, abs(slope - 2) < within))
    return checks
