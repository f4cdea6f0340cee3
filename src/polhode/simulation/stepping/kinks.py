"""Jumps and kinks of loads: how steps end there, and at which kinks.

A method that starts each step from the state alone needs no new segment where loads jump: its steps end there, and it
evaluates loads on the right side. A load with a kink is continuous, so such a method only loses its order in a step
that has a kink inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.integrators.base import AbstractIntegrator
from polhode.simulation.stepping.constant import constant_segments
from polhode.simulation.stepping.segments import Breakpoints, pieces_of

SPARSE = 4
"""Steps for each kink from which on constant steps end at all of them: it costs a fourth more steps at most."""

_FOR_ANY_STEP = 2
"""Order of a method that keeps it in spite of kinks inside steps: each adds an error of order 2."""

_ON_GRID = 1e-9
"""Part of a step within which a kink lies on the grid of steps."""


class EndPoints(NamedTuple):
    """Instants at which steps end, and the number of kinks that lie inside constant steps."""

    breakpoints: Breakpoints
    inside: int = 0


def choose_end_points(
    breakpoints: Breakpoints, kinks: Sequence[float], method: AbstractIntegrator, t0: float, t1: float, h: float | None
) -> EndPoints:
    """The breakpoints with those kinks at which steps have to end.

    Of `breakpoints` the inner ones are jumps; `kinks` are in the direction of time. Controlled steps, where h is None,
    end at all kinks. Constant ones need no care where all kinks lie on their grid. Otherwise they end at kinks if these
    are sparse, and either the method has an order above 2, or several kinks could lie in one step, which would not see
    the pulse between them. Methods that remember more than the state restart at jumps, and with constant steps at such
    kinks, too.
    """
    jumps = breakpoints.inner
    if method.one_step and jumps:
        breakpoints = breakpoints._replace(inner=(), stops=jumps, jumps=jumps)
    if not kinks:
        return EndPoints(breakpoints)
    both = tuple(sorted((*jumps, *kinks), reverse=t1 < t0))
    if h is None:
        return EndPoints(breakpoints._replace(stops=both if method.one_step else kinks))
    segments = constant_segments(t0, t1, h, breakpoints)
    pieces = np.array(pieces_of(segments))
    inside, steps = _count_inside(np.asarray(kinks), pieces), segments[-1].stepper.step_limit
    if not inside:
        return EndPoints(breakpoints)
    is_pulse = np.min(np.abs(np.diff(kinks)), initial=np.inf) < h
    if SPARSE * len(kinks) > steps or not (method.order > _FOR_ANY_STEP or is_pulse):
        return EndPoints(breakpoints, inside)
    ends: dict[str, Any] = {"stops" if method.one_step else "inner": both}
    return EndPoints(breakpoints._replace(**ends))


def _count_inside(kinks: np.ndarray, pieces: np.ndarray) -> int:
    """The number of kinks that lie inside steps of pieces: rows of start, spacing and number."""
    sign = np.sign(pieces[0, 1])
    pieces = pieces[np.argsort(sign * pieces[:, 0], kind="stable")]
    k = np.maximum(np.searchsorted(sign * pieces[:, 0], sign * kinks, side="right") - 1, 0)
    numbers = (kinks - pieces[k, 0]) / pieces[k, 1]
    return int(np.sum(np.abs(numbers - np.round(numbers)) > _ON_GRID))
