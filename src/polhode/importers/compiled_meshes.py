"""Meshes and height fields of a compiled MuJoCo model."""

from __future__ import annotations

import abc
from typing import Any, final

import numpy as np

from polhode.contact import shapes
from polhode.viewing.scene.mesh import AbstractMesh, ColouredTriangles, Triangles, decimate

_SAMPLES = 30
"""Points of a height field along an edge at most, as it is drawn."""


class _AbstractLazyMesh(AbstractMesh):
    """Triangles of a compiled model, decimated when they are first used."""

    def __init__(self, m: Any, number: int) -> None:
        self._compiled, self._number = m, number
        self._parts: tuple[ColouredTriangles, ...] | None = None

    def parts(self) -> tuple[ColouredTriangles, ...]:
        if self._parts is None:
            self._parts = (ColouredTriangles(decimate(self._triangles(self._compiled, self._number)), None),)
        return self._parts

    def digest(self) -> bytes:
        return self._triangles(self._compiled, self._number).digest()

    @abc.abstractmethod
    def _triangles(self, m: Any, number: int) -> Triangles: ...


@final
class CompiledMesh(_AbstractLazyMesh):
    """A mesh."""

    def _triangles(self, m: Any, number: int) -> Triangles:
        first, face = int(m.mesh_vertadr[number]), int(m.mesh_faceadr[number])
        vertices = m.mesh_vert[first : first + int(m.mesh_vertnum[number])]
        return Triangles(vertices.astype(float), m.mesh_face[face : face + int(m.mesh_facenum[number])].astype(int))


@final
class HeightField(_AbstractLazyMesh):
    """The surface of a height field."""

    def surface(self, reach: int, **place: Any) -> shapes.Heightfield:
        """All of it, as a shape that can touch; both codes divide cells along the same diagonal."""
        half_x, half_y, top, _ = self._compiled.hfield_size[self._number]
        heights = top * _elevations(self._compiled, self._number).T.astype(float)
        return shapes.Heightfield(heights, size=(2 * half_x, 2 * half_y), reach=reach, **place)

    @property
    def cell(self) -> float:
        """The shorter edge of a cell."""
        rows, columns = _elevations(self._compiled, self._number).shape
        half_x, half_y, _, _ = self._compiled.hfield_size[self._number]
        return float(min(2 * half_x / (columns - 1), 2 * half_y / (rows - 1)))

    def _triangles(self, m: Any, number: int) -> Triangles:
        heights = _elevations(m, number)
        rows, columns = heights.shape
        i, j = (np.unique(np.linspace(0, n - 1, min(n, _SAMPLES)).round().astype(int)) for n in (rows, columns))
        half_x, half_y, top, _ = m.hfield_size[number]
        x, y = half_x * (2 * j / (columns - 1) - 1), half_y * (2 * i / (rows - 1) - 1)
        X, Y = np.meshgrid(x, y)
        corner = (np.arange(len(i) - 1)[:, None] * len(j) + np.arange(len(j) - 1)).reshape(-1)
        a, b, c, d = corner, corner + 1, corner + len(j) + 1, corner + len(j)
        faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
        return Triangles(np.stack([X, Y, top * heights[np.ix_(i, j)]], axis=-1).reshape(-1, 3), faces)


def _elevations(m: Any, number: int) -> np.ndarray:
    """Between 0 and 1, in rows along y."""
    rows, columns = int(m.hfield_nrow[number]), int(m.hfield_ncol[number])
    first = int(m.hfield_adr[number])
    return m.hfield_data[first : first + rows * columns].reshape(rows, columns)
