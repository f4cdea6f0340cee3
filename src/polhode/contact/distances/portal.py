"""Where the ray from inside a difference of shapes through the origin leaves it, by refinement of a triangle.

After G. Snethen, XenoCollide (Game Programming Gems 7, 2008), also where the origin is outside: the shapes are scaled
about points inside them until they just touch. The normal is that of the distance where they do touch, and the sign
of the distance along it is right anywhere.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.contact.distances.difference import Difference, Farthest
from polhode.contact.vectors import Vector, cross, unit_or

_TOLERANCE = 1e-13
"""Relative distance between a triangle and the surface of the difference that ends the refinement."""

_ROUNDS = 100


def pierce(difference: Difference) -> tuple[Vector, Vector]:
    """The normal from the first shape to the second, and the middle of the points that meet. Without derivatives."""
    inner = difference.inner()
    size = jnp.sqrt(inner @ inner) + difference.size
    portal = _discover(difference, inner)

    def goes_on(state: Any) -> Array:
        _, _, rest, count = state
        return (rest > _TOLERANCE * size) & (count < _ROUNDS)

    def refine(state: Any) -> Any:
        (p, q, r), normal, _, count = state
        new = difference.farthest(normal)
        rest = (new.v - r.v) @ normal
        side = cross(new.v, inner)
        first, second, third = p.v @ side > 0, q.v @ side > 0, r.v @ side > 0
        into_p, into_r = (first & second) | (~first & ~third), first & ~second
        into_q = ~first & third
        advance = rest > _TOLERANCE * size
        portal = tuple(_choose(advance & c, new, old) for c, old in ((into_p, p), (into_q, q), (into_r, r)))
        return portal, _normal(portal, normal), rest, count + 1

    start = (portal, _normal(portal, unit_or(-inner, jnp.array([0.0, 0.0, 1.0]))), size, jnp.asarray(0))
    (p, q, r), normal, _, _ = jax.lax.while_loop(goes_on, refine, start)
    weights = jnp.stack((inner @ cross(q.v, r.v), inner @ cross(r.v, p.v), inner @ cross(p.v, q.v)))
    total = jnp.sum(weights)
    weights = jnp.where(jnp.abs(total) > 0, weights / jnp.where(jnp.abs(total) > 0, total, 1.0), 1 / 3)
    middles = jnp.stack([0.5 * (each.a + each.b) for each in (p, q, r)])
    return -normal, weights @ middles


def _choose(condition: Array, new: Farthest, old: Farthest) -> Farthest:
    return Farthest(*(jnp.where(condition, n, o) for n, o in zip(new, old, strict=True)))


def _normal(portal: Any, fallback: Vector) -> Vector:
    """The unit normal of a triangle; `fallback` where its corners lie on a line."""
    p, q, r = portal
    return unit_or(cross(q.v - p.v, r.v - p.v), fallback)


def _discover(difference: Difference, inner: Vector) -> Any:
    """Three points of the surface whose triangle the ray passes through, seen from inside in turn."""
    first = difference.farthest(-inner)
    across = cross(first.v, inner)
    aside = cross(inner, jnp.array([0.627, 0.341, 0.7]))
    size = inner @ inner + first.v @ first.v
    second = difference.farthest(jnp.where(across @ across > 1e-28 * size * size, across, aside))
    normal = cross(first.v - inner, second.v - inner)
    flip = normal @ inner > 0
    first, second = _choose(flip, second, first), _choose(flip, first, second)
    normal = jnp.where(flip, -normal, normal)

    def goes_on(state: Any) -> Array:
        return state[3] & (state[4] < _ROUNDS)

    def turn(state: Any) -> Any:
        p, q, _, _, count, normal = state
        r = difference.farthest(normal)
        beyond_p = cross(p.v, r.v) @ inner < 0
        beyond_q = ~beyond_p & (cross(r.v, q.v) @ inner < 0)
        p, q = _choose(beyond_q, r, p), _choose(beyond_p, r, q)
        again = beyond_p | beyond_q
        normal = jnp.where(again, cross(p.v - inner, q.v - inner), normal)
        return p, q, r, again, count + 1, normal

    p, q, r, *_ = jax.lax.while_loop(goes_on, turn, (first, second, first, jnp.array(True), jnp.asarray(0), normal))
    return p, q, r
