"""The inertia of a rotor that turns with a joint through gears."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.joints._frames import initial_pose
from polhode.joints.named_coordinates import AbstractMeasuredPair
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.mechanism.poses import Poses, Twist
from polhode.multibody.parts import AbstractJoint, AddsCoordinates


class FollowingCoordinate(AbstractConstraintElement):
    """A linear coordinate, node 2, equals a relative coordinate of nodes 0 and 1; an angle up to full turns."""

    coordinate: AbstractRelativeCoordinate

    @property
    def size(self) -> int:
        return 1

    def residual(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        del t
        # For angles the difference is between -π and π of the target; its derivatives don't see the turns.
        return -self.coordinate.difference(poses[:2], poses[2].x[0])[None]


@dataclasses.dataclass(frozen=True, eq=False)
class RotorInertia(AbstractJoint):
    r"""Inertia $I$ along a joint coordinate s, as that of a motor's rotor seen through its gears: energy $I\dot s^2/2$.

    In joint coordinates that the joint carries it is added to the diagonal of the mass matrix. Otherwise the rotor is a
    linear coordinate of its own that a constraint ties to s. Its moment about other axes, and that its axis turns with
    the bodies, don't count; both are small for slender rotors with large ratios.

    **Arguments:**

    - `joint`: a joint with a free coordinate, such as `Revolute` or `Prismatic`.
    - `inertia`: I, moment of inertia times the square of the ratio for an angle, a mass for a displacement.
    - `coordinate`: which one, if the joint has several; see its `coordinates`.
    - `name`: for messages.
    """

    joint: AbstractMeasuredPair
    inertia: Any
    coordinate: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.joint, AbstractMeasuredPair):
            raise ValueError(
                f"`joint` of RotorInertia must be a joint with a free coordinate, such as `Revolute`, got "
                f"{short_repr(self.joint)}."
            )
        self.joint.coordinate(self.coordinate)
        checks.positive("inertia", self.inertia, (), "of the rotor along the coordinate")

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.joint.bodies

    def place(self, poses: Poses) -> FollowingCoordinate:
        del poses
        return FollowingCoordinate(self.joint.coordinate(self.coordinate))

    def attach(self, model: AddsCoordinates) -> AttachedRotor:
        coordinate = self.joint.coordinate(self.coordinate)
        poses = tuple(initial_pose(body) for body in self.bodies)
        twists = tuple(Twist(body.omega, body.u) for body in self.bodies)
        rotor = model.add_coordinate(
            mass=self.inertia,
            value=self.joint.initial(self.coordinate),
            velocity=coordinate.rate(poses, twists),
            name=checks.extend_name(self.name, " coordinate"),
        )
        return AttachedRotor(self, rotor, self.name)


@dataclasses.dataclass(frozen=True, eq=False)
class AttachedRotor(AbstractJoint):
    """A rotor in a model, with the coordinate that stands for it."""

    whole: RotorInertia
    rotor: Body
    name: str | None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return *self.whole.bodies, self.rotor

    def place(self, poses: Poses) -> FollowingCoordinate:
        return self.whole.place(poses)
