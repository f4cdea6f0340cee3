"""A polygon cut by a convex one: where two faces touch."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.distances.contact_points import APART

_FLUSH = 1e-9
"""Distance from an edge, relative to the size of the bodies, within which points count as on it."""


class Overlap(NamedTuple):
    """Corners of the overlap of two faces, those that there are.

    - `places`: (n, 2), in the plane of the reference face. - `heights`: (n,), of the incident face above it.
    - `valid`: (n,). - `feature`: (n,), numbers of vertices, or of the edges that cross.
    """

    places: Float[Array, "n 2"]
    heights: Float[Array, " n"]
    valid: Bool[Array, " n"]
    feature: Int[Array, " n"]


def overlap(
    reference: Float[Array, "k 2"], incident: Float[Array, "m 3"], numbers: Int[Array, " m"], size: Array
) -> Overlap:
    """The overlap of an incident face, by corners with heights, and a convex reference face, corners in turn.

    - `numbers`: of the incident vertices, below 64. - `size`: a length of the bodies.
    """
    flush = _FLUSH * size
    inside = edge_distances(reference, incident[:, :2])
    edges = _clip_edges(inside, incident, numbers, flush)
    within = _corners_within(reference, incident, flush)
    for each in edges:
        away = within.places[:, None] - each.places
        same = jnp.sum(away**2, axis=2) < (4 * flush) ** 2
        within = within._replace(valid=within.valid & ~jnp.any(same & each.valid, axis=1))
    return Overlap(*(jnp.concatenate(arrays) for arrays in zip(*edges, within, strict=True)))


def edge_distances(polygon: Float[Array, "k 2"], points: Float[Array, "m 2"]) -> Float[Array, "m k"]:
    """Signed distances of points from the edges of a polygon, positive inside; `APART` for edges without length."""
    edges = jnp.roll(polygon, -1, axis=0) - polygon
    area = jnp.sum(polygon[:, 0] * jnp.roll(polygon[:, 1], -1) - polygon[:, 1] * jnp.roll(polygon[:, 0], -1))
    squares = jnp.sum(edges**2, axis=1)
    scale = jnp.where(area < 0, -1.0, 1.0) / jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    inward = jnp.stack((-edges[:, 1] * scale, edges[:, 0] * scale), axis=1)
    return jnp.where(squares > 0, points @ inward.T - jnp.sum(polygon * inward, axis=1), APART)


def _clip_edges(inside: Array, incident: Array, numbers: Array, flush: Array) -> tuple[Overlap, Overlap]:
    """First and last points of the edges of the incident face within the reference face.

    A last point that is a vertex is left out, as it is the first one of the next edge.
    """
    here, there = inside, jnp.roll(inside, -1, axis=0)
    out_here, out_there = here < -flush, there < -flush
    span = here - there
    crossing = jnp.clip(here / jnp.where(span == 0, 1.0, span), 0.0, 1.0)
    entry = jnp.where(out_here & ~out_there, crossing, 0.0)
    leaving = jnp.where(~out_here & out_there, crossing, 1.0)
    first, last = jnp.max(entry, axis=1), jnp.min(leaving, axis=1)
    valid = ~jnp.any(out_here & out_there, axis=1) & (first <= last)
    after = jnp.roll(numbers, -1)
    edge = 64 * (1 + jnp.minimum(numbers, after)) + 4096 * (1 + jnp.maximum(numbers, after))
    step = jnp.roll(incident, -1, axis=0) - incident
    starts, ends = incident + first[:, None] * step, incident + last[:, None] * step
    starts_cut, ends_cut = jnp.any(out_here, axis=1), jnp.any(out_there, axis=1)
    start_feature = jnp.where(starts_cut, edge + jnp.argmax(entry, axis=1), numbers)
    end_feature = edge + jnp.argmin(leaving, axis=1)
    return (
        Overlap(starts[:, :2], starts[:, 2], valid, start_feature),
        Overlap(ends[:, :2], ends[:, 2], valid & ends_cut, end_feature),
    )


def _corners_within(reference: Array, incident: Array, flush: Array) -> Overlap:
    """Corners of the reference face within the incident face, with its height there."""
    valid = jnp.all(edge_distances(incident[:, :2], reference) > -flush, axis=1)
    origin = incident[0]
    a, b = incident[1] - origin, incident[-1] - origin
    area = a[0] * b[1] - a[1] * b[0]
    valid &= jnp.abs(area) > flush**2
    area = jnp.where(jnp.abs(area) > flush**2, area, 1.0)
    away = reference - origin[:2]
    shares = (away[:, 0] * b[1] - away[:, 1] * b[0]) / area, (a[0] * away[:, 1] - a[1] * away[:, 0]) / area
    heights = origin[2] + shares[0] * a[2] + shares[1] * b[2]
    return Overlap(reference, heights, valid, jnp.asarray(1 << 20 | np.arange(len(reference))))
