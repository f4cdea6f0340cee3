"""The spherical joint."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp

from polhode.joints._elements import FrameConstraint
from polhode.joints._pair import AbstractPairJoint, join
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.motions import BallMotion
from polhode.multibody.mechanism.poses import Pose, Poses


@dataclasses.dataclass(frozen=True, eq=False)
class Spherical(AbstractPairJoint):
    """Two bodies share a point and turn freely about it: three constraints.

    Multipliers: the force on the first body at the point, in the inertial frame.

    **Arguments:**

    - `first`, `second`: bodies, or `model.ground`.
    - `point`: the shared point in the inertial frame at the initial time.
    - `name`: for messages.
    """

    point: Any
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        return join(self, poses, self.point, pinned=True)

    def motion(self, carried: Body) -> BallMotion:
        return BallMotion(Pose(jnp.asarray(self.point, dtype=float), carried.R))
