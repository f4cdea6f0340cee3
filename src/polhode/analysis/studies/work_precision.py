"""Accuracy against cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from polhode import checks
from polhode import integrators as registry
from polhode.analysis.studies import predictability, references
from polhode.analysis.studies.compare import time_run
from polhode.problem import Problem
from polhode.simulation.simulate import simulate


def work_precision(
    problem: Problem,
    integrators: Sequence[str],
    steps: Sequence[float] | None = None,
    tolerances: Sequence[float] | None = None,
    outputs: Sequence[str] | None = None,
    t1: float | None = None,
    reference: Mapping[str, Any] | None = None,
    chaos: bool = True,
) -> list[dict[str, Any]]:
    """Rows {integrator, h or rtol, steps, evaluations, wall_time_s, error: {output: …}} for each method and step.

    Every case is run twice and the second run is timed, so compile time is left out. Evaluations are those of the
    right-hand side; of implicit methods, those of the residual, one for each Newton iteration and one to begin with.
    Steps are constant steps, `tolerances` are values of rtol (atol = rtol / 100); give one of the two. `outputs`,
    `reference` and `chaos` are as for `convergence`, with `multipliers` where there are constraints.

    **Raises** ValueError for unknown names and if both or neither of `steps`, `tolerances` are given.
    """
    if (steps is None) == (tolerances is None):
        raise ValueError("Give either `steps` or `tolerances`.")
    end = references.check_study(problem, outputs, t1)
    integrators = checks.as_list("integrators", integrators, "names of methods")
    if steps is not None:
        steps = references.sizes("steps", steps, 1).tolist()
    else:
        tolerances = references.sizes("tolerances", tolerances, 1).tolist()
    names = references.measurable(problem, None if outputs is None else list(outputs), reference)
    methods = [registry.get(name) for name in integrators]
    reference_plan = references.plan(problem, methods, names, end, reference)
    exact, _ = reference_plan.carry_out(problem, min(steps) if steps is not None else problem.h, end)
    rows, runs = [], []
    for name in integrators:
        for value in steps if steps is not None else tolerances or ():
            how: dict[str, Any] = {"h": value} if steps is not None else {"rtol": value}
            run, wall = time_run(problem, name, end, how)
            errors = {o: references.distance(references.value_at_end(run, o), exact[o]) for o in names}
            counts = {key: run.stats[key] for key in ("steps", "rejected", "evaluations")}
            rows.append({"integrator": name, **how, **counts, "wall_time_s": wall, "error": errors})
            runs.append((wall, partial(simulate, problem, name, t1=end, save_every=None, **how), run))
    if chaos:
        scales = {o: references.size(exact[o]) for o in names}
        error_sizes = [(row["error"][o], scales[o]) for row in rows for o in names]
        error_sizes = [(e, size) for e, size in error_sizes if e > references.round_off(size)]
        _, again, run = min(runs, key=lambda each: each[0])
        predictability.check_predictability(problem, end, error_sizes, names, run, lambda start: again(state0=start))
    return rows
