"""References of angles in elements that are evaluated in states."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.modules import Module
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point


class AngleReference(Module):
    """The source of the turns of an angle of an element.

    - `number`: of the counted angle; -1 for a joint coordinate. - `joint`, `coordinate`, `bodies`: names of this one.
    - `zero`: the angle where the coordinate is zero. - `sign`: -1 where they have opposite directions.
    """

    zero: Any
    sign: float = eqx.field(static=True)
    number: int = eqx.field(static=True)
    joint: str | None = eqx.field(static=True)
    coordinate: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)

    def value(self, system: MultibodySystem, q: Point) -> Float[Array, ""]:
        """The angle, right up to less than half a turn."""
        if self.number >= 0:
            return system.turns(q)[self.number]
        coordinate = system.joint_coordinate(q, self.joint, self.coordinate, self.bodies)
        return jnp.zeros(()) if coordinate is None else self.sign * (coordinate + self.zero)
