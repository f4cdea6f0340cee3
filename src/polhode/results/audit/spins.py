"""Remarks on bodies that rotate too fast for the steps of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode.results.audit.block_statistics import chunks
from polhode.results.audit.table import Row

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_FAST = 0.05
"""Radians in a step above which a rotating body may be the cause of an inaccurate run."""

_QUANTITIES = ("linear_momentum", "angular_momentum", "energy")


def spin_remarks(solution: Run, columns: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[str]:
    """A remark on the fastest rotating body, with remedies, where momenta or the energy of a run are inaccurate."""
    speeds = columns.get("outputs.angular_velocities")
    if speeds is None or not any(row.accuracy != "accurate" and row.quantity in _QUANTITIES for row in rows):
        return
    fastest = np.zeros(speeds.shape[1])
    for (omega,) in chunks(speeds):
        fastest = np.maximum(fastest, np.max(np.linalg.norm(omega, axis=2), axis=0))
    time = columns["time"]
    span = abs(float(time[len(time) - 1]) - float(time[0]))
    body = int(np.argmax(fastest))
    angle = fastest[body] * span / max(int(solution.stats["steps"]), 1)
    if not _FAST <= angle < np.inf:
        return
    names = list(solution.meta.get("names", {}).get("bodies", ()))
    subject = f"body `{names[body]}`" if len(names) == len(fastest) else "a body"
    smaller = "tighter tolerances" if "rtol" in solution.meta else "a smaller step"
    joint = ', joint coordinates, `formulation="minimal"`,' if _is_absolute(solution) else ""
    yield f"{subject} turns by up to {angle:.2g} rad in a step: take {smaller}{joint} or a method of higher order"


def _is_absolute(solution: Run) -> bool:
    """Whether the run has joints and absolute coordinates of each body."""
    if solution.reader is None or solution.reader.obstacle is not None:
        return False
    mechanism = solution.reader.mechanism()
    return mechanism is not None and mechanism[0].coordinates.local and bool(mechanism[0].mechanism.joints)
