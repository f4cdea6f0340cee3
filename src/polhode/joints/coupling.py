"""Equations between joint coordinates, such as those of gears and of the mimicking joints of files."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from polhode.joints.named_coordinates import AbstractMeasured, Term
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.angles import PlacedAngle
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.mechanism.poses import Poses
from polhode.multibody.parts import AbstractJoint


class Coupling(AbstractConstraintElement):
    """A joint coordinate as a polynomial of another: y = Σ cᵢ xⁱ, in angles that count turns.

    **Arguments:**

    - `follower`: y, a coordinate of the first nodes; `leader`: x, one of the others.
    - `split`, `nodes`: numbers of the first nodes, and of all.
    - `zeros`: where y and x are measured from, shape (2,).
    - `coefficients`: shape (5,), lowest power first.
    """

    follower: AbstractRelativeCoordinate
    leader: AbstractRelativeCoordinate
    zeros: Float[Array, "2"]
    coefficients: Float[Array, "5"]
    split: int = eqx.field(static=True, default=2)
    nodes: int = eqx.field(static=True, default=4)

    @property
    def size(self) -> int:
        return 1

    def residual(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        del t
        x = self.leader.value(poses[self.split :]) - self.zeros[1]
        c0, c1, c2, c3, c4 = self.coefficients
        y = self.follower.value(poses[: self.split]) - self.zeros[0]
        return (y - (c0 + x * (c1 + x * (c2 + x * (c3 + x * c4)))))[None]

    def angles(self) -> tuple[PlacedAngle, ...]:
        nodes = tuple(range(self.nodes))
        return (*self.follower.angles(nodes[: self.split]), *self.leader.angles(nodes[self.split :]))


class Relation(NamedTuple):
    """Σ rᵢ sᵢ = `value`, with joint coordinates sᵢ as joints count them; the first terms are the followers."""

    terms: tuple[Term, ...]
    value: float


@dataclasses.dataclass(frozen=True, eq=False)
class CoupledJoints(AbstractJoint):
    """The coordinate y of joints follows that of others, x: y - y₀ = Σ cᵢ (x - x₀)ⁱ.

    Joint coordinates that are in proportion become one coordinate of a tree; elsewhere it is a constraint.

    - `follower`, `leader`: joints with one coordinate, or combinations of such.
    - `zeros`: y₀ and x₀. - `coefficients`: c, five of them.
    - `element`: the same as a constraint.
    """

    follower: AbstractMeasured
    leader: AbstractMeasured
    zeros: tuple[float, float]
    coefficients: tuple[float, ...]
    element: Coupling
    name: str | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return *self.follower.bodies, *self.leader.bodies

    def place(self, poses: Poses) -> Coupling:
        del poses
        return self.element

    def relation(self) -> Relation | None:
        """The equation that the coordinates fulfil, if it is a linear one."""
        c0, c1, *higher = self.coefficients
        if np.any(higher):
            return None
        leaders = [Term(-c1 * term.ratio, term.pair, term.name) for term in self.leader.terms()] if c1 else []
        y0, x0 = self.zeros
        return Relation((*self.follower.terms(), *leaders), y0 + c0 - c1 * x0)
