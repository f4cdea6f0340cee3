"""Measured orders of convergence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from polhode import integrators, summary
from polhode.analysis.studies import predictability, references
from polhode.integrators.base import AbstractIntegrator
from polhode.problem import Problem
from polhode.simulation.simulate import simulate


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Convergence:
    """Errors against step size.

    - `steps`: (k,) the constant steps used, largest first.
    - `errors`: output name → (k,) Euclidean norm of the error at t1; `multipliers` among them where there are
      constraints.
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

    def _rows(self) -> list[tuple[str, ...]]:
        """Headings, and the errors of each output and its order."""
        rows = [
            (output.replace("_", " "), *(f"{error:.1e}" for error in errors), f"{self.orders[output]:.2f}")
            for output, errors in self.errors.items()
        ]
        return [("error of", *(f"h = {h:.3g}" for h in self.steps), "order"), *rows]

    @property
    def _title(self) -> str:
        return f"Convergence of {self.integrator} on {self.problem} at t = {self.t1:g}, against {self.reference}"

    def __repr__(self) -> str:
        return "\n".join([self._title, *summary.lines(self._rows(), numbers=range(1, len(self.steps) + 2))])

    def _repr_html_(self) -> str:
        return summary.html_table(self._title, self._rows())


def convergence(
    problem: Problem,
    integrator: AbstractIntegrator | str,
    steps: Sequence[float],
    outputs: Sequence[str] | None = None,
    t1: float | None = None,
    reference: Mapping[str, Any] | None = None,
    chaos: bool = True,
) -> Convergence:
    """Errors of the outputs at `t1` for constant steps, and the orders they show.

    **Arguments:**

    - `steps`: constant step sizes, at least two.
    - `outputs`: names of outputs to measure, or `multipliers`; all by default.
    - `reference`: name → value at t1. By default the problem's own reference value where it has one at t1 to 1e-11, and
      otherwise a run with a quarter of the finest step: of `rkmk6` (for `rkmk6` itself: `rkmk5`), and of `herk5` where
      there are constraints. Half-explicit methods of order 5 are compared with `herk5` at an eighth of their finest
      step, for want of an independent method as accurate.
    - `chaos`: look whether neighbouring motions part exponentially, so that errors at `t1` say little, and warn with
      `ChaosWarning` as `compare` does. It costs another run with the largest step, and one with derivatives where that
      gives reason to; systems of more than 1,000 directions are not looked at.

    **Raises** ValueError for unknown outputs, fewer than two steps, or systems that no reference method takes, before
    anything is run; `SimulationError` if a run fails.
    """
    end = references.check_study(problem, outputs, t1)
    sizes = references.sizes("steps", steps, 2)[::-1]
    method = integrators.get(integrator) if isinstance(integrator, str) else integrator
    name = integrator if isinstance(integrator, str) else type(integrator).__name__
    names = references.measurable(problem, None if outputs is None else list(outputs), reference)
    reference_plan = references.plan(problem, [method], names, end, reference)
    runs = [simulate(problem, integrator, h=float(h), t1=end, save_every=None) for h in sizes]
    used = np.array([abs(run.meta["h"]) for run in runs])
    exact, source = reference_plan.carry_out(problem, float(used.min()), end)
    errors = {
        o: np.array([references.distance(references.value_at_end(run, o), exact[o]) for run in runs]) for o in names
    }
    scales = {o: references.size(exact[o]) for o in names}
    floors = {o: references.round_off(scales[o]) for o in names}
    orders = {o: observed_order(used, errors[o], floors[o]) for o in names}
    if chaos:
        error_sizes = [(float(e), scales[o]) for o in names for e in errors[o] if e > floors[o]]
        again = partial(simulate, problem, integrator, h=float(sizes[0]), t1=end, save_every=None)
        predictability.check_predictability(
            problem, end, error_sizes, names, runs[0], lambda start: again(state0=start)
        )
    return Convergence(problem.name, name, end, used, errors, orders, source)


def observed_order(steps: np.ndarray, errors: np.ndarray, floor: float) -> float:
    """Slope of log(error) over log(step), from the points above `floor` that still fall; NaN if fewer than two."""
    falls = np.r_[True, errors[:-1] > 1.2 * errors[1:]]
    keep = (errors > floor) & np.logical_and.accumulate(falls) & np.isfinite(errors)
    if keep.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(steps[keep]), np.log(errors[keep]), 1)[0])
