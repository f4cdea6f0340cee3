"""Appearance of machines from files: shapes fixed to bodies, or a skeleton without shapes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.compiler.cache import disk_cache
from polhode.compiler.fingerprint import persistent_key
from polhode.viewing.scene.mesh import MOST_FACES, AbstractMesh, ColouredTriangles, Triangles, decimate, digest
from polhode.viewing.style import COLOURS

MOST_FACES_A_PAGE = 60_000
"""Largest number of triangles in all meshes of a page."""
_FEWEST = 50
_WORTH_STORING = 0.1
"""Seconds; meshes that are read faster are not stored."""
_SKELETON, _GROUND = "#555555", "#9aa3ad"
_FRAME = 0.06
"""Length of the axes of a frame, relative to the size of the machine."""
_THICK = 0.004
_REACH = 2.0
"""Thickness and largest extent of a plane, relative to the size of the machine."""


@dataclasses.dataclass(frozen=True, eq=False)
class Shape:
    """A surface that moves with a body of the model.

    - `body`: its name; `link`: name of the part with the shape in the file.
    - `kind`: "box", "ellipsoid", "cylinder" or "capsule" (axis along z), "plane" (normal z), "mesh".
    - `size`: full extents (3,); of a plane its first two, zero if it has no end; of a mesh nothing.
    - `x`, `R`: place (3,) and directions (3, 3) in the frame of the body.
    - `colour`: "#rrggbb", or None if the file doesn't say.
    - `mesh`: source of a mesh; `parts`: its triangles, once they are read.
    """

    body: str
    link: str
    kind: str
    size: np.ndarray
    x: np.ndarray
    R: np.ndarray
    colour: str | None = None
    mesh: AbstractMesh | None = None
    parts: tuple[ColouredTriangles, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Bone:
    """A line between two points, each fixed to a body; it stands for the body `of` as long as that has no shape."""

    of: str
    bodies: tuple[str, str]
    points: tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Machine:
    """The appearance of bodies in a file.

    - `bodies`: names of all bodies of the file, which have no other appearance; `ground`: that of the ground.
    - `frames`: body → place and directions of the frame of the file in that of the body.
    - `bones`: from joint to joint; `shapes`: all surfaces.
    """

    bodies: tuple[str, ...]
    ground: str
    frames: Mapping[str, tuple[np.ndarray, np.ndarray]]
    bones: tuple[Bone, ...]
    shapes: tuple[Shape, ...]

    def read(self) -> tuple[Machine, list[str]]:
        """The machine with the triangles of its meshes, decimated for a page, and the errors of unreadable meshes."""
        meshes = _load_or_read(self.shapes)
        shapes = [
            dataclasses.replace(shape, parts=tuple(meshes.parts[k] for k in places))
            for shape, places in zip(self.shapes, meshes.places, strict=True)
            if places is not None
        ]
        return dataclasses.replace(self, shapes=tuple(shapes)), list(meshes.problems)


class _Meshes(NamedTuple):
    """The triangles of shapes, decimated for a page.

    - `parts`: each once. - `places`: of each shape the numbers of its parts; None if its mesh is unreadable.
    - `problems`: errors of unreadable meshes. - `seconds`: that reading took.
    """

    parts: list[ColouredTriangles]
    places: list[tuple[int, ...] | None]
    problems: tuple[str, ...] = ()
    seconds: float = 0.0


def _load_or_read(shapes: Sequence[Shape]) -> _Meshes:
    """The meshes of shapes, on disk since an earlier process if reading them takes long."""
    return disk_cache.load_or_build(_key_of_meshes(shapes), lambda: _read(shapes), _SERIALISER, None)


def _key_of_meshes(shapes: Sequence[Shape]) -> bytes | None:
    """Of all that decides triangles, and which shapes share them; None where that is not known, or nothing to read."""
    first = {id(shape.mesh): number for number, shape in reversed(list(enumerate(shapes)))}
    digests = {id(shape.mesh): shape.mesh.digest() for shape in shapes if shape.mesh is not None}
    if not digests or None in digests.values():
        return None
    of_shapes = [None if shape.mesh is None else (first[id(shape.mesh)], digests[id(shape.mesh)]) for shape in shapes]
    return persistent_key("meshes of a page", MOST_FACES, MOST_FACES_A_PAGE, of_shapes)


def _read(shapes: Sequence[Shape]) -> _Meshes:
    began = time.perf_counter()
    read: list[Shape | None] = []
    problems: dict[str, None] = {}
    for shape in shapes:
        try:
            read.append(dataclasses.replace(shape, parts=shape.mesh.parts()) if shape.mesh else shape)
        except ValueError as error:
            read.append(None)
            problems[str(error)] = None
    coarse = iter(_few_enough([shape for shape in read if shape is not None]))
    of_shapes = [None if shape is None else next(coarse).parts for shape in read]
    parts = {id(part): part for some in of_shapes if some is not None for part in some}
    numbers = {part: number for number, part in enumerate(parts)}
    places = [None if some is None else tuple(numbers[id(part)] for part in some) for some in of_shapes]
    return _Meshes(list(parts.values()), places, tuple(problems), time.perf_counter() - began)


def _dump(meshes: _Meshes) -> Any:
    """Plain values; None where reading again is as good, and where something could not be read."""
    if meshes.problems or meshes.seconds < _WORTH_STORING:
        return None
    return [(of.vertices, of.faces, colour) for of, colour in meshes.parts], meshes.places


def _load(state: Any, inputs: Any) -> _Meshes:
    del inputs
    parts, places = state
    return _Meshes([ColouredTriangles(Triangles(x, faces), colour) for x, faces, colour in parts], places)


_SERIALISER = disk_cache.Serialiser(_dump, _load)


@dataclasses.dataclass(frozen=True)
class SceneParts:
    """Parts of a scene in plain values: `bodies`, `lines`, `meshes` by name, height of the `floor` or None."""

    bodies: list[dict[str, Any]]
    lines: list[dict[str, Any]]
    meshes: dict[str, dict[str, str]]
    floor: float | None


def to_scene_parts(
    machine: Machine, rows: Mapping[str, int], places: Mapping[str, np.ndarray], up: np.ndarray
) -> SceneParts:
    """The shapes of bodies, and frames and bones of bodies without shapes.

    **Arguments:**

    - `rows`: body → row of the outputs. - `places`: body → centre of mass (3,) at the start.
    - `up`: the direction shown upwards.
    """
    rows = {machine.ground: -1, **rows}
    bodies_with_shapes = {shape.body for shape in machine.shapes if shape.kind != "plane"}
    size = _size(machine, places)
    bodies, meshes = [], {}
    floor, shapes = _floor(machine, up)
    for shape in shapes:
        own = _colour(machine, shape.body)
        same = {"name": shape.body, "row": rows[shape.body], "colour": own, "marked": False}
        bodies += [same | solid for solid in _solids(shape, size, meshes)]
    bare = [name for name in machine.frames if name not in bodies_with_shapes and name in rows]
    for name in bare:
        x, R = machine.frames[name]
        solid = {"shape": "frame", "size": [_short(_FRAME * size)] * 3, **_placement(x, R)}
        bodies.append({"name": name, "row": rows[name], "colour": _SKELETON, "marked": False, **solid})
    lines = [
        {
            "name": "joints",
            "rows": [rows[body] for body in bone.bodies],
            "points": [_numbers(point) for point in bone.points],
            "colour": _SKELETON,
        }
        for bone in machine.bones
        if bone.of not in bodies_with_shapes and all(body in rows for body in bone.bodies)
    ]
    return SceneParts(bodies, lines, meshes, floor)


def _few_enough(shapes: list[Shape]) -> list[Shape]:
    """The shapes, with meshes decimated to the number of triangles of a page."""
    different = _different(shapes)
    count = sum(len(part.triangles.faces) for part in different)
    if count <= MOST_FACES_A_PAGE:
        return shapes
    share = MOST_FACES_A_PAGE / count
    coarse: dict[int, ColouredTriangles] = {}
    for part in different:
        most = max(_FEWEST, min(MOST_FACES, int(share * len(part.triangles.faces))))
        coarse[id(part)] = part._replace(triangles=decimate(part.triangles, most))
    return [dataclasses.replace(shape, parts=tuple(coarse[id(part)] for part in shape.parts)) for shape in shapes]


def _different(shapes: Iterable[Shape]) -> list[ColouredTriangles]:
    return list({id(part): part for shape in shapes for part in shape.parts}.values())


def _size(machine: Machine, places: Mapping[str, np.ndarray]) -> float:
    """Diagonal of the box around centres of mass, or the longest bone, at the start; one if both are zero."""
    centres = [place for name, place in places.items() if name in machine.bodies]
    lengths = [np.linalg.norm(bone.points[1] - bone.points[0]) for bone in machine.bones if len(set(bone.bodies)) == 1]
    diagonal = float(np.linalg.norm(np.ptp(centres, axis=0))) if centres else 0.0
    return max([diagonal, *map(float, lengths)]) or 1.0


def _floor(machine: Machine, up: np.ndarray) -> tuple[float | None, list[Shape]]:
    """The height of the highest level plane of the ground, which the page draws as its floor, and the other shapes."""
    level = {
        shape
        for shape in machine.shapes
        if shape.kind == "plane" and shape.body == machine.ground and shape.R[:, 2] @ up > 1 - 1e-9
    }
    height = max((float(shape.x @ up) for shape in level), default=None)
    return height, [shape for shape in machine.shapes if shape not in level]


def _solids(shape: Shape, size: float, meshes: dict[str, Any]) -> Iterable[dict[str, Any]]:
    colour = {} if shape.colour is None else {"colour": shape.colour}
    if shape.kind == "mesh":
        for triangles, of_part in shape.parts:
            mesh = triangles.pack()
            key, (centre, extents) = digest(mesh), triangles.bounds()
            meshes[key] = mesh
            own = colour if of_part is None else {"colour": of_part}
            place = _placement(shape.x + shape.R @ centre, shape.R)
            yield {"shape": "mesh", "mesh": key, "size": _numbers(extents), **place, **own}
        return
    extents, x, flags = shape.size, shape.x, {}
    if shape.kind == "plane":
        # A thin box below the plane, ignored for the field of view.
        sides = [min(side or np.inf, _REACH * size) for side in extents[:2]]
        extents = np.array([*sides, _THICK * size])
        x, flags = x - shape.R[:, 2] * extents[2] / 2, {"framed": False}
    kind = "box" if shape.kind == "plane" else shape.kind
    yield {"shape": kind, "size": _numbers(extents), **_placement(x, shape.R), **colour, **flags}


def _colour(machine: Machine, body: str) -> str:
    """Default colour of a body."""
    return _GROUND if body == machine.ground else COLOURS[machine.bodies.index(body) % len(COLOURS)]


def _placement(x: np.ndarray, R: np.ndarray) -> dict[str, Any]:
    return {"at": _numbers(x), "turn": [_numbers(row) for row in R]}


def _numbers(values: np.ndarray) -> list[float]:
    return [_short(value) for value in values]


def _short(value: float) -> float:
    """Rounded to seven digits, the precision of the page."""
    return float(f"{value:.7g}")
