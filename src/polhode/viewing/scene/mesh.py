"""Triangle meshes, decimated for pages."""

from __future__ import annotations

import abc
import base64
import dataclasses
import hashlib
from typing import Any, NamedTuple

import numpy as np

MOST_FACES = 2_000
"""Largest number of triangles of a mesh on a page."""
_TRIES = 8
_FLAT = 1e-6
"""Least extent of a mesh in one direction, relative to its largest one."""
_MOST_CELLS = 30
"""Grid cells per vertex up to which occupied cells are marked in an array instead of sorted."""
_SHARP = 1e-3
"""Relative eigenvalue below which the quadric of planes leaves the position in this direction undetermined."""


@dataclasses.dataclass(frozen=True, eq=False)
class Triangles:
    """Vertices (n, 3) and faces (m, 3), numbers of vertices."""

    vertices: np.ndarray
    faces: np.ndarray

    def scale(self, factors: np.ndarray) -> Triangles:
        """The triangles scaled along the axes of their frame; negative factors mirror them."""
        return Triangles(self.vertices * factors, self.faces)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and full extents (3,) of the box around them, no extent quite zero."""
        low, high = self.vertices.min(axis=0), self.vertices.max(axis=0)
        extents = high - low
        return (low + high) / 2, np.maximum(extents, _FLAT * (float(np.max(extents)) or 1.0))

    def digest(self) -> bytes:
        """Of all numbers, to the last bit."""
        content = hashlib.blake2b(digest_size=16)
        for numbers in (self.vertices, self.faces):
            content.update(f"{numbers.dtype.str} {numbers.shape}\0".encode())
            content.update(np.ascontiguousarray(numbers).tobytes())
        return content.digest()

    def pack(self) -> dict[str, str]:
        """Vertices as 16-bit numbers within their bounding box, and faces, as base64 text."""
        centre, extents = self.bounds()
        places = np.rint(((self.vertices - centre) / extents + 0.5) * 65535).clip(0, 65535)
        return {"vertices": _text(places), "faces": _text(self.faces)}


class AbstractMesh(abc.ABC):
    """A source of triangles, which are read when a scene is built."""

    @abc.abstractmethod
    def parts(self) -> tuple[ColouredTriangles, ...]:
        """Parts with at most `MOST_FACES` triangles in total. Raises ValueError, with the reason, if unreadable."""

    @abc.abstractmethod
    def digest(self) -> bytes | None:
        """Of all that its parts follow from, besides the sources of this library; None where that is not known."""


class ColouredTriangles(NamedTuple):
    """Triangles of one colour, "#rrggbb" or None if it is unknown."""

    triangles: Triangles
    colour: str | None


def _text(numbers: np.ndarray) -> str:
    return base64.b64encode(numbers.astype("<u2").tobytes()).decode()


def digest(arrays: dict[str, str]) -> str:
    """A digest of packed triangles."""
    return hashlib.blake2s("".join(arrays.values()).encode(), digest_size=8).hexdigest()


def decimate(mesh: Triangles, most: int = MOST_FACES) -> Triangles:
    """A mesh of at most `most` faces and nearly the same shape, by clustering vertices in the cells of a grid.

    A cluster becomes the point nearest to the planes of its faces, which keeps edges and corners.
    Peter Lindstrom, "Out-of-core simplification of large polygonal models", SIGGRAPH 2000, equations 5 to 7.
    """
    mesh = _finite(mesh)
    if len(mesh.faces) <= most:
        return _weld(mesh)
    low, extents = mesh.vertices.min(axis=0), np.ptp(mesh.vertices, axis=0)
    longest = float(np.max(extents))
    cells, best = float(np.sqrt(most)), None
    for _ in range(_TRIES):
        clusters = _clusters((mesh.vertices - low) * (cells / longest))
        faces = _distinct_faces(clusters[mesh.faces])
        if len(faces) <= most and (best is None or len(faces) > len(best[1])):
            best = clusters, faces, longest / cells
        if 0.9 * most <= len(faces) <= most:
            break
        # Faces grow like the square of the cells along an edge.
        cells *= float(np.clip(np.sqrt(0.95 * most / max(len(faces), 1)), 0.3, 3.0))
    if best is None or not len(best[1]):
        return Triangles(*_box(low, low + extents))
    clusters, faces, cell = best
    return _without_unused(Triangles(_representatives(mesh, clusters, cell), faces))


def _finite(mesh: Triangles) -> Triangles:
    """The mesh without faces that have non-finite coordinates."""
    fine = np.asarray(np.isfinite(mesh.vertices).all(axis=1))
    if fine.all():
        return mesh
    return _without_unused(Triangles(mesh.vertices, mesh.faces[fine[mesh.faces].all(axis=1)]))


def _weld(mesh: Triangles) -> Triangles:
    """Merges equal vertices and removes faces that become degenerate."""
    vertices, place = np.unique(mesh.vertices.astype(np.float32), axis=0, return_inverse=True)
    return _without_unused(Triangles(vertices.astype(float), _distinct_faces(place.reshape(-1)[mesh.faces])))


def _distinct_faces(faces: np.ndarray) -> np.ndarray:
    """Faces with three different vertices, each triple once."""
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    if not len(faces):
        return faces.reshape(-1, 3)
    corners = np.sort(faces, axis=1).astype(np.int64)
    count = int(corners.max()) + 1
    if count < 2**21:
        _, first = np.unique((corners[:, 0] * count + corners[:, 1]) * count + corners[:, 2], return_index=True)
    else:
        _, first = np.unique(corners, axis=0, return_index=True)
    return faces[np.sort(first)]


def _without_unused(mesh: Triangles) -> Triangles:
    used, places = np.unique(mesh.faces, return_inverse=True)
    return Triangles(mesh.vertices[used], places.reshape(-1, 3))


def _clusters(vertices: np.ndarray) -> np.ndarray:
    """The number of the occupied cell of the unit grid in which each vertex lies."""
    cell = np.floor(vertices).astype(np.int64)
    cell -= cell.min(axis=0)
    sides = cell.max(axis=0) + 1
    keys = (cell[:, 0] * sides[1] + cell[:, 1]) * sides[2] + cell[:, 2]
    cells = int(np.prod(sides))
    if cells > _MOST_CELLS * len(keys):
        return np.unique(keys, return_inverse=True)[1].reshape(-1)
    # Marking cells takes a tenth of the time that sorting vertices does.
    occupied = np.zeros(cells, bool)
    occupied[keys] = True
    return (np.cumsum(occupied) - 1)[keys]


def _representatives(mesh: Triangles, clusters: np.ndarray, cell: float) -> np.ndarray:
    """One point for each cluster: nearest to the planes of its faces, and to the mean where these leave it open."""
    count = int(clusters.max()) + 1
    sizes = np.bincount(clusters, minlength=count)
    mean = np.stack([np.bincount(clusters, x, count) for x in mesh.vertices.T], axis=1) / sizes[:, None]
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    # Planes n·x = d, weighted by the squares of areas; relative to the means, which keeps digits.
    A, b = np.zeros((count, 9)), np.zeros((count, 3))
    moments = (normals[:, :, None] * normals[:, None, :]).reshape(-1, 9)
    for corner in range(3):
        owner = clusters[mesh.faces[:, corner]]
        height = np.sum(normals * (corners[:, 0] - mean[owner]), axis=1)
        for k in range(9):
            A[:, k] += np.bincount(owner, moments[:, k], count)
        for k in range(3):
            b[:, k] += np.bincount(owner, normals[:, k] * height, count)
    values, vectors = np.linalg.eigh(A.reshape(-1, 3, 3))
    is_determined = values > _SHARP * np.maximum(values[:, 2:], np.finfo(float).tiny)
    inverse = np.where(is_determined, 1 / np.where(is_determined, values, 1.0), 0.0)
    shift = np.einsum("nij,nj,nkj,nk->ni", vectors, inverse, vectors, b)
    return mean + np.clip(shift, -cell, cell)


def _box(low: np.ndarray, high: np.ndarray) -> tuple[Any, Any]:
    """A box, for meshes of which no grid keeps a face."""
    corners = np.array([[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return corners, np.array([face for a, b, c, d in quads for face in ((a, b, c), (a, c, d))])
