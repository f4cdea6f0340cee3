"""Parts of models: joints, forces and what consists of several of them."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Protocol

from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.motions import AbstractJointMotion
from polhode.multibody.mechanism.elements import AbstractConstraintElement, AbstractForceElement
from polhode.multibody.mechanism.poses import Pose, Poses


class AddsCoordinates(Protocol):
    """A model, as far as parts add to it; see `polhode.Model`."""

    def add_coordinate(self, *, mass: Any, value: Any, velocity: Any, name: str | None) -> Body:
        """A linear coordinate with an inertia."""
        ...

    def add_integral(self, *, name: str | None) -> Body:
        """A linear coordinate without energy whose rate integrates something."""
        ...


class AbstractPart(abc.ABC):
    """A part of a model: the bodies that it connects, a name, and the element that it becomes.

    Points and axes are given in the inertial frame at the initial time; `place` turns them into body frames.
    """

    name: str | None

    @property
    @abc.abstractmethod
    def bodies(self) -> tuple[Body, ...]:
        """The bodies that it connects; `model.ground` may be among them."""

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractConstraintElement | AbstractForceElement:
        """The element with its data in the frames of its bodies, from their initial poses."""

    def placed(self) -> AbstractConstraintElement | AbstractForceElement:
        """The element at the initial poses of its bodies."""
        return self.place(tuple(Pose(body.x, body.R) for body in self.bodies))

    def attach(self, model: AddsCoordinates) -> AbstractPart:
        """The part that joins a model in its place; the model adds coordinates that it needs."""
        del model
        return self


class AbstractJoint(AbstractPart):
    """A constraint between bodies."""

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractConstraintElement: ...

    def motion(self, carried: Body) -> AbstractJointMotion | None:
        """The relative motion that the joint allows one of its two bodies, with `initial` in the inertial frame.

        Joint coordinates are made of it. None where the joint stays a constraint among them: it allows no motion that
        `polhode.multibody.coordinates.tree.motions` knows, or one that depends on time. A class that overrides `place`
        has to override this too, otherwise it counts as None.
        """
        del carried
        return None


class AbstractForce(AbstractPart):
    """A load on bodies."""

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractForceElement: ...


class AbstractComposite(abc.ABC):
    """A part that joins a model as several ones, such as a load on all nodes of a rod."""

    name: str | None

    @abc.abstractmethod
    def parts(self) -> Sequence[AbstractPart]:
        """The parts, in the order in which the model takes them; named after the composite if it has a name."""
