"""The point-on-line joint."""

from __future__ import annotations

import dataclasses
from typing import Any

from polhode.joints._elements import FrameConstraint
from polhode.joints._frames import axis, frame
from polhode.joints._pair import SlidingJoint, displacement_along, join
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.mechanism.poses import Poses


@dataclasses.dataclass(frozen=True, eq=False)
class PointOnLine(SlidingJoint):
    """A point of the second body stays on a line of the first; rotations are free. Two constraints.

    Multipliers: the force on the first body at the point along x and y, which are those of `Revolute`, fixed in it.

    **Arguments:**

    - `first`: rigid body with the line, or `model.ground`.
    - `second`: rigid body, mass point, or `model.ground`.
    - `point`, `axis`: the point and the direction of the line in the inertial frame at the initial time.
    - `name`: for messages.
    """

    point: Any
    axis: Any
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        x, y, _ = frame(axis("axis", self.axis))
        return join(self, poses, self.point, along=[x, y])

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        return {"displacement": displacement_along(axis("axis", self.axis), self._start(), self.point)}
