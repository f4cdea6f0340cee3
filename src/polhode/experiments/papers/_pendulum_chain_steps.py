"""Runs of the pendulum chain with steps of controlled and of constant size, as the paper compares them."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

import polhode as ph
from polhode.experiments.papers._pendulum_chain_reference import PlanarMotion, chain

SIZES = tuple(range(2, 21, 2))
DURATION = 3.0

# The authors' code: |σ - σ̃| in the Euclidean norm below an absolute tolerance, θ = 0.85, exponent 1/4, h₀ = T/100.
TOLERANCE = 1e-6
CONTROL = ph.StepControl(norm="euclidean", safety=0.85, exponent=0.25, first_step=DURATION / 100)

# Angle from the upward vertical and its rate, the same for all rods.
_STARTS = {"paper": (np.pi / 4, 1.0), "level": (np.pi / 2, 0.0)}


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """RKMK(5,4) with controlled steps against RKMK5 with as many constant ones.

    - `t`: (steps + 1,) times of the accepted steps; `rejected`: how many attempts failed.
    - `variable`, `constant`: Euclidean norms in R^{6n} of the errors at the end.
    """

    n: int
    t: np.ndarray
    rejected: int
    variable: float
    constant: float

    @property
    def steps(self) -> int:
        """Accepted steps."""
        return len(self.t) - 1


def problem(n: int, length: str, start: str) -> ph.Problem:
    """The chain with the paper's data."""
    return ph.problems.get("pendulum-chain", n=n, length=length, start=start, duration=DURATION)


@functools.cache
def reference(n: int, length: str, start: str) -> PlanarMotion:
    """The exact motion, for all that is measured here."""
    model = chain(n, 1.0 if length == "unit" else 5.0 / n)
    return PlanarMotion(model, *_STARTS[start], DURATION)


def with_control(case: ph.Problem) -> ph.Solution:
    """The run with RKMK(5,4)."""
    system, t0, t1 = case.system, *case.t_span
    # Of the bare system no outputs are evaluated, so that chains of one size need to be compiled only once.
    return ph.simulate(system, "rkmk54", rtol=0.0, atol=TOLERANCE, control=CONTROL, state0=case.state0, t0=t0, t1=t1)


def with_constant_steps(case: ph.Problem, steps: int, save_every: int | None) -> ph.Solution:
    """The run with RKMK5."""
    system, t0, t1 = case.system, *case.t_span
    h = (t1 - t0) / steps
    return ph.simulate(system, "rkmk5", h=h, state0=case.state0, t0=t0, t1=t1, save_every=save_every)


@functools.cache
def compare(n: int, length: str, start: str) -> Comparison:
    """Both runs and their errors."""
    case = problem(n, length, start)
    variable = with_control(case)
    constant = with_constant_steps(case, variable.stats["steps"], save_every=None)
    end = reference(n, length, start)(DURATION)
    return Comparison(
        n, np.asarray(variable.t), variable.stats["rejected"], _error(variable, end), _error(constant, end)
    )


def _error(solution: ph.Solution, end: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.linalg.norm([np.asarray(x)[-1] - y for x, y in zip(solution.state, end, strict=True)]))
