"""Triangle meshes of the parts of scenes, for film and for files without primitive shapes."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from polhode.viewing.scene.scene import Body, Scene
from polhode.viewing.style import AXES

_RINGS, _SECTORS = 14, 24
_SIDES = 10
_TURNS = 8
_STRAIGHT = 0.15
"""Number of coils of a spring, and the fraction of its length that is straight at each end."""
THIN = 0.0035
"""Radius of a thin line, relative to the radius of the motion."""


class Surface(NamedTuple):
    """Triangles with normals.

    - `vertices`, `normals`: (n, 3). - `faces`: (m, 3), numbers of vertices.
    - `marks`: (n,), positive in two opposite quadrants, negative in the others, so that rotations are visible.
    """

    vertices: np.ndarray
    normals: np.ndarray
    faces: np.ndarray
    marks: np.ndarray

    def moved_by(self, x: np.ndarray, R: np.ndarray) -> Surface:
        """The surface rotated by R (3, 3), then translated by x."""
        return self._replace(vertices=self.vertices @ R.T + x, normals=self.normals @ R.T)


def of_body(body: Body, scene: Scene) -> list[tuple[Surface, str]]:
    """Surfaces of a body in its frame, each with its colour."""
    size, at, turn = (np.asarray(value, dtype=float) for value in (body.size, body.at, body.turn))
    if body.shape == "frame":
        thick = 0.04 * float(np.max(size))
        surfaces = []
        for i, colour in enumerate(AXES):
            axes = np.roll(np.eye(3), i + 1, axis=0).T
            rod = _scale(_cylinder(), np.array([thick, thick, size[i]]))
            centre = at + turn[:, i] * size[i] / 2
            surfaces.append((rod.moved_by(centre, turn @ axes), colour))
        return surfaces
    if body.shape == "capsule":
        d, inner = size[0], max(size[2] - size[0], 0.0)
        end = _scale(ball(), np.full(3, d))
        shapes = [_scale(_cylinder(), np.array([d, d, max(inner, 1e-9)]))]
        shapes += [end.moved_by(np.array([0, 0, side * inner / 2]), np.eye(3)) for side in (-1, 1)]
    elif body.shape == "mesh" and body.mesh is not None:
        shapes = [_scale(_unpack(scene.meshes[body.mesh]), size)]
    else:
        shapes = [_scale(_SHAPES[body.shape](), size)]
    return [(shape.moved_by(at, turn), body.colour) for shape in shapes]


def tube(nodes: np.ndarray, radius: float | np.ndarray) -> Surface:
    """A cylinder for each segment of a line (n, 3), with balls at its nodes; marks are numbers of segments."""
    starts, ends = nodes[:-1], nodes[1:]
    lengths = np.linalg.norm(ends - starts, axis=1)
    R = frames(ends - starts)
    unit, count = stick(), len(starts)
    size = np.stack([np.full(count, 2 * radius), np.full(count, 2 * radius), lengths], axis=1)
    vertices = np.einsum("sij,svj->svi", R, unit.vertices * size[:, None]) + (starts + ends)[:, None] / 2
    normals = np.einsum("sij,vj->svi", R, unit.normals)
    numbers = np.repeat(np.arange(count), len(unit.vertices))
    faces = unit.faces + (np.arange(count) * len(unit.vertices))[:, None, None]
    sticks = Surface(vertices.reshape(-1, 3), normals.reshape(-1, 3), faces.reshape(-1, 3), numbers.astype(float))
    ball = _small_ball()
    places = (ball.vertices * 2 * radius)[None] + nodes[:, None]
    faces = ball.faces + (np.arange(len(nodes)) * len(ball.vertices))[:, None, None]
    marks = np.repeat(np.minimum(np.arange(len(nodes)), count - 1), len(ball.vertices)).astype(float)
    balls = Surface(places.reshape(-1, 3), np.tile(ball.normals, (len(nodes), 1)), faces.reshape(-1, 3), marks)
    return join([sticks, balls])


def coil(start: np.ndarray, end: np.ndarray, radius: float) -> np.ndarray:
    """Nodes (n, 3) of a helical spring between two points, with straight ends."""
    turn = np.linspace(0, 2 * np.pi * _TURNS, 10 * _TURNS + 1)
    along = np.linalg.norm(end - start) * np.linspace(_STRAIGHT, 1 - _STRAIGHT, len(turn))
    axis = np.zeros((2, 3))
    axis[:, 2] = along[[0, -1]]
    helix = np.stack([radius * np.cos(turn), radius * np.sin(turn), along], axis=1)
    R = frames((end - start)[None])[0]
    return np.vstack([start, start + np.vstack([axis[:1], helix, axis[1:]]) @ R.T, end])


def frames(directions: np.ndarray) -> np.ndarray:
    """Rotations (n, 3, 3) that map the third axis to some directions (n, 3)."""
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    e3 = np.where(lengths > 0, directions / np.where(lengths > 0, lengths, 1.0), [0.0, 0.0, 1.0])
    helper = np.where(np.abs(e3[:, :1]) < 0.9, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    e2 = np.cross(e3, helper)
    e2 /= np.linalg.norm(e2, axis=1, keepdims=True)
    return np.stack([np.cross(e2, e3), e2, e3], axis=2)


def arrow(foot: np.ndarray, vector: np.ndarray, radius: float) -> Surface | None:
    """An arrow with shaft and head; None if it would be shorter than its thickness."""
    length = float(np.linalg.norm(vector))
    if length < 4 * radius:
        return None
    head = min(12 * radius, length / 2)
    R = frames(vector[None])[0]
    shaft = _scale(stick(), np.array([2 * radius, 2 * radius, length - head]))
    tip = _scale(_cone(), np.array([6.4 * radius, 6.4 * radius, head]))
    middle, last = foot + R[:, 2] * (length - head) / 2, foot + R[:, 2] * (length - head / 2)
    return join([shaft.moved_by(middle, R), tip.moved_by(last, R)])


def join(surfaces: list[Surface]) -> Surface:
    """Several surfaces as one."""
    starts = np.cumsum([0, *(len(surface.vertices) for surface in surfaces[:-1])])
    faces = [surface.faces + start for surface, start in zip(surfaces, starts, strict=True)]
    return Surface(
        np.concatenate([surface.vertices for surface in surfaces]),
        np.concatenate([surface.normals for surface in surfaces]),
        np.concatenate(faces),
        np.concatenate([surface.marks for surface in surfaces]),
    )


def _scale(surface: Surface, size: np.ndarray) -> Surface:
    """The surface scaled along its axes."""
    normals = surface.normals / np.where(size > 0, size, 1.0)
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    return surface._replace(vertices=surface.vertices * size, normals=normals)


def _with_marks(vertices: np.ndarray, normals: np.ndarray, faces: np.ndarray) -> Surface:
    return Surface(vertices, normals, faces, vertices[:, 0] * vertices[:, 1])


@functools.cache
def _box() -> Surface:
    vertices, normals, faces = [], [], []
    for axis in range(3):
        for side in (-0.5, 0.5):
            corners = np.zeros((9, 3))
            grid = np.array([-0.5, 0.0, 0.5])
            corners[:, axis] = side
            corners[:, (axis + 1) % 3] = np.repeat(grid, 3)
            corners[:, (axis + 2) % 3] = np.tile(grid, 3)
            normal = np.zeros(3)
            normal[axis] = 2 * side
            start = 9 * len(vertices)
            cells = [(3 * i + j, 3 * i + j + 3, 3 * i + j + 4, 3 * i + j + 1) for i in range(2) for j in range(2)]
            oriented_cells = cells if side > 0 else [cell[::-1] for cell in cells]
            faces += [
                (start + c[a], start + c[b], start + c[d]) for c in oriented_cells for a, b, d in ((0, 1, 2), (0, 2, 3))
            ]
            vertices.append(corners)
            normals.append(np.tile(normal, (9, 1)))
    return _with_marks(np.concatenate(vertices), np.concatenate(normals), np.array(faces))


@functools.cache
def ball(rings: int = _RINGS, sectors: int = _SECTORS) -> Surface:
    """A ball of diameter one."""
    a, b = np.linspace(0, np.pi, rings + 1), np.linspace(0, 2 * np.pi, sectors + 1)
    A, B = np.meshgrid(a, b, indexing="ij")
    normals = np.stack([np.sin(A) * np.cos(B), np.sin(A) * np.sin(B), np.cos(A)], axis=2).reshape(-1, 3)
    return _with_marks(normals / 2, normals, _grid(rings, sectors))


@functools.cache
def _small_ball() -> Surface:
    return ball(6, _SIDES)


@functools.cache
def _cylinder(sectors: int = _SECTORS, top: float = 1.0) -> Surface:
    b = np.linspace(0, 2 * np.pi, sectors + 1)
    ring = np.stack([np.cos(b), np.sin(b), 0 * b], axis=1)
    low, high = ring / 2 - [0, 0, 0.5], top * ring / 2 + [0, 0, 0.5]
    slope = ring + np.array([0, 0, (1 - top) / 2])
    slope /= np.linalg.norm(slope, axis=1, keepdims=True)
    vertices = [low, high, low, [[0, 0, -0.5]], high, [[0, 0, 0.5]]]
    down, up = np.tile([0.0, 0.0, -1.0], (sectors + 2, 1)), np.tile([0.0, 0.0, 1.0], (sectors + 2, 1))
    n, k = sectors + 1, np.arange(sectors)
    side = [np.stack([k, k + 1, n + k + 1], axis=1), np.stack([k, n + k + 1, n + k], axis=1)]
    bottom = np.stack([2 * n + k + 1, 2 * n + k, np.full(sectors, 3 * n)], axis=1)
    lid = np.stack([3 * n + 1 + k, 3 * n + 2 + k, np.full(sectors, 4 * n + 1)], axis=1)
    normals = np.concatenate([slope, slope, down, up])
    return _with_marks(np.concatenate(vertices).astype(float), normals, np.concatenate([*side, bottom, lid]))


@functools.cache
def stick() -> Surface:
    """A cylinder of diameter and length one, with few sides."""
    return _cylinder(_SIDES)


@functools.cache
def _cone() -> Surface:
    return _cylinder(16, 0.0)


def _unpack(mesh: Mapping[str, str]) -> Surface:
    """Unpacks triangles that `polhode.viewing.scene.mesh` has packed, each with its own normal."""
    numbers, faces = (np.frombuffer(base64.b64decode(mesh[key]), "<u2").reshape(-1, 3) for key in ("vertices", "faces"))
    corners = (numbers / 65535.0 - 0.5)[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    sizes = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.where(sizes > 0, normals / np.where(sizes > 0, sizes, 1.0), [0.0, 0.0, 1.0])
    return _with_marks(corners.reshape(-1, 3), np.repeat(normals, 3, axis=0), np.arange(3 * len(faces)).reshape(-1, 3))


def _grid(rings: int, sectors: int) -> np.ndarray:
    i, j = np.meshgrid(np.arange(rings), np.arange(sectors), indexing="ij")
    a = (i * (sectors + 1) + j).ravel()
    c = a + sectors + 1
    return np.concatenate([np.stack([a, c, c + 1], axis=1), np.stack([a, c + 1, a + 1], axis=1)])


_SHAPES = {"box": _box, "ellipsoid": ball, "cylinder": _cylinder, "cone": _cone}
