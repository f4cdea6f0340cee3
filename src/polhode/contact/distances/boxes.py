"""Boxes against boxes: separating axes, and the overlap of the faces that look at each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.contact.distances.contact_points import APART, ContactPoints
from polhode.contact.distances.face_overlap import overlap
from polhode.contact.distances.patch import Candidates, spread
from polhode.contact.shapes.box import Box, corners_towards
from polhode.contact.shapes.shape import Pose
from polhode.contact.vectors import cross, largest

_CLEAR = 1e-9
"""How much an axis must separate better than one before it, relative to the size, so that rounding doesn't choose."""

_FLAT = 0.995
"""Cosine of the angle, 0.1 rad, between the normals of two edges and of a face from which on points of the face are
beside that of the edges. Without them, cubes that fall on each other flat, turning by 0.05 rad in a step, sank into
each other by 3 mm in a step and 1 to 3 cm in the end."""

_GENERIC: Any = np.array([0.627, 0.341])
_FIRST: Any = np.array([1.0, 0.0, 0.0, 0.0])
_CORNERS: Any = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])


class _Solid(NamedTuple):
    """A box in space: centre, axes as columns, half of its edge lengths."""

    x: Float[Array, "3"]
    R: Float[Array, "3 3"]
    half: Float[Array, "3"]


def box_box(first: Box, pose: Pose, second: Box, other: Pose) -> ContactPoints:
    """Up to four points of the overlap of two faces, or one where two edges cross; both where these are almost flat."""
    a, b = _Solid(*pose, first.half), _Solid(*other, second.half)
    size = jax.lax.stop_gradient(jnp.sum(a.half) + jnp.sum(b.half))
    turned, d = a.R.T @ b.R, a.R.T @ (b.x - a.x)
    absolute = jnp.abs(turned)
    of_first = jnp.abs(d) - a.half - absolute @ b.half
    of_second = jnp.abs(d @ turned) - b.half - a.half @ absolute
    takes_second = jnp.max(of_second) > jnp.max(of_first) + _CLEAR * size
    faces = _faces(a, b, of_first, of_second, takes_second, size)
    edge_gap, edge = _edges(a, b, turned, d)
    # Next to corners the boxes are nearer than points above each other: the separation is a bound.
    bound = jnp.maximum(jnp.maximum(jnp.max(of_first), jnp.max(of_second)), edge_gap)
    excess = jax.lax.stop_gradient(jnp.where((faces.gap > bound) & (bound > 0), faces.gap - bound, 0.0))
    faces = faces._replace(gap=faces.gap - jnp.where(faces.gap < 0.5 * APART, excess, 0.0) * _FIRST)
    crosses = edge_gap > jnp.maximum(jnp.max(of_first), jnp.max(of_second)) + _CLEAR * size
    # An edge flat on a face needs the points at both of its ends, or it turns into the face.
    flat = jnp.abs(edge.normal[0] @ faces.normal[0]) >= _FLAT
    away = jnp.sum((faces.point - edge.point) ** 2, axis=1) + jnp.where(faces.gap < 0.5 * APART, 0.0, APART)
    alone = edge._replace(gap=jnp.where(_FIRST > 0, edge.gap, APART))
    beside = _choose(jnp.arange(4) == jnp.argmin(jax.lax.stop_gradient(away)), edge, faces)
    crossing = _choose(jnp.broadcast_to(flat, (4,)), beside, alone)
    return _choose(jnp.broadcast_to(crosses, (4,)), crossing, faces)


def _choose(condition: Bool[Array, " s"], one: ContactPoints, other: ContactPoints) -> ContactPoints:
    """Slots of the first where a condition holds, else of the second."""
    pick = lambda a, b: jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)  # noqa: E731
    return ContactPoints(*map(pick, one, other))


