"""Compliant contacts of a model whose friction is exact: those without a `slip_speed`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from polhode.assembly.coordinate_layout import AbstractLayout, PlacedElement
from polhode.assembly.element_groups import kind_of
from polhode.checks import is_zero
from polhode.multibody.compliant_friction import CompliantFriction
from polhode.multibody.mechanism.elements import AbstractGrippingElement
from polhode.multibody.mechanism.groups import ForceGroup, stack_trees
from polhode.systems.mechanical.contact_set import ContactLaw

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


def build_friction(layout: AbstractLayout, elements: Sequence[PlacedElement]) -> CompliantFriction | None:
    """The friction of those elements that leave it to methods with contacts; None without any."""
    kinds: dict[Hashable, list[tuple[Any, AbstractGrippingElement]]] = {}
    for _, part, element in elements:
        if isinstance(element, AbstractGrippingElement) and element.friction_coefficients is not None:
            key = (kind_of(element), tuple(layout.kind(body) for body in part.bodies))
            kinds.setdefault(key, []).append((part, element))
    if not kinds:
        return None
    groups, names, friction = [], [], []
    for members in kinds.values():
        slots = tuple(layout.slot(ends) for ends in zip(*(part.bodies for part, _ in members), strict=True))
        groups.append(ForceGroup(stack_trees([element for _, element in members]), slots))
        for part, element in members:
            names += [part.grip_name] * element.grip_count
            friction += [element.friction_coefficients] * element.grip_count
    none = jnp.zeros(len(names))
    both = jnp.stack(friction)
    largest = jnp.max(both, axis=1)
    shares = both / jnp.where(largest > 0, largest, 1.0)[:, None]
    law = ContactLaw(shares, none, none, bounces=False)
    return CompliantFriction(groups=tuple(groups), law=law, coefficients=largest, names=tuple(names))


def has_exact_friction(model: ModelParts) -> bool:
    """Whether compliant contacts of a model have friction that sticks."""
    return any(
        rule.law == "compliant" and rule.slip_speed is None and not is_zero(rule.friction)
        for rule in model.contact_rules
    )
