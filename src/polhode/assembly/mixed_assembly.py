"""Layout of a model in joint coordinates: all of them, or beside bodies in coordinates of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from polhode.assembly.absolute_assembly import AbsoluteLayout
from polhode.assembly.coordinate_layout import AbstractLayout, PlacedElement
from polhode.assembly.spanning_tree import Attachment, spanning_tree
from polhode.assembly.tree_assembly import TreeLayout
from polhode.linalg.blocks import Indices
from polhode.multibody.bodies import Body
from polhode.multibody.conversions.cotangent import ToHamiltonian
from polhode.multibody.coordinates.mixed_coordinates import MixedCoordinates, coupled_parts, moving_velocities
from polhode.multibody.mechanism.groups import Slot
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.systems.base import State

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

ABSOLUTE = "SO3xR3"
"""Absolute coordinates of rigid bodies: their steps are the cheapest."""


def joint_layout(model: ModelParts, repair: bool) -> AbstractLayout:
    """The layout of a model whose joints give the coordinates, where they can."""
    order = spanning_tree(model)
    if not any(body.has_own_coordinates for body in model.bodies):
        return TreeLayout(model, order, repair)
    tree = TreeLayout(model, in_trees(order), repair)
    inside = {link.name for link, _, _ in tree.placements} | tree.rotors
    if not tree.n:
        return AbsoluteLayout(model.bodies, ABSOLUTE)
    return MixedLayout(AbsoluteLayout([body for body in model.bodies if body.name not in inside], ABSOLUTE), tree)


def in_trees(order: Sequence[Attachment]) -> list[Attachment]:
    """Those bodies of a spanning tree that a joint carries, and those that carry others."""
    ends = {body.name for attachment in order if attachment.motion is not None for body in attachment.joint.bodies}
    return [attachment for attachment in order if attachment.body.name in ends]


class MixedLayout(AbstractLayout):
    """Map from bodies of a model to rows of absolute coordinates, and to links of a tree behind them."""

    conversion_types = (ToHamiltonian,)

    def __init__(self, others: AbsoluteLayout, tree: TreeLayout) -> None:
        self._others, self._tree = others, tree
        self._rows = len(others.places)
        self._first = sum(group.columns.numbers.size for group in others.groups)
        self._moving: tuple[Indices, ...] = ()

    def remaining_elements(self, elements: Sequence[PlacedElement]) -> list[PlacedElement]:
        rest = self._tree.remaining_elements(elements)
        # Elements may have made some coordinates depend on others.
        self._moving = moving_velocities(self._tree.coordinates())
        return rest

    def has_coordinate(self, joint: Any, name: str) -> bool:
        return self._tree.has_coordinate(joint, name)

    def tree_sum(self, terms: Sequence[Any], zero: Any) -> tuple[Any, Any, tuple[Any, ...]] | None:
        return self._tree.tree_sum(terms, zero)

    def kind(self, body: Body) -> Hashable:
        link = self._tree.link(body)
        return self._others.kind(body) if link is None else ("link", link)

    def slot(self, bodies: Sequence[Body]) -> Slot:
        total = self._rows + len(self._tree.placements)
        if bodies[0].kind == "ground":
            return dataclasses.replace(self._others.slot(bodies), nodes=Indices(np.full(len(bodies), total)))
        link = self._tree.link(bodies[0])
        if link is None:
            return self._others.slot(bodies)
        count = len(bodies)
        columns = self._first + self._moving[link].numbers
        return Slot(
            len(self._others.groups),
            Indices(np.zeros(count, int)),
            Indices(np.full(count, self._rows + link)),
            Indices(np.repeat(columns, count, axis=0)),
            link,
        )

    def finish(
        self, mechanism: Mechanism, labels: tuple[str, ...], turns: int
    ) -> tuple[MixedCoordinates, Mechanism, tuple[str, ...]]:
        others, mechanism, labels = self._others.finish(mechanism, labels, 0)
        tree = self._tree.coordinates()
        return MixedCoordinates(others, tree, self._moving, coupled_parts(tree), turns), mechanism, labels

    def start(self) -> State:
        (points, rates), (joint_points, joint_rates) = self._others.start(), self._tree.start()
        return (points, joint_points), jnp.concatenate((rates, joint_rates))
