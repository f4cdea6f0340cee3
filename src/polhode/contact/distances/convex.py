"""Convex shapes against each other: their separation, and a patch where faces look at each other."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.contact.distances.capsules import rods
from polhode.contact.distances.contact_points import APART, ContactPoints, join, single, tangent_of, use_where
from polhode.contact.distances.difference import Difference
from polhode.contact.distances.face_overlap import edge_distances, overlap
from polhode.contact.distances.patch import Candidates, spread
from polhode.contact.distances.separation import Separation, separate
from polhode.contact.shapes.capsule import Capsule
from polhode.contact.shapes.cylinder import Cylinder
from polhode.contact.shapes.shape import AbstractConvex, Face, Pose
from polhode.contact.vectors import cross, unit_or

_FACING = 1e-9
"""Distance relative to the size by which another direction must separate better than the normal of a face."""


_LEAST_COSINE = 1 - 1e-8
"""Of the tilt up to which a round side has points all along a face, and not the nearest one alone."""


class _Patch(NamedTuple):
    """Points of the overlap of two faces, and whether no other direction separates better than the normal of one."""

    points: ContactPoints
    facing: Array


def convex_patch(first: AbstractConvex, pose: Pose, second: AbstractConvex, other: Pose) -> ContactPoints:
    """Up to four points: those of the overlap of faces that look at each other, or the nearest ones."""
    difference = Difference(first, pose, second, other)
    best = separate(difference)
    patch = _patch(difference, best)
    rest = use_where(patch.facing, ContactPoints(*(rows[1:] for rows in patch.points)))
    return join((_where(patch.facing, patch.points, _nearest_point(difference, best)), rest))


def convex_line(first: AbstractConvex, pose: Pose, second: AbstractConvex, other: Pose) -> ContactPoints:
    """Up to two points of two shapes of which one touches along a line at most."""
    return ContactPoints(*(rows[:2] for rows in convex_patch(first, pose, second, other)))


def convex_point(first: AbstractConvex, pose: Pose, second: AbstractConvex, other: Pose) -> ContactPoints:
    """The nearest points of two shapes of which one touches at a single point."""
    return ContactPoints(*(rows[:1] for rows in convex_patch(first, pose, second, other)))


def _where(condition: Array, points: ContactPoints, others: ContactPoints) -> ContactPoints:
    """The first slot of one or the other."""
    return ContactPoints(*(jnp.where(condition, p[:1], o[:1]) for p, o in zip(points, others, strict=True)))


def rod_rod(first: Cylinder | Capsule, pose: Pose, second: Cylinder, other: Pose) -> ContactPoints:
    """Cylinders and capsules: by their axes where they touch side by side."""
    general = convex_patch(first, pose, second, other)
    axes = rods(pose, first.half, first.radius, other, second.half, second.radius)
    sides = axes.gap[0] > general.gap[0] - 1e-9 * (first.bounding_radius + second.bounding_radius)
    rest = use_where(jnp.array(False), ContactPoints(*(rows[2:] for rows in general)))
    axes = join((axes, rest))
    return ContactPoints(
        *(jnp.where(jnp.reshape(sides, (1,) * a.ndim), a, g) for a, g in zip(axes, general, strict=True))
    )


def _nearest_point(difference: Difference, best: Separation) -> ContactPoints:
    """The contact of the nearest points, whose gap has the derivatives of material points that are there."""
    (x, R), (y, S) = difference.pose, difference.other
    fixed_x, fixed_R, fixed_y, fixed_S = jax.lax.stop_gradient((x, R, y, S))
    normal = R @ (fixed_R.T @ best.normal)
    a, b = best.middle - 0.5 * best.gap * best.normal, best.middle + 0.5 * best.gap * best.normal
    moving = best.normal @ (y + S @ (fixed_S.T @ (b - fixed_y)) - x - R @ (fixed_R.T @ (a - fixed_x)))
    sizes = difference.hold().separation(best.normal)
    gap = best.gap + moving - jax.lax.stop_gradient(moving) + sizes - jax.lax.stop_gradient(sizes)
    return single(gap, best.middle, normal, tangent_of(normal, R), 1 << 22)


def _patch(difference: Difference, best: Separation) -> _Patch:
    """The overlap of the faces that lie most along the normal, seen along the normal of the flatter one."""
    n, size = best.normal, jax.lax.stop_gradient(difference.size)
    first, pose, second, other = difference
    a = _in_space(first.face(pose[1].T @ n, pose[1].T @ tangent_of(n, other[1])), pose)
    b = _in_space(second.face(-(other[1].T @ n), other[1].T @ tangent_of(n, pose[1])), other)
    cosines = jnp.where(a.flat, a.normal @ n, -1.0), jnp.where(b.flat, -(b.normal @ n), -1.0)
    takes_second = jax.lax.stop_gradient(cosines[1] > cosines[0] + 1e-9)
    count = max(len(a.corners), len(b.corners))
    a, b = _pad(a, count), _pad(b, count)
    reference = Face(*(jnp.where(takes_second, s, f) for f, s in zip(a, b, strict=True)))
    incident = Face(*(jnp.where(takes_second, f, s) for f, s in zip(a, b, strict=True)))
    w = reference.normal
    origin = reference.corners[0]
    edge = reference.corners[min(1, count - 1)] - origin
    u = unit_or(edge - (edge @ w) * w, tangent_of(w))
    axes = jnp.stack((u, cross(w, u), w), axis=1)
    flat, corners = (reference.corners - origin) @ axes, (incident.corners - origin) @ axes
    common = overlap(flat[:, :2], corners, incident.number, size)
    gaps = jnp.where(common.valid, common.heights, APART)
    data = jnp.concatenate((common.places, gaps[:, None]), axis=1)
    ties = common.places @ jnp.array([0.627, 0.341])
    gaps, data, features = spread(Candidates(gaps, common.places, ties, common.feature, data), size)
    local = jnp.stack((data[:, 0], data[:, 1], 0.5 * jnp.where(gaps < 0.5 * APART, gaps, 0.0)), axis=1)
    rows = lambda e: jnp.broadcast_to(e, (4, 3))  # noqa: E731
    lowest = jnp.where(takes_second, difference.farthest(w).a, difference.farthest(-w).b)
    depth, flush = w @ (lowest - origin), _FACING * size
    separates = jax.lax.stop_gradient(depth) > best.gap - flush
    # Round-off tilts a face on a round side that is longer: the best direction is across that side then.
    side = incident.corners[-1] - incident.corners[0]
    cosine, is_line = jnp.maximum(*cosines), ~incident.flat & (side @ side > 0)
    meets = jnp.abs(jax.lax.stop_gradient(gaps[0] * cosine) - best.gap) < flush
    tilts = ~separates & is_line & meets & (cosine > _LEAST_COSINE)
    fixed = jax.lax.stop_gradient(pose[1])
    normal = jnp.where(tilts, pose[1] @ (fixed.T @ best.normal), jnp.where(takes_second, -w, w))
    tangent = unit_or(u - (u @ normal) * normal, tangent_of(normal))
    points = ContactPoints(gaps, origin + local @ axes.T, rows(normal), rows(tangent), features.astype(jnp.int32))
    # Round shapes reach below the corners of their faces, but for ends of a side beyond the other face.
    over = jnp.min(edge_distances(flat[:, :2], ((lowest - origin) @ axes)[None, :2])) > -flush
    rounder = jnp.where(jnp.arange(4) == 0, (over | ~is_line) & (depth < gaps[0] - flush), False)
    round_point = single(depth, lowest - 0.5 * depth * w, normal, tangent, 1 << 22)
    points = ContactPoints(
        *(
            jnp.where(jnp.reshape(rounder, (4,) + (1,) * (p.ndim - 1)), r, p)
            for r, p in zip(round_point, points, strict=True)
        )
    )
    has_points = jax.lax.stop_gradient(points.gap[0]) < 0.5 * APART
    return _Patch(points, (cosine > 0.9) & (separates | tilts) & has_points)


def _in_space(face: Face, pose: Pose) -> Face:
    return face._replace(corners=pose[0] + face.corners @ pose[1].T, normal=pose[1] @ face.normal)


def _pad(face: Face, count: int) -> Face:
    """The face with its last corner repeated."""
    rows = jnp.minimum(jnp.arange(count), len(face.corners) - 1)
    return face._replace(corners=face.corners[rows], number=face.number[rows])
