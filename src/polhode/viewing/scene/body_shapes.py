"""The appearance of bodies that were given shapes in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode.checks import short_repr
from polhode.contact import shapes
from polhode.contact.shapes import AbstractShape
from polhode.viewing.scene.mesh import ColouredTriangles, Triangles, decimate
from polhode.viewing.scene.robot_appearance import Machine, Shape

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

_THIN = 0.02
"""Thickness of a disc over its diameter."""


def machine_of(model: ModelParts) -> Machine | None:
    """Bodies with shapes as a file would describe them; None where no body has any."""
    bodies = [body for body in (model.ground, *model.bodies) if body.shapes]
    if not any(body is not model.ground for body in bodies):
        return None
    drawn = [_draw(body.name, shape.as_arrays()) for body in bodies for shape in body.shapes]
    names = tuple(body.name for body in bodies if body is not model.ground)
    return Machine(names, model.ground.name, {}, (), tuple(drawn))


def _draw(body: str, shape: AbstractShape) -> Shape:
    kind, size, parts = _FORMS[type(shape)](shape)
    x, R = shape.pose_in((np.zeros(3), np.eye(3)))
    colour = None if shape.colour is None else _hex(shape)
    link, size = shape.name or body, np.asarray(size, float)
    return Shape(body, link, kind, size, np.asarray(x), np.asarray(R), colour, parts=parts)


def _hex(shape: AbstractShape) -> str:
    """The colour of a shape as "#rrggbb". Raises ValueError for what is none."""
    from matplotlib import colors

    colour = shape.colour
    try:
        return colors.to_hex(colour if isinstance(colour, str) else tuple(np.clip(np.asarray(colour, float), 0, 1)))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`colour` must be a word such as 'orange', '#rrggbb' or three numbers from 0 to 1, got "
            f"{short_repr(colour)} of {shape!r}."
        ) from error


def _round(radius: Any, length: Any) -> tuple[float, float, float]:
    return 2 * float(radius), 2 * float(radius), float(length)


def _triangles(corners: Any) -> tuple[str, tuple[float, float, float], tuple[ColouredTriangles, ...]]:
    points = np.asarray(corners, float).reshape(-1, 3)
    mesh = decimate(Triangles(points, np.arange(len(points)).reshape(-1, 3)))
    return "mesh", (0.0, 0.0, 0.0), (ColouredTriangles(mesh, None),)


_FORMS: Mapping[type[AbstractShape], Callable[[Any], tuple[str, Any, tuple[ColouredTriangles, ...]]]] = {
    shapes.Sphere: lambda s: ("ellipsoid", [2 * float(s.radius)] * 3, ()),
    shapes.Ellipsoid: lambda s: ("ellipsoid", 2 * np.asarray(s.semi_axes), ()),
    shapes.Box: lambda s: ("box", s.size, ()),
    shapes.Cylinder: lambda s: ("cylinder", _round(s.radius, s.length), ()),
    shapes.Disc: lambda s: ("cylinder", _round(s.radius, _THIN * s.radius), ()),
    shapes.Capsule: lambda s: ("capsule", _round(s.radius, s.length + 2 * s.radius), ()),
    shapes.Plane: lambda s: ("plane", (0.0, 0.0, 0.0), ()),
    shapes.ConvexMesh: lambda s: _triangles(s.hull.corners),
    shapes.TriangleMesh: lambda s: _triangles(s.corners),
    shapes.Heightfield: lambda s: _triangles(s.corners),
}
