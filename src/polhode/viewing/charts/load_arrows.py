"""Arrows of the forces of joints, of contacts, and of forces by name, over the motion of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polhode.results.contacts import ContactResults
from polhode.viewing.charts.quantity_series import get_or_empty

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_MOST = 64
"""Largest number of joints, contacts or forces drawn as arrows."""

_LARGEST = 5.0
"""Longest arrow of a contact over the median of its kind: impacts would leave no room for bodies at rest."""


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


def of_contacts(solution: Run, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Points and forces at some frames, (k, points, 3) each, of the points that carry a force at any of them.

    Forces act on the second body of a contact; those of impacts are shortened. Of too many points those with the
    largest forces are drawn. None where nothing touches, or where points are not known.
    """
    feet, vectors = [], []
    for contact in solution.contacts.values():
        if not isinstance(contact, ContactResults):
            continue
        point, force = get_or_empty(contact, "points"), get_or_empty(contact, "forces")
        if len(point) and len(force):
            loads = np.asarray(force)[rows]
            pressed = np.any(loads != 0, axis=(0, 2))
            feet.append(np.asarray(point)[rows][:, pressed])
            vectors.append(loads[:, pressed])
    if not feet or not sum(each.shape[1] for each in feet):
        return None
    x, F = (np.concatenate(parts, axis=1) for parts in (feet, vectors))
    sizes = np.linalg.norm(F, axis=-1)
    chosen = np.sort(np.argsort(-np.max(sizes, axis=0), kind="stable")[:_MOST])
    limit = _LARGEST * np.median(sizes[sizes > 0])
    F = F * np.minimum(1.0, limit / np.maximum(sizes, limit))[..., None]
    # A shape may be without this point in other frames, in which its force is zero.
    return np.nan_to_num(x[:, chosen]), F[:, chosen]


def _lever(F: np.ndarray, M: np.ndarray) -> np.ndarray:
    """The shortest r with r × F = M - (M·F)F/|F|²; zero where there is no force."""
    square = np.sum(F * F, axis=-1, keepdims=True)
    return np.divide(np.cross(F, M), square, out=np.zeros_like(F), where=square > 0)