def _faces(a: _Solid, b: _Solid, of_first: Array, of_second: Array, takes_second: Array, size: Array) -> ContactPoints:
    """The overlap of the face that separates best with the one that looks at it most."""
    reference = _Solid(*(jnp.where(takes_second, s, f) for f, s in zip(a, b, strict=True)))
    incident = _Solid(*(jnp.where(takes_second, f, s) for f, s in zip(a, b, strict=True)))
    chosen = largest(jnp.where(takes_second, of_second, of_first))
    u, v, w = (_cycle(reference.R.T, chosen, k) for k in range(3))
    hu, hv, hw = (_cycle(reference.half, chosen, k) for k in range(3))
    between = incident.x - reference.x
    w = jnp.where(w @ between < 0, -w, w)
    axes = jnp.stack((u, v, w), axis=1)
    signs, numbers = corners_towards(-(incident.R.T @ w))
    corners = (between + (signs * incident.half) @ incident.R.T) @ axes - jnp.stack((0 * hw, 0 * hw, hw))
    common = overlap(_CORNERS * jnp.stack((hu, hv)), corners, numbers, size)
    # Without any overlap, which is so only where the boxes are apart, the lowest vertex is a bound.
    lowest = jnp.argmin(jax.lax.stop_gradient(corners[:, 2]))
    corner, none = corners[lowest], ~jnp.any(common.valid)
    places = jnp.concatenate((common.places, corner[None, :2]))
    heights = jnp.concatenate((jnp.where(common.valid, common.heights, APART), jnp.where(none, corner[2], APART)[None]))
    features = jnp.concatenate((common.feature, numbers[lowest][None]))
    data = jnp.concatenate((places, heights[:, None]), axis=1)
    gaps, data, features = spread(Candidates(heights, places, places @ _GENERIC, features, data), size)
    local = jnp.stack((data[:, 0], data[:, 1], hw + 0.5 * jnp.where(gaps < 0.5 * APART, gaps, 0.0)), axis=1)
    rows = lambda e: jnp.broadcast_to(e, (4, 3))  # noqa: E731
    normal = jnp.where(takes_second, -w, w)
    return ContactPoints(gaps, reference.x + local @ axes.T, rows(normal), rows(u), features.astype(jnp.int32))


def _cycle(rows: Array, chosen: Array, k: int) -> Array:
    """The row that is 1, 2 or 3 places after the chosen one of three, in turn."""
    a, b, c = rows[(k + 1) % 3], rows[(k + 2) % 3], rows[k]
    return jnp.where(chosen[0], a, jnp.where(chosen[1], b, c))


def _edges(a: _Solid, b: _Solid, turned: Array, d: Array) -> tuple[Array, ContactPoints]:
    """The largest distance along a direction across two edges, and the contact of the two edges that are nearest."""
    best: Any = None
    for i in range(3):
        for j in range(3):
            e, f = jnp.eye(3)[i], turned[:, j]
            square = 1 - turned[i, j] ** 2
            regular = square > 1e-10
            across = cross(e, f) / jnp.sqrt(jnp.where(regular, square, 1.0))
            across = jnp.where(across @ d < 0, -across, across)
            gap = across @ d - jnp.abs(across) @ a.half - jnp.abs(across @ turned) @ b.half
            item = (jnp.where(regular, gap, -APART), across, e, f, jnp.eye(3)[j], jnp.asarray(3 * i + j))
            if best is not None:
                better = item[0] > best[0]
                item = tuple(jnp.where(better, new, old) for new, old in zip(item, best, strict=True))
            best = item
    gap, across, e, f, own, number = best
    signs_a = jnp.where(e > 0.5, 0.0, jnp.where(across < 0, -1.0, 1.0))
    signs_b = jnp.where(own > 0.5, 0.0, jnp.where(across @ turned < 0, 1.0, -1.0))
    start = signs_a * a.half
    between = d + turned @ (signs_b * b.half) - start
    cosine = e @ f
    s = (between @ e - cosine * (between @ f)) / jnp.where(gap > -0.5 * APART, 1 - cosine**2, 1.0)
    s = jnp.clip(s, -(a.half @ e), a.half @ e)
    middle = a.x + a.R @ (start + s * e + 0.5 * gap * across)
    bits = jnp.array([1, 2, 4])
    side = jnp.sum(jnp.where(signs_a > 0, bits, 0)) + 8 * jnp.sum(jnp.where(signs_b > 0, bits, 0))
    feature = (1 << 21) + 64 * number + side
    rows = lambda r: jnp.broadcast_to(r, (4, 3))  # noqa: E731
    edge = ContactPoints(
        jnp.broadcast_to(gap, (4,)),
        rows(middle),
        rows(a.R @ across),
        rows(a.R @ e),
        jnp.broadcast_to(feature.astype(jnp.int32), (4,)),
    )
    return gap, edge
