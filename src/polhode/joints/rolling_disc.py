"""The rolling disc: a thin disc, a wheel or a hoop on a plane."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from polhode import checks
from polhode.joints._frames import axis as direction
from polhode.joints._frames import check_has_rotation, point_on
from polhode.joints._pair import AbstractPairJoint
from polhode.joints._rolling import DiscContact
from polhode.multibody.mechanism.poses import Poses

_FLAT = 1e-6
"""Sine of the angle between a disc and its plane below which the disc lies flat, on no point in particular."""


@dataclasses.dataclass(frozen=True, eq=False)
class RollingDisc(AbstractPairJoint):
    """A thin disc of the second body rolls on a plane of the first: one holonomic and two nonholonomic constraints.

    Its lowest point is in the plane and has the velocity of the plane there. The disc may lean, but must not lie flat,
    where its lowest point isn't defined. It is held on the plane in both directions.

    Multipliers: the force on the first body along the normal, negative while the disc presses on it, along the
    direction of rolling `axis` × `normal`, and along the tangent to its left, `normal` × (direction of rolling).

    **Arguments:**

    - `first`: rigid body with the plane, or `model.ground`.
    - `second`: rigid body with the disc.
    - `axis`: of the disc, in the inertial frame at the initial time.
    - `radius`: of the disc.
    - `point`: any point of the plane, in the inertial frame at the initial time; the origin by default.
    - `normal`: of the plane, towards the disc; (0, 0, 1) by default.
    - `center`: of the disc; the initial centre of mass of the second body by default.
    - `name`: for messages.
    """

    axis: Any
    radius: Any
    point: Any = (0.0, 0.0, 0.0)
    normal: Any = (0.0, 0.0, 1.0)
    center: Any = None
    name: str | None = None

    def place(self, poses: Poses) -> DiscContact:
        check_has_rotation(self.first, "RollingDisc")
        check_has_rotation(self.second, "RollingDisc")
        radius = checks.positive("radius", self.radius, (), "of the disc")
        normal, axis = direction("normal", self.normal), direction("axis", self.axis)
        if checks.is_concrete(normal, axis) and not np.linalg.norm(np.cross(normal, axis)) > _FLAT:
            raise ValueError(
                "`axis` of RollingDisc is along `normal`: a disc that lies flat has no lowest point. Give the axis "
                "about which it rolls, and a position that leans less."
            )
        return DiscContact(
            s0=point_on(self.first, poses[0], self.point),
            normal=normal @ poses[0].R,
            s1=point_on(self.second, poses[1], self.second.x if self.center is None else self.center, "center"),
            axis=axis @ poses[1].R,
            radius=radius,
        )
