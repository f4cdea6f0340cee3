"""Rotation matrices from the ways in which model files write them, by MuJoCo's functions."""

from __future__ import annotations

import numpy as np

from polhode.importers._mujoco import mujoco


def from_angles(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Turns about the fixed axes x, y and z, in this order."""
    return _about(2, yaw) @ _about(1, pitch) @ _about(0, roll)


def from_quaternion(quaternion: np.ndarray) -> np.ndarray:
    """The rotation of a unit quaternion (w, x, y, z)."""
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, quaternion)
    return R.reshape(3, 3)


def towards(normal: np.ndarray) -> np.ndarray:
    """The shortest rotation that takes z to a unit vector."""
    quaternion = np.zeros(4)
    mujoco.mju_quatZ2Vec(quaternion, normal)
    return from_quaternion(quaternion)


def to_quaternion(R: np.ndarray) -> np.ndarray:
    """The quaternion (w, x, y, z) of a rotation."""
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, R.reshape(-1))
    return quaternion


def _about(axis: int, angle: float) -> np.ndarray:
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[i, i] = R[j, j] = np.cos(angle)
    R[j, i] = np.sin(angle)
    R[i, j] = -R[j, i]
    return R
