"""Motions of the N-fold spherical pendulum independent of the library: other equations, other integrator.

Spatial motions solve the dense system R(q)ω̇ = r of E. Celledoni, E. Çokaj, A. Leone, D. Murari & B. Owren, *Lie group
integrators for mechanical systems* (2022), §5, in the ambient coordinates (q, ω). Planar ones solve Lagrange's
equations of the angles φ_i between the rods and the upward vertical. Both by SciPy's DOP853.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

_GRAVITY = 9.81
_UP = np.array([0.0, 0.0, 1.0])


class Chain(NamedTuple):
    """A chain of unit masses; `inertias` M_ij, (n, n), and first moments μ_i L_i, (n,), of what each rod carries."""

    inertias: np.ndarray
    moments: np.ndarray


def chain(n: int, length: float = 1.0) -> Chain:
    """`n` unit masses on rods of equal length."""
    masses_below = np.arange(n, 0, -1.0)
    index = np.arange(n)
    return Chain(masses_below[np.maximum.outer(index, index)] * length**2, masses_below * length)


def spatial_end(model: Chain, q: np.ndarray, omega: np.ndarray, t1: float) -> tuple[np.ndarray, np.ndarray]:
    """Directions and angular velocities at `t1`, (n, 3) each."""
    n = len(model.moments)

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        q, omega = y.reshape(2, n, 3)
        return np.concatenate((np.cross(omega, q), _angular_acceleration(model, q, omega))).ravel()

    end = _solve(rate, np.concatenate((q, omega)).ravel(), t1, 1e-13).y[:, -1].reshape(2, n, 3)
    return end[0], end[1]


def _angular_acceleration(model: Chain, q: np.ndarray, omega: np.ndarray) -> np.ndarray:
    n = len(q)
    # R_ij = M_ij q̂_iᵀ q̂_j, with q̂_iᵀ q̂_j = (q_i·q_j) I - q_j q_iᵀ; R_ii = M_ii I.
    blocks = (q @ q.T)[:, :, None, None] * np.eye(3) - q[None, :, :, None] * q[:, None, None, :]
    blocks[np.arange(n), np.arange(n)] = np.eye(3)
    matrix = (model.inertias[:, :, None, None] * blocks).transpose(0, 2, 1, 3).reshape(3 * n, 3 * n)
    pull = (model.inertias * np.sum(omega**2, axis=1)) @ q - _GRAVITY * model.moments[:, None] * _UP
    return np.linalg.solve(matrix, np.cross(q, pull).ravel()).reshape(n, 3)


class PlanarMotion:
    """Motion in the plane of x and z: q_i = (sin φ_i, 0, cos φ_i), ω_i = (0, φ̇_i, 0).

    It starts with the same φ and φ̇, `angle` and `rate`, for all rods and ends at `t1`.
    """

    def __init__(self, model: Chain, angle: float, rate: float, t1: float) -> None:
        n = len(model.moments)
        self._model = model
        self._solution: Any = _solve(self._rate, np.r_[np.full(n, angle), np.full(n, rate)], t1, 1e-12).sol

    def __call__(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Directions and angular velocities at time t, (n, 3) each."""
        angles, rates = self._solution(t).reshape(2, -1)
        none = np.zeros_like(angles)
        return np.stack((np.sin(angles), none, np.cos(angles)), 1), np.stack((none, rates, none), 1)

    def angular_accelerations(self, t: float) -> np.ndarray:
        """φ̈ at time t, (n,)."""
        return self._rate(t, self._solution(t))[len(self._model.moments) :]

    def _rate(self, t: float, y: np.ndarray) -> np.ndarray:
        angles, rates = y.reshape(2, -1)
        between = np.subtract.outer(angles, angles)
        load = _GRAVITY * self._model.moments * np.sin(angles)
        load -= (self._model.inertias * np.sin(between)) @ rates**2
        return np.concatenate((rates, np.linalg.solve(self._model.inertias * np.cos(between), load)))


def _solve(rate: Any, start: np.ndarray, t1: float, rtol: float) -> Any:
    solution = solve_ivp(rate, (0.0, t1), start, method="DOP853", rtol=rtol, atol=0.1 * rtol, dense_output=True)
    if not solution.success:
        raise RuntimeError(f"The reference solution failed: {solution.message}")
    return solution
