"""Motions of all links of a tree on their parents, evaluated together where joints are equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        stacked = jax.tree.map(lambda *values: jnp.stack(values), *(points[k] for k in numbers))
        rates = take(v, np.stack([velocities[k] for k in numbers]))
        parts.append((list(numbers), (*_placements(motions, stacked), *_rates(motions, stacked, rates))))
    by_velocity = [in_order([(members, values[k]) for members, values in parts]) for k in (2, 3)]
    by_link = [in_order([(members, values[k][:, None]) for members, values in parts]) for k in (0, 1, 4, 5, 6, 7)]
    r, A, omega, u, turning_drift, sliding_drift = by_link
    axes, slides = by_velocity
    return LocalMotions(Pose(r, A), axes, slides, omega, u, turning_drift, sliding_drift)


@jax.jit
def _placements(motions: AbstractRelativeMotion, points: Point) -> tuple[Array, ...]:
    """Of joints with equal motions; apart from their rates, so that both M and f take the same ones."""

    def of_one(motion: AbstractRelativeMotion, point: Point) -> tuple[Any, ...]:
        r, A = motion.pose(point)
        axes, displacements = motion.rotation_axes(point), motion.displacements(point, A)
        return r, A, _rows(motion, axes), _rows(motion, displacements)

    return _map(of_one, motions, points)


@jax.jit
def _rates(motions: AbstractRelativeMotion, points: Point, rates: Float[Array, "joints n"]) -> tuple[Array, ...]:
    def of_one(motion: AbstractRelativeMotion, point: Point, rates: Vector) -> tuple[Any, ...]:
        axes, directions = motion.rotation_axes(point), motion.translation_axes(point)
        turning, sliding = motion.turning_drift(point, rates), motion.sliding_drift(point, rates)
        turning, sliding = (NONE if drift is None else drift for drift in (turning, sliding))
        return rates @ _rows(motion, axes), rates @ _rows(motion, directions), turning, sliding

    return _map(of_one, motions, points, rates)


def _rows(motion: AbstractRelativeMotion, x: Any) -> Array:
    return jnp.zeros((motion.n, 3)) if x is None else jnp.asarray(x)


def _map(of_one: Callable[..., tuple[Any, ...]], motions: AbstractRelativeMotion, *rows: Any) -> tuple[Array, ...]:
    arrays, rest = eqx.partition(motions, eqx.is_array)

    def of_row(_: None, motion: Any, *row: Any) -> tuple[Array, ...]:
        return tuple(jnp.asarray(x) for x in of_one(eqx.combine(motion, rest), *row))

    count = len(jax.tree.leaves(rows)[0])
    return map_rows(of_row, None, arrays, *rows, loop=count > LOOP_ABOVE)
