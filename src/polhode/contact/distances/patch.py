"""Patches of contact: four points out of many that hold a body as all of them would."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.distances.contact_points import APART

_STICKY = 1e-9
"""Relative difference of heights that counts as rounding, so that points stay the same from step to step."""

_DEPTH = 10.0
"""How much a height counts against the area that the last point adds, in units of area per size."""

_PRESSED = 1000.0
"""The same for the points before it: what carries a body may not be left out for what is a thousandth of its size
above, since nothing would hold it there."""


class Candidates(NamedTuple):
    """Points of a patch.

    - `gap`: (n,), `APART` for those that there aren't. - `places`: (n, 2) in the plane of the patch.
    - `ties`: (n,) lengths, fixed to a body, that decide between equal points. - `feature`: (n,).
    - `data`: (n, k) numbers that are chosen along with the points.
    """

    gap: Float[Array, " n"]
    places: Float[Array, "n 2"]
    ties: Float[Array, " n"]
    feature: Int[Array, " n"]
    data: Float[Array, "n k"]


def spread(candidates: Candidates, size: Array) -> tuple[Float[Array, " 4"], Float[Array, "4 k"], Int[Array, " 4"]]:
    """Gaps, data and features of four candidates: the deepest, the farthest from it, and two that add most area.

    Deep ones are preferred to high ones, less so by the last one, which looks out for what comes next. - `size`: a
    length of the bodies.
    """
    gap, places, ties, _, _ = jax.lax.stop_gradient(candidates)
    valid = gap < 0.5 * APART
    size = jax.lax.stop_gradient(size)
    rows = jnp.arange(len(gap))
    first = rows == jnp.argmin(jnp.where(valid, gap - _STICKY * ties, APART))
    free = valid & ~first
    a, depth = _pick(first, places), jnp.sum(jnp.where(first, gap, 0.0))
    height, stickiness = size * (gap - depth), size * _STICKY * ties
    penalty = _PRESSED * height - stickiness
    away = places - a
    distance = jnp.sum(away**2, axis=1)
    second = _best(distance, penalty, free & (distance > (_STICKY * size) ** 2), rows)
    free &= ~second
    b = _pick(second, places)
    least = _STICKY * size**2
    area = jnp.abs(_cross(b - a, away))
    third = _best(area, penalty, free & (area > least), rows)
    free &= ~third
    c = _pick(third, places)
    side = jnp.where(_cross(b - a, c - a) < 0, -1.0, 1.0)
    beyond = jnp.maximum(
        jnp.maximum(-side * _cross(b - a, away), -side * _cross(c - b, places - b)), -side * _cross(a - c, places - c)
    )
    fourth = _best(beyond, _DEPTH * height - stickiness, free & (beyond > least), rows)
    masks = (first & valid, second, third, fourth)
    gaps = jnp.stack([jnp.where(jnp.any(m), jnp.sum(jnp.where(m, candidates.gap, 0.0)), APART) for m in masks])
    data = jnp.stack([_pick(m, candidates.data) for m in masks])
    return gaps, data, jnp.stack([jnp.sum(jnp.where(m, candidates.feature, 0)) for m in masks])


def _best(score: Array, penalty: Array, allowed: Array, rows: Array) -> Bool[Array, " n"]:
    """A flag at the largest score among those allowed; none if there is none."""
    return allowed & (rows == jnp.argmax(jnp.where(allowed, score - penalty, -jnp.inf)))


def _pick(mask: Bool[Array, " n"], rows: Float[Array, "n k"]) -> Float[Array, " k"]:
    return jnp.sum(jnp.where(mask[:, None], rows, 0.0), axis=0)


def _cross(a: Array, b: Array) -> Array:
    """The third component of the cross product of vectors in a plane, by rows."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
