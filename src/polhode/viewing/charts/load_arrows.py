"""Arrows of the forces of joints, of contacts, and of forces by name, over the motion of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polhode.results.contacts import ContactResults
from polhode.viewing.charts.quantity_series import get_or_empty

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_MOST = 64
"""Largest number of joints, contacts or forces drawn as arrows."""

_EDGES = 8
"""Arrows of a friction cone."""

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
    contacts = _pressed_points(solution, rows)
    return None if contacts is None else (contacts.points, contacts.forces)


def of_cones(solution: Run, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Points and edges of friction cones at some frames, (k, edges, 3) each, for the forces of `of_contacts`.

    Edges end where forces of the same normal part would that slide, so that a force that sticks ends between them. None
    without friction.
    """
    contacts = _pressed_points(solution, rows)
    rough = [] if contacts is None else np.flatnonzero(np.any(contacts.friction > 0, axis=1))[: _MOST // _EDGES]
    if contacts is None or not len(rough):
        return None
    angles = 2 * np.pi * np.arange(_EDGES) / _EDGES
    circle = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    normals, tangents = contacts.normals[:, rough], contacts.tangents[:, rough]
    loads = np.sum(contacts.forces[:, rough] * normals, axis=-1)
    edges = normals[:, :, None] + np.einsum("ea,pa,kpai->kpei", circle, contacts.friction[rough], tangents)
    feet = np.repeat(contacts.points[:, rough], _EDGES, axis=1)
    return feet, (loads[..., None, None] * edges).reshape(feet.shape)


class _PressedPoints(NamedTuple):
    """Contact points that carry a force at some frame, with a leading axis of frames.

    - `points`, `forces`, `normals`: shape (k, p, 3); forces of impacts are shortened. - `tangents`: (k, p, 2, 3).
    - `friction`: coefficients along these, (p, 2).
    """

    points: np.ndarray
    forces: np.ndarray
    normals: np.ndarray
    tangents: np.ndarray
    friction: np.ndarray


def _pressed_points(solution: Run, rows: np.ndarray) -> _PressedPoints | None:
    parts = []
    for contact in solution.contacts.values():
        if not isinstance(contact, ContactResults):
            continue
        names = "points", "forces", "normals", "tangents"
        values = [get_or_empty(contact, name) for name in names]
        if all(len(each) for each in values):
            values = [np.asarray(each)[rows] for each in values]
            pressed = np.any(values[1] != 0, axis=(0, 2))
            parts.append([*(each[:, pressed] for each in values), contact.friction[None, pressed]])
    if not parts or not sum(part[0].shape[1] for part in parts):
        return None
    points, forces, normals, tangents, friction = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    sizes = np.linalg.norm(forces, axis=-1)
    chosen = np.sort(np.argsort(-np.max(sizes, axis=0), kind="stable")[:_MOST])
    limit = _LARGEST * np.median(sizes[sizes > 0])
    forces = forces * np.minimum(1.0, limit / np.maximum(sizes, limit))[..., None]
    # A shape may be without this point in other frames, in which its force is zero.
    chosen_of = lambda values: np.nan_to_num(values[:, chosen])  # noqa: E731
    return _PressedPoints(
        chosen_of(points), chosen_of(forces), chosen_of(normals), chosen_of(tangents), friction[0, chosen]
    )


def _lever(F: np.ndarray, M: np.ndarray) -> np.ndarray:
    """The shortest r with r × F = M - (M·F)F/|F|²; zero where there is no force."""
    square = np.sum(F * F, axis=-1, keepdims=True)
    return np.divide(np.cross(F, M), square, out=np.zeros_like(F), where=square > 0)
