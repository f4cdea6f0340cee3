"""Accuracy against cost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from polhode.problems.base import Problem
from polhode.simulate import simulate
from polhode.studies.convergence import _chosen, _distance, _reference


def work_precision(
    problem: Problem,
    integrators: Sequence[str],
    steps: Sequence[float] | None = None,
    tolerances: Sequence[float] | None = None,
    outputs: Sequence[str] | None = None,
    t1: float | None = None,
    reference: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Rows {integrator, h or rtol, steps, evaluations, wall_time_s, error: {output: …}} for each method and step.

    Every case is run twice and the second run is timed, so compile time is left out. Steps are constant steps,
    `tolerances` are values of rtol (atol = rtol / 100); give one of the two.

    **Raises** ValueError for unknown names and if both or neither of `steps`, `tolerances` are given.
    """
    if (steps is None) == (tolerances is None):
        raise ValueError("Give either `steps` or `tolerances`.")
    end = float(problem.t_span[1] if t1 is None else t1)
    chosen = _chosen(problem, outputs)
    finest = min(steps) if steps is not None else problem.h
    exact, _ = _reference(problem, "", chosen, end, finest, reference)
    rows = []
    for name in integrators:
        for value in steps if steps is not None else tolerances or ():
            how: dict[str, Any] = {"h": value} if steps is not None else {"rtol": value}
            simulate(problem, name, t1=end, save_every=None, **how)
            began = time.perf_counter()
            run = simulate(problem, name, t1=end, save_every=None, **how)
            wall = time.perf_counter() - began
            errors = {o: _distance(jax.tree.map(lambda x: x[-1], run.outputs[o]), exact[o]) for o in chosen}
            counts = {key: run.stats[key] for key in ("steps", "rejected", "evaluations")}
            rows.append({"integrator": name, **how, **counts, "wall_time_s": wall, "error": errors})
    return rows
