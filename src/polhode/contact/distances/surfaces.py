"""Convex shapes against surfaces of triangles.

Of the points of all triangles those are kept that lie farthest in some directions.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import map_rows, scan_rows
from polhode.contact.distances.contact_points import APART, ContactPoints, tangent_of
from polhode.contact.distances.meshes import Triangles, all_triangles, window
from polhode.contact.distances.patch import Candidates, spread
from polhode.contact.distances.surface_patch import WIDTH, SurfacePoints, patch
from polhode.contact.distances.triangle import weights_of_nearest
from polhode.contact.distances.triangle_separation import leave_triangles, triangle_difference
from polhode.contact.shapes.heightfield import Heightfield
from polhode.contact.shapes.shape import AbstractConvex, Pose
from polhode.contact.shapes.triangle_mesh import TriangleMesh
from polhode.contact.vectors import Vector, cross

SLOTS = 8
"""Four points on what faces the deepest one, and four on walls beside it."""

_FLUSH = 1e-9
"""Distances relative to the size, and sines, below which things count as flush."""

_ALIKE = 0.7
"""Cosine between normals of one patch."""

_DEPTH = 10.0
"""How much a height counts against the extent that a point adds."""

_EIGHT: Any = np.array([[0.0, 0.0], *([np.cos(a), np.sin(a)] for a in 0.3 + np.arange(8) * np.pi / 4)])
"""No direction, for the deepest point, and eight along a surface."""

_FEATURES = 1 << 23
"""More than a triangle and a convex shape have."""


def convex_mesh(body: AbstractConvex, pose: Pose, mesh: TriangleMesh, other: Pose) -> ContactPoints:
    """Points of a convex shape on all triangles next to it."""
    return _on_surface(body, pose, all_triangles(mesh), other)


def convex_heightfield(body: AbstractConvex, pose: Pose, field: Heightfield, other: Pose) -> ContactPoints:
    """Points of a convex shape on the triangles around it."""
    return _on_surface(body, pose, window(field, pose[0], other), other)


def _on_surface(body: AbstractConvex, pose: Pose, triangles: Triangles, frame: Pose) -> ContactPoints:
    local = frame[1].T @ (pose[0] - frame[0]), frame[1].T @ pose[1]
    fixed = jax.lax.stop_gradient((body, local, triangles))
    rows = _select(_extremes(*fixed), fixed[0], fixed[1])
    return _contacts(rows, body, local, triangles.corners, frame)


def _extremes(body: AbstractConvex, pose: Pose, triangles: Triangles) -> Float[Array, "r w"]:
    """The points of all triangles that are the deepest or lie farthest in eight directions, by sectors of normals."""
    empty = jnp.zeros((6, len(_EIGHT), WIDTH)).at[..., 0].set(APART)
    scores = jnp.full((6, len(_EIGHT)), -APART)

    def visit(consts: Any, best: Any, row: Any) -> tuple[Any, tuple[()]]:
        body, pose = consts
        index, triangle, separation = row

        def touch() -> Any:
            points = patch(triangle_difference(body, pose, triangle.corners), separation, triangle, index)
            points = points._replace(feature=points.feature + _FEATURES * jax.vmap(_sector)(points.normal))
            return scan_rows(_keep, (pose[0], body.bounding_radius), best, points.rows())[0]

        return jax.lax.cond(separation.gap < 0.5 * APART, touch, lambda: best), ()

    rows = jnp.arange(len(triangles.number)), triangles, leave_triangles(body, pose, triangles)
    return scan_rows(visit, (body, pose), (scores, empty), rows)[0][1].reshape(-1, WIDTH)


def _keep(consts: Any, best: Any, row: Float[Array, " w"]) -> tuple[Any, tuple[()]]:
    """The best points so far, with one more."""
    centre, size = consts

    def compare() -> Any:
        scores, rows = best
        point = SurfacePoints.read(row)
        axes = jnp.abs(point.normal)
        first, second = (axes[0] >= axes[1]) & (axes[0] >= axes[2]), axes[1] >= axes[2]
        away = point.place - centre
        along = jnp.where(first, away[1], away[0]), jnp.where(first | second, away[2], away[1])
        score = _EIGHT @ jnp.stack(along) - _DEPTH * point.gap
        here = (_sector(point.normal) == jnp.arange(6))[:, None] & (score > scores + _FLUSH * size)
        return jnp.where(here, score, scores), jnp.where(here[:, :, None], row, rows)

    return jax.lax.cond(row[0] < 0.5 * APART, compare, lambda: best), ()


def _sector(normal: Vector) -> Array:
    """The axis of the surface along which a normal lies most, and its sign: 0 to 5."""
    axes = jnp.abs(normal)
    first, second = (axes[0] >= axes[1]) & (axes[0] >= axes[2]), axes[1] >= axes[2]
    along = jnp.where(first, normal[0], jnp.where(second, normal[1], normal[2]))
    return jnp.where(first, 0, jnp.where(second, 2, 4)) + jnp.where(along < 0, 1, 0)


def _select(rows: Float[Array, "r w"], body: AbstractConvex, pose: Pose) -> Float[Array, "s w"]:
    """Four points of the patch with the deepest one, and four of all others."""
    size, centre = body.bounding_radius, pose[0]
    none = jnp.zeros(WIDTH).at[0].set(APART)
    deepest = SurfacePoints.read(_lowest(rows, none)).normal
    u = tangent_of(deepest)
    axes = jnp.stack((u, cross(deepest, u)), axis=1)
    # As those that lie farthest in eight directions along the patch.
    start = jnp.full(len(_EIGHT), -APART), jnp.broadcast_to(none, (len(_EIGHT), WIDTH))

    def extend(consts: Any, best: Any, row: Array) -> tuple[Any, tuple[()]]:
        (deepest, axes, centre, size), (scores, chosen) = consts, best
        point = SurfacePoints.read(row)
        score = _EIGHT @ ((point.place - centre) @ axes) - _DEPTH * point.gap
        here = (point.normal @ deepest > _ALIKE) & (score > scores + _FLUSH * size)
        return (jnp.where(here, score, scores), jnp.where(here[:, None], row, chosen)), ()

    chosen = scan_rows(extend, (deepest, axes, centre, size), start, rows)[0][1]
    points = SurfacePoints.read(chosen)
    places = (points.place - centre) @ axes
    ties = places @ jnp.array([0.627, 0.341])
    gaps, data, _ = spread(Candidates(points.gap, places, ties, points.feature, chosen), size)
    patch_rows = jnp.concatenate((gaps[:, None], data[:, 1:]), axis=1)

    def beside(consts: Any, others: Array, slot: Array) -> tuple[Array, tuple[()]]:
        rows, deepest, size = consts
        row = scan_rows(_farthest_of_others, (others, deepest, size), (jnp.asarray(-APART), none), rows)[0][1]
        return jnp.where((jnp.arange(4) == slot)[:, None], row, others), ()

    start = jnp.broadcast_to(none, (4, WIDTH))
    others = scan_rows(beside, (rows, deepest, size), start, jnp.arange(4))[0]
    return jnp.concatenate((patch_rows, others))


def _lowest(rows: Float[Array, "r w"], none: Float[Array, " w"]) -> Float[Array, " w"]:
    def visit(_: Any, best: Array, row: Array) -> tuple[Array, tuple[()]]:
        return jnp.where(row[0] < best[0], row, best), ()

    return scan_rows(visit, None, none, rows)[0]


def _farthest_of_others(consts: Any, best: Any, row: Float[Array, " w"]) -> tuple[Any, tuple[()]]:
    """Of points on other sides, the farthest in place or normal from those chosen, unless it is higher than others."""
    (others, deepest, size), (score, chosen) = consts, best
    point, points = SurfacePoints.read(row), SurfacePoints.read(others)
    away = jnp.sum((points.place - point.place) ** 2, axis=1) / size**2
    away += jnp.sum((points.normal - point.normal) ** 2, axis=1)
    away = jnp.min(jnp.where(points.gap < 0.5 * APART, away, 1.0))
    own = jnp.minimum(away, 1.0) - _DEPTH * point.gap / size
    takes = (point.gap < 0.5 * APART) & (point.normal @ deepest <= _ALIKE) & (away > _FLUSH) & (own > score)
    return (jnp.where(takes, own, score), jnp.where(takes, row, chosen)), ()


def _contacts(
    rows: Float[Array, "s w"], body: AbstractConvex, pose: Pose, corners: Float[Array, "f 3 3"], frame: Pose
) -> ContactPoints:
    """Contacts in space, with derivatives by poses and sizes."""
    points = SurfacePoints.read(rows)
    triangles = corners[points.index]
    consts = body, pose, jax.lax.stop_gradient(pose)
    gap, middle, outward = map_rows(_contact, consts, jax.lax.stop_gradient(rows), triangles)
    used = points.gap < 0.5 * APART
    normal = jnp.where(used[:, None], -(outward @ frame[1].T), frame[1][:, 2])
    tangent = jax.vmap(tangent_of, (0, None))(normal, frame[1])
    return ContactPoints(gap, frame[0] + middle @ frame[1].T, normal, tangent, _distinct(points))


def _contact(consts: Any, row: Float[Array, " w"], triangle: Float[Array, "3 3"]) -> tuple[Array, Vector, Vector]:
    """Gap, middle and outward normal of a point, which moves with the body and with the surface."""
    body, (x, R), (fixed_x, fixed_R) = consts
    point = SurfacePoints.read(row)
    normal = point.normal
    turned = jnp.where(point.on_face, R @ (fixed_R.T @ normal), normal)
    lowest = body.support(-(R.T @ turned))
    moves = jnp.where(point.rolls, lowest - jax.lax.stop_gradient(lowest), 0.0)
    there = x + R @ (jax.lax.stop_gradient(fixed_R.T @ (point.place - fixed_x)) + moves)
    below = jax.lax.stop_gradient(there - point.gap * normal)
    weights = jax.lax.stop_gradient(weights_of_nearest(triangle - below))
    here = below + weights @ (triangle - jax.lax.stop_gradient(triangle))
    own = normal @ (fixed_x + fixed_R @ body.support(-(fixed_R.T @ normal)))
    gap = turned @ (there - here) + own - jax.lax.stop_gradient(own)
    used = point.gap < 0.5 * APART
    return jnp.where(used, gap, APART), jnp.where(used, here + 0.5 * gap * turned, 0.0), turned


def _distinct(points: SurfacePoints) -> Array:
    """Features with numbers of their own where one occurs several times, by triangles."""
    same = points.feature[:, None] == points.feature[None, :]
    earlier = points.index[None, :] < points.index[:, None]
    ties = (points.index[None, :] == points.index[:, None]) & np.tri(SLOTS, k=-1, dtype=bool)
    count = jnp.sum(same & (earlier | ties), axis=1)
    return (points.feature + 8 * _FEATURES * count).astype(jnp.int32)
