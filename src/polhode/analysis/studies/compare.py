"""Formulations and methods side by side: error against step and against time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polhode import checks
from polhode import integrators as registry
from polhode.analysis.studies import predictability, references
from polhode.analysis.studies.comparison_result import Case, Comparison, SkippedCase
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.compatibility import accepts
from polhode.problem import Problem
from polhode.simulation.run import SimulationError
from polhode.simulation.simulate import simulate
from polhode.solution.solution import Solution


def compare(
    problem: Problem,
    integrators: Sequence[str],
    *,
    formulations: Sequence[str] | None = None,
    steps: Sequence[float] | None = None,
    tolerances: Sequence[float] | None = None,
    outputs: Sequence[str] | None = None,
    t1: float | None = None,
    reference: Mapping[str, Any] | None = None,
    chaos: bool = True,
) -> Comparison:
    """Run a problem in several formulations by several methods with several steps, and compare errors and times.

    **Arguments:**

    - `integrators`: names of methods. - `formulations`: of problems and models that have the parameter `formulation`;
      by default the problem as it is.
    - `steps`: constant steps; or `tolerances`: values of rtol (atol = rtol / 100). Give one of the two.
    - `outputs`: what is compared at `t1`; by default all outputs that all formulations have.
    - `reference`: name → value at `t1`. By default as for `convergence`: the problem's own where it has one to 1e-11,
      otherwise a run of a method of high order with a much smaller step. Its error is estimated by another run with
      twice that step.
    - `chaos`: estimate the Lyapunov exponent first, which takes one run with derivatives.

    What doesn't go together is in `refused` with the reason, what failed in `failed`. Every case is run twice and the
    second run is timed: compiling is left out. Errors below ten times that of the reference and below round-off don't
    count for orders.

    **Raises** ValueError for bad input, and if nothing can be run; `SimulationError` if the reference fails.

    Warns with `ChaosWarning` where small deviations grow exponentially, and until `t1` so much that round-off in the
    start matters, or that errors are as large as the values.
    """
    if (steps is None) == (tolerances is None):
        raise ValueError("Give either `steps` or `tolerances`.")
    end = references.check_study(problem, outputs, t1)
    names = checks.as_list("integrators", integrators, "names of methods")
    methods = {name: registry.get(name) for name in names}
    values = references.sizes("steps", steps, 1) if steps is not None else references.sizes("tolerances", tolerances, 1)
    forms = [None] if formulations is None else checks.as_list("formulations", formulations, "names of formulations")
    variants, refused = _variants(problem, forms)
    pairs, more = _suitable_cases(variants, methods)
    refused += more
    if not pairs:
        raise ValueError(f"Nothing can be run: {'; '.join(map(str, refused))}.")
    common = _common([each for _, each in variants], outputs, reference)
    used = list(dict.fromkeys(name for _, name in pairs))
    reference_plan = references.plan(variants[0][1], [methods[name] for name in used], common, end, reference)
    fine = float(values.min()) if steps is not None else problem.h
    exact, source = reference_plan.carry_out(variants[0][1], fine, end)
    doubt = _reference_errors(reference_plan, variants[0][1], fine, end, exact, common)
    key = "h" if steps is not None else "rtol"
    estimate = predictability.growth(variants[0][1], end) if chaos else None
    cases, failed = [], []
    for form, name in pairs:
        variant = dict(variants)[form]
        for value in values[::-1]:
            try:
                run, wall = time_run(variant, name, end, {key: float(value)})
            except ValueError as error:
                # Such as tolerances for a method without an estimate of its error.
                refused.append(SkippedCase(form, name, str(error)))
                break
            except SimulationError as error:
                failed.append(SkippedCase(form, name, f"{key} = {value:g}: {error.reason}"))
                continue
            errors = {o: references.distance(references.value_at_end(run, o), exact[o]) for o in common}
            cases.append(Case(form, name, float(value), int(run.stats["steps"]), _work(run), wall, errors))
    sizes = {o: references.size(exact[o]) for o in common}
    floors = {o: max(10 * doubt[o], references.round_off(sizes[o])) for o in common}
    if not cases and not failed:
        raise ValueError(f"Nothing can be run: {'; '.join(map(str, refused))}.")
    comparison = Comparison(
        problem.name, end, key, cases, tuple(refused), tuple(failed), source, doubt, floors, estimate
    )
    predictability.warn_if_chaotic(estimate, end, [(e, sizes[o]) for case in cases for o, e in case.errors.items()])
    return comparison


def time_run(problem: Problem, method: str, t1: float, how: Mapping[str, Any]) -> tuple[Solution, float]:
    """A run, and its wall time in seconds without compilation."""
    simulate(problem, method, t1=t1, save_every=None, **how)
    began = time.perf_counter()
    run = simulate(problem, method, t1=t1, save_every=None, **how)
    return run, time.perf_counter() - began


def _work(run: Solution) -> int:
    return int(run.stats["evaluations"])


def _variants(problem: Problem, forms: list[Any]) -> tuple[list[tuple[str, Problem]], list[SkippedCase]]:
    variants, refused = [], []
    for form in forms:
        if form is None:
            variants.append((str(problem.parameters.get("formulation", problem.system.kind_name)), problem))
            continue
        if "formulation" not in problem.parameters:
            raise ValueError(f"Problem `{problem.name}` has no parameter `formulation`, so there is one of it only.")
        try:
            variants.append((form, problem.replace(formulation=form)))
        except ValueError as error:
            refused.append(SkippedCase(form, None, str(error)))
    if not variants:
        raise ValueError(f"Nothing can be run: {'; '.join(map(str, refused))}.")
    return variants, refused


def _suitable_cases(
    variants: list[tuple[str, Problem]], methods: Mapping[str, AbstractIntegrator]
) -> tuple[list[tuple[str, str]], list[SkippedCase]]:
    """Compatible pairs of formulation and method, and the others with the reason."""
    pairs, refused = [], []
    for form, problem in variants:
        for name, method in methods.items():
            if accepts(method, problem.system):
                pairs.append((form, name))
            else:
                reason = next(row.reason for row in registry.suited(problem) if row.name == name)
                refused.append(SkippedCase(form, name, reason))
    return pairs, refused


def _common(problems: list[Problem], outputs: Sequence[str] | None, reference: Mapping[str, Any] | None) -> list[str]:
    names = references.measurable(problems[0], None if outputs is None else list(outputs), reference)
    if outputs is None and len(problems) > 1:
        # Multipliers belong to the constraints of one formulation.
        return [o for o in names if all(o in each.outputs for each in problems)]
    for each in problems[1:]:
        references.measurable(each, list(names), reference)
    return names


def _reference_errors(
    plan: references.Plan, problem: Problem, h: float, t1: float, exact: Mapping[str, Any], names: list[str]
) -> dict[str, float]:
    """Errors of the reference: its change when its step is doubled; published errors of published values."""
    reference = problem.reference if plan.sources != ("given",) else {}
    errors = {o: float(np.max(reference[o]["error"])) if o in reference else 0.0 for o in plan.values}
    if not plan.missing:
        return errors
    coarse, _ = plan._replace(fraction=2 * plan.fraction).carry_out(problem, h, t1)
    return {o: errors[o] if o in errors else references.distance(coarse[o], exact[o]) for o in names}
