"""The point of a difference of shapes that is nearest to the origin, for shapes that are apart.

After E. Gilbert, D. Johnson and S. Keerthi (1988), with a triangle of points in place of a simplex.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.contact.distances.difference import Difference, Farthest
from polhode.contact.distances.triangle import weights_of_nearest
from polhode.contact.vectors import Vector, unit_or

_TOLERANCE = 1e-14
_ROUNDS = 100


def nearest(difference: Difference, start: Vector) -> tuple[Vector, Vector]:
    """The normal from the first shape to the second, and the middle between their nearest points.

    - `start`: a normal to begin with.
    """
    first = difference.farthest(-start)
    corners = Farthest(*(jnp.stack((each, each, each)) for each in first))

    def goes_on(state: Any) -> Array:
        return state[3] & (state[4] < _ROUNDS)

    def step(state: Any) -> Any:
        corners, weights, v, _, count = state
        new = difference.farthest(-v)
        square = v @ v
        tetrahedron = Farthest(*(jnp.concatenate((old, n[None])) for old, n in zip(corners, new, strict=True)))
        best: Any = None
        for rows in ((0, 1, 3), (1, 2, 3), (2, 0, 3)):
            triangle = Farthest(*(jnp.stack([each[k] for k in rows]) for each in tetrahedron))
            shares = weights_of_nearest(triangle.v)
            point = shares @ triangle.v
            item = (point @ point, triangle, shares, point)
            best = (
                item if best is None else jax.tree.map(lambda n, o, c=item[0] < best[0]: jnp.where(c, n, o), item, best)
            )
        closer = (square - v @ new.v > _TOLERANCE * square) & (best[0] < square)
        keep = lambda n, o: jnp.where(closer, n, o)  # noqa: E731
        corners, weights, v = jax.tree.map(keep, tuple(best[1:]), (corners, weights, v))
        return corners, weights, v, closer, count + 1

    initial = (corners, jnp.array([1.0, 0.0, 0.0]), first.v, jnp.array(True), jnp.asarray(0))
    corners, weights, v, _, _ = jax.lax.while_loop(goes_on, step, initial)
    return unit_or(v, start), weights @ (0.5 * (corners.a + corners.b))
