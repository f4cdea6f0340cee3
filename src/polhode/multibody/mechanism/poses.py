"""Poses, twists and wrenches of nodes, the variables of all elements between bodies."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.spaces.base import hat


class Pose(NamedTuple):
    """Pose of a node: position x (3,) in the inertial frame, rotation R (3, 3) from the body frame to it."""

    x: Float[Array, "3"]
    R: Float[Array, "3 3"]


class Twist(NamedTuple):
    """Twist of a node: angular velocity (3,) in the body frame, velocity (3,) in the inertial frame."""

    omega: Float[Array, "3"]
    u: Float[Array, "3"]


_ZERO: Any = np.zeros(3)
_ONE: Any = np.eye(3)

ORIGIN = Pose(_ZERO, _ONE)
"""The pose of the ground."""

AT_REST = Twist(_ZERO, _ZERO)
"""The twist of the ground."""


class Wrench(NamedTuple):
    """The load on a node: torque (3,) in the body frame, force (3,) at the node in the inertial frame."""

    torque: Float[Array, "3"]
    force: Float[Array, "3"]


Poses = tuple[Pose, ...]
Twists = tuple[Twist, ...]


def rates(poses: Poses, twists: Twists) -> Poses:
    """Time derivatives of poses: ẋ = u, Ṙ = R ω̃."""
    return tuple(Pose(twist.u, pose.R @ hat(twist.omega)) for pose, twist in zip(poses, twists, strict=True))


@jax.jit
def axial(A: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """The vector a with a·ω = Σ A_ij hat(ω)_ij for all ω."""
    return jnp.stack((A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1]))


def relative_poses(poses: Poses) -> Poses:
    """Two poses in the frame of the first."""
    a, b = poses
    return Pose(jnp.zeros_like(a.x), jnp.eye(3)), Pose(a.R.T @ (b.x - a.x), a.R.T @ b.R)
