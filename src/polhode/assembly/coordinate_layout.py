"""Interface of layouts, which map the bodies of a model to coordinates."""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.multibody.mechanism.elements import AbstractConstraintElement, AbstractForceElement
from polhode.multibody.mechanism.groups import Slot
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.systems.base import AbstractConversion, State

PlacedElement = tuple[str, Any, AbstractConstraintElement | AbstractForceElement]
"""A part of a model: its name, the part, and its element."""


class AbstractLayout(abc.ABC):
    """Map from the bodies of a model to rows of its coordinates.

    `conversion_types` make conversions of systems in these coordinates to ones of other kinds, those that lose least
    first.
    """

    conversion_types: ClassVar[tuple[Callable[[Any], AbstractConversion], ...]]

    @property
    def holds_free_bodies(self) -> bool:
        """Whether all bodies are rigid ones in coordinates of their own, with six velocities each."""
        return False

    def remaining_elements(self, elements: Sequence[PlacedElement]) -> list[PlacedElement]:
        """The elements that the coordinates don't represent themselves."""
        return list(elements)

    def has_coordinate(self, joint: Any, name: str) -> bool:
        """Whether a relative coordinate of a joint is one of the coordinates, whose turns need no counting."""
        del joint, name
        return False

    def tree_sum(self, terms: Sequence[Any], zero: Any) -> tuple[Any, Any, tuple[Any, ...]] | None:
        """A sum of joint coordinates that is `zero` where these are: ratios, that number and places of coordinates.

        None unless all of them are coordinates of a tree.
        """
        del terms, zero
        return None

    @abc.abstractmethod
    def kind(self, body: Body) -> Hashable:
        """Equal for bodies that elements of one group may connect; None for the ground."""

    @abc.abstractmethod
    def slot(self, bodies: Sequence[Body]) -> Slot:
        """One end of several elements; all bodies are of one kind, or all are the ground."""

    @abc.abstractmethod
    def finish(
        self, mechanism: Mechanism, labels: tuple[str, ...], turns: int
    ) -> tuple[AbstractCoordinates, Mechanism, tuple[str, ...]]:
        """The coordinates, the mechanism as these evaluate it, and labels with those of their own constraints.

        `turns`: how many angles are counted besides the coordinates.
        """

    @abc.abstractmethod
    def start(self) -> State:
        """The initial state given by the bodies of the model."""
