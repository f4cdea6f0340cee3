"""Summary of a model in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polhode.assembly.spanning_tree import has_loops
from polhode.flexible.flexible_body import FlexibleBody
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.parts import AbstractForce, AbstractJoint

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

_MAX_NAMES = 20
"""Number of names in a list."""

_SIZES = {"rigid": 6, "point": 3, "coordinate": 1, "integral": 0}
"""Degrees of freedom of a body by kind."""


def describe(model: ModelParts) -> list[tuple[str, str]]:
    """Bodies, joints, forces, parameters, degrees of freedom and units."""
    kinds = ((AbstractJoint, "joints"), (AbstractForce, "forces"))
    parts = [(what, [name for name, p in model.parts if isinstance(p, kind)]) for kind, what in kinds]
    groups = [("bodies", [body.name for body in model.bodies]), *parts, ("parameters", list(model.parameters))]
    rows = [(what, _summarise(names)) for what, names in groups if names]
    units = [("units", ", ".join(dict.fromkeys(model.units.values())))] if model.units else []
    return [*rows, ("degrees of freedom", _degrees_of_freedom(model)), *units]


def _degrees_of_freedom(model: ModelParts) -> str:
    """Degrees of freedom; a lower bound with loops, whose constraints may be redundant."""
    coordinates = sum(6 + b.modal.count if isinstance(b, FlexibleBody) else _SIZES[b.kind] for b in model.bodies)
    elements = [part.initial_element() for _, part in model.parts if isinstance(part, AbstractJoint)]
    constraints = sum(element.size for element in elements if isinstance(element, AbstractConstraintElement))
    least = "at least " if has_loops(model) else ""
    return f"{least}{max(coordinates - constraints, 0)} ({coordinates} coordinates, {constraints} constraints)"


def _summarise(names: Sequence[str]) -> str:
    """The number of names, and the first of them."""
    return f"{len(names)} ({', '.join(names[:_MAX_NAMES])}{', …' if len(names) > _MAX_NAMES else ''})"
