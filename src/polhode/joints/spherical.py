"""The spherical joint."""

from __future__ import annotations

import dataclasses
from typing import Any

from polhode.joints._points import CoincidentPoints, local
from polhode.model.bodies import Body
from polhode.model.elements import AbstractJoint, Poses
from polhode.problems import checks


@dataclasses.dataclass(frozen=True, eq=False)
class Spherical(AbstractJoint):
    """Two bodies share a point and turn freely about it: three constraints.

    The multipliers are the force on the first body at the point, in the inertial frame.

    **Arguments:**

    - `first`, `second`: bodies, or `model.ground`.
    - `point`: the shared point in the inertial frame at the initial time.
    - `name`: for messages.
    """

    first: Body
    second: Body
    point: Any
    name: str | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second

    def place(self, poses: Poses) -> CoincidentPoints:
        point = checks.array("point", self.point, (3,), "joint point, inertial frame")
        return CoincidentPoints(local(poses[0], point), local(poses[1], point))
