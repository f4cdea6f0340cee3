"""Spheres against other shapes; the sphere comes first."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.contact.distances.contact_points import ContactPoints, between_spheres, single, tangent_of
from polhode.contact.distances.triangle import nearest_in_triangles
from polhode.contact.farthest_row import farthest_row
from polhode.contact.shapes.box import Box
from polhode.contact.shapes.capsule import Capsule
from polhode.contact.shapes.convex_mesh import ConvexMesh
from polhode.contact.shapes.cylinder import Cylinder
from polhode.contact.shapes.disc import Disc
from polhode.contact.shapes.ellipsoid import Ellipsoid
from polhode.contact.shapes.shape import Pose
from polhode.contact.shapes.sphere import Sphere
from polhode.contact.vectors import UP, Vector, unit_or

_EAST: Any = np.array([1.0, 0.0, 0.0])


def sphere_sphere(first: Sphere, pose: Pose, second: Sphere, other: Pose) -> ContactPoints:
    """Along the line of centres; upwards where they coincide."""
    return between_spheres(pose[0], first.radius, other[0], second.radius, UP)


def sphere_capsule(sphere: Sphere, pose: Pose, capsule: Capsule, other: Pose) -> ContactPoints:
    """Against the sphere about the nearest point of the capsule's axis."""
    x, R = other
    along = jnp.clip((pose[0] - x) @ R[:, 2], -capsule.half, capsule.half)
    return between_spheres(pose[0], sphere.radius, x + along * R[:, 2], capsule.radius, R[:, 0], R)


def from_local(sphere: Sphere, pose: Pose, other: Pose, outward: Vector, distance: Array) -> ContactPoints:
    """The contact of a sphere with a surface that is `distance` from its centre.

    - `outward`: its normal there, in the frame `other`.
    """
    R = other[1]
    normal = -(R @ outward)
    gap = distance - sphere.radius
    return single(gap, pose[0] + (sphere.radius + 0.5 * gap) * normal, normal, tangent_of(normal, R))


def box_distance(c: Vector, half: Vector) -> tuple[Vector, Array]:
    """The outward normal and the signed distance of a box at the point next to `c`, in the frame of the box."""
    beyond = c - jnp.clip(c, -half, half)
    square = beyond @ beyond
    outside = square > 0
    length = jnp.sqrt(jnp.where(outside, square, 1.0))
    depths = jnp.abs(c) - half
    deepest = jnp.max(depths)
    flags = depths >= deepest
    flags &= jnp.cumsum(flags) == 1
    inward = jnp.where(flags, jnp.where(c < 0, -1.0, 1.0), 0.0)
    return jnp.where(outside, beyond / length, inward), jnp.where(outside, length, deepest)


def sphere_box(sphere: Sphere, pose: Pose, box: Box, other: Pose) -> ContactPoints:
    """Against the nearest point of the box; through the nearest face where the centre is inside."""
    return from_local(sphere, pose, other, *box_distance(other[1].T @ (pose[0] - other[0]), box.half))


def sphere_cylinder(sphere: Sphere, pose: Pose, cylinder: Cylinder, other: Pose) -> ContactPoints:
    """Against the nearest point of its section through the centre."""
    c = other[1].T @ (pose[0] - other[0])
    radial = unit_or(jnp.stack((c[0], c[1], jnp.zeros_like(c[0]))), _EAST)
    flat = jnp.stack((radial @ c, c[2]))
    normal, distance = _rectangle_distance(flat, jnp.stack((cylinder.radius, cylinder.half)))
    return from_local(sphere, pose, other, normal[0] * radial + normal[1] * UP, distance)


def _rectangle_distance(c: Float[Array, "2"], half: Float[Array, "2"]) -> tuple[Float[Array, "2"], Array]:
    """Like `box_distance`, in a plane."""
    beyond = jnp.maximum(jnp.abs(c) - half, 0.0) * jnp.where(c < 0, -1.0, 1.0)
    square = beyond @ beyond
    outside = square > 0
    length = jnp.sqrt(jnp.where(outside, square, 1.0))
    depths = jnp.abs(c) - half
    first = depths[0] >= depths[1]
    inward = jnp.where(jnp.stack((first, ~first)), jnp.where(c < 0, -1.0, 1.0), 0.0)
    return jnp.where(outside, beyond / length, inward), jnp.where(outside, length, jnp.max(depths))


def sphere_disc(sphere: Sphere, pose: Pose, disc: Disc, other: Pose) -> ContactPoints:
    """Against the nearest point of the disc."""
    c = other[1].T @ (pose[0] - other[0])
    radial = unit_or(jnp.stack((c[0], c[1], jnp.zeros_like(c[0]))), _EAST)
    away = c - jnp.minimum(radial @ c, disc.radius) * radial
    outward = unit_or(away, UP)
    return from_local(sphere, pose, other, outward, outward @ away)


def sphere_ellipsoid(sphere: Sphere, pose: Pose, ellipsoid: Ellipsoid, other: Pose) -> ContactPoints:
    """Along the normal of the ellipsoid through the centre."""
    c = other[1].T @ (pose[0] - other[0])
    return from_local(sphere, pose, other, *ellipsoid_distance(c, ellipsoid.semi_axes))


def ellipsoid_distance(c: Vector, axes: Vector) -> tuple[Vector, Array]:
    """The outward normal and the signed distance of an ellipsoid at the point next to `c`, in its frame.

    The nearest point is A(A + t)⁻¹c with A = diag(a²), where Σ (a c/(a² + t))² = 1. Newton's method rises to the
    largest root t from a smaller value, since the sum is convex and falls.
    """
    squares = axes**2
    c = c + jnp.where(jnp.abs(c) < 1e-12 * axes, 1e-12 * axes, 0.0)
    fixed_c, fixed_axes, fixed_squares = jax.lax.stop_gradient((c, axes, squares))

    def newton(t: Array, c: Vector, axes: Vector, squares: Vector) -> Array:
        shares = axes * c / (squares + t)
        excess = shares @ shares - 1
        return t + 0.5 * excess / jnp.sum(shares**2 / (squares + t))

    start = jnp.max(fixed_axes * jnp.abs(fixed_c) - fixed_squares)

    def goes_on(state: tuple[Array, Array, Array]) -> Array:
        t, before, count = state
        return (t - before > 1e-15 * (jnp.abs(t) + jnp.max(fixed_squares))) & (count < 100)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        t, _, count = state
        return newton(t, fixed_c, fixed_axes, fixed_squares), t, count + 1

    t = jax.lax.while_loop(goes_on, step, (start, start - 1 - jnp.max(fixed_squares), jnp.asarray(0)))[0]
    t = newton(jax.lax.stop_gradient(t), c, axes, squares)
    outward = unit_or(c / (squares + t), UP)
    support = axes * unit_or(axes * outward, UP)
    return outward, outward @ (c - support)


def sphere_convex(sphere: Sphere, pose: Pose, mesh: ConvexMesh, other: Pose) -> ContactPoints:
    """Against the nearest triangle from outside, through the nearest face from inside."""
    c = other[1].T @ (pose[0] - other[0])
    hull = mesh.hull
    planes = jnp.concatenate((hull.normals, -hull.offsets[:, None]), axis=1)
    face = farthest_row(planes, jnp.concatenate((c, jnp.ones(1))))
    normal = hull.normals[face]
    height = normal @ c - hull.offsets[face]
    away = c - nearest_in_triangles(c, hull.corners)
    outside = height > 0
    outward = jnp.where(outside, unit_or(away, normal), normal)
    return from_local(sphere, pose, other, outward, jnp.where(outside, outward @ away, height))
