"""Exact motion of a free rigid body in Jacobi elliptic functions and integrals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import elliprf, elliprj


def free_rigid_body_solution(
    inertia: Float[ndarray, "3"], angular_velocity: Float[ndarray, "3"], t: Float[ndarray, " *n"]
) -> tuple[Float[ndarray, "*n 3 3"], Float[ndarray, "*n 3"]]:
    r"""Rotation and body-fixed angular velocity of a free rigid body that starts with R(0) = I.

    The angular velocity by Jacobi elliptic functions, the angle about the momentum by an elliptic integral of the
    third kind in Carlson's symmetric form. Exact to round-off times the number of turns for any principal moments
    and any start; only the angle of a body that starts within a relative distance ε of spinning about its middle
    axis is less exact, to about 1e-16/ε.

    **Arguments:**

    - `inertia`: principal moments about the axes of the body frame, in any order.
    - `angular_velocity`: Ω(0), body frame, radians per unit of time.
    - `t`: one time or an array of times, of either sign.

    **Returns** R (…, 3, 3), body to inertial frame, and Ω (…, 3), body frame.

    ??? cite "Reference"
        L. D. Landau, E. M. Lifshitz, *Mechanics* (1976), §37, for Ω; the momentum R I Ω is constant and fixes R up
        to the angle ψ about it, whose rate is integrated here in closed form (see `_turn`).
    """
    inertia, start = np.asarray(inertia, float), np.asarray(angular_velocity, float)
    times = np.asarray(t, float)
    if inertia.shape != (3,) or np.any(inertia <= 0):
        raise ValueError(f"`inertia` must be three positive principal moments, got {inertia}.")
    if start.shape != (3,):
        raise ValueError(f"`angular_velocity` must have shape (3,), got {start.shape}.")
    if np.all(np.cross(inertia * start, start) == 0):
        return _steady(start, times)
    to_sorted = _sorting_rotation(inertia, start)
    rotation, velocity = _sorted_motion(np.abs(to_sorted) @ inertia, to_sorted @ start, times)
    return to_sorted.T @ rotation @ to_sorted, velocity @ to_sorted


def _steady(velocity: ndarray, t: ndarray) -> tuple[ndarray, ndarray]:
    """Rotation about a principal axis: constant angular velocity."""
    speed = np.linalg.norm(velocity)
    axis = velocity / speed if speed > 0 else velocity
    hat = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    angle = (speed * t)[..., None, None]
    rotation = np.eye(3) + np.sin(angle) * hat + 2 * np.sin(angle / 2) ** 2 * (hat @ hat)
    return rotation, np.broadcast_to(velocity, (*t.shape, 3)).copy()


def _sorting_rotation(inertia: ndarray, velocity: ndarray) -> ndarray:
    """Signed permutation of the axes after which the momentum circles about the third one.

    The moments are then sorted, ascending when |M|² ≥ 2 E I_middle and descending otherwise.
    """
    order = np.argsort(inertia)
    excess = np.sum(inertia * (inertia - inertia[order[1]]) * velocity**2)
    matrix = np.eye(3)[order if excess >= 0 else order[::-1]]
    matrix[0] *= np.linalg.det(matrix)
    return matrix


class _Path(NamedTuple):
    """Constants of Ω = (a₁ cn u, ±a₂ sn u, ±a₃ dn u), u = frequency·t + phase, with complementary parameter 1 - m."""

    amplitudes: ndarray
    sign: float
    frequency: float
    complement: float
    angle: float
    phase: float


def _path(inertia: ndarray, velocity: ndarray) -> _Path:
    i1, i2, i3 = inertia
    squares = inertia * velocity**2
    # Combinations of 2E and |M|² as sums over the axes, free of cancellation; all three change sign with the order.
    below3 = (i3 - i1) * squares[0] + (i3 - i2) * squares[1]  # 2 E I₃ - |M|²
    above1 = (i2 - i1) * squares[1] + (i3 - i1) * squares[2]  # |M|² - 2 E I₁
    above2 = (i1 - i2) * squares[0] + (i3 - i2) * squares[2]  # |M|² - 2 E I₂
    amplitudes = np.sqrt([below3 / (i1 * (i3 - i1)), below3 / (i2 * (i3 - i2)), above1 / (i3 * (i3 - i1))])
    sign = 1.0 if velocity[2] > 0 else -1.0
    frequency = np.sign(i3 - i1) * np.sqrt((i3 - i2) * above1 / (i1 * i2 * i3))
    complement = min(1.0, max(0.0, (i3 - i1) * above2 / ((i3 - i2) * above1)))
    angle = np.arctan2(sign * velocity[1] * amplitudes[0], velocity[0] * amplitudes[1])
    return _Path(amplitudes, sign, frequency, complement, angle, float(_first_kind(angle, complement)))


def _sorted_motion(inertia: ndarray, start: ndarray, t: ndarray) -> tuple[ndarray, ndarray]:
    path = _path(inertia, start)
    amplitude = _amplitude(path.frequency * t + path.phase, path.complement)
    sn, cn = np.sin(amplitude), np.cos(amplitude)
    dn = np.sqrt(cn**2 + path.complement * sn**2)
    a1, a2, a3 = path.amplitudes
    velocity = np.stack((a1 * cn, path.sign * a2 * sn, path.sign * a3 * dn), axis=-1)
    momentum = inertia * velocity
    turn = _turn(inertia, path, t, amplitude)
    c, s, zero, one = np.cos(turn), np.sin(turn), np.zeros_like(turn), np.ones_like(turn)
    spin = np.stack((c, -s, zero, s, c, zero, zero, zero, one), axis=-1).reshape(*turn.shape, 3, 3)
    rotation = _frame(inertia * start) @ spin @ np.swapaxes(_frame(momentum), -1, -2)
    return rotation, velocity


def _amplitude(u: ndarray, complement: float) -> ndarray:
    """Jacobi amplitude am(u | m) by descending Landen transformations; continuous in u, exact up to 1 - m = 0."""
    if complement == 0:
        return np.arctan(np.sinh(u))
    a, b = 1.0, np.sqrt(complement)
    ratios = []
    while a - b > 1e-15 * a:
        a, b, c = (a + b) / 2, np.sqrt(a * b), (a - b) / 2
        ratios.append(c / a)
    amplitude = 2.0 ** len(ratios) * a * u
    for ratio in reversed(ratios):
        amplitude = (amplitude + np.arcsin(ratio * np.sin(amplitude))) / 2
    return amplitude


def _first_kind(amplitude: float, complement: float) -> float:
    """Incomplete elliptic integral of the first kind F(φ | m) for |φ| ≤ π."""
    half_turn = np.round(amplitude / np.pi)
    within = amplitude - half_turn * np.pi
    sine, cosine = np.sin(within), np.cos(within)
    part = sine * elliprf(cosine**2, cosine**2 + complement * sine**2, 1.0)
    return part if half_turn == 0 else part + half_turn * 2 * elliprf(0.0, complement, 1.0)


def _turn(inertia: ndarray, path: _Path, t: ndarray, amplitude: ndarray) -> ndarray:
    r"""Angle about the momentum since t = 0.

    With `_frame` leaning on the first axis, $\dot\psi = |M|\,(2E - I_1Ω_1²)/(|M|² - I_1²Ω_1²)
    = |M|/I_1 - |M|(|M|² - 2EI_1)/(I_1(d + e\,\mathrm{sn}²u))$ with $d = I_3²a_3²$, $e = I_1²a_1²$; the
    denominator never vanishes.
    """
    i1, _, i3 = inertia
    d, e = (i3 * path.amplitudes[2]) ** 2, (i1 * path.amplitudes[0]) ** 2
    above1 = i3 * (i3 - i1) * path.amplitudes[2] ** 2  # |M|² - 2 E I₁
    angle_swept = _third_kind(e / d, amplitude, path.complement) - _third_kind(
        e / d, np.asarray(path.angle), path.complement
    )
    return np.sqrt(d + e) / i1 * (t - above1 / (d * path.frequency) * angle_swept)


def _third_kind(p: float, amplitude: ndarray, complement: float) -> ndarray:
    """Incomplete elliptic integral ∫ dφ / ((1 + p sin²φ) √(1 - m sin²φ)) from 0, for any amplitude, p ≥ 0."""
    half_turns = np.round(amplitude / np.pi)
    part = _third_kind_within(p, amplitude - half_turns * np.pi, complement)
    if not np.any(half_turns):
        return part
    return part + 2 * half_turns * _third_kind_within(p, np.asarray(np.pi / 2), complement)


def _third_kind_within(p: float, amplitude: ndarray, complement: float) -> ndarray:
    sine, cosine = np.sin(amplitude), np.cos(amplitude)
    delta = cosine**2 + complement * sine**2
    third = elliprj(cosine**2, delta, 1.0, 1 + p * sine**2)
    return sine * (elliprf(cosine**2, delta, 1.0) - p / 3 * sine**2 * third)


def _frame(momentum: ndarray) -> ndarray:
    """Rotation whose third column is along `momentum` and whose first is perpendicular to the first axis."""
    third = momentum / np.linalg.norm(momentum, axis=-1, keepdims=True)
    first = np.cross(np.array([1.0, 0.0, 0.0]), third)
    first = first / np.linalg.norm(first, axis=-1, keepdims=True)
    return np.stack((first, np.cross(third, first), third), axis=-1)
