"""Keyframes of rotations, dense enough that interpolation by the shortest rotation follows the motion."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_FARTHEST = np.pi / 2
"""Largest angle between keys: players take the shortest rotation, which is wrong beyond half a turn."""

_MOST_PIECES = 1000
"""Largest number of keys between two frames."""


class Keys(NamedTuple):
    """Instants, shape (n,), and unit quaternions (w, x, y, z) there, (n, 4), without jumps of sign."""

    t: Float[np.ndarray, " n"]
    q: Float[np.ndarray, "n 4"]


def between(
    t: Float[np.ndarray, " k"], q: Float[np.ndarray, "k 4"], omega: Float[np.ndarray, "k 3"] | None
) -> Keys | None:
    """More keys where a body turns far between two frames, by its body-fixed angular velocity; None if none are needed.

    Of the rotations from one frame to the next, the one nearest to the integral of the angular velocities is taken.
    """
    if omega is None or len(t) < 2:
        return None
    vectors = _rotations(q, 0.5 * (omega[1:] + omega[:-1]) * np.diff(t)[:, None])
    pieces = np.ceil(np.linalg.norm(vectors, axis=1) / _FARTHEST).clip(1, _MOST_PIECES).astype(int)
    if (pieces == 1).all():
        return None
    times, pieces_of_q = [], []
    for k, count in enumerate(pieces):
        shares = np.arange(count) / count
        times.append(t[k] + shares * (t[k + 1] - t[k]))
        pieces_of_q.append(_times(q[k], _exponential(shares[:, None] * vectors[k])))
    keys = np.concatenate((*pieces_of_q, q[-1:]))
    flips = np.sign(np.sum(keys[1:] * keys[:-1], axis=1))
    keys[1:] *= np.cumprod(np.where(flips < 0, -1.0, 1.0))[:, None]
    return Keys(np.append(np.concatenate(times), t[-1]), keys)


def _rotations(q: Float[np.ndarray, "k 4"], estimates: Float[np.ndarray, "j 3"]) -> Float[np.ndarray, "j 3"]:
    """Rotation vectors from each quaternion to the next, with the full turns that bring them nearest to `estimates`."""
    inverse = q[:-1] * [1.0, -1.0, -1.0, -1.0]
    relative = _times(inverse, q[1:])
    relative = np.where(relative[:, :1] < 0, -relative, relative)
    sine = np.linalg.norm(relative[:, 1:], axis=1, keepdims=True)
    angle = 2 * np.arctan2(sine, relative[:, :1])
    far = np.linalg.norm(estimates, axis=1, keepdims=True)
    fallback = estimates / np.maximum(far, 1e-300)
    axis = np.where(sine > 1e-9, relative[:, 1:] / np.maximum(sine, 1e-300), fallback)
    along = np.sum(estimates * axis, axis=1, keepdims=True)
    return (angle + 2 * np.pi * np.round((along - angle) / (2 * np.pi))) * axis


def _exponential(vectors: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 4"]:
    half = 0.5 * np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.concatenate((np.cos(half), 0.5 * np.sinc(half / np.pi) * vectors), axis=1)


def _times(p: Float[np.ndarray, "*n 4"], q: Float[np.ndarray, "n 4"]) -> Float[np.ndarray, "n 4"]:
    """Products of quaternions (w, x, y, z)."""
    a, u, b, v = p[..., :1], p[..., 1:], q[..., :1], q[..., 1:]
    scalar = a * b - np.sum(u * v, axis=-1, keepdims=True)
    return np.concatenate((scalar, a * v + b * u + np.cross(u, v)), axis=-1)
