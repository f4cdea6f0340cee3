"""A remark on kinks of loads inside constant steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from polhode.results.audit.step_count import step_count

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_FOR_ANY_STEP = 2
"""Order of a method that keeps it in spite of single kinks inside steps."""

_SPARSE = 4
"""Steps for each kink from which on there is no pulse that steps could miss: they would end there."""


def kink_remarks(solution: Run) -> Iterator[str]:
    """A remark on kinks that lie inside steps, where these cost the method its order or hide pulses."""
    count, order = solution.meta.get("kinks_within_steps", 0), solution.meta.get("order", 0)
    if not count or (order <= _FOR_ANY_STEP and _SPARSE * count <= step_count(solution)):
        return
    loss = f"the method has order {_FOR_ANY_STEP} instead of {order} and " if order > _FOR_ANY_STEP else ""
    yield (
        f"kinks of loads lie inside steps ({count} of them), where {loss}pulses between two of them may be missed: "
        "take a step that divides their distances, a smaller one, tolerances, or `CubicSpline` for a smooth signal"
    )
