"""Elements of joints and forces in groups of equal kind, each evaluated as one batch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from polhode.assembly.coordinate_layout import AbstractLayout, PlacedElement
from polhode.assembly.counted_angles import TurnRegister
from polhode.linalg.blocks import Indices
from polhode.multibody.mechanism.elements import AbstractConstraintElement, AbstractForceElement
from polhode.multibody.mechanism.groups import ForceGroup, JointGroup, stack_trees
from polhode.multibody.parts import AbstractJoint


def group_joints(
    layout: AbstractLayout,
    elements: Sequence[PlacedElement],
    dropped: Mapping[str, tuple[int, ...]],
    register: TurnRegister | None,
    first: int = 0,
) -> tuple[tuple[JointGroup, ...], tuple[str, ...]]:
    """Joint elements by kind, and the joint of each constraint, numbered from `first`; without those `dropped`."""
    kinds: dict[Any, list[tuple[Any, AbstractConstraintElement, np.ndarray]]] = {}
    labels: list[str] = []
    for name, part, element in elements:
        if not isinstance(part, AbstractJoint) or not isinstance(element, AbstractConstraintElement):
            continue
        components = tuple(i for i in range(element.size) if i not in dropped.get(name, ()))
        if components:
            key = (kind_of(element), tuple(layout.kind(b) for b in part.bodies), components)
            kinds.setdefault(key, []).append((part, element, first + len(labels) + np.arange(len(components))))
            labels += [name] * len(components)
    groups = []
    for (_, _, components), members in kinds.items():
        slots = tuple(layout.slot(ends) for ends in zip(*(part.bodies for part, _, _ in members), strict=True))
        batch = stack_trees([element for _, element, _ in members])
        turns = () if register is None else register.of([(part, element) for part, element, _ in members], slots)
        numbers = Indices(np.stack([rows for _, _, rows in members]))
        groups.append(JointGroup(batch, slots, numbers, components, turns=turns))
    return tuple(groups), tuple(labels)


def group_forces(
    layout: AbstractLayout, elements: Sequence[PlacedElement], register: TurnRegister
) -> tuple[ForceGroup, ...]:
    """Force elements by kind."""
    kinds: dict[Hashable, list[tuple[Any, AbstractForceElement]]] = {}
    for _, part, element in elements:
        if isinstance(element, AbstractForceElement):
            key = (kind_of(element), tuple(layout.kind(b) for b in part.bodies))
            kinds.setdefault(key, []).append((part, element))
    groups = []
    for members in kinds.values():
        slots = tuple(layout.slot(ends) for ends in zip(*(part.bodies for part, _ in members), strict=True))
        groups.append(
            ForceGroup(stack_trees([element for _, element in members]), slots, turns=register.of(members, slots))
        )
    return tuple(groups)


def kind_of(element: eqx.Module) -> Hashable:
    """Equal for elements that can be stacked."""
    leaves, structure = jax.tree.flatten(element)
    return structure, tuple((jnp.shape(leaf), _dtype(leaf)) for leaf in leaves)


def _dtype(leaf: Any) -> Any:
    # `jnp.result_type` takes as long as stacking.
    return leaf.dtype if isinstance(leaf, np.ndarray | jax.Array) else jnp.result_type(leaf)
