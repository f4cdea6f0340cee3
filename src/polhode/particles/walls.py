"""Walls that contain spheres."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.spaces.component_arrays import Vectors, add_scaled, dot, scale, subtract


class AbstractWall(eqx.Module):
    """A wall with smooth faces."""

    @abc.abstractmethod
    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        """Distance from points to each face, positive inside, and the unit normal there, pointing inside."""


class Plane(AbstractWall):
    """A plane; particles are on the side that its normal points to.

    **Arguments:**

    - `point`: any point of it, shape (3,). - `normal`: any length, shape (3,).
    """

    point: Float[Array, "3"]
    normal: Float[Array, "3"]

    def __init__(self, point: Any = (0.0, 0.0, 0.0), normal: Any = (0.0, 0.0, 1.0)) -> None:
        self.point = checks.array("point", point, (3,), "a point of the plane")
        self.normal = _direction("normal", normal)

    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        normal = tuple(self.normal.astype(x[0].dtype))
        return [(dot(normal, subtract(x, tuple(self.point.astype(x[0].dtype)))), normal)]


class Box(AbstractWall):
    """A box around the particles, edges along the axes.

    **Arguments:**

    - `lower`, `upper`: its corners, shape (3,); infinite where it is open.
    """

    lower: Float[Array, "3"]
    upper: Float[Array, "3"]

    def __init__(self, lower: Any, upper: Any) -> None:
        for name, value in (("lower", lower), ("upper", upper)):
            if not checks.is_concrete(value):
                continue
            corner = checks.numbers(name, value, "a corner of the box")
            if corner.shape != (3,) or np.any(np.isnan(corner)):
                raise ValueError(f"`{name}` must be three numbers (a corner of the box), got {short_repr(value)}.")
        self.lower, self.upper = jnp.asarray(lower, float), jnp.asarray(upper, float)
        if checks.is_concrete(lower, upper) and not np.all(np.asarray(lower) < np.asarray(upper)):
            raise ValueError(
                f"`lower` must be below `upper` in all three directions, got {short_repr(lower)} and "
                f"{short_repr(upper)}."
            )

    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        box_faces = []
        for k in range(3):
            for corner, sign in ((self.lower, 1.0), (self.upper, -1.0)):
                normal = tuple(sign if i == k else 0.0 for i in range(3))
                box_faces.append((sign * (x[k] - corner[k].astype(x[k].dtype)), normal))
        return box_faces


class Cylinder(AbstractWall):
    """The inside of a cylinder without ends.

    **Arguments:**

    - `radius`. - `point`: any point of its axis. - `axis`: direction, any length.
    """

    radius: Float[Array, ""]
    point: Float[Array, "3"]
    axis: Float[Array, "3"]

    def __init__(self, radius: Any, point: Any = (0.0, 0.0, 0.0), axis: Any = (0.0, 0.0, 1.0)) -> None:
        self.radius = checks.positive("radius", radius, (), "radius of the cylinder")
        self.point = checks.array("point", point, (3,), "a point of the axis")
        self.axis = _direction("axis", axis)

    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        kind = x[0].dtype
        axis = tuple(self.axis.astype(kind))
        d = subtract(x, tuple(self.point.astype(kind)))
        across = add_scaled(d, -dot(d, axis), axis)
        square = dot(across, across)
        off = square > 0
        length = jnp.sqrt(jnp.where(off, square, 1.0))
        inward = scale(jnp.where(off, -1 / length, 0.0), across)
        return [(self.radius.astype(kind) - jnp.where(off, length, 0.0), inward)]


def _direction(name: str, value: Any) -> Array:
    vector = checks.array(name, value, (3,), "a direction")
    length = jnp.sqrt(jnp.sum(vector * vector))
    if checks.is_concrete(value) and not float(length) > 0:
        raise ValueError(f"`{name}` must not be zero (a direction), got {short_repr(value)}.")
    return vector / length
