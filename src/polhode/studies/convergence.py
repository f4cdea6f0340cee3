"""Measured orders of convergence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from polhode import integrators
from polhode.integrators.base import AbstractIntegrator
from polhode.problems.base import Problem
from polhode.simulate import simulate


@dataclasses.dataclass(frozen=True, eq=False)
class Convergence:
    """Errors against step size.

    - `steps`: (k,) the constant steps used, largest first.
    - `errors`: output name → (k,) Euclidean norm of the error at t1.
    - `orders`: output name → slope of a line through the logarithms, leaving out errors at round-off; NaN if fewer than
      two points are left.
    - `reference`: where the reference values come from.
    """

    problem: str
    integrator: str
    t1: float
    steps: np.ndarray
    errors: dict[str, np.ndarray]
    orders: dict[str, float]
    reference: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        errors = {k: v.tolist() for k, v in self.errors.items()}
        return {**dataclasses.asdict(self), "steps": self.steps.tolist(), "errors": errors}


def convergence(
    problem: Problem,
    integrator: AbstractIntegrator | str,
    steps: Sequence[float],
    outputs: Sequence[str] | None = None,
    t1: float | None = None,
    reference: Mapping[str, Any] | None = None,
) -> Convergence:
    """Errors of the outputs at `t1` for constant steps, and the orders they show.

    **Arguments:**

    - `steps`: constant step sizes, at least two.
    - `outputs`: names of outputs to measure; all by default.
    - `reference`: output name → value at t1. By default the problem's own reference value where it has one at t1, and
      otherwise a run of an independent method of order 6 (for `rkmk6` itself: order 5) with a much smaller step.

    **Raises** ValueError for unknown outputs or fewer than two steps; `SimulationError` if a run fails.
    """
    sizes = np.sort(np.asarray(steps, dtype=float))[::-1]
    if sizes.ndim != 1 or len(sizes) < 2:
        raise ValueError(f"`steps` must hold at least two step sizes, got {list(np.atleast_1d(steps))}.")
    end = float(problem.t_span[1] if t1 is None else t1)
    chosen = _chosen(problem, outputs)
    name = integrator if isinstance(integrator, str) else type(integrator).__name__
    runs = [simulate(problem, integrator, h=float(h), t1=end, save_every=None) for h in sizes]
    used = np.array([abs(run.meta["h"]) for run in runs])
    exact, source = _reference(problem, name, chosen, end, float(used.min()), reference)
    errors = {
        o: np.array([_distance(jax.tree.map(lambda x: x[-1], run.outputs[o]), exact[o]) for run in runs])
        for o in chosen
    }
    scales = {o: _distance(exact[o], jax.tree.map(np.zeros_like, exact[o])) for o in chosen}
    orders = {o: observed_order(used, errors[o], 1e-13 * max(scales[o], 1.0)) for o in chosen}
    return Convergence(problem.name, name, end, used, errors, orders, source)


def observed_order(steps: np.ndarray, errors: np.ndarray, floor: float) -> float:
    """Slope of log(error) over log(step), from the points above `floor` that still fall; NaN if fewer than two."""
    falling = np.r_[True, errors[:-1] > 1.2 * errors[1:]]
    keep = (errors > floor) & np.logical_and.accumulate(falling) & np.isfinite(errors)
    if keep.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(steps[keep]), np.log(errors[keep]), 1)[0])


def _chosen(problem: Problem, outputs: Sequence[str] | None) -> list[str]:
    chosen = list(problem.outputs) if outputs is None else list(outputs)
    unknown = [o for o in chosen if o not in problem.outputs]
    if unknown:
        raise ValueError(f"Problem `{problem.name}` has no output {unknown[0]!r}; it has {', '.join(problem.outputs)}.")
    return chosen


def _distance(a: Any, b: Any) -> float:
    parts = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return float(np.sqrt(sum(np.sum((np.asarray(x) - np.asarray(y)) ** 2) for x, y in parts)))


def _reference(
    problem: Problem, name: str, outputs: list[str], t1: float, h: float, given: Mapping[str, Any] | None
) -> tuple[dict[str, Any], str]:
    if given is not None:
        missing = [o for o in outputs if o not in given]
        if missing:
            raise ValueError(f"`reference` lacks the output {missing[0]!r}.")
        return {o: given[o] for o in outputs}, "given"
    known = {o: _known_value(problem, o, t1) for o in outputs}
    if all(v is not None for v in known.values()):
        return known, "; ".join(sorted({problem.reference[o]["source"] for o in outputs}))
    method = "rkmk5" if name == "rkmk6" else "rkmk6"
    run = simulate(problem, integrators.get(method), h=h / 4, t1=t1, save_every=None)
    return {o: jax.tree.map(lambda x: x[-1], run.outputs[o]) for o in outputs}, f"{method} with h = {h / 4:.3g}"


def _known_value(problem: Problem, output: str, t1: float) -> np.ndarray | None:
    """The reference value at t1 if it is known to 1e-11 or better."""
    reference = problem.reference.get(output)
    if reference is None or np.max(reference["error"]) > 1e-11:
        return None
    times = np.atleast_1d(np.asarray(reference["t"], dtype=float))
    hit = np.nonzero(np.abs(times - t1) < 1e-12)[0]
    if len(hit) == 0:
        return None
    value = np.asarray(reference["value"])
    return value[hit[0]] if np.ndim(reference["t"]) else value
