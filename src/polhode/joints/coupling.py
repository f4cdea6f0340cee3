"""Equations between joint coordinates, such as those of gears and of the mimicking joints of files."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.joints.measured import AbstractMeasured, Term
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.elements import AbstractConstraintElement
from polhode.multibody.parts import AbstractJoint
from polhode.multibody.poses import Poses


class Coupling(AbstractConstraintElement):
    """A joint coordinate as a polynomial of another: y = Σ cᵢ xⁱ; with a factor r sin(r(y - Σ cᵢ xⁱ))/r = 0.

    The sine makes full turns equal. A factor r that makes all of r, r c₁ whole numbers keeps the constraint smooth
    where the angles y and x jump by 2π. Without a factor angles have to remain within half a turn of their zeros.

    **Arguments:**

    - `follower`: y, a coordinate of the first nodes; `leader`: x, one of the others.
    - `split`: number of the first nodes.
    - `zeros`: where y and x are measured from, shape (2,).
    - `coefficients`: shape (5,), lowest power first.
    - `factor`: r; None if y is a displacement, or no factor makes all whole.
    """

    follower: AbstractRelativeCoordinate
    leader: AbstractRelativeCoordinate
    zeros: Float[Array, "2"]
    coefficients: Float[Array, "5"]
    factor: int | None = eqx.field(static=True)
    split: int = eqx.field(static=True, default=2)

    @property
    def size(self) -> int:
        return 1

    def residual(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        del t
        gap = self._gap(poses)
        return (gap if self.factor is None else jnp.sin(self.factor * gap) / self.factor)[None]

    def sides(self, t: Array, poses: Poses) -> Float[Array, " s"]:
        del t
        return jnp.zeros(0) if self.factor is None else jnp.cos(self.factor * self._gap(poses))[None]

    def branch_residual(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        if self.factor is None:
            return self.residual(t, poses)
        angle = self.factor * self._gap(poses)
        return (jnp.arctan2(jnp.sin(angle), jnp.cos(angle)) / self.factor)[None]

    def _gap(self, poses: Poses) -> Float[Array, ""]:
        x = self.leader.difference(poses[self.split :], self.zeros[1])
        c0, c1, c2, c3, c4 = self.coefficients
        return self.follower.difference(poses[: self.split], self.zeros[0]) - (
            c0 + x * (c1 + x * (c2 + x * (c3 + x * c4)))
        )


class Relation(NamedTuple):
    """Σ rᵢ sᵢ = `value`, with joint coordinates sᵢ as joints count them; the first terms are those to follow."""

    terms: tuple[Term, ...]
    value: float


@dataclasses.dataclass(frozen=True, eq=False)
class CoupledJoints(AbstractJoint):
    """The coordinate y of joints follows that of others, x: y - y₀ = Σ cᵢ (x - x₀)ⁱ.

    Joint coordinates that are in proportion become one coordinate of a tree; elsewhere it is a constraint.

    - `follower`, `leader`: joints with one coordinate, or combinations of such.
    - `zeros`: y₀ and x₀. - `coefficients`: c, five of them.
    - `element`: the same as a constraint; `follower` and `leader` may have changed places in it.
    - `order`: the bodies in the order in which `element` takes them.
    """

    follower: AbstractMeasured
    leader: AbstractMeasured
    zeros: tuple[float, float]
    coefficients: tuple[float, ...]
    element: Coupling
    order: tuple[Body, ...]
    name: str | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.order

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
