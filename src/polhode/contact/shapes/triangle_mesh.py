"""Meshes of triangles."""

from __future__ import annotations

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.contact.shapes.shape import AbstractShape, Pose
from polhode.contact.shapes.triangles import (
    check_faces,
    check_sides,
    check_vertices,
    corners_beyond,
    enclosed_volume,
    is_closed,
    join_corners,
)


@final
class TriangleMesh(AbstractShape):
    """A surface of triangles, solid behind them, which need not be convex or closed.

    **Arguments:**

    - `vertices`: shape (n, 3), in the shape's own frame.
    - `faces`: triangles of vertex numbers, counter-clockwise seen from the free side, shape (f, 3). Vertices at the
      same place count as one, as in lists of triangles that share none.
    """

    vertices: Any
    faces: Any
    _corners: Any = eqx.field(kw_only=True, default=None)
    _beyond: Any = eqx.field(kw_only=True, default=None)

    def _check(self) -> None:
        vertices = check_vertices(self.vertices, 3)
        self.faces = join_corners(vertices, check_faces(self.faces, len(vertices)))
        corners = vertices[self.faces]
        across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        flat = np.flatnonzero(np.sum(across**2, axis=1) == 0)
        if len(flat):
            raise ValueError(f"`faces` has triangles without area: {flat[:12].tolist()}. Remove them.")
        check_sides(self.faces)
        self.vertices, self._corners = jnp.asarray(vertices), jnp.asarray(corners)
        self._beyond = jnp.asarray(vertices[corners_beyond(self.faces)])

    @property
    def corners(self) -> Float[Array, "f 3 3"]:
        """Corners of the triangles."""
        return self._corners

    @property
    def beyond(self) -> Float[Array, "f 3 3"]:
        """For each edge of each triangle the third corner of its neighbour; its own one where there is none."""
        return self._beyond

    def bounds(self, pose: Pose) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        x, R = self.pose_in(pose)
        points = x + self.vertices @ R.T
        return jnp.min(points, axis=0), jnp.max(points, axis=0)

    @property
    def bounding_radius(self) -> Float[Array, ""]:
        return jnp.sqrt(jnp.max(jnp.sum(self.vertices**2, axis=1)))

    def _volume_properties(self) -> tuple[Array, Array, Array]:
        if not is_closed(np.asarray(self.faces)):
            raise ValueError(f"{self!r} is not closed, so it has no volume. Give the body its mass and inertia.")
        return enclosed_volume(self.corners)
