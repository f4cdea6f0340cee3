"""Points where a convex shape and one triangle look at each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.distances.contact_points import APART, tangent_of
from polhode.contact.distances.difference import Difference
from polhode.contact.distances.face_overlap import edge_distances
from polhode.contact.distances.meshes import Triangles
from polhode.contact.distances.separation import Separation
from polhode.contact.distances.triangle import weights_of_nearest
from polhode.contact.vectors import UP, Vector, cross, unit_or

WIDTH = 11
"""Numbers of a point in a row."""

_FLUSH = 1e-9
_FACING = 0.9
_STEEP = 0.3
"""Cosine between triangle and face below which a face has no heights above the triangle."""

_TOUCHING = 1e-2
"""Distance from a triangle, relative to the size, up to which a nearest point is one of it."""

VERTEX, ROUND, NEAREST = 1 << 20, 1 << 22, 3 << 21
"""First features of corners of triangles, of round surfaces and of nearest points."""


class SurfacePoints(NamedTuple):
    """Points of a shape next to a triangle, in the frame of the surface.

    - `gap`. - `normal`: away from the surface. - `place`: on the shape. - `feature`. - `index`: of the triangle.
    - `rolls`: whether the place moves on the shape as this turns. - `on_face`: whether the normal is that of its face.
    """

    gap: Float[Array, "*n"]
    normal: Float[Array, "*n 3"]
    place: Float[Array, "*n 3"]
    feature: Int[Array, "*n"]
    index: Int[Array, "*n"]
    rolls: Bool[Array, "*n"]
    on_face: Bool[Array, "*n"]

    def rows(self) -> Float[Array, "n w"]:
        """The same as rows of numbers."""
        columns = self.gap, *self.normal.T, *self.place.T, self.feature, self.index, self.rolls, self.on_face
        return jnp.stack([jnp.asarray(each, float) for each in columns], axis=1)

    @classmethod
    def read(cls, rows: Float[Array, "*n w"]) -> SurfacePoints:
        """The points of rows of numbers."""
        feature, index = rows[..., 7].astype(int), rows[..., 8].astype(int)
        return cls(
            rows[..., 0], rows[..., 1:4], rows[..., 4:7], feature, index, rows[..., 9] > 0.5, rows[..., 10] > 0.5
        )


def patch(difference: Difference, best: Separation, triangle: Triangles, index: Array) -> SurfacePoints:
    """Where the face of a shape that lies most along a direction is above a triangle; the nearest point otherwise.

    - `difference`: of the triangle and the shape. - `best`: the direction along which they are taken apart.
    - `index`: of the triangle.
    """
    view = _View.of(difference, best, triangle.corners)
    cut, cut_gaps = _edges_above(view)
    corners, corner_gaps = _corners_below(view)
    lowest, round_gap = _round_end(view, difference)
    gaps = jnp.concatenate((cut_gaps, corner_gaps, round_gap[None]))
    gaps = jnp.where(view.facing, gaps, APART)
    places = view.corners[0] + jnp.concatenate((cut.places, corners, lowest[None])) @ view.axes.T
    # The nearest point, where no faces look at each other.
    foot = best.middle - 0.5 * best.gap * best.normal
    away = weights_of_nearest(view.corners - foot) @ (view.corners - foot)
    aside = (away @ away < (_TOUCHING * difference.size) ** 2) & ~jnp.any(gaps < 0.5 * APART)
    count = len(gaps)
    vertices, own = triangle.vertices % VERTEX, triangle.number % VERTEX
    return SurfacePoints(
        jnp.concatenate((gaps, jnp.where(aside, best.gap, APART)[None])),
        jnp.concatenate((jnp.broadcast_to(view.normal, (count, 3)), best.normal[None])),
        jnp.concatenate((places, (foot + best.gap * best.normal)[None])),
        jnp.concatenate((cut.feature, VERTEX + vertices, jnp.stack((jnp.full_like(own, ROUND), NEAREST + own)))),
        jnp.broadcast_to(index, (count + 1,)),
        jnp.concatenate((jnp.broadcast_to(~view.face.flat, (count - 1,)), jnp.array([True, False]))),
        jnp.concatenate((jnp.broadcast_to(view.on_face, (count,)), jnp.array([False]))),
    )


class _View(NamedTuple):
    """A triangle and the face of a shape above it along the normal of one of them, heights along the third axis.

    - `face`: of the shape, `outward` its normal. - `normal`: of the face that has it, of the shape if `on_face`.
    - `corners`: of the triangle, the origin the first one. - `axes`: columns. - `triangle`, `polygon`: seen along the
    normal. - `slope`, `tilt`: the normals of the triangle and of the face. - `flush`: a length that counts as none.
    - `facing`: whether they look at each other.
    """

    face: Any
    outward: Vector
    normal: Vector
    corners: Float[Array, "3 3"]
    axes: Float[Array, "3 3"]
    triangle: Float[Array, "3 3"]
    polygon: Float[Array, "m 3"]
    slope: Vector
    tilt: Vector
    flush: Array
    on_face: Array
    facing: Array

    @classmethod
    def of(cls, difference: Difference, best: Separation, corners: Float[Array, "3 3"]) -> _View:
        x, R = difference.other
        flush, d = _FLUSH * difference.size, best.normal
        own = unit_or(cross(corners[1] - corners[0], corners[2] - corners[0]), jnp.asarray(UP))
        face = difference.second.face(-(R.T @ d), R.T @ tangent_of(d))
        outward = R @ face.normal
        here, there = own @ d, jnp.where(face.flat, -(outward @ d), -1.0)
        on_face = there > here + _FLUSH
        normal = jnp.where(on_face, -outward, own)
        facing = (jnp.maximum(here, there) > _FACING) & (difference.separation(normal) > best.gap - flush)
        u = tangent_of(normal)
        axes = jnp.stack((u, cross(normal, u), normal), axis=1)
        triangle, polygon = (corners - corners[0]) @ axes, (x + face.corners @ R.T - corners[0]) @ axes
        views = triangle, polygon, own @ axes, outward @ axes
        return cls(face, outward, normal, corners, axes, *views, flush, on_face, facing)


def _edges_above(view: _View) -> tuple[_Cut, Array]:
    """Ends of edges of the face above the triangle, and their heights."""
    plain = view.slope[2] > _STEEP
    steepness = view.slope[:2] / jnp.where(plain, view.slope[2], 1.0)
    cut = _cut(view.triangle[:, :2], view.polygon, view.face.number, view.flush)
    heights = cut.places[:, 2] + cut.places[:, :2] @ steepness
    return cut, jnp.where(cut.valid & plain, heights, APART)


def _corners_below(view: _View) -> tuple[Float[Array, "3 3"], Array]:
    """Corners of the triangle below a flat face, in the plane of that, and its heights above them."""
    spans = view.face.flat & (jnp.abs(view.tilt[2]) > _STEEP)
    first, corners = view.polygon[0], view.triangle
    level = first[2] - ((corners - first)[:, :2] @ view.tilt[:2]) / jnp.where(spans, view.tilt[2], 1.0)
    below = spans & jnp.all(edge_distances(view.polygon[:, :2], corners[:, :2]) > -view.flush, axis=1)
    places = jnp.concatenate((corners[:, :2], level[:, None]), axis=1)
    return places, jnp.where(below, level - corners[:, 2], APART)


def _round_end(view: _View, difference: Difference) -> tuple[Vector, Array]:
    """The lowest point of a round shape, which reaches below the corners of its faces, and its height."""
    x, R = difference.other
    lowest = (x + R @ difference.second.support(-(R.T @ view.normal)) - view.corners[0]) @ view.axes
    deeper = lowest[2] < jnp.min(view.polygon[:, 2]) - view.flush
    inside = jnp.all(edge_distances(view.triangle[:, :2], lowest[None, :2]) > -view.flush)
    return lowest, jnp.where(deeper & inside & ~view.on_face, lowest[2], APART)


class _Cut(NamedTuple):
    places: Float[Array, "n 3"]
    valid: Bool[Array, " n"]
    feature: Int[Array, " n"]


def _cut(triangle: Float[Array, "3 2"], polygon: Float[Array, "m 3"], numbers: Array, flush: Array) -> _Cut:
    """First and last points of the edges of a polygon above a triangle; a last one that is a corner is left out."""
    here = edge_distances(triangle, polygon[:, :2])
    there = jnp.roll(here, -1, axis=0)
    out_here, out_there = here < -flush, there < -flush
    span = here - there
    crossing = jnp.clip(here / jnp.where(span == 0, 1.0, span), 0.0, 1.0)
    entry, leaving = jnp.where(out_here & ~out_there, crossing, 0.0), jnp.where(~out_here & out_there, crossing, 1.0)
    first, last = jnp.max(entry, axis=1), jnp.min(leaving, axis=1)
    valid = ~jnp.any(out_here & out_there, axis=1) & (first <= last)
    after = jnp.roll(numbers, -1)
    edge = 64 * (1 + jnp.minimum(numbers, after)) + 4096 * (1 + jnp.maximum(numbers, after))
    step = jnp.roll(polygon, -1, axis=0) - polygon
    start = jnp.where(jnp.any(out_here, axis=1), edge + jnp.argmax(entry, axis=1), numbers)
    return _Cut(
        jnp.concatenate((polygon + first[:, None] * step, polygon + last[:, None] * step)),
        jnp.concatenate((valid, valid & jnp.any(out_there, axis=1))),
        jnp.concatenate((start, edge + jnp.argmin(leaving, axis=1))),
    )
