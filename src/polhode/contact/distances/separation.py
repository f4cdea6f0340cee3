"""The direction along which two convex shapes are farthest apart, or overlap least, and their distance along it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.contact.distances.contact_points import tangent_of
from polhode.contact.distances.difference import Difference
from polhode.contact.distances.nearest import nearest
from polhode.contact.distances.portal import pierce
from polhode.contact.vectors import Vector, cross

LEAST = 1e-3
"""Distance relative to the size to which shapes are moved apart, so that their nearest points give a normal."""

_SHIFTS, _CORRECTIONS = 2, 3


class Separation(NamedTuple):
    """A unit normal from the first shape to the second, the distance along it, and the middle between both."""

    normal: Vector
    gap: Array
    middle: Vector


def separate(difference: Difference) -> Separation:
    """The largest distance along any direction, without derivatives.

    Shapes that overlap are moved apart along the present normal, which their nearest points then correct: the error
    falls by the depth over the radius of curvature each time.
    """
    difference = jax.lax.stop_gradient(difference)
    normal, middle = pierce(difference)
    best = Separation(normal, difference.separation(normal), middle)
    best = jax.lax.fori_loop(0, _SHIFTS, lambda _, best: _move_apart(difference, best), best)
    return jax.lax.fori_loop(0, _CORRECTIONS, lambda _, best: correct(difference, best), best)


def _move_apart(difference: Difference, best: Separation) -> Separation:
    """The direction between the nearest points of shapes moved apart along the present one."""
    size = difference.size
    shift = jnp.maximum(jnp.maximum(jnp.abs(best.gap), LEAST * size) - best.gap, 0.0) * best.normal
    normal, middle = nearest(difference.move(shift), best.normal)
    return _better(best, Separation(normal, difference.separation(normal), middle - 0.5 * shift), size)


def _better(old: Separation, new: Separation, size: Array) -> Separation:
    return jax.tree.map(lambda n, o: jnp.where(new.gap > old.gap + 1e-15 * size, n, o), new, old)


def correct(difference: Difference, best: Separation) -> Separation:
    """A step of Newton's method for the largest distance, where it helps: shapes that are smooth there."""
    normal = best.normal
    t = tangent_of(normal)
    frame = (t, cross(normal, t))
    columns = [jax.jvp(lambda n: difference.farthest(-n).v, (normal,), (t,)) for t in frame]
    m = columns[0][0]
    s = normal @ m
    rates = [column[1] for column in columns]
    a, b, c = frame[0] @ rates[0] - s, frame[0] @ rates[1], frame[1] @ rates[1] - s
    g, h = frame[0] @ m, frame[1] @ m
    det = a * c - b * b
    det = jnp.where(jnp.abs(det) > 1e-14 * (a * a + c * c), det, jnp.inf)
    step = -(c * g - b * h) / det * frame[0] - (a * h - b * g) / det * frame[1]
    direction = normal + step
    direction /= jnp.sqrt(direction @ direction)
    farthest = difference.farthest(-direction)
    new = Separation(direction, direction @ farthest.v, 0.5 * (farthest.a + farthest.b))
    return _better(best, new, difference.size)
