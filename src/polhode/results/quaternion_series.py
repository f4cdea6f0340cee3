"""Quaternions of a series of rotations without jumps of sign."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from polhode.spaces import quaternions as _quaternions

_SMALL = 0.1
"""Size of w below which a unit quaternion is near half a turn."""

_ALMOST = 0.9
"""Fraction of the largest component from which a component counts as large."""


def library(values: Any) -> Any:
    """NumPy, or jax.numpy for traced values."""
    return jnp if isinstance(values, Tracer) else np


def quaternions(R: Any) -> Any:
    """Unit quaternions (w, x, y, z) of rotation matrices, leading axes at will."""
    if isinstance(R, Tracer):
        flat = R.reshape(-1, 3, 3)
        return jax.vmap(_quaternions.from_matrix)(flat).reshape(*R.shape[:-2], 4)
    R = np.asarray(R)
    # The column of the largest component of qqᵀ, so that nothing small is divided by.
    trace = np.trace(R, axis1=-2, axis2=-1)
    K = np.empty((*R.shape[:-2], 4, 4))
    K[..., 0, 0] = 1 + trace
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        K[..., i + 1, i + 1] = 1 + 2 * R[..., i, i] - trace
        K[..., 0, i + 1] = K[..., i + 1, 0] = R[..., k, j] - R[..., j, k]
        K[..., j + 1, k + 1] = K[..., k + 1, j + 1] = R[..., j, k] + R[..., k, j]
    largest = np.argmax(np.diagonal(K, axis1=-2, axis2=-1), axis=-1)
    q = np.take_along_axis(K, largest[..., None, None], axis=-2)[..., 0, :]
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def matrices(q: Any) -> Any:
    """Rotation matrices of unit quaternions, leading axes at will."""
    xp = library(q)
    w, v = q[..., :1, None], q[..., 1:]
    zero = xp.zeros_like(v[..., 0])
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    hat = xp.stack((zero, -z, y, z, zero, -x, -y, x, zero), axis=-1).reshape(*v.shape[:-1], 3, 3)
    return xp.eye(3) + 2 * w * hat + 2 * hat @ hat


def without_jumps(q: Any) -> Any:
    """Quaternions, each with the sign nearest to its predecessor; `positive` decides the first sign."""
    xp = library(q)
    if xp.ndim(q) < 2:
        # A single instant.
        return positive(q)
    along = xp.sum(q[..., 1:, :] * q[..., :-1, :], axis=-1)
    first = xp.where(xp.sum(positive(q[..., 0, :]) * q[..., 0, :], axis=-1) < 0, -1.0, 1.0)[..., None]
    signs = xp.concatenate((first, first * xp.cumprod(xp.where(along < 0, -1.0, 1.0), axis=-1)), axis=-1)
    return q * signs[..., None]


def positive(q: Any) -> Any:
    """Of two quaternions q and -q of a rotation the one with w > 0, or near half a turn with a positive axis.

    Near half a turn, and where components are equal, rounding would decide by the sign of w, or by the largest one.
    """
    xp = library(q)
    size = xp.abs(q)
    axis = xp.argmax(size[..., 1:] >= _ALMOST * xp.max(size[..., 1:], axis=-1, keepdims=True), axis=-1)
    along = xp.take_along_axis(q[..., 1:], axis[..., None], axis=-1)[..., 0]
    deciding = xp.where(size[..., 0] > _SMALL, q[..., 0], along)
    return q * xp.where(deciding < 0, -1.0, 1.0)[..., None]
