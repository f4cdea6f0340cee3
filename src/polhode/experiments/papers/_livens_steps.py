"""Shared parts of the comparison schemes of the experiments on Livens' principle."""

from __future__ import annotations

from typing import Any

import numpy as np

import polhode as ph

SCHEMES = {"EML": "eml", "MPL": "mpl", "EMH": "emh", "MPH": "mph"}
"""Energy–momentum and midpoint, on Livens' and on Hamilton's equations."""

WHICH_MPH = (
    "MPH is here the midpoint rule with the Hamiltonian of unit quaternions, ⅛ w·J_e⁻¹w + V, throughout. With the "
    "inverse mass matrix off the sphere, throughout, it has the positions of MPL; the authors' code takes that inverse "
    "for q̇ and the Hamiltonian of unit quaternions for ṗ, and has larger errors (0.630, 0.168, 6.75e-3, 1.69e-3)."
)


def largest_increment(values: Any) -> float:
    """In one step, of any component."""
    return float(np.max(np.abs(np.diff(np.asarray(values), axis=0))))


def normal_part(run: ph.Solution) -> np.ndarray:
    """|q·v| at the nodes of a quaternion body: zero for the exact motion."""
    return np.abs(np.sum(np.asarray(run.state.q) * np.asarray(run.state.v), axis=1))
