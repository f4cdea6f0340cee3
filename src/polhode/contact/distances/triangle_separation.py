"""Directions along which convex shapes leave the triangles of a surface.

Each triangle is a convex shape of its own, with normals within the cone that its neighbours leave it, so that edges
and corners of flat or hollow surfaces are not felt.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.compiler.primitives.row_loop import map_rows, scan_rows
from polhode.contact.distances.contact_points import APART
from polhode.contact.distances.difference import Difference
from polhode.contact.distances.meshes import Triangles
from polhode.contact.distances.nearest import nearest
from polhode.contact.distances.separation import LEAST, Separation, polish
from polhode.contact.distances.triangle import nearest_in_triangle
from polhode.contact.shapes.shape import AbstractConvex, Pose
from polhode.contact.vectors import UP, Vector, cross, norm, unit_or

_FLUSH = 1e-9
"""Distances relative to the size, and sines, below which things count as flush."""

_NEAR = 1.5
"""Distance from the middle of a shape, in bounding radii, to which triangles are looked at."""

_DEEP = 1e-3
"""Depth below a face relative to the size from which on other directions are searched."""

_ROUNDS = 4


class Triangle(NamedTuple):
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


class Exit(NamedTuple):
    """A direction along which a body leaves a triangle, the distance along it, and more of all triangles as rows.

    - `separation`: with the largest distance; that is `APART` where the triangle has no contact.
    - `lowest`: the lowest point of the body along the direction.
    """

    separation: Separation
    lowest: Array


def triangle_difference(body: AbstractConvex, pose: Pose, corners: Float[Array, "3 3"]) -> Difference:
    """The difference of a body and a triangle."""
    triangle: Any = Triangle(corners)
    return Difference(triangle, (jnp.zeros(3), jnp.eye(3)), body, pose)


def leave_triangles(body: AbstractConvex, pose: Pose, triangles: Triangles) -> Separation:
    """The separations of a body and all triangles, `APART` from those without a contact, as rows.

    A triangle that the body overlaps has the direction of another one if that frees it with a shorter way. Where a
    surface is convex, all have thus the shortest way out of it.
    """
    exits = map_rows(_leave_near, (body, pose), triangles)

    def shorten(consts: Any, corners: Array, own: Exit) -> Separation:
        exits, size = consts
        flush = _FLUSH * size
        overlaps = own.separation.gap < -flush
        return jax.lax.cond(overlaps, lambda: _shortest(exits, corners, own, flush), lambda: own.separation)

    return map_rows(shorten, (exits, body.bounding_radius), triangles.corners, exits)


def _shortest(exits: Exit, corners: Float[Array, "3 3"], own: Exit, flush: Array) -> Separation:
    """Of all ways out that free this triangle as well, the shortest; none if the body doesn't reach it along that."""

    def compare(consts: Any, best: Exit, other: Exit) -> tuple[Exit, tuple[()]]:
        corners, flush = consts
        (normal, gap, _), lowest = other
        frees = lowest - jnp.max(corners @ normal) >= gap - flush
        shorter = (gap < 0.5 * APART) & (gap > best.separation.gap + flush) & frees
        return jax.tree.map(lambda n, o: jnp.where(shorter, n, o), other, best), ()

    best = scan_rows(compare, (corners, flush), own, exits)[0]
    reaches = best.lowest - jnp.max(corners @ best.separation.normal) <= flush
    return best.separation._replace(gap=jnp.where(reaches, best.separation.gap, APART))


def _leave_near(consts: tuple[AbstractConvex, Pose], triangle: Triangles) -> Exit:
    body, pose = consts
    size = body.bounding_radius
    near = jnp.all(jnp.min(triangle.corners, axis=0) < pose[0] + _NEAR * size)
    near &= jnp.all(jnp.max(triangle.corners, axis=0) > pose[0] - _NEAR * size)
    nowhere = Exit(Separation(jnp.asarray(UP), jnp.asarray(APART), jnp.full(3, APART)), jnp.asarray(APART))
    return jax.lax.cond(near, lambda: _leave(body, pose, triangle), lambda: nowhere)


