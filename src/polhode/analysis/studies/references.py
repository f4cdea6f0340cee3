"""References for errors: known values, or a run of an independent method with a much smaller step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from polhode import checks, integrators
from polhode.checks import short_repr
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.compatibility import accepts, conversions
from polhode.integrators.explicit.half_explicit import HalfExplicit
from polhode.integrators.explicit.rkmk import RKMK
from polhode.problem import Problem
from polhode.simulation.run import SimulationError
from polhode.simulation.simulate import simulate
from polhode.solution.solution import Solution
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.vector_field import VectorField

MULTIPLIERS = "multipliers"
"""Name under which errors of the multipliers are reported."""

_REQUIRED_ACCURACY = 1e-11
"""Published values have to be at least this accurate to serve as a reference."""


class Reference(NamedTuple):
    """Values at t1 by name, and where they come from."""

    values: dict[str, Any]
    source: str


class Plan(NamedTuple):
    """How the reference values are obtained; planned before anything is run.

    - `values`: those at t1 that need no run. - `sources`: where they come from.
    - `missing`: names that take a run. - `method`, `fraction`: its integrator, and its part of the finest step.
    - `independent`: whether no studied method is of the same family and order.
    """

    values: dict[str, Any]
    sources: tuple[str, ...]
    missing: tuple[str, ...]
    method: str
    fraction: float
    independent: bool

    def carry_out(self, problem: Problem, h: float, t1: float) -> Reference:
        """The reference for runs with steps of h or more. Raises SimulationError if its own run fails."""
        if not self.missing:
            return Reference(self.values, "; ".join(self.sources))
        step = h * self.fraction
        source = f"{self.method} with h = {step:.3g}{'' if self.independent else ', the method that is studied'}"
        try:
            run = simulate(problem, self.method, h=step, t1=t1, save_every=None)
        except SimulationError as error:
            raise SimulationError(
                f"The reference, a run of {source}, failed: {error.reason} Study smaller steps, or pass values of your "
                "own as `reference`.",
                error.solution,
            ) from error
        run_values = {name: value_at_end(run, name) for name in self.missing}
        if self.values:
            source = f"{'; '.join(self.sources)} for {', '.join(self.values)}; else {source}"
        return Reference({**self.values, **run_values}, source)


def check_study(problem: Any, outputs: Any, t1: Any) -> float:
    """Checks the arguments of a study and returns its end time. Raises ValueError."""
    if not isinstance(problem, Problem):
        raise checks.not_a_problem(problem, "a Problem")
    if outputs is not None:
        for name in checks.as_list("outputs", outputs, "names of outputs"):
            checks.word("outputs", name, "names of outputs")
    return checks.number("t1", problem.t_span[1] if t1 is None else t1, "end of the runs")


def sizes(name: str, values: Any, least: int) -> np.ndarray:
    """Positive numbers, sorted; at least `least` of them."""
    numbers = checks.numbers(name, values, "positive numbers")
    if numbers.ndim != 1 or len(numbers) < least or not (np.isfinite(numbers).all() and (numbers > 0).all()):
        raise ValueError(f"`{name}` must hold at least {least} positive numbers, got {checks.short_repr(values)}.")
    return np.sort(numbers)


def plan(
    problem: Problem,
    methods: list[AbstractIntegrator],
    names: list[str],
    t1: float,
    reference: Mapping[str, Any] | None,
) -> Plan:
    """How to find the values of `names` at t1, to be compared with runs of `methods`.

    Raises ValueError if values are missing from `reference`, or if no method can serve.
    """
    if reference is not None:
        missing = [name for name in names if name not in reference]
        if missing:
            raise ValueError(f"`reference` lacks the output {short_repr(missing[0])}.")
        return Plan({name: reference[name] for name in names}, ("given",), (), "", 1.0, True)
    values = {name: value for name in names if (value := _known_value(problem, name, t1)) is not None}
    missing = tuple(name for name in names if name not in values)
    sources = tuple(sorted({problem.reference[name]["source"] for name in values}))
    return Plan(values, sources, missing, *(_best(problem, methods) if missing else ("", 1.0, True)))


def measurable(problem: Problem, names: list[str] | None, reference: Mapping[str, Any] | None) -> list[str]:
    """Names of what is measured: outputs, and the multipliers of systems with constraints.

    Raises ValueError for unknown names.
    """
    every = [*problem.outputs, *([MULTIPLIERS] if _has_constraints(problem) else [])]
    if names is None:
        return [name for name in every if name in problem.outputs or reference is None or name in reference]
    unknown = [name for name in names if name not in every]
    if unknown:
        raise ValueError(f"Problem `{problem.name}` has no output {short_repr(unknown[0])}; it has {', '.join(every)}.")
    return list(names)


def value_at_end(run: Solution, name: str) -> Any:
    """The last value of an output, or of the multipliers."""
    series = run.multipliers if name == MULTIPLIERS and name not in run.outputs else run.outputs[name]
    return jax.tree.map(lambda x: np.asarray(x)[-1], series)


def distance(a: Any, b: Any) -> float:
    """Euclidean norm of the difference of two trees of arrays."""
    parts = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return float(np.sqrt(sum(np.sum((np.asarray(x) - np.asarray(y)) ** 2) for x, y in parts)))


def size(a: Any) -> float:
    """Euclidean norm of a tree of arrays."""
    return distance(a, jax.tree.map(np.zeros_like, a))


def round_off(scale: float) -> float:
    """Errors of values of this size that may be round-off."""
    return 1e-13 * max(scale, 1.0)


def _best(problem: Problem, methods: list[AbstractIntegrator]) -> tuple[str, float, bool]:
    """A method that takes the system, its part of the finest step, and whether it is independent.

    Without constraints one of order 6, or 5 where that is studied itself. With constraints the half-explicit method of
    order 5; where one of its order is studied too, its step is so much smaller that what both have in common, 8⁻⁵ of
    the error, doesn't show.
    """
    unconstrained = not _has_constraints(problem)
    if unconstrained and any(issubclass(way.kind, VectorField) for way in conversions(problem.system)):
        same = any(isinstance(method, RKMK) and method.order >= 6 for method in methods)
        return "rkmk5" if same else "rkmk6", 1 / 4, True
    if isinstance(problem.system, AbstractMechanical):
        same = any(isinstance(method, HalfExplicit) and method.order >= 5 for method in methods)
        return "herk5", 1 / 8 if same else 1 / 4, not same
    able = ", ".join(name for name in integrators.names() if accepts(integrators.get(name), problem.system))
    raise ValueError(
        f"There is no method of high order for {type(problem.system).__name__} to compare with (integrators for it: "
        f"{able or 'none'}). Pass the exact values at t1 as `reference`."
    )


def _has_constraints(problem: Problem) -> bool:
    return isinstance(problem.system, AbstractMechanical) and problem.system.m > 0


def _known_value(problem: Problem, output: str, t1: float) -> np.ndarray | None:
    """The reference value at t1 if it is known well enough."""
    reference = problem.reference.get(output)
    if reference is None or np.max(reference["error"]) > _REQUIRED_ACCURACY:
        return None
    times = np.atleast_1d(np.asarray(reference["t"], dtype=float))
    hit = np.nonzero(np.abs(times - t1) < 1e-12)[0]
    if len(hit) == 0:
        return None
    value = np.asarray(reference["value"])
    return value[hit[0]] if np.ndim(reference["t"]) else value
