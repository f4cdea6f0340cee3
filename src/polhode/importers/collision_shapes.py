"""Shapes of a file by which its links touch, on the bodies of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode.contact import shapes
from polhode.contact.shapes import AbstractShape
from polhode.contact.shapes.shape import Pose
from polhode.importers.compiled_meshes import HeightField
from polhode.importers.construction import Construction
from polhode.multibody.bodies import Body
from polhode.viewing.scene.mesh import AbstractMesh
from polhode.viewing.scene.robot_appearance import Shape

MOST_VERTICES = 64
"""Vertices of the hull of a mesh: the extreme ones along as many directions."""
_LEAST_REACH, _MOST_REACH = 2, 8
"""Cells of a height field that are looked at beside the middle of a shape: of bodies that are larger, contacts are not
carried."""


class CollisionShape(NamedTuple):
    """A shape on a body of the model.

    - `link`: the link of the file. - `geom`: number of MuJoCo's geom, or None.
    - `simplified`: whether the hull of its mesh has more vertices.
    """

    body: Body
    link: str
    shape: AbstractShape
    geom: int | None = None
    simplified: bool = False

    @property
    def pose(self) -> Pose:
        """Of its body at the start."""
        return jnp.asarray(self.body.x), jnp.asarray(self.body.R)

    @property
    def moves(self) -> bool:
        """Whether it isn't on the ground."""
        return self.body.kind != "ground"


def read_collisions(
    construction: Construction, collisions: Sequence[tuple[Shape, int | None]]
) -> tuple[list[CollisionShape], list[str]]:
    """The shapes, not yet on their bodies, and those that can't be used, with the reason."""
    usable: list[CollisionShape] = []
    unused: list[str] = []
    counts: dict[str, int] = {}
    bodies = {body.name: body for body in (construction.model.ground, *construction.model.bodies)}
    # What height fields look at depends on the size of other shapes: they come last.
    for drawn, geom in sorted(collisions, key=lambda one: isinstance(one[0].mesh, HeightField)):
        counts[drawn.link] = counts.get(drawn.link, 0) + 1
        number = counts[drawn.link]
        try:
            shape = convert(drawn, drawn.link if number == 1 else f"{drawn.link}-{number}", usable)
        except ValueError as error:
            unused.append(f"{drawn.link}: {str(error).rstrip('.')}")
            continue
        usable.append(CollisionShape(bodies[drawn.body], drawn.link, shape, geom, is_simplified(drawn)))
    return usable, unused


def convert(drawn: Shape, name: str, others: Sequence[CollisionShape] = ()) -> AbstractShape:
    """The same as a shape that can touch. - `others`: what may lie on it, if it is a height field.

    Raises ValueError for what has no counterpart.
    """
    place = {"position": drawn.x, "rotation": drawn.R, "name": name, "colour": drawn.colour}
    a, b, c = drawn.size if len(drawn.size) == 3 else (0.0, 0.0, 0.0)
    match drawn.kind:
        case "box":
            return shapes.Box(drawn.size, **place)
        case "ellipsoid" if a == b == c:
            return shapes.Sphere(a / 2, **place)
        case "ellipsoid":
            return shapes.Ellipsoid(drawn.size / 2, **place)
        case "cylinder":
            return shapes.Cylinder(a / 2, c, **place)
        case "capsule":
            return shapes.Capsule(a / 2, c - a, **place) if c > a else shapes.Sphere(a / 2, **place)
        case "plane":
            return shapes.Plane(**place)
        case "mesh" if isinstance(drawn.mesh, HeightField):
            largest = max((float(one.shape.bounding_radius) for one in others if one.moves), default=0.0)
            cells = int(np.ceil(largest / drawn.mesh.cell + 0.5))
            return drawn.mesh.surface(int(np.clip(cells, _LEAST_REACH, _MOST_REACH)), **place)
        case "mesh" if drawn.mesh is not None:
            return shapes.ConvexMesh(extreme_points(_vertices(drawn.mesh)), **place)
        case kind:
            raise ValueError(f"shapes of the kind {kind} can't touch anything")


def is_simplified(drawn: Shape) -> bool:
    """Whether the hull of a mesh has more vertices than its shape."""
    from scipy.spatial import ConvexHull  # Loaded when it is needed: it takes 0.1 s.

    if drawn.mesh is None or isinstance(drawn.mesh, HeightField):
        return False
    return len(ConvexHull(_vertices(drawn.mesh)).vertices) > MOST_VERTICES


def _vertices(mesh: AbstractMesh) -> np.ndarray:
    return np.concatenate([part.triangles.vertices for part in mesh.parts()])


def extreme_points(points: np.ndarray, most: int = MOST_VERTICES) -> np.ndarray:
    """Vertices of the convex hull, at most so many: those farthest along directions spread over the sphere.

    Raises ValueError where the points lie in one plane.
    """
    from scipy.spatial import ConvexHull, QhullError  # Loaded when they are needed: it takes 0.1 s.

    try:
        hull = points[ConvexHull(points).vertices]
    except QhullError:
        raise ValueError("meshes whose vertices lie in one plane have no hull, and can't touch anything") from None
    if len(hull) <= most:
        return hull
    count = most - 6
    k = np.arange(count) + 0.5
    polar, turn = np.arccos(1 - 2 * k / count), np.pi * (1 + 5**0.5) * k
    directions = np.stack((np.cos(turn) * np.sin(polar), np.sin(turn) * np.sin(polar), np.cos(polar)), axis=1)
    axes = np.concatenate((np.eye(3), -np.eye(3)))
    return hull[np.unique(np.argmax(hull @ np.concatenate((directions, axes)).T, axis=0))]
