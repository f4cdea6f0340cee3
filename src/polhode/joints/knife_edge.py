"""The knife edge: a blade, a skate or a keel that can't move sideways."""

from __future__ import annotations

import dataclasses
from typing import Any

from polhode.joints._frames import axis, check_has_rotation, point_on
from polhode.joints._pair import AbstractPairJoint
from polhode.joints._rolling import EdgeConstraint
from polhode.multibody.mechanism.poses import Poses


@dataclasses.dataclass(frozen=True, eq=False)
class KnifeEdge(AbstractPairJoint):
    """A point of the second body doesn't move along an axis fixed in it: one nonholonomic constraint.

    What is meant is the velocity relative to the first body, so that its positions stay free: a skate comes to every
    place, but not sideways. Add a `Planar` joint, wheels or whatever carries the body.

    The multiplier is the force on the first body along the axis.

    **Arguments:**

    - `first`: rigid body on which the edge glides, or `model.ground`.
    - `second`: rigid body with the edge.
    - `point`: of the edge, `across`: direction in which it can't move, both in the inertial frame at the initial time.
    - `name`: for messages.
    """

    point: Any
    across: Any
    name: str | None = None

    def place(self, poses: Poses) -> EdgeConstraint:
        check_has_rotation(self.first, "KnifeEdge")
        check_has_rotation(self.second, "KnifeEdge")
        return EdgeConstraint(point_on(self.second, poses[1], self.point), axis("across", self.across) @ poses[1].R)
