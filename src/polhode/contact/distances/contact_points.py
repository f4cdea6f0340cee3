"""Contact points of two shapes, as arrays over slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode.contact.vectors import Vector, unit_or

APART = 1e9
"""The gap of an unused slot."""


class ContactPoints(NamedTuple):
    """Where two shapes touch, or would touch first.

    - `gap`: signed distances (s,), negative where the shapes overlap; `APART` in slots that aren't used.
    - `point`: (s, 3) in space, in the middle between both surfaces.
    - `normal`: (s, 3) unit vectors from the first shape to the second.
    - `tangent`: (s, 3) unit vectors t₁ orthogonal to them; t₂ = n × t₁.
    - `feature`: (s,) numbers of vertices, edges and ends, by which a contact is the same one a step later.
    """

    gap: Float[Array, " s"]
    point: Float[Array, "s 3"]
    normal: Float[Array, "s 3"]
    tangent: Float[Array, "s 3"]
    feature: Int[Array, " s"]

    def swap(self) -> ContactPoints:
        """The same with the two shapes exchanged."""
        return self._replace(normal=-self.normal)


def match(here: ContactPoints, there: ContactPoints) -> ContactPoints:
    """Points of a pair of shapes here, by the features that they have there; new ones are as they are there."""
    same = (there.feature[:, None] == here.feature) & (here.gap < 0.5 * APART)
    present, chosen = jnp.any(same, axis=1), jnp.argmax(same, axis=1)

    def pick(mine: Array, other: Array) -> Array:
        return jnp.where(present.reshape(-1, *(1,) * (other.ndim - 1)), mine[chosen], other)

    return jax.tree.map(pick, here, there)


def join(points: Sequence[ContactPoints]) -> ContactPoints:
    """The slots of several, one after the other."""
    return ContactPoints(*(jnp.concatenate(arrays) for arrays in zip(*points, strict=True)))


def single(gap: Array, point: Vector, normal: Vector, tangent: Vector, feature: int | Array = 0) -> ContactPoints:
    """One slot."""
    number = jnp.asarray(feature, jnp.int32)
    return ContactPoints(gap[None], point[None], normal[None], tangent[None], number[None])


def use_where(condition: Array, points: ContactPoints) -> ContactPoints:
    """The same with slots set apart where a condition, of all or of each, doesn't hold."""
    return points._replace(gap=jnp.where(condition, points.gap, APART))


_POLE = np.array([0.36, 0.48, 0.8])
_ACROSS = np.array([0.8, -0.6, 0.0])


def tangent_of(normal: Vector, R: Float[Array, "3 3"] | None = None) -> Vector:
    """A tangent that changes smoothly with the normal and is fixed to the frame of R, the inertial one without it.

    It comes from the smallest rotation of a pole to the normal, so it has one singular direction, which is none that
    faces, edges or diagonals have.
    """
    pole, across = (_POLE, _ACROSS) if R is None else (R @ _POLE, R @ _ACROSS)
    middle = pole + normal
    depth = 1 + pole @ normal
    regular = depth > 1e-12
    tangent = across - (across @ middle) / jnp.where(regular, depth, 1.0) * middle
    return jnp.where(regular, tangent, across)


def between_spheres(
    a: Vector, r_a: Array, b: Vector, r_b: Array, fallback: Vector, R: Array | None = None, feature: int | Array = 0
) -> ContactPoints:
    """The contact of two spheres by centres and radii.

    - `fallback`: the normal where the centres coincide. - `R`: the frame that the tangent is fixed to.
    """
    d = b - a
    normal = unit_or(d, fallback)
    gap = normal @ d - r_a - r_b
    point = a + (r_a + 0.5 * gap) * normal
    return single(gap, point, normal, tangent_of(normal, R), feature)
