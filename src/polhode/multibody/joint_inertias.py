"""Inertia that resists each axis of a tree of joints while the others are free, as in articulated-body algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_NOTHING = 1e-12
"""Share of the inertia of what an axis carries, below which nothing resists it but round-off."""


class TreeAxis(NamedTuple):
    """An axis of a joint at a position.

    - `parent`: number of the axis that carries this one, a smaller one; −1 for the ground.
    - `screw`: unit twist (angular velocity, velocity of the origin), shape (6,).
    - `inertia`: of the body right behind it, about the origin (`spatial_inertia`); zero between axes of a joint.
    - `armature`: inertia along the coordinate itself.
    """

    parent: int
    screw: np.ndarray
    inertia: np.ndarray
    armature: float = 0.0


def spatial_inertia(mass: float, centre: np.ndarray, inertia: np.ndarray) -> np.ndarray:
    """Inertia of a body about the origin, for twists (angular velocity, velocity of the origin), shape (6, 6).

    - `centre`: of mass, shape (3,). - `inertia`: about it, shape (3, 3), along the axes of the frame of the origin.
    """
    x, y, z = centre
    arm = mass * np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    about = inertia + mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return np.block([[about, arm], [arm.T, mass * np.eye(3)]])


def free_inertias(axes: Sequence[TreeAxis]) -> np.ndarray:
    """Force over acceleration along each axis with no other forces, 1 / (M⁻¹)ᵢᵢ, shape (n,); 0 where nothing resists.

    Of order n: articulated inertias from the leaves (R. Featherstone, Rigid Body Dynamics Algorithms, 2008, ch. 7),
    then the compliance of each body from the root.
    """
    inertias = [axis.inertia.copy() for axis in axes]
    resistances, levers = np.zeros(len(axes)), np.zeros((len(axes), 6))
    for i in reversed(range(len(axes))):
        parent, screw, _, armature = axes[i]
        force = inertias[i] @ screw
        resistance = screw @ force + armature
        if resistance > _NOTHING * (abs(screw) @ abs(inertias[i]) @ abs(screw)):
            resistances[i], levers[i] = resistance, force / resistance
            inertias[i] -= np.outer(levers[i], force)
        if parent >= 0:
            inertias[parent] += inertias[i]
    compliances: list[np.ndarray] = []
    inverse = np.zeros(len(axes))
    for (parent, screw, _, _), resistance, lever in zip(axes, resistances, levers, strict=True):
        own = compliances[parent] if parent >= 0 else np.zeros((6, 6))
        if resistance > 0:
            inverse[len(compliances)] = 1 / resistance + lever @ own @ lever
            passed = np.eye(6) - np.outer(screw, lever)
            own = passed @ own @ passed.T + np.outer(screw, screw) / resistance
        compliances.append(own)
    return np.divide(1.0, inverse, out=np.zeros_like(inverse), where=inverse > 0)
