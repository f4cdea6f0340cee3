"""The joints of a file, by the names that they have there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.joints.named_coordinates import AbstractMeasuredPair
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.parts import AbstractJoint
from polhode.systems.base import State


@dataclasses.dataclass(frozen=True, eq=False)
class FileJoint(AbstractMeasuredPair):
    """A joint of a model file. Controllers, rotors and readings take it as they take joints of a model.

    Its coordinate, "angle" for a hinge and "displacement" for a slide, counts from the zero of the file.

    - `name`, `kind`: "hinge", "slide", "ball" or "free".
    - `number`: among the joints of the file.
    - `ends`: its two bodies.
    - `part`: the joint of the model that it is, or that it is one of several coordinates of; None for a free body.
    - `relative`: its coordinate; None for balls, free bodies, and hinges that are none of two poses.
    - `start`: its value at the start.
    - `place`: what `part` calls the coordinate, if not what this joint does.
    - `force_limits`: (lower, upper) of the efforts of what drives it, to which controllers keep that are given
      `force_limits="joint"`.
    - `limits`: (lower, upper) of its coordinate by the file, in which stops leave it; infinite without a range.
    - `velocity_limit`: the largest magnitude of its rate by the file, rad or length per time. Nothing keeps to it;
      the audit of a run says where it is exceeded.
    """

    name: str
    kind: str
    number: int
    ends: tuple[Body, Body]
    part: AbstractJoint | None
    relative: AbstractRelativeCoordinate | None
    start: float = 0.0
    place: str | None = None
    force_limits: tuple[float, float] = (-np.inf, np.inf)
    velocity_limit: float = np.inf
    limits: tuple[float, float] = (-np.inf, np.inf)

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.ends

    @property
    def carrier(self) -> AbstractJoint | None:
        return self.part

    def initial(self, name: str | None = None) -> Float[Array, ""]:
        self.coordinate(name)
        return jnp.asarray(self.start)

    @property
    def measured(self) -> bool:
        """Whether it has a scalar coordinate."""
        return self.relative is not None

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        if self.relative is None:
            return {}
        return {"angle" if self.kind == "hinge" else "displacement": self.relative}

    def name_in_carrier(self, name: str | None) -> str:
        return self.place or super().name_in_carrier(name)

    def from_system(self, values: Mapping[tuple[str, str], Array]) -> Float[Array, ""] | None:
        """The coordinate among those that a system knows, turns included; None if it is none of them."""
        value = None if self.part is None else values.get((str(self.part.name), self.name_in_carrier(None)))
        return values.get((self.name, next(iter(self.coordinates())))) if value is None else value + self.start

    def zero_in_carrier(self, name: str | None) -> float:
        del name
        return self.start

    def angle(self, system: Any, t: Any, state: State) -> Float[Array, "..."]:
        """The angle of a hinge from the zero of the file, turns included."""
        return self.value(system, t, state, "angle")

    def displacement(self, system: Any, t: Any, state: State) -> Float[Array, "..."]:
        """The displacement of a slide from the zero of the file."""
        return self.value(system, t, state, "displacement")
