"""A spring and a damper between two points."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero
from polhode.forces._pair import AbstractPairForce, check_constant, force_wrench
from polhode.joints._frames import point_distance, point_on, point_position
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.spaces.base import cross, norm

_COINCIDENT = 1e-200
"""Square of the distance below which points count as one: derivatives have higher powers of 1/|d|, which overflow."""


class LineSpring(AbstractForceElement):
    """A linear spring from point to point with the potential k(|d| - L)²/2.

    Without length it pulls with k d, smooth through d = 0. With a length the direction is not defined at d = 0; the
    force is 0 there, with finite derivatives.

    **Arguments:**

    - `s0`, `s1`: the points in the frames of the bodies, shape (3,).
    - `stiffness`, `length`: k and L.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("length", "elongation")

    s0: Float[Array, "3"]
    s1: Float[Array, "3"]
    stiffness: Float[Array, ""]
    length: Float[Array, ""]

    def reach(self, poses: Poses) -> tuple[Float[Array, "3"], Float[Array, ""]]:
        """d from the first to the second point, and 1/|d|; 0 where d = 0."""
        d = point_position(poses[1], self.s1) - point_position(poses[0], self.s0)
        square = d @ d
        apart = square > _COINCIDENT
        return d, jnp.where(apart, 1 / jnp.sqrt(jnp.where(apart, square, 1.0)), 0.0)

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        return 0.5 * self.stiffness * (norm(self.reach(poses)[0]) - self.length) ** 2

    def pull(self, poses: Poses) -> Float[Array, "3"]:
        """Elastic force on the first point, inertial frame."""
        d, inverse = self.reach(poses)
        return self.stiffness * (1 - self.length * inverse) * d

    def loads(self, poses: Poses, pull: Float[Array, "3"]) -> tuple[Wrench, Wrench]:
        """The loads of a force on the first point and its reaction on the second."""
        return force_wrench(poses[0], self.s0, pull), force_wrench(poses[1], self.s1, -pull)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        return self.loads(poses, self.pull(poses))

    def measurements(self, t: Array, poses: Poses) -> Float[Array, "2"]:
        """|d| and |d| - L."""
        del t
        distance = norm(self.reach(poses)[0])
        return jnp.stack((distance, distance - self.length))

    def points(self) -> tuple[Array, ...]:
        return self.s0, self.s1


class LineSpringDamper(AbstractForceElement):
    """A linear spring with a damper beside it, whose force is c times the rate of the distance.

    **Arguments:**

    - `spring`: the spring.
    - `damping`: c.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = LineSpring.measures

    spring: LineSpring
    damping: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.spring.potential(t, poses)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        d, inverse = self.spring.reach(poses)
        direction = inverse * d
        first, second = (
            twist.u + pose.R @ cross(twist.omega, s)
            for pose, twist, s in zip(poses, twists, (self.spring.s0, self.spring.s1), strict=True)
        )
        resistance = self.damping * (direction @ (second - first)) * direction
        return self.spring.loads(poses, self.spring.pull(poses) + resistance)

    def measurements(self, t: Array, poses: Poses) -> Float[Array, "2"]:
        return self.spring.measurements(t, poses)

    def points(self) -> tuple[Array, ...]:
        return self.spring.points()


@dataclasses.dataclass(frozen=True, eq=False)
class SpringDamper(AbstractPairForce):
    """A linear spring and a damper along the line between two points.

    It pulls with k(|d| - L) + c d|d|/dt. Where the points meet and L isn't zero the force has no direction and is 0.

    **Arguments:**

    - `first`, `second`: bodies, mass points, or `model.ground`.
    - `first_point`, `second_point`: in the inertial frame at the initial time.
    - `stiffness`: k, force per length.
    - `damping`: c, force per speed.
    - `length`: L at rest; the initial distance by default.
    - `name`: for messages.
    """

    first_point: Any
    second_point: Any
    stiffness: Any
    damping: Any = 0.0
    length: Any = None
    name: str | None = None

    def place(self, poses: Poses) -> LineSpring | LineSpringDamper:
        s0 = point_on(self.first, poses[0], self.first_point, "first_point")
        s1 = point_on(self.second, poses[1], self.second_point, "second_point")
        if self.length is None:
            length = point_distance(self.first_point, self.second_point)
        else:
            length = checks.array("length", self.length, (), "length at rest")
        spring = LineSpring(s0, s1, check_constant("stiffness", self.stiffness, "force per length"), length)
        damping = checks.array("damping", self.damping, (), "force per speed")
        return spring if is_zero(damping) else LineSpringDamper(spring, damping)
