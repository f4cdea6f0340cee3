"""Motions of all links of a tree on their parents, evaluated together where joints are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import map_rows
from polhode.linalg.known_places import take
from polhode.multibody.coordinates.tree.link_rows import LinkRows
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.coordinates.tree.recursions import NONE
from polhode.multibody.mechanism.batches import LOOP_ABOVE, in_order
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


def local_motions(rows: LinkRows, velocities: Sequence[np.ndarray], points: Sequence[Point], v: Vector) -> LocalMotions:
    """Of all links; those with equal joints are evaluated together. `velocities`: the places of each link in v."""
    parts: list[tuple[list[int], tuple[Array, ...]]] = []
    for motions, numbers in zip(rows.motions, rows.members, strict=True):
        arrays, rest = eqx.partition(motions, eqx.is_array)

        def of_one(_: None, motion: Any, point: Point, rates: Vector, rest: Any = rest) -> tuple[Array, ...]:
            return _local_motion(eqx.combine(motion, rest), point, rates)

        stacked = jax.tree.map(lambda *values: jnp.stack(values), *(points[k] for k in numbers))
        rates = take(v, np.stack([velocities[k] for k in numbers]))
        parts.append((list(numbers), map_rows(of_one, None, arrays, stacked, rates, loop=len(numbers) > LOOP_ABOVE)))
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
