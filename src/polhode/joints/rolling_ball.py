"""The rolling ball."""

from __future__ import annotations

import dataclasses
from typing import Any

from polhode import checks
from polhode.joints._frames import axis, check_has_rotation, frame, point_on
from polhode.joints._pair import AbstractPairJoint
from polhode.joints._rolling import BallContact
from polhode.multibody.mechanism.poses import Poses


@dataclasses.dataclass(frozen=True, eq=False)
class RollingBall(AbstractPairJoint):
    """A ball of the second body rolls on a plane of the first: one holonomic and two nonholonomic constraints.

    Its lowest point is in the plane and has the velocity of the plane there; it may spin about the normal. It is held
    on the plane in both directions.

    Multipliers: the force on the first body along the normal, negative while the ball presses on it, then along x and y
    of the plane, which are those of `Planar` with the same axis, fixed in the first body.

    **Arguments:**

    - `first`: rigid body with the plane, or `model.ground`.
    - `second`: rigid body with the ball.
    - `radius`: of the ball.
    - `point`: any point of the plane, in the inertial frame at the initial time; the origin by default.
    - `normal`: of the plane, towards the ball; (0, 0, 1) by default.
    - `center`: of the ball; the initial centre of mass of the second body by default.
    - `name`: for messages.
    """

    radius: Any
    point: Any = (0.0, 0.0, 0.0)
    normal: Any = (0.0, 0.0, 1.0)
    center: Any = None
    name: str | None = None

    def place(self, poses: Poses) -> BallContact:
        check_has_rotation(self.first, "RollingBall")
        check_has_rotation(self.second, "RollingBall")
        x, y, normal = frame(axis("normal", self.normal))
        return BallContact(
            s0=point_on(self.first, poses[0], self.point),
            normal=normal @ poses[0].R,
            s1=point_on(self.second, poses[1], self.second.x if self.center is None else self.center, "center"),
            along=checks.stack([x, y]) @ poses[0].R,
            radius=checks.positive("radius", self.radius, (), "of the ball"),
        )
