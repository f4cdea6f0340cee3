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

_TURN = 1e-5
"""Angle by which normals turn to see edges: more than the error of a search for the nearest points."""

_FINE_TURN = 1e-9
"""The same along an edge that is known, which makes no more than round-off of round surfaces beside it."""

_SHORTEST, _PARALLEL = 1e-3, 1e-6
"""Length relative to the size from which an edge counts, and the sine of edges up to which they are parallel."""


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
    return polish(difference, best, _CORRECTIONS)


def _move_apart(difference: Difference, best: Separation) -> Separation:
    """The direction between the nearest points of shapes moved apart along the present one."""
    size = difference.size
    shift = jnp.maximum(jnp.maximum(jnp.abs(best.gap), LEAST * size) - best.gap, 0.0) * best.normal
    normal, middle = nearest(difference.move(shift), best.normal)
    return _better(best, Separation(normal, difference.separation(normal), middle - 0.5 * shift), size)


def _better(old: Separation, new: Separation, size: Array) -> Separation:
    return jax.tree.map(lambda n, o: jnp.where(new.gap > old.gap + 1e-15 * size, n, o), new, old)


def polish(difference: Difference, best: Separation, rounds: int) -> Separation:
    """Newton's method for the largest distance, where it helps: shapes that are smooth or have a straight edge there.

    A search by distances alone leaves normals and places off by the root of round-off.
    """
    edges = _edges(difference, best.normal)
    return jax.lax.fori_loop(0, rounds, lambda _, best: _correct(difference, edges, best), best)


class _Edge(NamedTuple):
    """A straight edge on which the farthest points of a shape lie: its ends, and its unit vector, zero without one."""

    start: Vector
    end: Vector
    along: Vector

    @property
    def exists(self) -> Array:
        return self.along @ self.along > 0

    def nearest(self, point: Vector, place: Vector) -> Vector:
        """The point next to another one on the parallel through `place`, as long as the edge; `place` without one."""
        start, end = (self.start - place) @ self.along, (self.end - place) @ self.along
        share = jnp.clip((point - place) @ self.along, jnp.minimum(start, end), jnp.maximum(start, end))
        return place + share * self.along


class _Edges(NamedTuple):
    """Edges of both shapes, and the normal of both if they cross, else zero."""

    first: _Edge
    second: _Edge
    across: Vector


def _edges(difference: Difference, normal: Vector) -> _Edges:
    """The edges between which the farthest points jump as the normal turns a little.

    What is round across its edge has others beside it, unless the normal turns along the edge itself: so the third turn
    is along what the first two have found.
    """
    t = tangent_of(normal)
    none = _Edge(jnp.zeros(3), jnp.zeros(3), jnp.zeros(3))

    def look(k: Array, edges: tuple[_Edge, _Edge]) -> tuple[_Edge, _Edge]:
        first, second = edges
        last, side = k == 2, jnp.where(k == 0, t, cross(normal, t))
        turn = jnp.where(last, _FINE_TURN, _TURN)
        flat = normal - (normal @ first.along) * first.along
        flat = flat - jnp.where(first.exists, 0.0, flat @ second.along) * second.along
        middle = jnp.where(last, flat, normal)
        (x, R), (y, S) = difference.pose, difference.other
        u, w = R.T @ middle, -(S.T @ middle)
        by_u = turn * (R.T @ jnp.where(last, first.along, side))
        by_w = turn * (S.T @ jnp.where(last, second.along, side))
        a, b = difference.first, difference.second
        new_first = _edge(x + R @ a.support(u + by_u), x + R @ a.support(u - by_u), difference.size)
        new_second = _edge(y + S @ b.support(w + by_w), y + S @ b.support(w - by_w), difference.size)
        return _longer(first, new_first, last), _longer(second, new_second, last)

    first, second = jax.lax.fori_loop(0, 3, look, (none, none))
    across = cross(first.along, second.along)
    square = across @ across
    across = jnp.where(square > _PARALLEL**2, across, 0.0) / jnp.sqrt(jnp.where(square > 0, square, 1.0))
    return _Edges(first, second, jnp.where(across @ normal < 0, -across, across))


def _edge(start: Vector, end: Vector, size: Array) -> _Edge:
    square = (end - start) @ (end - start)
    exists = square > (_SHORTEST * size) ** 2
    return _Edge(start, end, jnp.where(exists, (end - start) / jnp.sqrt(jnp.where(exists, square, 1.0)), 0.0))


def _longer(old: _Edge, new: _Edge, last: Array) -> _Edge:
    """The longer edge; the last one takes the place of one that exists."""
    way, before = new.end - new.start, old.end - old.start
    takes = jnp.where(last, old.exists, way @ way > before @ before)
    return jax.tree.map(lambda n, o: jnp.where(takes, n, o), new, old)


def _correct(difference: Difference, edges: _Edges, best: Separation) -> Separation:
    """A step of Newton's method for the largest distance: across edges only, whose normals are at right angles."""
    along = jnp.where(edges.first.exists, edges.first.along, edges.second.along)
    crosses, has_edge = edges.across @ edges.across > 0, edges.first.exists | edges.second.exists
    normal = best.normal - (best.normal @ along) * along
    normal = jnp.where(crosses, edges.across, normal / jnp.sqrt(normal @ normal))
    t = jnp.where(has_edge, cross(along, normal), tangent_of(normal))
    frame = (t, cross(normal, t))
    columns = [jax.jvp(lambda n: difference.farthest(-n).v, (normal,), (t,)) for t in frame]
    m = columns[0][0]
    s = normal @ m
    rates = [column[1] for column in columns]
    a, b, c = frame[0] @ rates[0] - s, frame[0] @ rates[1], frame[1] @ rates[1] - s
    g, h = frame[0] @ m, frame[1] @ m
    b, h = jnp.where(has_edge, 0.0, b), jnp.where(has_edge, 0.0, h)
    c = jnp.where(has_edge, a, c)
    det = a * c - b * b
    det = jnp.where((jnp.abs(det) > 1e-14 * (a * a + c * c)) & ~crosses, det, jnp.inf)
    step = -(c * g - b * h) / det * frame[0] - (a * h - b * g) / det * frame[1]
    direction = normal + step
    direction /= jnp.sqrt(direction @ direction)
    farthest = difference.farthest(-direction)
    middle = _middle(edges, farthest.a, farthest.b, crosses, best.middle)
    new = Separation(direction, direction @ farthest.v, middle)
    # Distances say less about directions than Newton's method does: equal ones are no reason to keep the old one.
    admits = new.gap > best.gap - difference.round_off
    return jax.tree.map(lambda n, o: jnp.where(admits, n, o), new, best)


def _middle(edges: _Edges, a: Vector, b: Vector, crosses: Array, known: Vector) -> Vector:
    """The middle between the nearest points; the one that is known where edges are parallel."""
    first, second = edges.first, edges.second
    cosine, apart = first.along @ second.along, b - a
    sine = jnp.where(crosses, 1.0 - cosine * cosine, 1.0)
    share = first.along @ apart - cosine * (second.along @ apart)
    on_first = jnp.where(crosses, a + share / sine * first.along, first.nearest(b, a))
    on_second = second.nearest(jnp.where(crosses, on_first, a), b)
    both = first.exists & second.exists
    return jnp.where(both & ~crosses, known, 0.5 * (on_first + on_second))
