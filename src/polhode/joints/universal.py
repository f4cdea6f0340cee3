"""The universal joint."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from polhode.joints._elements import FrameConstraint
from polhode.joints._frames import axis
from polhode.joints._pair import AbstractPairJoint, join
from polhode.model.elements import Poses
from polhode.problems import checks


@dataclasses.dataclass(frozen=True, eq=False)
class Universal(AbstractPairJoint):
    """A cross (Hooke's joint): a shared point, and an axis of each body that stay perpendicular. Four constraints.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`.
    - `point`: centre of the cross in the inertial frame at the initial time.
    - `first_axis`, `second_axis`: axes of the cross, fixed in the first and in the second body; perpendicular to each
      other at the initial time.
    - `name`: for messages.

    **Raises** ValueError for axes that are not perpendicular to 1e-8.
    """

    point: Any
    first_axis: Any
    second_axis: Any
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        a, b = axis("first_axis", self.first_axis), axis("second_axis", self.second_axis)
        if checks.is_concrete(a, b) and abs(float(np.asarray(a) @ np.asarray(b))) > 1e-8:
            raise ValueError(
                "`first_axis` and `second_axis` of a universal joint must be perpendicular, the cosine between them is "
                f"{float(a @ b):.3g}. Subtract from one its component along the other."
            )
        return join(self, poses, self.point, pinned=True, perpendicular=([a], [b]))
