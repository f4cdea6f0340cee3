"""Constraint forces and stresses as loads, so that their tangents are formed like those of force elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import map_rows
from polhode.multibody.mechanism.elements import (
    AbstractConstraintElement,
    AbstractForceElement,
    AbstractStressedElement,
)
from polhode.multibody.mechanism.groups import ForceGroup, JointGroup, Motion
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench


class Reaction(AbstractForceElement):
    """The loads -Bᵀλ of a constraint on its nodes at fixed multipliers.

    **Arguments:**

    - `constraint`: the element; `components`: the imposed components.
    - `multipliers`: λ of them.
    """

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False

    constraint: AbstractConstraintElement
    components: tuple[int, ...] = eqx.field(static=True)
    multipliers: Float[Array, " components"]

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del twists
        rows = np.array(self.components, dtype=int)
        loads = [-(gradient[rows].T @ self.multipliers) for gradient in self.constraint.gradients(t, poses)]
        return tuple(Wrench(load[:3], load[3:]) for load in loads)


class FixedStressLoad(AbstractForceElement):
    """The loads of an element at fixed stress.

    **Arguments:**

    - `element`: the element; `stress`: σ.
    """

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False

    element: AbstractStressedElement
    stress: Float[Array, " k"]

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        return self.element.loads(poses, self.stress)

    def tangent(self, t: Array, poses: Poses, twists: Twists) -> tuple[Array, Array | None] | None:
        del t, twists
        tangent = self.element.load_tangent(poses, self.stress)
        return None if tangent is None else (tangent, None)


class FixedLoad(AbstractForceElement):
    """A load on one node that doesn't depend on its motion.

    **Arguments:**

    - `load`: its value.
    """

    uses_poses: ClassVar[bool] = False
    uses_twists: ClassVar[bool] = False

    load: Wrench

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, poses, twists
        return (self.load,)


def reaction_of(group: JointGroup, multipliers: Float[Array, " m"]) -> ForceGroup:
    """The loads of all constraints of a group."""
    # Elements are stacked; so are their multipliers.
    return ForceGroup(
        Reaction(group.elements, group.components, multipliers[group.rows.numbers]), group.slots, group.looped
    )


def stressed_groups(groups: Sequence[ForceGroup]) -> tuple[ForceGroup, ...]:
    """The groups whose loads are linear in a stress."""
    return tuple(group for group in groups if isinstance(group.elements, AbstractStressedElement))


def stress_of(group: ForceGroup, t: Array, motion: Motion) -> Float[Array, "elements k"]:
    """The stresses of all elements of a group."""
    arguments = group.elements, motion.at(group.slots), motion.twists_at(group.slots)
    return map_rows(lambda t, e, p, w: e.stress(t, p, w), t, *arguments, loop=group.looped)


def at_stress(group: ForceGroup, stress: Float[Array, "elements k"]) -> ForceGroup:
    """The loads of all elements of a group at fixed stress."""
    assert isinstance(group.elements, AbstractStressedElement)
    return ForceGroup(FixedStressLoad(group.elements, stress), group.slots, group.looped)
