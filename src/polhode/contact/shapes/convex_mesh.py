"""Convex hulls of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode.contact.farthest_row import farthest_row
from polhode.contact.shapes.shape import AbstractConvex, Face, Pose
from polhode.contact.shapes.triangles import check_vertices, enclosed_volume

_MOST = 8
"""Corners of a face that patches of contact are made from."""


ALIKE = 64
"""Vertices up to which the hulls of a model are given as many as the largest of these has."""


class _Hull(NamedTuple):
    """Triangles and faces of a hull.

    - `corners`: of its triangles, counter-clockwise from outside; (f, 3, 3).
    - `normals`: outward unit normals of its faces, coplanar triangles taken together; (p, 3).
    - `offsets`: distances of these faces from the origin along their normals; (p,).
    - `polygons`: corners of these faces in turn, at most eight, the last one repeated; `numbers`: of them.
    """

    corners: Float[Array, "f 3 3"]
    normals: Float[Array, "p 3"]
    offsets: Float[Array, " p"]
    polygons: Float[Array, "p k 3"]
    numbers: Int[Array, "p k"]


@final
class ConvexMesh(AbstractConvex):
    """The convex hull of points.

    **Arguments:**

    - `vertices`: at least four points that don't lie in a plane, shape (n, 3), in the shape's own frame. Those inside
      the hull are left out.
    """

    is_round: ClassVar[bool] = False

    vertices: Any
    _hull: Any = eqx.field(kw_only=True, default=None)
    _radius: Any = eqx.field(kw_only=True, default=None)

    def _check(self) -> None:
        from scipy.spatial import ConvexHull, QhullError  # Loaded when it is needed: it takes 0.1 s.

        points = check_vertices(self.vertices, 4)
        try:
            hull = ConvexHull(points)
        except QhullError as error:
            raise ValueError(
                f"`vertices` must span a volume, but the {len(points)} points lie in a plane or nearly so. "
                "Give flat things a thickness."
            ) from error
        corners = points[hull.simplices]
        across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        inward = np.sum(across * hull.equations[:, :3], axis=1) < 0
        corners[inward] = corners[inward][:, ::-1]
        planes = _distinct_planes(hull.equations, np.max(np.abs(points)))
        self.vertices = jnp.asarray(points[hull.vertices])
        # Kept, as steps would read all vertices for it.
        self._radius = jnp.sqrt(jnp.max(jnp.sum(self.vertices**2, axis=1)))
        self._hull = _Hull(
            *map(jnp.asarray, (corners, planes[:, :3], -planes[:, 3], *_polygons(points[hull.vertices], planes)))
        )

    @property
    def hull(self) -> _Hull:
        """Its triangles and faces."""
        return self._hull

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return self._radius

    @property
    def centre(self) -> Float[Array, "3"]:
        return jnp.mean(self.vertices, axis=0)

    @property
    def inner_radius(self) -> Float[Array, ""]:
        return jnp.min(self.hull.offsets - self.hull.normals @ self.centre)

    def bounds(self, pose: Pose) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        x, R = self.pose_in(pose)
        points = x + self.vertices @ R.T
        return jnp.min(points, axis=0), jnp.max(points, axis=0)

    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"]:
        return self.vertices[farthest_row(self.vertices, direction)]

    def face(self, direction: Float[Array, "3"], across: Float[Array, "3"]) -> Face:
        del across
        chosen = farthest_row(self.hull.normals, direction)
        numbers = self.hull.numbers[chosen]
        return Face(self.hull.polygons[chosen], self.hull.normals[chosen], jnp.array(True), numbers)

    @classmethod
    def equalise(cls, shapes: Sequence[Self]) -> Sequence[Self]:
        few = [shape for shape in shapes if len(shape.vertices) <= ALIKE]
        arrays = [(shape.vertices, *shape.hull) for shape in few]
        longest = [np.max([np.shape(array) for array in each], axis=0) for each in zip(*arrays, strict=True)]
        padded = iter([tuple(map(_repeat_last, each, longest)) for each in arrays])
        return [shape._with_arrays(*next(padded)) if len(shape.vertices) <= ALIKE else shape for shape in shapes]

    def _with_arrays(self, vertices: np.ndarray, *hull: np.ndarray) -> Self:
        """The same hull, with arrays that hold some rows several times."""
        arrays = jnp.asarray(vertices), _Hull(*map(jnp.asarray, hull))
        return eqx.tree_at(lambda shape: (shape.vertices, shape._hull), self, arrays)

    def _volume_properties(self) -> tuple[Array, Array, Array]:
        return enclosed_volume(self.hull.corners)


def _repeat_last(array: Array, shape: np.ndarray) -> np.ndarray:
    """An array of this shape, with copies of the last rows."""
    return np.pad(array, [(0, most - count) for most, count in zip(shape, np.shape(array), strict=True)], mode="edge")


def _distinct_planes(equations: np.ndarray, size: float) -> np.ndarray:
    """Planes of a hull without those that differ by rounding only, as its triangles of one face do."""
    from scipy.spatial import KDTree  # Loaded when it is needed: it takes 0.1 s.

    alike = KDTree(equations / [1, 1, 1, size]).query_pairs(1e-9, p=np.inf, output_type="ndarray")
    return np.delete(equations, alike[:, 1], axis=0)


def _polygons(vertices: np.ndarray, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners of each face, counter-clockwise from outside, and their numbers; above 64 these are of the face alone."""
    size = np.max(np.abs(vertices))
    rows = []
    for *normal, offset in planes:
        on = np.flatnonzero(np.abs(vertices @ normal + offset) < 1e-9 * size)
        away = vertices[on] - vertices[on].mean(axis=0)
        across = away[0] - (away[0] @ normal) * np.array(normal)
        angles = np.arctan2(away @ np.cross(normal, across), away @ across)
        turn = on[np.argsort(angles)]
        rows.append(turn[np.linspace(0, len(turn), _MOST, endpoint=False).astype(int)] if len(turn) > _MOST else turn)
    longest = max(map(len, rows))
    numbers = np.array([[*row, *[row[-1]] * (longest - len(row))] for row in rows])
    return vertices[numbers], numbers if len(vertices) <= 64 else np.broadcast_to(np.arange(longest), numbers.shape)
