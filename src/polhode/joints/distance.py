"""The distance joint: a massless rod with a ball at each end."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxtyping import Array, Float

from polhode import checks
from polhode.joints._frames import point_distance, point_on, point_position
from polhode.joints._pair import AbstractPairJoint
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.mechanism.poses import Poses


class ConstantDistance(AbstractConstraintElement):
    """Two points keep their distance: (|d|² - L²)/2L, which is |d| - L to first order and free of roots.

    **Arguments:**

    - `s0`, `s1`: the points in the frames of the bodies, shape (3,).
    - `length`: L.
    """

    quadratic: ClassVar[bool] = True
    relative: ClassVar[bool] = True

    s0: Float[Array, "3"]
    s1: Float[Array, "3"]
    length: Float[Array, ""]

    @property
    def size(self) -> int:
        return 1

    def residual(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        del t
        d = point_position(poses[1], self.s1) - point_position(poses[0], self.s0)
        return (0.5 * (d @ d / self.length - self.length))[None]

    def points(self) -> tuple[Array, ...]:
        return self.s0, self.s1


@dataclasses.dataclass(frozen=True, eq=False)
class Distance(AbstractPairJoint):
    """A point of each body, held at a constant distance. One constraint.

    The multiplier is the tension: the force on the first body towards the second point.

    **Arguments:**

    - `first`, `second`: rigid bodies, mass points, or `model.ground`.
    - `first_point`, `second_point`: in the inertial frame at the initial time.
    - `length`: the distance; the initial one by default.
    - `name`: for messages.

    **Raises** ValueError if the distance is zero: that is a `Spherical` joint.
    """

    first_point: Any
    second_point: Any
    length: Any = None
    name: str | None = None

    def place(self, poses: Poses) -> ConstantDistance:
        s0 = point_on(self.first, poses[0], self.first_point, "first_point")
        s1 = point_on(self.second, poses[1], self.second_point, "second_point")
        if self.length is not None:
            return ConstantDistance(s0, s1, checks.positive("length", self.length, (), "distance of the points"))
        between = point_distance(self.first_point, self.second_point)
        if checks.is_concrete(between) and not float(between) > 0:
            raise ValueError(
                "`first_point` and `second_point` are the same; a distance joint needs a length. "
                "Join the points by `Spherical`."
            )
        return ConstantDistance(s0, s1, between)
