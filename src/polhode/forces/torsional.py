"""A spring and a damper about an axis."""

from __future__ import annotations

import dataclasses
from typing import Any

from polhode import checks
from polhode.checks import is_zero
from polhode.forces._pair import AbstractPairForce
from polhode.forces.coordinate_forces import SpringDamperEffort, SpringEffort
from polhode.joints._frames import axis, check_has_rotation
from polhode.joints._pair import angle_about
from polhode.multibody.mechanism.poses import Poses


@dataclasses.dataclass(frozen=True, eq=False)
class TorsionalSpringDamper(AbstractPairForce):
    """A linear torsional spring and damper about an axis, usually that of a hinge.

    The angle is that of the second body relative to the first; it counts turns. The axis is fixed in the first body,
    and the torque is the gradient of the energy even where the axes of the two bodies part.

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

    def place(self, poses: Poses) -> SpringEffort | SpringDamperEffort:
        for body in self.bodies:
            check_has_rotation(body, type(self).__name__)
        angle = angle_about(axis("axis", self.axis), poses)
        stiffness = checks.array("stiffness", self.stiffness, (), "torque per radian")
        rest = checks.array("angle", self.angle, (), "angle at rest, rad")
        damping = checks.array("damping", self.damping, (), "torque per angular velocity")
        return (
            SpringEffort(angle, stiffness, rest)
            if is_zero(damping)
            else SpringDamperEffort(angle, stiffness, rest, damping)
        )
