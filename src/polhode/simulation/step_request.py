"""The user's request for steps, and the checks of its numbers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jax.core import Tracer

from polhode import checks
from polhode.checks import short_repr
from polhode.simulation.stepping.step_control import StepControl


class StepRequest(NamedTuple):
    """The user's request for steps: see `polhode.simulate`."""

    h: Any = None
    rtol: Any = None
    atol: Any = None
    control: StepControl = StepControl()
    max_steps: int = 10_000_000
    breakpoints: Any = ()

    @property
    def has_tolerances(self) -> bool:
        """Whether the error is controlled."""
        return self.rtol is not None or self.atol is not None


_STEPS_RESOLVED = 1000
"""Units of resolution that a constant step must have at least: times of steps are then right to a thousandth of it."""

_SPAN_RESOLVED = 10**6
"""The same for the span of a run with tolerances."""


def check_span(t0: float, t1: float, h: float | None) -> None:
    """Raises ValueError for a span with too many constant steps h, or below the resolution of times.

    `h` is None for controlled steps.
    """
    span = abs(t1 - t0)
    if not math.isfinite(span):
        raise ValueError(f"The span from t0 = {t0:g} to t1 = {t1:g} has no finite length; take a nearer end.")
    if h is None:
        _check_resolved(t0, t1, span, _SPAN_RESOLVED, f"a span of {span:g}")
        return
    if span / h > 2**53:
        raise ValueError(f"`h` = {h:g} needs {span / h:.3g} steps for the span {span:g}; take a larger step.")
    _check_resolved(t0, t1, h, _STEPS_RESOLVED, f"steps of {h:g}")


def _check_resolved(t0: float, t1: float, size: float, units: int, what: str) -> None:
    unit = math.ulp(max(abs(t0), abs(t1)))
    if size < units * unit:
        raise ValueError(
            f"At t = {max((t0, t1), key=abs):g} numbers are {unit:.2g} apart, too far to tell the times of {what} from "
            "each other. Count time from the start of the run: t0 = 0, with the shift in the functions of time."
        )


def breakpoint_times(values: Any) -> list[float]:
    """Breakpoints of the user. Raises ValueError for anything but finite times."""
    if isinstance(values, Tracer):
        raise ValueError("`breakpoints` are traced by JAX; give plain numbers.")
    items = [] if values is None else checks.as_list("breakpoints", values, "times")
    times = checks.numbers("breakpoints", items or np.zeros(0), "times")
    if times.ndim != 1 or not np.isfinite(times).all():
        raise ValueError(f"`breakpoints` must be finite times, got {short_repr(values)}.")
    return times.tolist()


def step_limit(value: Any, default: int) -> int:
    """The largest number of attempted steps. Raises ValueError for anything but a whole number."""
    return default if value is None else checks.count("max_steps", value, "attempted steps of a run")


def positive_step(name: str, value: Any, remedy: str) -> float:
    """A positive step size."""
    number = plain_number(name, value)
    if number <= 0:
        raise ValueError(f"`{name}` must be positive, got {number:g}. {remedy}")
    return number


def plain_number(name: str, value: Any) -> float:
    """A number of the run. Raises ValueError for one that is traced."""
    if isinstance(value, Tracer):
        raise ValueError(
            f"`{name}` is traced by JAX, but the number of steps is part of the program. Make it a plain number; for "
            "derivatives with respect to time, scale the vector field."
        )
    return checks.number(name, value, "of the run")
