"""Runs of one problem in several coordinates: errors at the end, Newton iterations and time a step."""

from __future__ import annotations

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
        return int(np.argmin(np.abs(np.log(self.h / h))))


def study(
    problem: ph.Problem,
    integrator: AbstractIntegrator | str,
    steps: Sequence[float],
    output: str,
    exact: Any,
    t1: float | None = None,
) -> Study:
    """Runs with constant steps; one object of a problem shares compiled programs among them."""
    rows = []
    for h in steps:
        run = ph.simulate(problem, integrator, h=h, t1=t1, save_every=None, throw=False)
        good = run.stats["result"] == ph.Result.successful
        error = np.linalg.norm(np.asarray(run.outputs[output][-1]) - exact) if good else np.nan
        time = 1e6 * run.stats["wall_time_s"] / max(run.stats["steps"], 1)
        rows.append((error, run.stats["newton_iterations"], time) if good else (np.nan,) * 3)
    return Study(np.asarray(steps, dtype=float), *np.array(rows).T)


def studies(
    name: str,
    formulations: Sequence[str],
    integrator: AbstractIntegrator | str,
    steps: Sequence[float],
    output: str,
    exact: Any,
) -> dict[str, Study]:
    """Formulation → study of the problem `name` in it."""
    return {f: study(ph.problems.get(name, formulation=f), integrator, steps, output, exact) for f in formulations}


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
