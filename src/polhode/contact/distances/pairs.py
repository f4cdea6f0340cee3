"""Which function gives the contact points of which pair of shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from polhode.contact.distances import planes, spheres
from polhode.contact.distances.contact_points import ContactPoints
from polhode.contact.shapes.box import Box
from polhode.contact.shapes.plane import Plane
from polhode.contact.shapes.shape import AbstractShape, Pose
from polhode.contact.shapes.sphere import Sphere


class Distance(NamedTuple):
    """The number of contact points of a pair, and what computes them from the shapes and their poses in space."""

    slots: int
    function: Callable[[Any, Pose, Any, Pose], ContactPoints]


_PAIRS: dict[tuple[type[AbstractShape], type[AbstractShape]], Distance] = {
    (Plane, Sphere): Distance(1, planes.plane_sphere),
    (Plane, Box): Distance(4, planes.plane_box),
    (Sphere, Sphere): Distance(1, spheres.sphere_sphere),
}


def slots(first: AbstractShape, second: AbstractShape) -> int:
    """The number of contact points that two shapes have at most.

    Raises ValueError for a pair without a distance.
    """
    return _find(first, second)[0].slots


def contact_points(first: AbstractShape, pose: Pose, second: AbstractShape, other: Pose) -> ContactPoints:
    """Where two shapes on bodies touch, or would touch first.

    - `pose`, `other`: (x, R) of the bodies with the first and the second shape.

    Raises ValueError for a pair without a distance.
    """
    distance, swap = _find(first, second)
    here, there = first.pose_in(pose), second.pose_in(other)
    if swap:
        return distance.function(second, there, first, here).swap()
    return distance.function(first, here, second, there)


def _find(first: AbstractShape, second: AbstractShape) -> tuple[Distance, bool]:
    """The distance of a pair, and whether it takes the second shape first."""
    kinds = (type(first), type(second))
    for key, swap in ((kinds, False), (kinds[::-1], True)):
        if key in _PAIRS:
            return _PAIRS[key], swap
    raise ValueError(f"There is no distance between {first!r} and {second!r}.")
