"""Planes against other shapes. In all of these the plane comes first: its frame has its normal as z."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.contact.distances.contact_points import ContactPoints
from polhode.contact.distances.patch import Candidates, spread
from polhode.contact.farthest_row import FEW, farthest_row
from polhode.contact.shapes.box import Box, corners_towards
from polhode.contact.shapes.capsule import Capsule
from polhode.contact.shapes.convex_mesh import ConvexMesh
from polhode.contact.shapes.cylinder import Cylinder
from polhode.contact.shapes.disc import Disc
from polhode.contact.shapes.ellipsoid import Ellipsoid
from polhode.contact.shapes.plane import Plane
from polhode.contact.shapes.shape import Pose
from polhode.contact.shapes.sphere import Sphere
from polhode.contact.shapes.triangle_mesh import TriangleMesh
from polhode.contact.vectors import turn, unit_or


def above_plane(frame: Pose, lowest: Float[Array, "s 3"], features: Any) -> ContactPoints:
    """Contacts at points of another body's surface."""
    x, R = frame
    normal, count = R[:, 2], len(lowest)
    gaps = (lowest - x) @ normal
    rows = lambda a: jnp.broadcast_to(a, (count, 3))  # noqa: E731
    points = lowest - 0.5 * gaps[:, None] * normal
    return ContactPoints(gaps, points, rows(normal), rows(R[:, 0]), jnp.asarray(features, jnp.int32))


def plane_sphere(plane: Plane, frame: Pose, sphere: Sphere, pose: Pose) -> ContactPoints:
    """The lowest point of a sphere."""
    del plane
    return above_plane(frame, (pose[0] - sphere.radius * frame[1][:, 2])[None], np.zeros(1))


def plane_box(plane: Plane, frame: Pose, box: Box, pose: Pose) -> ContactPoints:
    """The vertices of the face that looks at the plane most, to which all lowest vertices belong."""
    del plane
    x, R = pose
    up = R.T @ frame[1][:, 2]
    signs, features = corners_towards(-up)
    return above_plane(frame, x + (signs * box.half) @ R.T, features)


def plane_capsule(plane: Plane, frame: Pose, capsule: Capsule, pose: Pose) -> ContactPoints:
    """The lowest points of both half spheres."""
    del plane
    x, R = pose
    below = x - capsule.radius * frame[1][:, 2]
    along = capsule.half * R[:, 2]
    return above_plane(frame, jnp.stack((below + along, below - along)), np.arange(2))


def plane_ellipsoid(plane: Plane, frame: Pose, ellipsoid: Ellipsoid, pose: Pose) -> ContactPoints:
    """Its lowest point."""
    del plane
    x, R = pose
    return above_plane(frame, (x + R @ ellipsoid.support(-(R.T @ frame[1][:, 2])))[None], np.zeros(1))


def plane_cylinder(plane: Plane, frame: Pose, cylinder: Cylinder, pose: Pose) -> ContactPoints:
    """Four points of the lower rim, or the lowest points of both rims."""
    del plane
    lowest, features = rim_points(frame, pose, cylinder.radius, cylinder.half)
    return above_plane(frame, lowest, features)


def plane_disc(plane: Plane, frame: Pose, disc: Disc, pose: Pose) -> ContactPoints:
    """Four points of the rim."""
    del plane
    lowest, features = rim_points(frame, pose, disc.radius, None)
    return above_plane(frame, lowest, features)


def plane_vertices(plane: Plane, frame: Pose, mesh: ConvexMesh | TriangleMesh, pose: Pose) -> ContactPoints:
    """The lowest vertex, and three others that are far from it and low."""
    del plane
    (x, R), normal = pose, frame[1][:, 2]
    turned = R.T @ frame[1]
    vertices, numbers = mesh.vertices, jnp.arange(len(mesh.vertices))
    if len(numbers) > FEW:
        # The lowest one, those of the lowest that are far in eight directions along the plane, and in four of these
        # the ones that come next.
        ways = [jnp.zeros(3), *(1e-3 * turned[:, :2] @ around for around in _EIGHT)]
        ways += [0.1 * turned[:, :2] @ around for around in _EIGHT[::2]]
        numbers = jnp.stack([farthest_row(vertices, way - turned[:, 2] + 1e-10 * GENERIC) for way in ways])
        vertices = vertices[numbers]
    away = vertices @ turned
    gaps = away[:, 2] + (x - frame[0]) @ normal
    candidates = Candidates(gaps, away[:, :2], vertices @ GENERIC, numbers, vertices)
    gaps, chosen, features = spread(candidates, mesh.bounding_radius)
    points = above_plane(frame, x + chosen @ R.T, features)
    return points._replace(gap=gaps, point=x + chosen @ R.T - 0.5 * gaps[:, None] * normal)


_EIGHT: Any = np.array([[np.cos(a), np.sin(a)] for a in 0.3 + np.arange(8) * np.pi / 4])

GENERIC: Any = np.array([0.627, 0.341, 0.7])
"""A direction in bodies along which no two vertices of usual shapes are equally far."""

_LYING = 0.5
"""Squared cosine between axis and normal below which a cylinder rather lies than stands."""

_FLAT = 1e-7
"""Tilt up to which a rim is flat: round-off says where on it the lowest point is. From ten times as much on the lowest
point is a contact."""


def rim_points(frame: Pose, pose: Pose, radius: Array, half: Array | None) -> tuple[Float[Array, "4 3"], Array]:
    """Points of a cylinder's rims, where it touches a plane, and their numbers; of a disc without `half`.

    Four directions in space are turned into the plane of the lower rim, so that they don't spin with the body. The one
    next to the lowest point moves there as the rim tilts, and where the cylinder lies, the one opposite to the lowest
    point of the other rim: 4 and 5, by rims.
    """
    x, R = pose
    normal, axis = frame[1][:, 2], R[:, 2]
    cosine = axis @ normal
    side = jnp.where(cosine > 0, -1.0, 1.0)
    outward = side * axis
    # Along the axes of the rim: -n less its part along the axis would have round-off along the axis, which counts
    # where the rim is next to flat.
    down = -(R[:, :2].T @ normal)
    square = down @ down
    tilt = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    lowest = R[:, :2] @ unit_or(down, jnp.array([1.0, 0.0]))
    across = turn(frame[1][:, 0], -normal, outward), turn(frame[1][:, 1], -normal, outward)
    u, v = lowest @ across[0], lowest @ across[1]
    first, second = u * u >= v * v, u * u < v * v
    nearest = [first & (u > 0), second & (v > 0), first & (u <= 0), second & (v <= 0)]
    directions = (across[0], across[1], -across[0], -across[1])
    centre = x if half is None else x + half * outward
    share = jnp.clip((tilt - _FLAT) / (9 * _FLAT), 0.0, 1.0)
    moved = [unit_or(e + share * (lowest - e), e) for e in directions]
    points = [centre + radius * jnp.where(near, m, e) for near, m, e in zip(nearest, moved, directions, strict=True)]
    nearest = [(tilt > 10 * _FLAT) & near for near in nearest]
    # By their rims, as a lying cylinder that tips over lowers the other one.
    own = jnp.where(cosine > 0, 4, 5)
    features = [jnp.where(near, own, k) for k, near in enumerate(nearest)]
    if half is not None:
        beyond = x - half * outward + radius * lowest
        for k in range(4):
            lies = nearest[k - 2] & (cosine * cosine < _LYING)
            points[k] = jnp.where(lies, beyond, points[k])
            features[k] = jnp.where(lies, 9 - own, features[k])
    return jnp.stack(points), jnp.stack(features)
