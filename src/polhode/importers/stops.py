"""How stiff and how damped stops are."""

from __future__ import annotations

from typing import Any

ONSET = 1e-3
"""Depth over which dampers come into force, where a file says none."""


def stiffness_and_damping(solref: Any, solimp: Any) -> tuple[float, float]:
    """Of MuJoCo's constraint fully in force, for each unit of inertia along it."""
    first, second = map(float, solref)
    most = float(solimp[1])
    if first > 0:
        return 1 / (most * first * second) ** 2, 2 / (most * first)
    return -first / most**2, -second / most


def onset(solimp: Any) -> float:
    """The depth over which MuJoCo's constraint comes into force."""
    return float(solimp[2]) if solimp[2] > 0 else ONSET
