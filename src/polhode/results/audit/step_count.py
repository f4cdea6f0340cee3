"""Number of steps of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polhode.results.protocols import Run


def step_count(solution: Run) -> int:
    """Number of steps; of a run that was killed, which has not counted them, by its step, or else its frames."""
    if "steps" in solution.stats:
        return int(solution.stats["steps"])
    t, h = solution.t, solution.meta.get("h")
    return round(abs(float(t[-1]) - float(t[0])) / float(h)) if h else len(t) - 1
