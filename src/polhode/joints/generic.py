"""The generic joint: any subset of the six relative directions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxtyping import Array

from polhode import checks
from polhode.joints import _frames
from polhode.joints._elements import FrameConstraint
from polhode.joints._pair import (
    AbstractPairJoint,
    Axes,
    angle_about,
    displacement_along,
    join,
    locked_axes,
    turning_about,
)
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.mechanism.poses import Poses
from polhode.spaces.base import cross

TRANSLATIONS = ("x", "y", "z")
ROTATIONS = ("rx", "ry", "rz")
IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@dataclasses.dataclass(frozen=True, eq=False)
class Generic(AbstractPairJoint):
    """Fixes any of the translations along, and rotations about, three axes of the first body.

    With all translations fixed the points stay together; otherwise the fixed ones are components along the axes as
    they move with the first body. One fixed rotation "rx" keeps axis y of the first body perpendicular to axis z of the
    second (and so on, cyclically); two keep the axis of the third aligned; three keep the orientation.

    Multipliers: the force on the first body at the point of the second, in the inertial frame if all translations are
    fixed, otherwise along those of the axes that are fixed; then the moments on it about the axes whose rotations are
    fixed. All in the order x, y, z.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`; mass points where no rotation is needed.
    - `point`, `axes`: of the joint in the inertial frame at the initial time; axes x, y, z are rows, by default those
      of the inertial frame.
    - `fixed`: some of "x", "y", "z", "rx", "ry", "rz".
    - `name`: for messages.

    **Raises** ValueError for other names of directions and for axes that are no right-handed frame.
    """

    point: Any
    fixed: Sequence[str] = (*TRANSLATIONS, *ROTATIONS)
    axes: Any = IDENTITY
    name: str | None = None

    def place(self, poses: Poses) -> FrameConstraint:
        rows = _frames.axes(self.axes)
        names = directions(self.fixed)
        along = [row for row, name in zip(rows, TRANSLATIONS, strict=True) if name in names]
        pinned = len(along) == 3
        turns = perpendicular(rows, names)
        return join(self, poses, self.point, pinned=pinned, along=() if pinned else along, perpendicular=turns)

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        """Free displacements "x", "y", "z", and the angle, such as "rz", if only one rotation is free."""
        rows, fixed_names, poses = _frames.axes(self.axes), directions(self.fixed), self._start()
        coordinates: dict[str, AbstractRelativeCoordinate] = {
            name: displacement_along(row, poses, self.point)
            for row, name in zip(rows, TRANSLATIONS, strict=True)
            if name not in fixed_names
        }
        free_rotations = [k for k, name in enumerate(ROTATIONS) if name not in fixed_names]
        if len(free_rotations) == 1:
            coordinates[ROTATIONS[free_rotations[0]]] = angle_about(rows[free_rotations[0]], poses)
        return coordinates


def directions(fixed_names: Sequence[str]) -> frozenset[str]:
    """Names of directions, checked."""
    names = (
        [fixed_names]
        if isinstance(fixed_names, str)
        else checks.as_list("fixed", fixed_names, "names of directions: ('x', 'rz')")
    )
    for name in names:
        checks.choice("fixed", name, (*TRANSLATIONS, *ROTATIONS))
    if not names:
        raise ValueError("`fixed` is empty: a joint that fixes nothing is no joint. Leave it out of the model.")
    return frozenset(names)


def perpendicular(rows: Array, fixed_names: frozenset[str]) -> tuple[Axes, Axes]:
    """Axes that stay perpendicular, pair by pair, for the rotations that are fixed."""
    indices = [k for k, name in enumerate(ROTATIONS) if name in fixed_names]
    if len(indices) == 3:
        return locked_axes(*rows)
    if len(indices) == 2:
        x, y = (rows[k] for k in indices)
        return turning_about(x, y, cross(x, y))
    return [-rows[(k + 1) % 3] for k in indices], [rows[(k + 2) % 3] for k in indices]
