"""Spheres and capsules against surfaces of triangles.

The nearest point of a triangle counts only where no neighbour of it is nearer, so that edges between triangles of a
flat or hollow surface are not felt.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.contact.distances.contact_points import APART, ContactPoints, tangent_of
from polhode.contact.distances.triangle import weights_of_nearest
from polhode.contact.shapes.capsule import Capsule
from polhode.contact.shapes.heightfield import Heightfield
from polhode.contact.shapes.shape import Pose
from polhode.contact.shapes.sphere import Sphere
from polhode.contact.shapes.triangle_mesh import TriangleMesh
from polhode.contact.shapes.triangles import corners_beyond, grid_faces
from polhode.contact.vectors import UP, Vector, cross, unit_or

_SLOTS = 4
_SAME = 1e-9
"""Distance relative to the radius within which points are the same one, of two triangles."""


class Triangles(NamedTuple):
    """Triangles in a frame: corners, the corners of their neighbours beyond each edge, and numbers.

    - `vertices`: numbers of the corners, which neighbours share.
    """

    corners: Float[Array, "f 3 3"]
    beyond: Float[Array, "f 3 3"]
    number: Int[Array, " f"]
    vertices: Int[Array, "f 3"]


class _Hits(NamedTuple):
    """The deepest points of a ball on triangles, in order: gap, nearest point, outward normal, triangle and part."""

    gap: Float[Array, " s"]
    point: Float[Array, "s 3"]
    normal: Float[Array, "s 3"]
    number: Int[Array, " s"]


def sphere_mesh(sphere: Sphere, pose: Pose, mesh: TriangleMesh, other: Pose) -> ContactPoints:
    """The deepest points of a sphere on all triangles."""
    return _ball(sphere, pose, all_triangles(mesh), other)


def sphere_heightfield(sphere: Sphere, pose: Pose, field: Heightfield, other: Pose) -> ContactPoints:
    """The deepest points of a sphere on the triangles around it."""
    return _ball(sphere, pose, window(field, pose[0], other), other)


def capsule_mesh(capsule: Capsule, pose: Pose, mesh: TriangleMesh, other: Pose) -> ContactPoints:
    """The deepest points of a capsule on all triangles."""
    return _swept_ball(capsule, pose, all_triangles(mesh), other)


def capsule_heightfield(capsule: Capsule, pose: Pose, field: Heightfield, other: Pose) -> ContactPoints:
    """The deepest points of a capsule on the triangles around it."""
    return _swept_ball(capsule, pose, window(field, pose[0], other), other)


def _ball(sphere: Sphere, pose: Pose, triangles: Triangles, frame: Pose) -> ContactPoints:
    local = frame[1].T @ (pose[0] - frame[0])

    def visit(consts: Any, hits: _Hits, row: Triangles) -> tuple[_Hits, tuple[()]]:
        centre, radius = consts
        return _insert(hits, _hit(centre, radius, row), radius), ()

    return _contacts(scan_rows(visit, (local, sphere.radius), _none(), triangles)[0], frame)


def _swept_ball(capsule: Capsule, pose: Pose, triangles: Triangles, frame: Pose) -> ContactPoints:
    """The contacts of both ends, and of places between them that are deeper than both suggest."""
    along = capsule.half * pose[1][:, 2]
    ends = jnp.stack([frame[1].T @ (pose[0] + side * along - frame[0]) for side in (-1, 1)])

    def visit_ends(consts: Any, hits: Any, row: Triangles) -> tuple[Any, tuple[()]]:
        ends, radius = consts
        return tuple(
            _insert(h, _hit(end, radius, row, k), radius) for k, (h, end) in enumerate(zip(hits, ends, strict=True))
        ), ()

    def visit_middle(consts: Any, hits: _Hits, row: Triangles) -> tuple[_Hits, tuple[()]]:
        ends, radius, gaps = consts
        share = _next_to_edges(ends, row.corners)
        hit = _hit((1 - share) * ends[0] + share * ends[1], radius, row, 2)
        deeper = hit.gap < (1 - share) * gaps[0] + share * gaps[1] - _SAME * radius
        return _insert(hits, hit._replace(gap=jnp.where(deeper, hit.gap, APART)), radius), ()

    radius = capsule.radius
    lower, upper = scan_rows(visit_ends, (ends, radius), (_none(), _none()), triangles)[0]
    gaps = jnp.stack((lower.gap[0], upper.gap[0]))
    for k in range(_SLOTS):
        lower = _insert(lower, jax.tree.map(lambda each, k=k: each[k], upper), radius)
    return _contacts(scan_rows(visit_middle, (ends, radius, gaps), lower, triangles)[0], frame)


def _none() -> _Hits:
    up = jnp.broadcast_to(jnp.asarray(UP), (_SLOTS, 3))
    return _Hits(jnp.full(_SLOTS, APART), jnp.full((_SLOTS, 3), APART), up, jnp.zeros(_SLOTS, int))


def _contacts(hits: _Hits, frame: Pose) -> ContactPoints:
    """Contacts of the first shape with the surface, in space."""
    x, R = frame
    used = hits.gap < 0.5 * APART
    points = jnp.where(used[:, None], hits.point + 0.5 * hits.gap[:, None] * hits.normal, 0.0)
    normals = -(hits.normal @ R.T)
    tangents = jnp.stack([tangent_of(normals[k], R) for k in range(_SLOTS)])
    return ContactPoints(hits.gap, x + points @ R.T, normals, tangents, hits.number.astype(jnp.int32))


def _hit(c: Vector, radius: Array, row: Triangles, part: int = 0) -> _Hits:
    """The contact of a ball about `c` with one triangle, `APART` where it belongs to a neighbour.

    - `part`: 0 to 2, which ball of a body it is.
    """
    corners = row.corners
    away = corners - c
    weights = jax.lax.stop_gradient(weights_of_nearest(away))
    across = cross(corners[1] - corners[0], corners[2] - corners[0])
    face = unit_or(across, UP)
    height = face @ (c - corners[0])
    inside = jnp.min(weights) > 0
    offset = c - weights @ corners
    valid = jnp.where(inside, height > -radius, face @ offset >= 0)
    for k in range(3):
        a, b = corners[k], corners[(k + 1) % 3]
        edge, out = b - a, row.beyond[k] - a
        inward = out - (out @ edge) / (edge @ edge) * edge
        on_edge = weights[(k + 2) % 3] <= 0
        own = offset @ inward <= 1e-9 * jnp.sqrt((offset @ offset) * (inward @ inward))
        valid &= ~on_edge | own
    outward = jnp.where(inside, face, unit_or(offset, face))
    distance = jnp.where(inside, height, outward @ offset)
    # The foot on the face moves along with the ball; points on edges are where they were, to first order.
    point = jnp.where(inside, c - height * face, weights @ corners)
    return _Hits(jnp.where(valid, distance - radius, APART), point, outward, 3 * row.number + part)


def _insert(hits: _Hits, new: _Hits, radius: Array) -> _Hits:
    """The deepest of all, without a point that is there already."""
    distances = jnp.sum((hits.point - new.point) ** 2, axis=1)
    duplicate = jnp.any((distances <= (_SAME * radius) ** 2) & (hits.gap <= new.gap + _SAME * radius))
    rows = []
    for k in range(_SLOTS):
        old = jax.tree.map(lambda each, k=k: each[k], hits)
        first = ~duplicate & (new.gap < old.gap)
        rows.append(jax.tree.map(lambda n, o, first=first: jnp.where(first, n, o), new, old))
        new = jax.tree.map(lambda n, o, first=first: jnp.where(first, o, n), new, old)
    return jax.tree.map(lambda *each: jnp.stack(each), *rows)


def _next_to_edges(ends: Float[Array, "2 3"], corners: Float[Array, "3 3"]) -> Array:
    """Where a segment is next to the edges of a triangle, from 0 to 1."""
    start, along = ends[0], ends[1] - ends[0]
    best, least = jnp.zeros_like(start[0]), jnp.asarray(jnp.inf)
    for k in range(3):
        a, edge = corners[k], corners[(k + 1) % 3] - corners[k]
        d, uu, vv, uv = a - start, along @ along, edge @ edge, along @ edge
        det = uu * vv - uv * uv
        s = jnp.clip(((d @ along) * vv - (d @ edge) * uv) / jnp.where(det > 1e-12 * uu * vv, det, jnp.inf), 0, 1)
        t = jnp.clip((s * uv - d @ edge) / vv, 0, 1)
        s = jnp.clip((d @ along + t * uv) / uu, 0, 1)
        gap = d + t * edge - s * along
        square = jax.lax.stop_gradient(gap @ gap)
        best = jnp.where(square < least, jax.lax.stop_gradient(s), best)
        least = jnp.minimum(least, square)
    return best


def all_triangles(mesh: TriangleMesh) -> Triangles:
    """All triangles of a mesh."""
    return Triangles(mesh.corners, mesh.beyond, jnp.arange(len(mesh.corners)), jnp.asarray(mesh.faces))


def window(field: Heightfield, place: Vector, frame: Pose) -> Triangles:
    """The triangles of the cells within the reach of the grid point next to a place."""
    counts = np.array(field.heights.shape) - 1
    cells = np.minimum(2 * field.reach, counts)
    step = field.size / counts
    local = frame[1].T @ (place - frame[0])
    nearest = jnp.round(jax.lax.stop_gradient(local[:2] / step) + 0.5 * counts).astype(int) - field.reach
    start = jnp.clip(nearest, 0, counts - cells)
    heights = jax.lax.dynamic_slice(field.heights, (start[0], start[1]), (int(cells[0]) + 1, int(cells[1]) + 1))
    i, j = np.meshgrid(*(np.arange(n + 1) for n in cells), indexing="ij")
    places = [(start[k] + each) * step[k] - 0.5 * field.size[k] for k, each in enumerate((i, j))]
    vertices = jnp.stack((*places, heights), axis=2).reshape(-1, 3)
    faces, first = grid_faces(int(cells[0]), int(cells[1]))
    number = 2 * ((start[0] + first[:, 0]) * int(counts[1]) + start[1] + first[:, 1]) + first[:, 2]
    here = (start[0] + i) * (int(counts[1]) + 1) + start[1] + j
    return Triangles(vertices[faces], vertices[corners_beyond(faces)], number, here.reshape(-1)[faces])
