"""Convex shapes against surfaces of triangles.

Each triangle is a convex shape of its own, with normals within the cone that its neighbours leave it, so that edges
and corners of flat or hollow surfaces are not felt. Of all points those are kept that lie farthest in some directions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import map_rows, scan_rows
from polhode.contact.distances.contact_points import APART, ContactPoints, tangent_of
from polhode.contact.distances.difference import Difference
from polhode.contact.distances.meshes import Triangles, all_triangles, window
from polhode.contact.distances.nearest import nearest
from polhode.contact.distances.patch import Candidates, spread
from polhode.contact.distances.separation import LEAST, Separation, correct
from polhode.contact.distances.surface_patch import WIDTH, SurfacePoints, patch
from polhode.contact.distances.triangle import nearest_in_triangle, weights_of_nearest
from polhode.contact.shapes.heightfield import Heightfield
from polhode.contact.shapes.shape import AbstractConvex, Pose
from polhode.contact.shapes.triangle_mesh import TriangleMesh
from polhode.contact.vectors import Vector, cross, norm, unit_or

SLOTS = 8
"""Four points on what faces the deepest one, and four on walls beside it."""

_FLUSH = 1e-9
"""Distances relative to the size, and sines, below which things count as flush."""

_NEAR = 1.5
"""Distance from the middle of a shape, in bounding radii, to which triangles are looked at."""

_DEEP, _ELSEWHERE = 1e-3, 0.1
"""Depths below a face relative to the size: from the first on a triangle's own overlap is computed, from the second
on it tells whether the depth is one of this triangle."""

_ROUNDS = 4

_ALIKE = 0.7
"""Cosine between normals of one patch."""

_DEPTH = 10.0
"""How much a height counts against the extent that a point adds."""

_EIGHT: Any = np.array([[0.0, 0.0], *([np.cos(a), np.sin(a)] for a in 0.3 + np.arange(8) * np.pi / 4)])
"""No direction, for the deepest point, and eight along a surface."""

_FEATURES = 1 << 23
"""More than a triangle and a convex shape have."""


class _Triangle(NamedTuple):
    """A triangle as a convex shape in the frame of its surface."""

    corners: Float[Array, "3 3"]

    def support(self, direction: Vector) -> Vector:
        heights = self.corners @ direction
        first = (heights[0] >= heights[1]) & (heights[0] >= heights[2])
        return jnp.where(first, self.corners[0], jnp.where(heights[1] >= heights[2], self.corners[1], self.corners[2]))

    @property
    def centre(self) -> Vector:
        return jnp.mean(self.corners, axis=0)

    @property
    def bounding_radius(self) -> Array:
        return norm(self.corners[1] - self.corners[0]) + norm(self.corners[2] - self.corners[0])

    @property
    def inner_radius(self) -> Array:
        return 0.1 * self.bounding_radius


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
        index, triangle = row
        size = body.bounding_radius
        near = jnp.all(jnp.min(triangle.corners, axis=0) < pose[0] + _NEAR * size)
        near &= jnp.all(jnp.max(triangle.corners, axis=0) > pose[0] - _NEAR * size)

        def touch() -> Any:
            return scan_rows(_keep, (pose[0], size), best, _touch(body, pose, triangle, index))[0]

        return jax.lax.cond(near, touch, lambda: best), ()

    rows = jnp.arange(len(triangles.number)), triangles
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


def _touch(body: AbstractConvex, pose: Pose, triangle: Triangles, index: Array) -> Float[Array, "n w"]:
    """The points of one triangle."""
    corners = triangle.corners
    across = cross(corners[1] - corners[0], corners[2] - corners[0])
    face = unit_or(across, jnp.array([0.0, 0.0, 1.0]))
    none: Any = _Triangle(corners)
    difference = Difference(none, (jnp.zeros(3), jnp.eye(3)), body, pose)
    edges = [corners[(k + 1) % 3] - corners[k] for k in range(3)]
    inward = jnp.stack([_across_edge(edges[k], triangle.beyond[k] - corners[k]) for k in range(3)])
    # Edges beyond which the surface falls off, or ends.
    ends = jnp.stack([inward[k] @ (corners[(k + 2) % 3] - corners[k]) > 0 for k in range(3)])
    falls = (inward @ face < -_FLUSH) | ends
    nowhere = jnp.full(3, APART)
    flat = Separation(face, difference.separation(face), nowhere)

    def search() -> tuple[Separation, Array]:
        across_edges = [unit_or(cross(inward[k], edges[k]), face) for k in range(3)]
        between = [unit_or(face + across_edges[k], face) for k in range(3)]
        corner = [unit_or(face + across_edges[k] + across_edges[k - 1], face) for k in range(3)]
        start = flat
        for k, direction in enumerate((*across_edges, *between, *corner)):
            new = Separation(direction, difference.separation(direction), nowhere)
            start = _admit(new, start, corners, inward, (falls[k % 3] & ~ends[k % 3]) | jnp.asarray(k > 5))
        # From there, and from the direction to the body, which finds overlaps of other triangles with large bodies.
        toward = unit_or(pose[0] - nearest_in_triangle(pose[0], corners), face)
        starts = jax.tree.map(
            lambda *each: jnp.stack(each), start, Separation(toward, difference.separation(toward), nowhere)
        )
        both = map_rows(_improve, (body, pose, corners), starts)
        best, other = (jax.tree.map(lambda each, k=k: each[k], both) for k in (0, 1))
        admitted = _admit(best, start, corners, inward, jnp.array(True))
        return admitted, _lies_elsewhere(admitted.gap, jnp.maximum(best.gap, other.gap), difference.size)

    searches = jnp.any(falls) | (flat.gap < -_DEEP * difference.size)
    best, elsewhere = jax.lax.cond(searches, search, lambda: (flat, jnp.array(False)))
    # What lies behind the triangle as a whole is on its other side.
    x, R = pose
    behind = face @ (x + R @ body.support(R.T @ face) - corners[0]) <= 0
    features = jnp.concatenate((triangle.vertices, triangle.number[None]))
    points = patch(difference, best, corners, face, features, index)
    feature = points.feature + _FEATURES * jax.vmap(_sector)(points.normal)
    return points._replace(gap=jnp.where(behind | elsewhere, APART, points.gap), feature=feature).rows()


def _improve(consts: tuple[AbstractConvex, Pose, Array], best: Separation) -> Separation:
    """The direction between nearest points: of the shapes as they are, or after they are moved apart."""
    body, pose, corners = consts
    none: Any = _Triangle(corners)
    difference = Difference(none, (jnp.zeros(3), jnp.eye(3)), body, pose)
    best = jax.lax.fori_loop(0, _ROUNDS, lambda k, best: _ascend(difference, best, k > 0), best)
    if body.is_round:
        best = jax.lax.fori_loop(0, _ROUNDS, lambda _, best: correct(difference, best), best)
    return best


def _lies_elsewhere(gap: Array, own: Array, size: Array) -> Array:
    """Whether a body is not as deep in a triangle as its admissible directions say: what it touches is a neighbour.

    - `gap`: the largest distance along admissible directions. - `own`: along any direction.
    """
    apart = (gap < -_FLUSH * size) & (own > -_FLUSH * size)
    return apart | ((gap < -_ELSEWHERE * size) & (own > 0.25 * gap))


def _ascend(difference: Difference, best: Separation, moves: Array) -> Separation:
    """The direction between the nearest points of shapes, moved apart along the present one or not.

    Where it is the same one, its points are those of this direction too.
    """
    size = difference.size
    least = jnp.maximum(jnp.abs(best.gap), LEAST * size)
    shift = jnp.where(moves, jnp.maximum(least - best.gap, 0.0), 0.0) * best.normal
    normal, middle = nearest(difference.move(shift), best.normal)
    new = Separation(normal, difference.separation(normal), middle - 0.5 * shift)
    return jax.tree.map(lambda n, o: jnp.where(new.gap >= best.gap - 1e-12 * size, n, o), new, best)


def _across_edge(edge: Vector, out: Vector) -> Vector:
    """The unit vector across an edge, in the direction of the third corner of the triangle beyond it."""
    return unit_or(out - (out @ edge) / (edge @ edge) * edge, jnp.zeros(3))


def _admit(
    new: Separation, old: Separation, corners: Array, inward: Float[Array, "3 3"], condition: Array
) -> Separation:
    """The new direction, if it separates better and belongs to this triangle."""
    heights = corners @ new.normal
    size = norm(corners[1] - corners[0])
    top = heights >= jnp.max(heights) - _FLUSH * size
    several = jnp.sum(top) >= 2
    valid = condition & (new.gap > old.gap + _FLUSH * size)
    for k in range(3):
        here, there = top[k], top[(k + 1) % 3]
        adjoins = jnp.where(several, here & there, here | there)
        valid &= ~adjoins | (new.normal @ inward[k] <= _FLUSH)
    return jax.tree.map(lambda n, o: jnp.where(valid, n, o), new, old)


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
