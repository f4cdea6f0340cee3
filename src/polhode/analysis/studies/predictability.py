"""Checks whether end states can be compared: growth of round-off in the start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import jax.numpy as jnp
import numpy as np

from polhode.analysis.studies import references
from polhode.analysis.studies.lyapunov import EXPONENTIAL, Lyapunov, generic_deviation, lyapunov
from polhode.jax_context import warn
from polhode.problem import Problem
from polhode.simulation.run import SimulationError
from polhode.solution.solution import Solution
from polhode.systems.base import State

_BEYOND, _MAX_RELATIVE_ERROR = 1e-2, 0.3
"""The most that round-off of the start may become, by the least error, and errors, by the values."""
_DEVIATION, _DOUBT, _LARGEST = 1e-8, 0.1, 1000
"""Of the run beside the others; what it shows may be so many times too little; larger systems are not looked at."""

Errors = Sequence[tuple[float, float]]
"""Errors, and the sizes of what they are errors of."""


class ChaosWarning(UserWarning):
    """End states are compared beyond the time over which they can be computed."""


def check_predictability(
    problem: Problem,
    t1: float,
    errors: Errors,
    outputs: Iterable[str],
    run: Solution,
    again: Callable[[State], Solution],
) -> None:
    """Warn where `errors` at `t1` say little, because neighbouring runs diverge exponentially.

    Costs one more run, and the run with derivatives of `lyapunov` only where that one has gone far enough from the
    others to matter. `run` is one of the runs, and `again` repeats it from another start.
    """
    if not t1 > problem.t_span[0] or problem.system.state_space.dim > _LARGEST:
        return
    if _is_suspicious(problem, errors, outputs, run, again):
        warn_if_chaotic(growth(problem, t1), t1, errors)


def growth(problem: Problem, t1: float) -> Lyapunov | None:
    """Growth of small deviations by the problem's own method; None if that run fails."""
    if not t1 > problem.t_span[0]:
        return None
    try:
        return lyapunov(problem, h=problem.h, t1=t1)
    except SimulationError:
        return None


def warn_if_chaotic(estimate: Lyapunov | None, t1: float, errors: Errors) -> None:
    """Warn where growth is exponential, and `errors` are below what round-off becomes or as large as the values."""
    if estimate is None or not estimate.chaotic:
        return
    noise = np.finfo(float).eps * float(np.exp(min(700.0, estimate.growth[-1])))
    least, lost_count = _least(errors), _count_lost(errors)
    if noise > _BEYOND * least or lost_count:
        warn(
            f"t1 = {t1:g} is {t1 / estimate.time:.0f} times the Lyapunov time, {estimate.time:.3g}. Until then "
            f"round-off in the start grows to {noise:.1g}, the least error is {least:.1g}, and {lost_count} of "
            f"{len(errors)} errors are as large as what they are errors of. Compare end states of a shorter span, or "
            "statistics and invariants instead of states.",
            ChaosWarning,
        )


def _is_suspicious(
    problem: Problem, errors: Errors, outputs: Iterable[str], run: Solution, again: Callable[[State], Solution]
) -> bool:
    """Whether a run from a neighbouring start ends so far from `run` that chaos should be looked for."""
    start = problem.system.state_space.move(problem.state0, jnp.asarray(_DEVIATION * generic_deviation(problem)))
    try:
        other = again(start)
    except SimulationError:
        return True
    ends = (tuple(references.value_at_end(each, o) for each in (run, other)) for o in outputs)
    growth_factor = max((references.distance(*each) for each in ends), default=0.0) / _DEVIATION
    noise = float(np.finfo(float).eps) * growth_factor
    return growth_factor > math.exp(EXPONENTIAL) and (
        noise > _DOUBT * _BEYOND * _least(errors) or _count_lost(errors) > 0
    )


def _least(errors: Errors) -> float:
    return min((e for e, _ in errors if e > 0), default=np.inf)


def _count_lost(errors: Errors) -> int:
    return sum(e > _MAX_RELATIVE_ERROR * size for e, size in errors)
