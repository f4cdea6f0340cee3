"""How stiff and how damped stops are."""

from __future__ import annotations

from typing import Any


def stiffness_and_damping(solref: Any, solimp: Any) -> tuple[float, float]:
    """Of MuJoCo's constraint fully in force, for each unit of inertia along it."""
    first, second = map(float, solref)
    most = float(solimp[1])
    if first > 0:
        return 1 / (most * first * second) ** 2, 2 / (most * first)
    return -first / most**2, -second / most
