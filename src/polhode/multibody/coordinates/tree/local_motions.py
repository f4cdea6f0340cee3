"""Motions of all links of a tree on their parents, evaluated together where joints are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.segment_sum import take
from polhode.multibody.coordinates.tree.links import Link
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.coordinates.tree.recursions import NONE
from polhode.multibody.mechanism.batches import in_order, vmap_alike
from polhode.multibody.mechanism.poses import Pose
from polhode.spaces.base import Point, Vector


class LocalMotions(NamedTuple):
    """Motions of links on their parents, a row for each link, or for each velocity where it says so.

    - `frame`: of each link in that of its parent.
    - `axes`, `slides`: axes of rotation and displacements of the origin of each velocity, in the frame of its link.
    - `omega`, `u`: relative angular velocity in the frame of the link, velocity of its origin in that of the parent.
    - `turning_drift`, `sliding_drift`: what their derivatives have besides the accelerations of the joint.
    """

    frame: Pose
    axes: Float[Array, "n 3"]
    slides: Float[Array, "n 3"]
    omega: Float[Array, "links 3"]
    u: Float[Array, "links 3"]
    turning_drift: Float[Array, "links 3"]
    sliding_drift: Float[Array, "links 3"]


def local_motions(links: Sequence[Link], points: Sequence[Point], v: Vector) -> LocalMotions:
    """Of all links; those with equal joints are evaluated together."""

    def rows(members: list[int]) -> tuple[Point, Array]:
        stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *(points[k] for k in members))
        velocities = np.array([np.arange(links[k].first, links[k].last) for k in members])
        return stacked, take(v, velocities)

    results = vmap_alike(_local_motion, [link.motion for link in links], rows)
    parts = [(result.members, result.values) for result in results]
    by_velocity = [in_order([(members, values[k]) for members, values in parts]) for k in (2, 3)]
    by_link = [in_order([(members, values[k][:, None]) for members, values in parts]) for k in (0, 1, 4, 5, 6, 7)]
    r, A, omega, u, turning_drift, sliding_drift = by_link
    axes, slides = by_velocity
    return LocalMotions(Pose(r, A), axes, slides, omega, u, turning_drift, sliding_drift)


def _local_motion(motion: AbstractRelativeMotion, point: Point, rates: Vector) -> tuple[Array, ...]:
    r, A = motion.pose(point)
    rows = motion.rotation_axes(point), motion.translation_axes(point), motion.displacements(point, A)
    none = jnp.zeros((motion.n, 3))
    axes, directions, displacements = (none if x is None else jnp.asarray(x) for x in rows)
    turning, sliding = motion.turning_drift(point, rates), motion.sliding_drift(point, rates)
    turning, sliding = (NONE if drift is None else drift for drift in (turning, sliding))
    out = r, A, axes, displacements, rates @ axes, rates @ directions, turning, sliding
    return tuple(jnp.asarray(x) for x in out)
