"""Parts of models: joints, forces and composites of several of them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.motions import AbstractJointMotion
from polhode.multibody.mechanism.elements import AbstractConstraintElement, AbstractForceElement
from polhode.multibody.mechanism.poses import Pose, Poses


class AddsCoordinates(Protocol):
    """The methods of a model by which parts add coordinates; see `polhode.Model`."""

    def add_coordinate(self, *, mass: Any, value: Any, velocity: Any, name: str | None) -> Body:
        """A linear coordinate with an inertia."""
        ...

    def add_integral(self, *, name: str | None) -> Body:
        """A linear coordinate without energy whose rate integrates something."""
        ...


class ModelParts(AddsCoordinates, Protocol):
    """The attributes of a model that assembly, pictures and exporters read; see `polhode.Model`.

    - `gravity`: acceleration in the inertial frame. - `units`: of its numbers; None if unknown.
    - `ground`, `bodies`: the bodies, without nodes of flexible ones. - `parts`: joints and forces by name.
    - `register`: the names in use. - `file_joints`: joints by their names in the file of the model.
    - `rods`: as `Model.add_rod` returns them.
    - `contact_rules`: which shapes touch, and how. - `contact_capacity`: how many points may touch at a time.
    """

    gravity: Any
    units: Any
    ground: Body
    register: Any
    parts: list[tuple[str, AbstractPart]]
    file_joints: dict[str, Any]
    rods: list[Any]
    contact_rules: list[Any]
    contact_capacity: int | None

    @property
    def bodies(self) -> list[Body]:
        """All bodies but the ground."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Values of its parameters by name."""
        ...

    @property
    def assemble(self) -> Callable[..., tuple[Any, Any]]:
        """Equations of motion in the coordinates of a name, and their start."""
        ...

    @property
    def replace(self) -> Callable[..., Any]:
        """The model with other values of its parameters."""
        ...

    @property
    def add_shape(self) -> Callable[..., Any]:
        """Gives a body a shape."""
        ...

    def body(self, name: str) -> Body:
        """The body of that name."""
        ...

    def add(self, part: Any) -> Any:
        """Add a joint, a force or a composite."""
        ...

    def add_body(
        self,
        *,
        mass: Any,
        inertia: Any,
        position: Any = ...,
        rotation: Any = ...,
        velocity: Any = ...,
        angular_velocity: Any = ...,
        name: str | None = None,
    ) -> Body:
        """Add a rigid body."""
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

    def initial_element(self) -> AbstractConstraintElement | AbstractForceElement:
        """The element at the initial poses of its bodies."""
        return self.place(tuple(Pose(body.x, body.R) for body in self.bodies))

    def attach(self, model: AddsCoordinates) -> AbstractPart:
        """The part that is added to a model in its place; adds the coordinates that it needs to the model."""
        del model
        return self


class AbstractJoint(AbstractPart):
    """A constraint between bodies."""

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractConstraintElement: ...

    def motion(self, carried: Body) -> AbstractJointMotion | None:
        """The relative motion that the joint allows one of its two bodies, with `initial` in the inertial frame.

        It defines joint coordinates. None where the joint stays a constraint among them, because
        `polhode.multibody.coordinates.tree.motions` has no such motion, or it depends on time. Classes that override
        `place` have to override this too, otherwise it counts as None.
        """
        del carried
        return None


class AbstractForce(AbstractPart):
    """A load on bodies."""

    @property
    def is_rigid(self) -> bool:
        """Whether it is a contact in steps of methods with contacts, and no function of the state."""
        return False

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractForceElement: ...


class AbstractComposite(abc.ABC):
    """A part that is added to a model as several ones, such as a load on all nodes of a rod."""

    name: str | None

    @abc.abstractmethod
    def parts(self) -> Sequence[AbstractPart]:
        """The parts, in the order in which the model takes them; named after the composite if it has a name."""
