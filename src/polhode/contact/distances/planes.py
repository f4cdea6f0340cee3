"""Planes against other shapes. In all of these the plane comes first: its frame has its normal as z."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.contact.distances.contact_points import ContactPoints
from polhode.contact.shapes.box import Box
from polhode.contact.shapes.plane import Plane
from polhode.contact.shapes.shape import Pose
from polhode.contact.shapes.sphere import Sphere


def above_plane(frame: Pose, lowest: Float[Array, "s 3"], features: Array) -> ContactPoints:
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
    signs, features = face_corners(-up)
    return above_plane(frame, x + (signs * box.half) @ R.T, features)


_AROUND = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])


def largest(values: Float[Array, "3"]) -> Array:
    """The position of the largest of three numbers, as one of three flags."""
    a, b, c = values[0], values[1], values[2]
    first = (a >= b) & (a >= c)
    second = ~first & (b >= c)
    return jnp.stack((first, second, ~(first | second)))


def face_corners(direction: Float[Array, "3"]) -> tuple[Float[Array, "4 3"], Array]:
    """Signs of the corners of a box's face that lies most along a direction, in turn, and their numbers 0 to 7."""
    chosen = largest(jax.lax.stop_gradient(jnp.abs(direction)))
    side = jnp.where(direction < 0, -1.0, 1.0)
    signs = jnp.stack(
        [
            jnp.where(chosen[0], jnp.stack((side[0], u, v)), 0.0)
            + jnp.where(chosen[1], jnp.stack((v, side[1], u)), 0.0)
            + jnp.where(chosen[2], jnp.stack((u, v, side[2])), 0.0)
            for u, v in jnp.asarray(_AROUND)
        ]
    )
    return signs, jnp.sum(jnp.where(signs > 0, jnp.array([1, 2, 4]), 0), axis=1)
