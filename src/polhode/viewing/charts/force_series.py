"""Series of the forces of a run by name, for charts and arrows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from polhode.viewing.charts.joint_series import MOST, Quantity, get_or_empty

if TYPE_CHECKING:
    from polhode.results.forces import ForceResults
    from polhode.results.protocols import Run


def quantities(solution: Run) -> Iterator[Quantity]:
    """Loads, efforts, power and lengths of all forces that have a name, where the run has them."""
    for name, force in solution.forces.items():
        for label, values, kind in _loads(force):
            if len(values):
                yield Quantity(name, label, np.asarray(values), kind)
        for label, values in get_or_empty(force, "efforts").items():
            angle = label in force.angles
            title = ("torque" if angle else "effort") if len(force.names) == 1 else f"effort along {label}"
            yield Quantity(name, title, np.asarray(values), "moment" if angle else "force")
        for label, values in get_or_empty(force, "measures").items():
            yield Quantity(name, label, np.asarray(values), "angle" if label in force.angles else "length")


def arrows(solution: Run, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Points and forces at some frames, (k, forces, 3) each; None where not known, or too many.

    Those on one body or two, not what is inside of rods; each on its line of action, nearest to the centre of mass.
    """
    feet, vectors = [], []
    ends = [(force, body) for force in solution.forces.values() if len(force.bodies) <= 2 for body in force.bodies]
    for force, body in ends if len(ends) <= MOST else ():
        loads, moments = get_or_empty(force, "forces"), get_or_empty(force, "moments")
        centre = get_or_empty(solution.bodies[body], "position") if body in solution.bodies else ()
        if len(loads) and len(centre):
            F, M, x = (np.asarray(each)[rows] for each in (loads[body], moments[body], centre))
            feet.append(x + _lever(F, M))
            vectors.append(F)
    return (np.stack(feet, axis=1), np.stack(vectors, axis=1)) if feet else None


def _lever(F: np.ndarray, M: np.ndarray) -> np.ndarray:
    """The shortest r with r × F = M - (M·F)F/|F|²; zero where there is no force."""
    square = np.sum(F * F, axis=-1, keepdims=True)
    return np.divide(np.cross(F, M), square, out=np.zeros_like(F), where=square > 0)


def _loads(force: ForceResults) -> Iterator[tuple[str, np.ndarray, str]]:
    """Label, values and kind of its loads and its power: by body where there are more than two."""
    if len(force.bodies) > 2:
        for body, values in get_or_empty(force, "forces").items():
            yield f"force on {body}", values, "force"
        for body, values in get_or_empty(force, "moments").items():
            yield f"moment on {body}", values, "moment"
    else:
        yield "force", get_or_empty(force, "force"), "force"
        yield "moment", get_or_empty(force, "moment"), "moment"
    yield "power", get_or_empty(force, "power"), "power"