def _leave(body: AbstractConvex, pose: Pose, triangle: Triangles) -> Exit:
    """The largest distance of a body and a triangle along directions that its neighbours leave it."""
    corners = triangle.corners
    face = unit_or(cross(corners[1] - corners[0], corners[2] - corners[0]), jnp.asarray(UP))
    difference = triangle_difference(body, pose, corners)
    flat = Separation(face, difference.separation(face), jnp.full(3, APART))
    edges = _edges(triangle, face)
    searches = jnp.any(edges.falls) | (flat.gap < -_DEEP * difference.size)
    best, untouched = jax.lax.cond(
        searches, lambda: _search(body, pose, corners, edges, flat), lambda: (flat, jnp.array(False))
    )
    # What lies behind the triangle as a whole is on its other side.
    x, R = pose
    behind = face @ (x + R @ body.support(R.T @ face) - corners[0]) <= 0
    gap = jnp.where(behind | untouched, APART, best.gap)
    return Exit(best._replace(gap=gap), best.gap + jnp.max(corners @ best.normal))


class _Edges(NamedTuple):
    """Edges of a triangle.

    - `along`, `inward`: the vectors to the next corner, and across, into the triangle beyond. - `outward`: across, unit
    vectors away from it, in the half plane of the normal. - `falls`: beyond which the surface falls off or ends.
    - `ends`: beyond which there is none.
    """

    along: Float[Array, "3 3"]
    inward: Float[Array, "3 3"]
    outward: Float[Array, "3 3"]
    falls: Bool[Array, "3"]
    ends: Bool[Array, "3"]


def _edges(triangle: Triangles, face: Vector) -> _Edges:
    corners = triangle.corners
    along = [corners[(k + 1) % 3] - corners[k] for k in range(3)]
    inward = jnp.stack([_across_edge(along[k], triangle.beyond[k] - corners[k]) for k in range(3)])
    ends = jnp.stack([inward[k] @ (corners[(k + 2) % 3] - corners[k]) > 0 for k in range(3)])
    outward = jnp.stack([unit_or(cross(inward[k], along[k]), face) for k in range(3)])
    return _Edges(jnp.stack(along), inward, outward, (inward @ face < -_FLUSH) | ends, ends)


def _across_edge(edge: Vector, out: Vector) -> Vector:
    """The unit vector across an edge, in the direction of the third corner of the triangle beyond it."""
    return unit_or(out - (out @ edge) / (edge @ edge) * edge, jnp.zeros(3))


def _search(
    body: AbstractConvex, pose: Pose, corners: Float[Array, "3 3"], edges: _Edges, flat: Separation
) -> tuple[Separation, Array]:
    """The best direction, and whether the body overlaps the triangle along these directions alone."""
    difference, nowhere = triangle_difference(body, pose, corners), flat.middle
    face, across = flat.normal, edges.outward
    between = [unit_or(face + across[k], face) for k in range(3)]
    corner = [unit_or(face + across[k] + across[k - 1], face) for k in range(3)]
    start = flat
    for k, direction in enumerate((*across, *between, *corner)):
        new = Separation(direction, difference.separation(direction), nowhere)
        inner = edges.falls[k % 3] & ~edges.ends[k % 3]
        start = _admit(new, start, corners, edges.inward, inner | jnp.asarray(k > 5))
    # From there, and from the direction to the body, which finds overlaps of other triangles with large bodies.
    toward = unit_or(pose[0] - nearest_in_triangle(pose[0], corners), face)
    other = Separation(toward, difference.separation(toward), nowhere)
    starts = jax.tree.map(lambda *each: jnp.stack(each), start, other)
    both = map_rows(_improve, (body, pose, corners), starts)
    best, other = (jax.tree.map(lambda each, k=k: each[k], both) for k in (0, 1))
    admitted = _admit(best, start, corners, edges.inward, jnp.array(True))
    flush = _FLUSH * difference.size
    return admitted, (admitted.gap < -flush) & (jnp.maximum(best.gap, other.gap) > -flush)


def _improve(consts: tuple[AbstractConvex, Pose, Array], best: Separation) -> Separation:
    """The direction between nearest points: of the shapes as they are, or after they are moved apart."""
    body, pose, corners = consts
    difference = triangle_difference(body, pose, corners)
    best = jax.lax.fori_loop(0, _ROUNDS, lambda k, best: _ascend(difference, best, k > 0), best)
    if body.is_round:
        best = polish(difference, best, _ROUNDS)
    return best


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
