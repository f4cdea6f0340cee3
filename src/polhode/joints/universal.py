"""The universal joint."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.joints._elements import FrameConstraint
from polhode.joints._frames import axis
from polhode.joints._pair import AbstractPairJoint, join
from polhode.joints.relative import AbstractRelativeCoordinate, Angle, ReversedCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.motions import CrossMotion
from polhode.multibody.mechanism.poses import Pose, Poses
from polhode.spaces.base import cross
from polhode.spaces.rotation_input import SINGLE_PRECISION


@dataclasses.dataclass(frozen=True, eq=False)
class Universal(AbstractPairJoint):
    """A cross (Hooke's joint): a shared point, and an axis of each body that stay perpendicular. Four constraints.

    Multipliers: the force on the first body at the point, in the inertial frame, then the moment on it along the vector
    product of the first and the second axis.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`.
    - `point`: centre of the cross in the inertial frame at the initial time.
    - `first_axis`, `second_axis`: axes of the cross, fixed in the first and in the second body; perpendicular to each
      other at the initial time.
    - `name`: for messages.

    **Raises** ValueError for axes that are not perpendicular to 1e-6.
    """

    point: Any
    first_axis: Any
    second_axis: Any
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        a, b = self._axes()
        return join(self, poses, self.point, pinned=True, perpendicular=([-a], [b]))

    def motion(self, carried: Body) -> CrossMotion:
        forwards = self.second is carried
        a, b = self._axes() if forwards else self._axes()[::-1]
        initial = Pose(jnp.asarray(self.point, dtype=float), jnp.stack((a, cross(b, a), b), axis=1))
        return CrossMotion(initial, ("first_angle", "second_angle") if forwards else ())

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        """Angles by which the cross has turned about the first axis, and the second body about the second."""
        (a, b), (first, second) = self._axes(), self._start()
        return {
            "first_angle": Angle(first.R.T @ b, first.R.T @ cross(a, b), second.R.T @ b),
            "second_angle": ReversedCoordinate(Angle(second.R.T @ a, second.R.T @ cross(b, a), first.R.T @ a)),
        }

    def _axes(self) -> tuple[Array, Array]:
        a, b = axis("first_axis", self.first_axis), axis("second_axis", self.second_axis)
        if checks.is_concrete(a, b) and abs(float(np.asarray(a) @ np.asarray(b))) > SINGLE_PRECISION:
            raise ValueError(
                "`first_axis` and `second_axis` of a universal joint must be perpendicular, the cosine between them is "
                f"{float(a @ b):.3g}. Subtract from one its component along the other."
            )
        b = b - a * (a @ b)
        return a, b / jnp.linalg.norm(b)
