"""Angles of a model whose turns are counted: of joints that are no coordinates, and of forces."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode.assembly.coordinate_layout import AbstractLayout
from polhode.forces.joint_control import JointControl
from polhode.forces.joint_forces import AbstractJointForce
from polhode.joints.coupling import CoupledJoints
from polhode.joints.named_coordinates import AbstractMeasured, AbstractMeasuredPair, Term
from polhode.joints.relative import ReversedCoordinate
from polhode.linalg.blocks import Indices
from polhode.multibody.counted_angles import AngleName, TurnCounter
from polhode.multibody.mechanism.angles import CountableAngle
from polhode.multibody.mechanism.groups import Slot, stack_trees

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


class _Angle(NamedTuple):
    angle: CountableAngle
    first: int
    second: int


class TurnRegister:
    """Registry of counted angles by owner, so that the angle of a joint is counted once for all forces.

    The choice doesn't depend on numbers, so that a model has the same states inside JAX's transformations.
    """

    def __init__(self, model: ModelParts, layout: AbstractLayout, t0: Any) -> None:
        self._model, self._layout, self._t0 = model, layout, t0
        self._angles: list[_Angle] = []
        self._numbers: dict[Hashable, int] = {}
        self._names: list[AngleName | None] = []
        self._owners: dict[int, tuple[int, ...]] = {}
        for name, pair in _pairs(model):
            self._register(name, pair)

    def _register(self, name: str, pair: AbstractMeasuredPair) -> None:
        """Number the angles of a joint, except coordinates and those already counted for its carrier."""
        for coordinate_name, coordinate in {**pair.coordinates(), **pair.driven_coordinates()}.items():
            is_coordinate = self._layout.has_coordinate(pair.carrier, pair.name_in_carrier(coordinate_name))
            if self._is_counted_by_carrier(pair, coordinate_name) or is_coordinate or not coordinate.angles():
                continue
            (local_angle,) = coordinate.angles()
            ends = tuple(self._row(body) for body in pair.bodies)
            angle = _near(
                local_angle.angle, pair.at_start(coordinate_name, self._t0), isinstance(coordinate, ReversedCoordinate)
            )
            self._numbers[id(pair), coordinate_name] = len(self._angles)
            self._angles.append(_Angle(angle, ends[local_angle.first], ends[local_angle.second]))
            self._names.append(_name(name, pair, coordinate_name, coordinate))

    def _is_counted_by_carrier(self, pair: AbstractMeasured, coordinate_name: str) -> bool:
        return (id(pair.carrier), pair.name_in_carrier(coordinate_name)) in self._numbers

    def of(self, members: Sequence[tuple[Any, Any]], slots: Sequence[Slot]) -> tuple[Indices, ...]:
        """Numbers of the angles that the elements of a group read, from its parts and their elements."""
        rows = np.stack([slot.nodes.numbers for slot in slots], axis=1) if slots else np.zeros((len(members), 0), int)
        numbers = [self._of_element(*member, row) for member, row in zip(members, rows, strict=True)]
        return tuple(Indices(column) for column in np.array(numbers, int).T)

    def _of_element(self, part: Any, element: Any, rows: np.ndarray) -> list[int]:
        local_angles = element.angles()
        if not local_angles:
            return []
        terms = [term for term in _terms(part) if term.pair.coordinate(term.name).angles()]
        numbers = []
        for k, (angle, first, second) in enumerate(local_angles):
            key: Hashable = (id(part), k)
            name = None
            if len(terms) == len(local_angles):
                pair = terms[k].pair
                coordinate_name = next(iter(pair.coordinates())) if terms[k].name is None else str(terms[k].name)
                key, coordinate = (id(pair), coordinate_name), pair.coordinate(coordinate_name)
                angle = _near(
                    angle, pair.at_start(coordinate_name, self._t0), isinstance(coordinate, ReversedCoordinate)
                )
                # The name stays with the angle of the carrier: of two that have it nobody would know which to read.
                named = self._is_counted_by_carrier(pair, coordinate_name)
                name = None if named else _name(getattr(pair, "name", None), pair, coordinate_name, coordinate)
            if key not in self._numbers:
                self._numbers[key] = len(self._angles)
                self._angles.append(_Angle(angle, int(rows[first]), int(rows[second])))
                self._names.append(name)
            numbers.append(self._numbers[key])
        self._owners[id(part)] = tuple(numbers)
        return numbers

    def counter(self) -> TurnCounter | None:
        """The counter of all angles; None if there are none."""
        if not self._angles:
            return None
        angles, first, second = zip(*self._angles, strict=True)
        owners = [(name, self._owners[id(part)]) for name, part in self._model.parts if id(part) in self._owners]
        return TurnCounter(stack_trees(angles), Indices(first), Indices(second), tuple(self._names), tuple(owners))

    def _row(self, body: Any) -> int:
        return int(self._layout.slot([body]).nodes.numbers[0])


def _pairs(model: ModelParts) -> list[tuple[str, AbstractMeasuredPair]]:
    """Joints of a model by name, and those of its file."""
    own = [(name, part) for name, part in model.parts if isinstance(part, AbstractMeasuredPair)]
    return [*own, *model.file_joints.items()]


def _terms(part: Any) -> list[Term]:
    """The joint coordinates along which a part acts, in the order in which its element has them."""
    part = getattr(part, "controller", part)
    if isinstance(part, AbstractJointForce):
        return list(part.joint.terms(part.along))
    if isinstance(part, JointControl):
        return [term for terms in part.terms() for term in terms]
    return [*part.follower.terms(), *part.leader.terms()] if isinstance(part, CoupledJoints) else []


def _name(joint: str | None, pair: AbstractMeasured, coordinate_name: str, coordinate: Any) -> AngleName:
    first, second = (body.name for body in pair.bodies)
    return AngleName(
        joint, coordinate_name, (first, second), -1.0 if isinstance(coordinate, ReversedCoordinate) else 1.0
    )


def _near(angle: CountableAngle, start: Any, backwards: bool) -> CountableAngle:
    """The angle in the turn in which its joint starts."""
    return angle.near(jnp.asarray(-start if backwards else start, float))
