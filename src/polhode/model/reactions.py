"""Constraint forces as loads, so that what is done with force elements can be done with joints."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from polhode.model.elements import AbstractConstraintElement, AbstractForceElement, Poses, Twists, Wrench
from polhode.model.groups import ForceGroup, JointGroup


class Reaction(AbstractForceElement):
    """The loads -Bᵀλ of a constraint on its nodes at fixed multipliers.

    **Arguments:**

    - `constraint`: the element; `kept`: those of its components that are imposed.
    - `multipliers`: λ of them.
    """

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False

    constraint: AbstractConstraintElement
    kept: tuple[int, ...] = eqx.field(static=True)
    multipliers: Float[Array, " kept"]

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del twists
        rows = np.array(self.kept, dtype=int)
        loads = [-(gradient[rows].T @ self.multipliers) for gradient in self.constraint.gradients(t, poses)]
        return tuple(Wrench(load[:3], load[3:]) for load in loads)


def reaction_of(group: JointGroup, multipliers: Float[Array, " m"]) -> ForceGroup:
    """The loads of all constraints of a group."""
    # Elements are stacked; so are their multipliers.
    return ForceGroup(Reaction(group.elements, group.kept, multipliers[group.rows.numbers]), group.slots, group.looped)
