"""Accelerations and joint loads of machines with NumPy alone: Newton's and Euler's equations of all bodies, one by one.

Nothing of polhode's is used but the poses and twists of bodies at one instant. Joints are conditions on poses; their
derivatives along motions are Cauchy's integrals over a circle in the complex plane, exact to round-off.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Vec = Any
Pose = tuple[Any, Any]
"""Place of the centre of mass, and rotation matrix."""

RADIUS, POINTS = 0.2, 24


@dataclasses.dataclass
class Body:
    mass: float
    inertia: np.ndarray
    x: np.ndarray
    R: np.ndarray
    u: np.ndarray
    omega: np.ndarray


@dataclasses.dataclass
class Condition:
    """Components of a joint that vanish, as a function of the poses of two bodies; None for the ground."""

    first: int | None
    second: int | None
    residual: Callable[[Pose, Pose], np.ndarray]
    name: str
    point: np.ndarray


@dataclasses.dataclass
class Along:
    """A joint coordinate that acts: inertia of a rotor, and a force by its rate and value."""

    first: int | None
    second: int | None
    value: Callable[[Pose, Pose], Any]
    rotor: float = 0.0
    force: Callable[[float, float], float] = lambda value, rate: 0.0


def exponential(w: np.ndarray) -> np.ndarray:
    """The rotation matrix of a rotation vector, which may be complex."""
    square = w @ w
    if abs(square) < 1e-3:
        first, second = 1 - square / 6 + square**2 / 120, 0.5 - square / 24 + square**2 / 720
    else:
        angle = np.sqrt(square + 0j)
        first, second = np.sin(angle) / angle, (1 - np.cos(angle)) / square
    K = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    return np.eye(3) + first * K + second * K @ K


def ground() -> Pose:
    return np.zeros(3), np.eye(3)


def at(bodies: Sequence[Body], number: int | None) -> Pose:
    return ground() if number is None else (bodies[number].x, bodies[number].R)


def along(pose: Pose, twist: tuple[Vec, Vec] | None, s: complex) -> Pose:
    """The pose after s of a motion with constant velocity and body-fixed angular velocity."""
    if twist is None:
        return pose
    return pose[0] + s * twist[0], pose[1] @ exponential(s * np.asarray(twist[1]))


def derivative(curve: Callable[[complex], Any], order: int) -> np.ndarray:
    """At 0, by Cauchy's integral."""
    angles = 2 * np.pi * np.arange(POINTS) / POINTS
    values = [np.asarray(curve(RADIUS * np.exp(1j * a))) * np.exp(-1j * order * a) for a in angles]
    return np.real(np.mean(values, axis=0)) * (1, 1, 2)[order] / RADIUS**order


def rows(bodies: Sequence[Body], of: Condition | Along) -> np.ndarray:
    """Derivatives of conditions by the velocities of all bodies, (u, ω) one after the other."""
    function = of.residual if isinstance(of, Condition) else of.value
    poses = at(bodies, of.first), at(bodies, of.second)
    size = np.size(function(*poses))
    B = np.zeros((size, 6 * len(bodies)))
    for end, number in enumerate((of.first, of.second)):
        if number is None:
            continue
        for k in range(6):
            unit = np.eye(6)[k]
            B[:, 6 * number + k] += np.reshape(derivative(_displacement(function, poses, end, unit), 1), -1)
    return B


def _displacement(function: Callable[..., Any], poses: tuple[Pose, Pose], end: int, unit: np.ndarray) -> Any:
    """Conditions while one of the two bodies moves."""

    def curve(s: complex) -> Any:
        moved = along(poses[end], (unit[:3], unit[3:]), s)
        return function(moved, poses[1]) if end == 0 else function(poses[0], moved)

    return curve


def drift(bodies: Sequence[Body], of: Condition | Along) -> np.ndarray:
    """The second derivative of conditions with frozen velocities."""
    function = of.residual if isinstance(of, Condition) else of.value
    poses = at(bodies, of.first), at(bodies, of.second)
    twists = [None if k is None else (bodies[k].u, bodies[k].omega) for k in (of.first, of.second)]
    curve = lambda s: function(*[along(p, w, s) for p, w in zip(poses, twists, strict=True)])  # noqa: E731
    return np.reshape(derivative(curve, 2), -1)


def accelerations(
    bodies: Sequence[Body], conditions: Sequence[Condition], acting: Sequence[Along], gravity: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(u̇, ω̇) of each body, and of each condition the force and moment about its point on the second body."""
    n = len(bodies)
    M, f = np.zeros((6 * n, 6 * n)), np.zeros(6 * n)
    for k, body in enumerate(bodies):
        M[6 * k : 6 * k + 3, 6 * k : 6 * k + 3] = body.mass * np.eye(3)
        M[6 * k + 3 : 6 * k + 6, 6 * k + 3 : 6 * k + 6] = body.inertia
        f[6 * k : 6 * k + 3] = body.mass * gravity
        f[6 * k + 3 : 6 * k + 6] = -np.cross(body.omega, body.inertia @ body.omega)
    v = np.concatenate([np.concatenate((body.u, body.omega)) for body in bodies])
    for one in acting:
        b = rows(bodies, one)[0]
        value = float(np.real(one.value(at(bodies, one.first), at(bodies, one.second))))
        M += one.rotor * np.outer(b, b)
        f += b * (one.force(value, float(b @ v)) - one.rotor * drift(bodies, one)[0])
    B = np.concatenate([rows(bodies, c) for c in conditions])
    Z = np.concatenate([drift(bodies, c) for c in conditions])
    K = np.block([[M, B.T], [B, np.zeros((len(B), len(B)))]])
    solution = np.linalg.lstsq(K, np.concatenate((f, -Z)), rcond=1e-13)[0]
    a, multipliers = solution[: 6 * n], solution[6 * n :]
    loads, row = {}, 0
    for c in conditions:
        own = rows(bodies, c)
        on_all = -own.T @ multipliers[row : row + len(own)]
        row += len(own)
        if c.second is not None:
            k, sign = c.second, 1.0
        else:
            assert c.first is not None
            k, sign = c.first, -1.0
        force, moment = on_all[6 * k : 6 * k + 3], bodies[k].R @ on_all[6 * k + 3 : 6 * k + 6]
        moment = moment + np.cross(bodies[k].x - c.point, force)
        loads[c.name] = sign * np.concatenate((force, moment))
    return a.reshape(n, 6), loads
