"""Angles near which elements that are read from states are to be read."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point


class AngleReference(eqx.Module):
    """Where the turn of an angle of an element is known from.

    - `number`: of the counted angle; -1 where it is a coordinate of a joint. - `joint`, `coordinate`, `bodies`: that.
    - `zero`: the angle where the coordinate is zero. - `sign`: -1 where they have opposite directions.
    """

    zero: Any
    sign: float = eqx.field(static=True)
    number: int = eqx.field(static=True)
    joint: str | None = eqx.field(static=True)
    coordinate: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)

    def value(self, system: MultibodySystem, q: Point) -> Float[Array, ""]:
        """The angle, in whole turns at least."""
        if self.number >= 0:
            return system.turns(q)[self.number]
        coordinate = system.joint_coordinate(q, self.joint, self.coordinate, self.bodies)
        return jnp.zeros(()) if coordinate is None else self.sign * (coordinate + self.zero)
