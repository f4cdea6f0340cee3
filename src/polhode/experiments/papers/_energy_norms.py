"""The norms of paper 003, (35)–(38), by the trapezoidal rule on the frames of a run."""

from __future__ import annotations

import numpy as np

import polhode as ph


def energy_error(run: ph.Solution) -> float:
    """(38): the root mean square of E - E₀ over time, in units of E₀."""
    E, t = np.asarray(run.invariants["energy"]), np.asarray(run.t)
    return float(np.sqrt(np.trapezoid((E - E[0]) ** 2, t) / ((t[-1] - t[0]) * E[0] ** 2)))


def attitude_norm(run: ph.Solution) -> float:
    """‖q‖² of (35) with the angle of each rotation."""
    x, q, v, omega = map(np.asarray, run.state[:4])
    return _integral(run, x, _angles(q), v, omega)


def q_error(norm: float, reference: float) -> float:
    """(37): √|‖q_h‖² - ‖q‖²| / ‖q‖."""
    return float(np.sqrt(abs(norm - reference) / reference))


def norm_of_difference(run: ph.Solution, reference: ph.Solution) -> float:
    """The norm of the difference of two motions at the frames of the first, in units of that of the motion."""
    ratio = round((len(reference.t) - 1) / (len(run.t) - 1))
    ends = [np.asarray(part)[::ratio] for part in reference.state[:4]]
    x, q, v, omega = map(np.asarray, run.state[:4])
    conjugate = ends[1] * np.array([1.0, -1.0, -1.0, -1.0])
    square = _integral(run, x - ends[0], _angles(_product(conjugate, q)), v - ends[2], omega - ends[3])
    return float(np.sqrt(square / attitude_norm(run)))


def _integral(run: ph.Solution, *parts: np.ndarray) -> float:
    squares = sum(np.sum(part**2, axis=tuple(range(1, part.ndim))) for part in parts)
    return float(np.trapezoid(squares, np.asarray(run.t)))


def _angles(q: np.ndarray) -> np.ndarray:
    return 2 * np.arctan2(np.linalg.norm(q[..., 1:], axis=-1), np.abs(q[..., 0]))


def _product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    w = p[..., :1] * q[..., :1] - np.sum(p[..., 1:] * q[..., 1:], axis=-1, keepdims=True)
    u = p[..., :1] * q[..., 1:] + q[..., :1] * p[..., 1:] + np.cross(p[..., 1:], q[..., 1:])
    return np.concatenate((w, u), axis=-1)
