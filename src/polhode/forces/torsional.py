"""A spring and a damper about an axis."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxtyping import Array, Float

from polhode import checks
from polhode.forces._pair import AbstractPairForce, vanishes
from polhode.joints._frames import axis, has_rotation
from polhode.joints._pair import angle_about
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.model.elements import AbstractForceElement
from polhode.model.poses import Poses, Twists, Wrench


class CoordinateSpring(AbstractForceElement):
    """A linear spring along a relative coordinate s: potential k(s - s₀)²/2.

    **Arguments:**

    - `coordinate`: s.
    - `stiffness`, `rest`: k and s₀.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True

    coordinate: AbstractRelativeCoordinate
    stiffness: Float[Array, ""]
    rest: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        return 0.5 * self.stiffness * self.coordinate.difference(poses, self.rest) ** 2

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        return self.coordinate.wrenches(poses, -self.stiffness * self.coordinate.difference(poses, self.rest))


class CoordinateSpringDamper(AbstractForceElement):
    """A linear spring and a damper along a relative coordinate.

    **Arguments:**

    - `spring`: the spring.
    - `damping`: its force is minus this times the rate of the coordinate.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    spring: CoordinateSpring
    damping: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.spring.potential(t, poses)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        s = self.spring.coordinate
        pull = self.spring.stiffness * s.difference(poses, self.spring.rest) + self.damping * s.rate(poses, twists)
        return s.wrenches(poses, -pull)


@dataclasses.dataclass(frozen=True, eq=False)
class TorsionalSpringDamper(AbstractPairForce):
    """A linear torsional spring and damper about an axis, usually that of a hinge.

    The angle is that of the second body relative to the first, measured from the rest position in [-π, π]; at half a
    turn the torque jumps. The axis is fixed in the first body, and the torque is the gradient of the energy even where
    the axes of the two bodies part.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`.
    - `axis`: in the inertial frame at the initial time.
    - `stiffness`: torque per radian.
    - `damping`: torque per angular velocity.
    - `angle`: at rest, relative to the start, rad.
    - `name`: for messages.
    """

    axis: Any
    stiffness: Any
    damping: Any = 0.0
    angle: Any = 0.0
    name: str | None = None

    def place(self, poses: Poses) -> CoordinateSpring | CoordinateSpringDamper:
        for body in self.bodies:
            has_rotation(body, type(self).__name__)
        spring = CoordinateSpring(
            angle_about(axis("axis", self.axis), poses),
            checks.array("stiffness", self.stiffness, (), "torque per radian"),
            checks.array("angle", self.angle, (), "angle at rest, rad"),
        )
        damping = checks.array("damping", self.damping, (), "torque per angular velocity")
        return spring if vanishes(damping) else CoordinateSpringDamper(spring, damping)
