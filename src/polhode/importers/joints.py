"""Joints of a model file, with the names and zeros of the file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
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
    """A joint of a model file. Controllers, rotors and measurements take it as they take joints of a model.

    Its coordinate, "angle" for a hinge and "displacement" for a slide, counts from the zero of the file.

    - `name`, `kind`: "hinge", "slide", "ball" or "free".
    - `number`: among the joints of the file.
    - `ends`: its two bodies.
    - `part`: the joint of the model that it is, or is one coordinate of; None for a free body.
    - `relative`: its coordinate; None for balls, free bodies, and hinges whose angle is no function of two poses.
    - `start`: its value at the start.
    - `place`: the name of the coordinate in `part`, if it differs.
    - `force_limits`: (lower, upper) of the effort of its drive, which controllers with `force_limits="joint"` keep.
    - `limits`: (lower, upper) of its coordinate in the file, where its stops are; infinite without a range.
    - `velocity_limit`: the largest magnitude of its rate in the file, rad or length per time. It is not enforced;
      the audit of a run reports where it is exceeded.
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

    @property
    def sources(self) -> tuple[tuple[tuple[str, str], float], ...]:
        """Joints and names under which a system may have its coordinate, and what is to be added there."""
        own = (self.name, next(iter(self.coordinates()))), 0.0
        return (own,) if self.part is None else (((str(self.part.name), self.name_in_carrier(None)), self.start), own)

    def zero_in_carrier(self, name: str | None) -> float:
        del name
        return self.start

    def angle(self, system: Any, t: Any, state: State) -> Float[Array, "..."]:
        """The angle of a hinge from the zero of the file, turns included."""
        return self.value(system, t, state, "angle")

    def displacement(self, system: Any, t: Any, state: State) -> Float[Array, "..."]:
        """The displacement of a slide from the zero of the file."""
        return self.value(system, t, state, "displacement")


def first_of(
    sources: Sequence[tuple[tuple[str, str], float]], values: Mapping[tuple[str, str], Array]
) -> Float[Array, ""] | None:
    """The first of a coordinate's `sources` that is among the values of a system, plus its summand; None if none is."""
    for name, summand in sources:
        if name in values:
            return values[name] + summand if summand else values[name]
    return None
