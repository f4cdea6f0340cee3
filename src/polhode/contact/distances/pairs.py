"""Which function gives the contact points of which pair of shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polhode import checks
from polhode.contact.distances import boxes, capsules, convex, meshes, planes, spheres, surfaces
from polhode.contact.distances.contact_points import ContactPoints
from polhode.contact.shapes.box import Box
from polhode.contact.shapes.capsule import Capsule
from polhode.contact.shapes.convex_mesh import ConvexMesh
from polhode.contact.shapes.cylinder import Cylinder
from polhode.contact.shapes.disc import Disc
from polhode.contact.shapes.ellipsoid import Ellipsoid
from polhode.contact.shapes.heightfield import Heightfield
from polhode.contact.shapes.plane import Plane
from polhode.contact.shapes.shape import AbstractShape, Pose
from polhode.contact.shapes.sphere import Sphere
from polhode.contact.shapes.triangle_mesh import TriangleMesh


class Distance(NamedTuple):
    """The number of contact points of a pair, and what computes them from the shapes and their poses in space."""

    slots: int
    function: Callable[[Any, Pose, Any, Pose], ContactPoints]


_CONVEX = Box, Cylinder, Ellipsoid, ConvexMesh, Disc
"""Kinds of convex shapes that touch surfaces of triangles in patches."""

_PAIRS: dict[tuple[type[AbstractShape], type[AbstractShape]], Distance] = {
    (Plane, Sphere): Distance(1, planes.plane_sphere),
    (Plane, Box): Distance(4, planes.plane_box),
    (Plane, Capsule): Distance(2, planes.plane_capsule),
    (Plane, Cylinder): Distance(4, planes.plane_cylinder),
    (Plane, Disc): Distance(4, planes.plane_disc),
    (Plane, Ellipsoid): Distance(1, planes.plane_ellipsoid),
    (Plane, ConvexMesh): Distance(4, planes.plane_vertices),
    (Plane, TriangleMesh): Distance(4, planes.plane_vertices),
    (Sphere, TriangleMesh): Distance(4, meshes.sphere_mesh),
    (Capsule, TriangleMesh): Distance(4, meshes.capsule_mesh),
    (Sphere, Heightfield): Distance(4, meshes.sphere_heightfield),
    (Capsule, Heightfield): Distance(4, meshes.capsule_heightfield),
    **{(kind, TriangleMesh): Distance(surfaces.SLOTS, surfaces.convex_mesh) for kind in _CONVEX},
    **{(kind, Heightfield): Distance(surfaces.SLOTS, surfaces.convex_heightfield) for kind in _CONVEX},
    (Sphere, Sphere): Distance(1, spheres.sphere_sphere),
    (Sphere, Capsule): Distance(1, spheres.sphere_capsule),
    (Sphere, Box): Distance(1, spheres.sphere_box),
    (Sphere, Cylinder): Distance(1, spheres.sphere_cylinder),
    (Sphere, Disc): Distance(1, spheres.sphere_disc),
    (Sphere, Ellipsoid): Distance(1, spheres.sphere_ellipsoid),
    (Sphere, ConvexMesh): Distance(1, spheres.sphere_convex),
    (Box, Box): Distance(4, boxes.box_box),
    (Capsule, Capsule): Distance(2, capsules.capsule_capsule),
    (Capsule, Cylinder): Distance(4, convex.rod_rod),
    (Cylinder, Cylinder): Distance(4, convex.rod_rod),
    **{(Capsule, kind): Distance(2, convex.convex_line) for kind in (Box, ConvexMesh, Disc)},
    **{(kind, Ellipsoid): Distance(1, convex.convex_point) for kind in (Capsule, Box, Cylinder, ConvexMesh, Disc)},
    (Ellipsoid, Ellipsoid): Distance(1, convex.convex_point),
    **{(Box, kind): Distance(4, convex.convex_patch) for kind in (Cylinder, ConvexMesh, Disc)},
    **{(Cylinder, kind): Distance(4, convex.convex_patch) for kind in (ConvexMesh, Disc)},
    **{(ConvexMesh, kind): Distance(4, convex.convex_patch) for kind in (ConvexMesh, Disc)},
}


def slots(first: AbstractShape, second: AbstractShape) -> int:
    """The number of contact points that two shapes have at most; stacked shapes count as one.

    Raises ValueError for a pair without a distance.
    """
    return _find(first, second)[0].slots


def has_search(first: AbstractShape, second: AbstractShape) -> bool:
    """Whether the points of a pair come from loops over triangles with a search for each."""
    return slots(first, second) == surfaces.SLOTS


def check_pair(first: AbstractShape, second: AbstractShape) -> None:
    """Raises ValueError for a pair without a distance, and for a body too large for the cells of a heightfield."""
    _, swap = _find(first, second)
    field, body = (first, second) if swap else (second, first)
    if not isinstance(field, Heightfield):
        return
    field, body = field.as_arrays(), body.as_arrays()
    if not checks.is_concrete(field, body):
        return
    # From the grid point next to its centre, which is up to half a cell away.
    cells = float(body.bounding_radius) / float(np.min(field.cell)) + 0.5
    if cells > field.reach * (1 + 1e-12):
        raise ValueError(
            f"{body!r} reaches {cells:.3g} cells of {field!r} beyond the grid point next to it, and {field.reach} are "
            f"looked at. Use `reach={int(np.ceil(cells))}`."
        )


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
    first_kind, second_kind = type(first), type(second)
    for key, swap in (((first_kind, second_kind), False), ((second_kind, first_kind), True)):
        if key in _PAIRS:
            return _PAIRS[key], swap
    names = sorted((first_kind.__name__, second_kind.__name__))
    raise ValueError(f"There is no distance between shapes {names[0]} and {names[1]}. {_remedy(first, second)}")


def _remedy(first: AbstractShape, second: AbstractShape) -> str:
    """The remedy for a pair without a distance."""
    ends = first, second
    if all(isinstance(shape, Plane | Heightfield) for shape in ends):
        return "Both are ground: leave this pair out."
    if any(isinstance(shape, TriangleMesh) for shape in ends):
        return "Convex shapes and planes touch triangle meshes: divide this one into parts of ConvexMesh."
    if any(isinstance(shape, Heightfield) for shape in ends):
        return "Convex shapes touch heightfields: give the other body some of these."
    return (
        "Of two discs without thickness that lie on each other nothing says which one is above: use a Cylinder of "
        "small length in place of one of them."
    )
