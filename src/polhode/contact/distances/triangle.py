"""Triangles: their points next to a given one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.contact.farthest_row import FEW
from polhode.contact.vectors import Vector, cross


def weights_of_nearest(corners: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """Weights of the corners of a triangle at its point next to the origin; it may have no area."""
    a, b, c = corners
    normal = cross(b - a, c - a)
    area = normal @ normal
    inside = area > 0
    own = []
    best, least = jnp.array([1.0, 0.0, 0.0]), a @ a
    for k, (start, end) in enumerate(((a, b), (b, c), (c, a))):
        edge = end - start
        part = normal @ cross(start, end)
        own.append(part)
        inside &= part >= 0
        square = edge @ edge
        share = jnp.clip(-(edge @ start) / jnp.where(square > 0, square, 1.0), 0.0, 1.0)
        point = start + share * edge
        weights = [jnp.zeros_like(share)] * 3
        weights[k], weights[(k + 1) % 3] = 1 - share, share
        distance = jax.lax.stop_gradient(point @ point)
        best = jnp.where(distance < least, jnp.stack(weights), best)
        least = jnp.minimum(distance, least)
    within = jnp.stack((own[1], own[2], own[0])) / jnp.where(area > 0, area, 1.0)
    return jnp.where(inside, within, best)


def nearest_in_triangle(c: Vector, corners: Float[Array, "3 3"]) -> Vector:
    """The point of a triangle that is next to `c`."""
    away = corners - c
    return c + weights_of_nearest(away) @ away


def nearest_in_triangles(c: Vector, corners: Float[Array, "f 3 3"]) -> Vector:
    """The point of triangles that is next to `c`."""
    if len(corners) <= FEW:
        points = jax.vmap(nearest_in_triangle, (None, 0))(c, corners)
        return points[jnp.argmin(jax.lax.stop_gradient(jnp.sum((points - c) ** 2, axis=1)))]

    def visit(c: Any, best: tuple[Array, Array], row: tuple[Array, Array]) -> tuple[Any, tuple[()]]:
        point = nearest_in_triangle(c, row[0])
        square = (point - c) @ (point - c)
        nearer = square < best[0]
        return (jnp.where(nearer, square, best[0]), jnp.where(nearer, row[1], best[1])), ()

    fixed = jax.lax.stop_gradient((c, corners))
    start = (jnp.asarray(jnp.inf), jnp.asarray(0))
    number = scan_rows(visit, fixed[0], start, (fixed[1], jnp.arange(len(corners))))[0][1]
    return nearest_in_triangle(c, corners[number])
