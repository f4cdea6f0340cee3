"""All joints between two bodies, with the relative motions that they allow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

import polhode as ph
from polhode.joints import AbstractPairJoint
from polhode.joints._frames import frame
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose

J = ph.joints
POINT = np.array([0.4, -0.3, 0.9])
AXIS = np.array([1.0, 2.0, -0.5])
FRAME = np.asarray(frame(jnp.asarray(AXIS / np.linalg.norm(AXIS))))
X, Y, Z = FRAME
START = (
    (np.array([0.1, 0.2, 0.3]), Rotation.from_rotvec([0.3, -0.2, 0.9]).as_matrix()),
    (np.array([1.1, -0.4, 0.8]), Rotation.from_rotvec([-0.7, 0.5, 0.4]).as_matrix()),
)

Freedom = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Free parameters, up to six, to translation (3,) and rotation (3, 3) in the axes of the joint."""


def turn(*vector: float) -> np.ndarray:
    return Rotation.from_rotvec(vector).as_matrix()


def about_z(s: np.ndarray) -> np.ndarray:
    return turn(0, 0, s[0])


def vector(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    return np.array([x, y, z])


def on_sphere(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a distance joint: the second point moves on a sphere about the first."""
    d = FRAME @ (DISTANT - POINT)
    # The body turns about POINT with its point, then about that point.
    G = turn(*s[:3])
    return G @ d - d, turn(*s[3:]) @ G


ADVANCE = -0.3
"""Of the screw, in metres per radian; its thread is left-handed."""

DISTANT = POINT + np.array([0.3, 0.5, -0.2])


Load = tuple[np.ndarray, np.ndarray]
"""Force and moment on the first body, inertial."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A joint, the number of its constraints, what it leaves free, and the point that carries the relative motion.

    `held` are the loads of unit multipliers at the point.
    """

    make: Callable[[Body, Body], AbstractPairJoint]
    size: int
    freedom: Freedom
    point: np.ndarray = dataclasses.field(default_factory=lambda: POINT)
    held: tuple[Load, ...] = ()


def forces(*directions: np.ndarray) -> tuple[Load, ...]:
    return tuple((direction, np.zeros(3)) for direction in directions)


def moments(*directions: np.ndarray) -> tuple[Load, ...]:
    return tuple((np.zeros(3), direction) for direction in directions)


PIN = forces(*np.eye(3))


def generic(fixed: str) -> Callable[[Body, Body], AbstractPairJoint]:
    return lambda a, b: J.Generic(a, b, POINT, fixed.split(), FRAME)


_CASES = {
    "spherical": Case(lambda a, b: J.Spherical(a, b, POINT), 3, lambda s: (vector(), turn(*s[:3]))),
    "revolute": Case(lambda a, b: J.Revolute(a, b, POINT, AXIS), 5, lambda s: (vector(), about_z(s))),
    "prismatic": Case(lambda a, b: J.Prismatic(a, b, AXIS, POINT), 5, lambda s: (vector(z=s[1]), np.eye(3))),
    "cylindrical": Case(lambda a, b: J.Cylindrical(a, b, POINT, AXIS), 4, lambda s: (vector(z=s[1]), about_z(s))),
    "planar": Case(lambda a, b: J.Planar(a, b, AXIS, POINT), 3, lambda s: (vector(s[1], s[2]), about_z(s))),
    "universal": Case(
        lambda a, b: J.Universal(a, b, POINT, Z, X), 4, lambda s: (vector(), about_z(s) @ turn(s[1], 0, 0))
    ),
    "fixed": Case(lambda a, b: J.Fixed(a, b, POINT), 6, lambda s: (vector(), np.eye(3))),
    "distance": Case(lambda a, b: J.Distance(a, b, POINT, DISTANT), 1, on_sphere, DISTANT),
    "point-on-line": Case(lambda a, b: J.PointOnLine(a, b, POINT, AXIS), 2, lambda s: (vector(z=s[1]), turn(*s[2:5]))),
    "screw": Case(
        lambda a, b: J.Screw(a, b, POINT, AXIS, 2 * np.pi * ADVANCE),
        5,
        lambda s: (vector(z=ADVANCE * s[0]), about_z(s)),
    ),
    "generic: x ry": Case(generic("x ry"), 2, lambda s: (vector(0, s[1], s[2]), about_z(s) @ turn(s[3], 0, 0))),
    "generic: x y z ry rz": Case(generic("x y z ry rz"), 5, lambda s: (vector(), turn(s[0], 0, 0))),
    "generic: y rx rz": Case(generic("y rx rz"), 3, lambda s: (vector(s[1], 0, s[2]), turn(0, s[0], 0))),
    "generic: rx ry rz": Case(generic("rx ry rz"), 3, lambda s: (s[:3], np.eye(3))),
}
_HELD = {
    "spherical": PIN,
    "revolute": PIN + moments(X, Y),
    "prismatic": forces(X, Y) + moments(X, Y, Z),
    "cylindrical": forces(X, Y) + moments(X, Y),
    "planar": forces(Z) + moments(X, Y),
    "universal": PIN + moments(Y),
    "fixed": PIN + moments(*np.eye(3)),
    "distance": forces((DISTANT - POINT) / np.linalg.norm(DISTANT - POINT)),
    "point-on-line": forces(X, Y),
    "screw": forces(X, Y) + moments(X, Y) + ((Z, -ADVANCE * Z),),
    "generic: x ry": forces(X) + moments(Y),
    "generic: x y z ry rz": PIN + moments(Y, Z),
    "generic: y rx rz": forces(Y) + moments(X, Z),
    "generic: rx ry rz": moments(X, Y, Z),
}
CASES = {name: dataclasses.replace(case, held=_HELD[name]) for name, case in _CASES.items()}


def add_pair(model: ph.Model, mass: Any = 1.5) -> tuple[Body, Body]:
    first, second = (model.add_body(mass=mass, inertia=(1.0, 1.2, 1.4), position=x, rotation=R) for x, R in START)
    return first, second


def two_bodies() -> tuple[ph.Model, Body, Body]:
    model = ph.Model()
    return model, *add_pair(model)


def displaced_poses(case: Case, s: np.ndarray, rigid: tuple[np.ndarray, np.ndarray]) -> tuple[Pose, Pose]:
    """Poses after a relative motion that the joint allows, and a rigid motion of both bodies."""
    (x0, R0), (x1, R1) = START
    r, G = case.freedom(s)
    G = FRAME.T @ G @ FRAME
    x1 = case.point + FRAME.T @ r + G @ (x1 - case.point)
    y, Q = rigid
    return Pose(jnp.asarray(y + Q @ x0), jnp.asarray(Q @ R0)), Pose(jnp.asarray(y + Q @ x1), jnp.asarray(Q @ G @ R1))
