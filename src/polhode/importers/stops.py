"""How stiff and how damped stops are."""

from __future__ import annotations

from typing import Any

from polhode.forces.joint_forces import JointStops


def stiffness_and_damping(solref: Any, solimp: Any) -> tuple[float, float]:
    """Of MuJoCo's constraint fully in force, for each unit of inertia along it."""
    first, second = map(float, solref)
    most = float(solimp[1])
    if first > 0:
        return 1 / (most * first * second) ** 2, 2 / (most * first)
    return -first / most**2, -second / most


def onset(solimp: Any) -> float:
    """The depth over which MuJoCo's constraint comes into force; the usual one if that is at once."""
    return float(solimp[2]) if solimp[2] > 0 else JointStops.onset
