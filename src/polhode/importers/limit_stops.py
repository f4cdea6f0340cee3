"""Stops in place of MuJoCo's soft limits: their stiffness, damping and position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.forces.joint_forces import JointStops
from polhode.importers.joints import FileJoint
from polhode.jax_context import warn
from polhode.joints.named_coordinates import AbstractMeasured
from polhode.systems.lagrangian import StartWarning

_USUAL = (0.02, 1.0)
"""MuJoCo's default time constant and damping ratio, used if a file mixes a positive with another number."""


class Limit(NamedTuple):
    """A limit of MuJoCo along a coordinate: its range, the margin before its ends, and its solver parameters."""

    range: Any
    margin: float
    solref: Any
    solimp: Any

    def stops(self, along: AbstractMeasured, inertia: float, name: str) -> JointStops | str:
        """Stops with the stiffness and damping of MuJoCo's full constraint for an inertia, or why there are none."""
        if not inertia > 0:
            return "stops are as stiff as suits the inertia along the coordinate, which is zero at the start"
        lower, upper = float(self.range[0]) + self.margin, float(self.range[1]) - self.margin
        if not lower < upper:
            return "their margins leave nothing of their range"
        k, d = self._stiffness_and_damping()
        if not k > 0:
            return "their `solref` has no stiffness"
        return JointStops(along, (lower, upper), k * inertia, d * inertia, name=name, onset=self._onset)

    def rigid_stops(self, along: AbstractMeasured, start: float, name: str) -> JointStops | None:
        """Rigid stops with the restitution of MuJoCo's constraint; None where the start is not within them."""
        lower, upper = float(self.range[0]) + self.margin, float(self.range[1]) - self.margin
        if not lower < upper or not lower <= start <= upper:
            return None
        return JointStops(along, (lower, upper), name=name, restitution=restitution_of(self.solref))

    def _stiffness_and_damping(self) -> tuple[float, float]:
        """Stiffness and damping per unit of inertia."""
        first, second = map(float, self.solref)
        if (first > 0) != (second > 0):
            first, second = _USUAL
        most = float(self.solimp[1])
        if first > 0:
            return 1 / (most * first * second) ** 2, 2 / (most * first)
        return -first / most**2, -second / most

    @property
    def _onset(self) -> float:
        """The depth over which MuJoCo's constraint comes into force; the default if it does so at once."""
        return float(self.solimp[2]) if self.solimp[2] > 0 else JointStops.onset


def restitution_of(solref: Any) -> float:
    """Restitution of an oscillator with MuJoCo's damping ratio, the mean of several; 0 for stiffness and damping."""
    time_constant, ratio = np.mean(np.atleast_2d(solref), axis=0)
    if time_constant <= 0 or not 0 < ratio < 1:
        return 0.0
    return float(np.exp(-np.pi * ratio / np.sqrt(1 - ratio**2)))


def warn_of_starts(stops: Sequence[tuple[FileJoint, JointStops]]) -> None:
    """Warns of joints that start beyond their stops."""
    beyond = [(joint, part.limits) for joint, part in stops if not part.limits[0] <= joint.start <= part.limits[1]]
    if not beyond:
        return
    each = [
        f"`{joint.name}` at {joint.start:.4g}, range {lower:.4g} … {upper:.4g}{' rad' if joint.kind == 'hinge' else ''}"
        for joint, (lower, upper) in beyond
    ]
    more = f" and {len(each) - 6} more" if len(each) > 6 else ""
    warn(
        f"Joints start outside of their ranges, where their stops push them back: {'; '.join(each[:6])}{more}. Start "
        f'within them, positions={{"{beyond[0][0].name}": …}}, or leave stops out, limits=False.',
        StartWarning,
    )
