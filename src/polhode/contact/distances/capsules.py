"""Capsules against capsules."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.contact.distances.contact_points import ContactPoints, between_spheres, join, use_where
from polhode.contact.shapes.capsule import Capsule
from polhode.contact.shapes.shape import Pose
from polhode.contact.vectors import cross, unit_or

_PARALLEL = 1e-6
"""Squared sine of the angle between axes below which two capsules touch along a line."""


def capsule_capsule(first: Capsule, pose: Pose, second: Capsule, other: Pose) -> ContactPoints:
    """Two points at most, as of `rods`."""
    return rods(pose, first.half, first.radius, other, second.half, second.radius)


def rods(pose: Pose, h: Array, radius: Array, other: Pose, k: Array, other_radius: Array) -> ContactPoints:
    """Spheres about the nearest points of two axes; where these are parallel, at both ends of what faces each other.

    - `h`, `k`: half of the lengths.
    """
    (x, R), (y, S) = pose, other
    a, b, d = R[:, 2], S[:, 2], y - x
    cosine = a @ b
    sine = jax.lax.stop_gradient(1 - cosine * cosine)
    parallel = sine < _PARALLEL

    def onto_first(t: Array) -> Array:
        return jnp.clip(a @ d + t * cosine, -h, h)

    def onto_second(s: Array) -> Array:
        return jnp.clip(s * cosine - b @ d, -k, k)

    # The end of the second axis that lies farther along the first, and the other one.
    ends = jnp.where(cosine < 0, -k, k)
    upper, lower = onto_first(ends), onto_first(-ends)
    overlap = parallel & (upper - lower > 1e-9 * (h + k))
    crossing = jnp.clip((a @ d - (b @ d) * cosine) / jnp.where(parallel, 1.0, 1 - cosine * cosine), -h, h)
    nearest = onto_first(onto_second(crossing))
    fallback = unit_or(cross(a, b), R[:, 0])
    places = (jnp.where(overlap, upper, jnp.where(parallel, onto_first(onto_second(upper)), nearest)), lower)
    features = (jnp.where(overlap, 1, 0), jnp.asarray(2))
    one, two = (
        between_spheres(x + s * a, radius, y + onto_second(s) * b, other_radius, fallback, S, feature)
        for s, feature in zip(places, features, strict=True)
    )
    return join((one, use_where(overlap, two)))
