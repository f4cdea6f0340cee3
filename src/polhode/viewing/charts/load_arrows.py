"""Arrows of the forces of joints, and of forces by name, over the motion of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polhode.viewing.charts.quantity_series import get_or_empty

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_MOST = 64
"""Largest number of joints, or forces, drawn as arrows."""


def of_joints(solution: Run, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Points and forces of all joints at some frames, (k, joints, 3) each; None where not known, or too many."""
    feet, vectors = [], []
    for joint in solution.joints.values() if len(solution.joints) <= _MOST else ():
        point, force = get_or_empty(joint, "point"), get_or_empty(joint, "force")
        if len(point) and len(force):
            feet.append(np.asarray(point)[rows])
            vectors.append(np.asarray(force)[rows])
    return (np.stack(feet, axis=1), np.stack(vectors, axis=1)) if feet else None


def of_forces(solution: Run, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Points and forces at some frames, (k, forces, 3) each; None where not known, or too many.

    Those on one body or two, not what is inside of rods; each on its line of action, nearest to the centre of mass.
    """
    feet, vectors = [], []
    ends = [(force, body) for force in solution.forces.values() if len(force.bodies) <= 2 for body in force.bodies]
    for force, body in ends if len(ends) <= _MOST else ():
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
