"""Angles between nodes, which poses determine up to full turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import equinox as eqx
from jaxtyping import Array, Float

from polhode.multibody.mechanism.poses import Poses, Twists

Elements = TypeVar("Elements", bound=eqx.Module)


class CountableAngle(Protocol):
    """The angle between two nodes, which their poses determine up to full turns; a pytree.

    - `reference`: the angle whose turn `value` is in.
    """

    @property
    def reference(self) -> Float[Array, ""]:
        """The angle whose turn `value` is in."""
        ...

    def near(self, reference: Any) -> Any:
        """The same angle with another reference."""
        ...

    def value(self, poses: Poses) -> Float[Array, ""]:
        """The angle within half a turn of `reference`."""
        ...

    def rate(self, poses: Poses, twists: Twists) -> Float[Array, ""]:
        """Its time derivative."""
        ...


class PlacedAngle(NamedTuple):
    """An angle in an element, and the numbers of the two nodes between which it is measured."""

    angle: CountableAngle
    first: int
    second: int


def near(elements: Elements, references: Sequence[Float[Array, "..."]]) -> Elements:
    """An element, or stacked ones, with other references of its `angles()`, in their order."""
    if not references:
        return elements
    where: Any = lambda some: [entry.angle.reference for entry in some.angles()]  # noqa: E731
    return eqx.tree_at(where, elements, list(references))
