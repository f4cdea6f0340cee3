"""Rotations as users give them, checked and made orthogonal to round-off."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.numpy.eager import array_of
from polhode.spaces import quaternions

SINGLE_PRECISION = 1e-6
"""Relative error of given rotations and inertias, as of single-precision numbers, that is corrected silently."""


def rotation_matrix(value: Any) -> Float[Array, "3 3"]:
    """Rotation matrix from a 3×3 matrix or a unit quaternion (w, x, y, z), either to single precision.

    Raises ValueError for anything else.
    """
    meaning = "a 3×3 matrix, a unit quaternion (w, x, y, z) or polhode.rotation_vector(...)"
    array = checks.finite("rotation", value, meaning)
    if array.shape == (4,):
        if checks.is_concrete(array) and not abs(np.linalg.norm(np.asarray(array)) - 1) <= SINGLE_PRECISION:
            raise ValueError(f"`rotation` as a quaternion (w, x, y, z) must have length 1, got {array.tolist()}.")
        array = jnp.asarray(array)
        return quaternions.to_matrix(array / jnp.linalg.norm(array))
    if array.shape != (3, 3):
        raise ValueError(f"`rotation` must be {meaning}, got shape {array.shape}.")
    if not checks.is_concrete(array):
        return array
    R = np.asarray(array)
    defect = orthogonality_defect(R)
    if not defect < SINGLE_PRECISION or np.linalg.det(R) < 0:
        raise ValueError(
            f"`rotation` is not a rotation matrix: |RᵀR - 1| = {defect:.2g}, determinant {np.linalg.det(R):.3g}."
        )
    return array_of(orthonormalise(R))


def orthogonality_defect(R: np.ndarray) -> float:
    """Largest entry of RᵀR - 1."""
    return float(np.max(np.abs(R.T @ R - np.eye(3))))


def orthonormalise(R: np.ndarray) -> np.ndarray:
    """The nearest rotation matrix to one that is almost orthogonal, by two steps of Newton's method."""
    for _ in range(2):
        R = R @ (1.5 * np.eye(3) - 0.5 * R.T @ R)
    return R


def rotation_vector(theta: Any) -> Float[Array, "3 3"]:
    """The rotation matrix of a rotation vector, shape (3,), in radians: axis times angle.

    Raises ValueError unless it has three finite components, and for a `Parameter` in it.
    """
    checks.refuse_parameters("Build the model in a function of this angle instead.", theta=theta)
    return quaternions.to_matrix(quaternions.from_vector(checks.array("theta", theta, (3,), "axis times angle, rad")))
