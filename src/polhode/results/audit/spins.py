"""Remarks on bodies that rotate too fast for the steps of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode import integrators
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.results.audit.block_statistics import chunks
from polhode.results.audit.step_count import step_count
from polhode.results.audit.table import Row

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_FAST = 0.05
"""Radians in a step above which a rotating body may be the cause of an inaccurate run."""

_TOO_FAST = 0.2
"""Radians in a step above which a body on joints loses 0.4 % of its angular momentum and more in methods of order 2,
unless its turning is the coordinate of a joint. Three wheels on a free hub: 2.2 % at 0.45 rad, 0.5 % at 0.22."""

_QUANTITIES = ("linear_momentum", "angular_momentum", "energy")


def spin_remarks(solution: Run, columns: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[str]:
    """A remark on the fastest rotating body, with remedies, where it makes a run inaccurate, or certainly will."""
    speeds = columns.get("outputs.angular_velocities")
    if speeds is None:
        return
    fastest = np.zeros(speeds.shape[1])
    for (omega,) in chunks(speeds):
        fastest = np.maximum(fastest, np.max(np.linalg.norm(omega, axis=2), axis=0))
    time = columns["time"]
    # Stored columns are read by slices.
    span = abs(float(time[len(time) - 1 :][0]) - float(time[:1][0]))
    step = span / max(step_count(solution), 1)
    names = list(solution.meta.get("names", {}).get("bodies", ()))
    coordinates = _coordinates_with_joints(solution)
    is_inaccurate = any(row.accuracy != "accurate" and row.quantity in _QUANTITIES for row in rows)
    if not is_inaccurate:
        if coordinates is None or not _is_of_low_order(solution) or len(names) != len(fastest):
            return
        fastest = np.where(np.isin(names, coordinates.tree_bodies), 0.0, fastest)
    body = int(np.argmax(fastest))
    angle = fastest[body] * step
    if not (_FAST if is_inaccurate else _TOO_FAST) <= angle < np.inf:
        return
    subject = f"body `{names[body]}`" if len(names) == len(fastest) else "a body"
    smaller = "tighter tolerances" if "rtol" in solution.meta else f"a smaller step, {_FAST / fastest[body]:.2g},"
    joint = (
        ', joint coordinates, `formulation="minimal"`,'
        if coordinates is not None and not coordinates.tree_bodies
        else ""
    )
    yield (
        f"{subject} turns by up to {angle:.2g} rad in a step of {step:.2g}, {fastest[body]:.3g} per time: take "
        f"{smaller}{joint} or a method of higher order"
    )


def _is_of_low_order(solution: Run) -> bool:
    """Whether the run has a method of order 1 or 2 with a fixed step."""
    name = (solution.meta.get("integrator") or {}).get("name")
    return "rtol" not in solution.meta and name in integrators.names() and integrators.get(name).order <= 2


def _coordinates_with_joints(solution: Run) -> AbstractCoordinates | None:
    """The coordinates of a run with joints between bodies of which each has coordinates of its own."""
    if solution.reader is None or solution.reader.obstacle is not None:
        return None
    mechanism = solution.reader.mechanism()
    if mechanism is None or not mechanism[0].mechanism.joints:
        return None
    coordinates = mechanism[0].coordinates
    return coordinates if coordinates.local else None
