"""Points where a convex shape and one triangle look at each other."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.distances.contact_points import APART, tangent_of
from polhode.contact.distances.difference import Difference
from polhode.contact.distances.face_overlap import edge_distances
from polhode.contact.distances.separation import Separation
from polhode.contact.distances.triangle import weights_of_nearest
from polhode.contact.vectors import Vector, cross

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


def patch(
    difference: Difference,
    best: Separation,
    corners: Float[Array, "3 3"],
    normal: Vector,
    features: Int[Array, " 4"],
    index: Array,
) -> SurfacePoints:
    """Where the face of a shape that lies most along a direction is above a triangle; the nearest point otherwise.

    - `best`: the direction away from the triangle that separates best. - `normal`: of the triangle.
    - `features`: numbers of its corners, and its own. - `index`: of the triangle.
    """
    x, R = difference.other
    body, size = difference.second, difference.size
    flush, d = _FLUSH * size, best.normal
    face = body.face(-(R.T @ d), R.T @ tangent_of(d))
    polygon, outward = x + face.corners @ R.T, R @ face.normal
    own, others = normal @ d, jnp.where(face.flat, -(outward @ d), -1.0)
    on_face = others > own + _FLUSH
    w = jnp.where(on_face, -outward, normal)
    depth = difference.separation(w)
    facing = (jnp.maximum(own, others) > _FACING) & (depth > best.gap - flush)
    u = tangent_of(w)
    axes = jnp.stack((u, cross(w, u), w), axis=1)
    tri, poly, slope, tilt = (corners - corners[0]) @ axes, (polygon - corners[0]) @ axes, normal @ axes, outward @ axes
    plain = slope[2] > _STEEP
    steepness = slope[:2] / jnp.where(plain, slope[2], 1.0)

    cut = _cut(tri[:, :2], poly, face.number, flush)
    heights = cut.places[:, 2] + cut.places[:, :2] @ steepness
    cut_gaps = jnp.where(cut.valid & plain, heights, APART)
    # Corners of the triangle below a flat face.
    spans = face.flat & (jnp.abs(tilt[2]) > _STEEP)
    level = poly[0, 2] - ((tri - poly[0])[:, :2] @ tilt[:2]) / jnp.where(spans, tilt[2], 1.0)
    edges = edge_distances(poly[:, :2], tri[:, :2])
    below = spans & jnp.all(edges > -flush, axis=1)
    corner_gaps = jnp.where(below, level - tri[:, 2], APART)
    above = jnp.concatenate((tri[:, :2], level[:, None]), axis=1)
    # Round shapes reach below the corners of their faces.
    lowest = (x + R @ body.support(-(R.T @ w)) - corners[0]) @ axes
    deeper = lowest[2] < jnp.min(poly[:, 2]) - flush
    inside = jnp.all(edge_distances(tri[:, :2], lowest[None, :2]) > -flush)
    round_gap = jnp.where(deeper & inside & ~on_face, lowest[2], APART)
    gaps = jnp.where(facing, jnp.concatenate((cut_gaps, corner_gaps, round_gap[None])), APART)
    places = corners[0] + jnp.concatenate((cut.places, above, lowest[None])) @ axes.T
    # The nearest point, where no faces look at each other.
    foot = corners - (best.middle - 0.5 * best.gap * d)
    away = weights_of_nearest(foot) @ foot
    aside = (away @ away < (_TOUCHING * size) ** 2) & ~jnp.any(gaps < 0.5 * APART)
    nearest = best.middle + 0.5 * best.gap * d
    count = len(gaps)
    rolls = jnp.concatenate((jnp.broadcast_to(~face.flat, (count - 1,)), jnp.array([True, False])))
    names = jnp.concatenate(
        (
            cut.feature,
            VERTEX + features[:3] % VERTEX,
            jnp.asarray([ROUND], features.dtype),
            (NEAREST + features[3] % VERTEX)[None],
        )
    )
    return SurfacePoints(
        jnp.concatenate((gaps, jnp.where(aside, best.gap, APART)[None])),
        jnp.concatenate((jnp.broadcast_to(w, (count, 3)), d[None])),
        jnp.concatenate((places, nearest[None])),
        names,
        jnp.broadcast_to(index, (count + 1,)),
        rolls,
        jnp.concatenate((jnp.broadcast_to(on_face, (count,)), jnp.array([False]))),
    )


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
