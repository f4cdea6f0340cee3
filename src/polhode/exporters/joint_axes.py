"""Joints as chains of axes, and the axes that a constraint leaves free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode.joints._elements import FrameConstraint
from polhode.joints.relative import AbstractRelativeCoordinate, Displacement
from polhode.multibody.bodies import Body
from polhode.multibody.consistent_start import POSITION_TOLERANCE
from polhode.multibody.mechanism.poses import Poses
from polhode.multibody.parts import AbstractJoint

Kind = Literal["hinge", "slide", "ball", "free"]

_ALIKE = 1e-9
"""Tolerance for equal or perpendicular unit vectors."""


class Axis(NamedTuple):
    """Axes that one joint leaves free.

    - `direction`, `anchor`: shape (3,), in the inertial frame at the start; the direction means nothing for "ball".
    """

    kind: Kind
    direction: np.ndarray
    anchor: np.ndarray


class Frame(NamedTuple):
    """Origin x (3,) and rotation R (3, 3) to the inertial frame."""

    x: np.ndarray
    R: np.ndarray


def frame_of(body: Body) -> Frame:
    """The frame of a body at the start."""
    return Frame(np.asarray(body.x, dtype=float), np.asarray(body.R, dtype=float))


def displaced_frame(axes: Sequence[Axis], values: Sequence[Any], frame: Frame) -> Frame:
    """A frame after a chain of axes displaced by `values`: numbers, for balls inertial rotation vectors."""
    x, R = frame
    for (kind, direction, anchor), value in zip(axes[::-1], values[::-1], strict=True):
        if kind == "slide":
            x = x + value * direction
            continue
        turn = _rotation(value if kind == "ball" else value * direction)
        x, R = anchor + turn @ (x - anchor), turn @ R
    return Frame(x, R)


def screws(axis: Axis, R: np.ndarray) -> np.ndarray:
    """Unit twists (angular velocity, velocity at the origin) of an axis at the start, one per row.

    Those of a ball are about the axes of the carried body, whose rotation is R.
    """
    if axis.kind == "slide":
        return np.concatenate((np.zeros(3), axis.direction))[None]
    if axis.kind == "free":
        turns = screws(Axis("ball", axis.direction, axis.anchor), R)
        return np.concatenate((np.eye(6)[3:], turns))
    about = R.T if axis.kind == "ball" else axis.direction[None]
    return np.concatenate((about, np.cross(axis.anchor, about)), axis=1)


def free_axes(joint: AbstractJoint, element: FrameConstraint) -> list[Axis] | None:
    """The axes that a constraint leaves free, from the first body to the second; None if axes can't express it."""
    poses = tuple(frame_of(body) for body in joint.bodies)
    any_poses: Any = poses
    if float(jnp.max(jnp.abs(element.branch_residual(jnp.zeros(()), any_poses)), initial=0.0)) > POSITION_TOLERANCE:
        return None
    (_, R0), (x1, R1) = poses
    s1, directions, a, b = (np.asarray(part) for part in (element.s1, element.directions, element.a, element.b))
    anchor = x1 + R1 @ s1
    turns = _turns(a @ R0.T, b @ R1.T)
    if turns is None:
        return None
    slides = [] if element.pinned else _slides(joint, directions @ R0.T, any_poses)
    axes = [Axis("slide", direction, anchor) for direction in slides]
    return axes + [Axis(kind, direction, anchor) for kind, direction in turns]


def _turns(a: np.ndarray, b: np.ndarray) -> list[tuple[Kind, np.ndarray]] | None:
    """Rotations that are free while axes of two bodies stay perpendicular, pair by pair."""
    match len(a):
        case 0:
            return [("ball", np.array([1.0, 0.0, 0.0]))]
        case 1:
            return [("hinge", _unit(a[0])), ("hinge", _unit(b[0]))]
        case 2 if np.linalg.norm(np.cross(*a)) > _ALIKE and np.linalg.norm(np.cross(*b)) < _ALIKE:
            return [("hinge", _unit(b[0]))]
        case 3:
            return []
    return None


def _slides(joint: AbstractJoint, across: np.ndarray, poses: Poses) -> list[np.ndarray]:
    """Free directions: those of the joint's own displacements if it has as many."""
    free = np.linalg.svd(across.reshape(-1, 3))[2][len(across) :]
    coordinates: dict[str, AbstractRelativeCoordinate] = getattr(joint, "coordinates", dict)()
    own = [np.asarray(poses[0].R @ np.asarray(c.n)) for c in coordinates.values() if isinstance(c, Displacement)]
    alike = len(own) == len(free) and np.max(np.abs(np.array(own) @ across.T), initial=0.0) < _ALIKE
    return own if alike else list(free)


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def _rotation(theta: np.ndarray) -> np.ndarray:
    """Rotation matrix of a rotation vector (Rodrigues' formula)."""
    angle = float(np.linalg.norm(theta))
    if angle == 0:
        return np.eye(3)
    x, y, z = theta / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
