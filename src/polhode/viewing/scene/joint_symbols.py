"""Symbols for joints and for the ground, like those of machine drawings, as plain values that runs store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polhode.joints.named_coordinates import AbstractMeasuredPair
from polhode.joints.relative import Angle, Displacement, ReversedCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.parts import AbstractForce, AbstractJoint, AbstractPart
from polhode.rods.edge import EdgeConstraint
from polhode.viewing.scene import geometry

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

MOST = 200
"""Largest number of joints for which symbols are drawn."""
_PIN, _SUPPORT = "#3c434d", "#9aa3ad"
_THICK, _APART = 0.035, 0.2
"""Thickness of a pin relative to the size of the model, and its bound relative to the distance between joints."""
_RAIL = 1.2
"""Length of a rail on the ground, relative to the size of the model."""


class _Joint(NamedTuple):
    """A joint at the start, in the inertial frame.

    - `ends`: its points on both bodies, (3,) each. - `angles`, `slides`: axes about and along which the second body is
      free, by the joint's coordinates. - `constraints`: number of constraints.
    """

    name: str
    bodies: tuple[Body, Body]
    ends: tuple[np.ndarray, np.ndarray]
    angles: list[np.ndarray]
    slides: list[np.ndarray]
    constraints: int


def to_dicts(
    model: ModelParts, rows: Mapping[str, int], solids: Iterable[Mapping[str, Any]], up: Sequence[float]
) -> list[dict[str, Any]]:
    """Symbols of joints, and of the ground at joints and springs; empty for more than `MOST` joints.

    **Arguments:**

    - `rows`: body → row of the outputs; bodies that have none are left out. - `solids`: how bodies are drawn.
    - `up`: the direction shown upwards, where there is no gravity.
    """
    if sum(_is_pair(part) for _, part in model.parts) > MOST:
        return []
    joints = [joint for joint in _joints(model) if all(_has_place(body, rows) for body in joint.bodies)]
    boxes = {str(solid["name"]): (np.asarray(solid["size"]), np.asarray(solid["turn"])) for solid in solids}
    anchors = list(_anchors(model))
    size = _size(model, [*anchors, *(end for joint in joints for end in joint.ends)], boxes)
    thick = min(_THICK * size, _APART * _typical_distance(joints))
    upwards = _upwards(model, up)
    symbols: list[dict[str, Any]] = []
    for joint in joints:
        symbols += _marks(joint, rows, boxes, thick)
        symbols += _supports(joint, boxes, upwards, thick, size)
    return symbols + [_anchor(point, thick) for point in anchors]


def _joints(model: ModelParts) -> Iterator[_Joint]:
    """The joints between a point of each of two bodies, except in rods and those driven by functions of time."""
    for name, part in model.parts:
        if not (_is_pair(part) and isinstance(part, AbstractJoint)):
            continue
        element = part.initial_element()
        assert isinstance(element, AbstractConstraintElement)
        points = element.points()
        if len(points) != 2 or element.driven or element.slips:
            continue
        first, second = part.bodies
        ends = tuple(
            np.asarray(body.x) + np.asarray(body.R) @ np.asarray(point)
            for body, point in zip(part.bodies, points, strict=True)
        )
        angles, slides = _freedoms(part)
        yield _Joint(name, (first, second), (ends[0], ends[1]), angles, slides, element.size)


def _is_pair(part: AbstractPart) -> bool:
    """Whether a part is a joint of two bodies outside of rods."""
    return isinstance(part, AbstractJoint) and not isinstance(part, EdgeConstraint) and len(part.bodies) == 2


def _freedoms(part: AbstractJoint) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Axes of the angles and of the displacements of a joint."""
    angles, slides = [], []
    for coordinate in part.coordinates().values() if isinstance(part, AbstractMeasuredPair) else ():
        inner, body = coordinate, part.bodies[0]
        if isinstance(coordinate, ReversedCoordinate):
            inner, body = coordinate.inner, part.bodies[1]
        R = np.asarray(body.R)
        if isinstance(inner, Angle):
            angles.append(R @ np.cross(np.asarray(inner.e1), np.asarray(inner.e2)))
        elif isinstance(inner, Displacement):
            slides.append(R @ np.asarray(inner.n))
    return angles, slides


def _marks(joint: _Joint, rows: Mapping[str, int], boxes: Mapping[str, Any], d: float) -> list[dict[str, Any]]:
    """The symbol of a joint, on its second body; for two distant points a ball at each."""
    ball = ("ellipsoid", (1.3 * d,) * 3, np.array([0.0, 0.0, 1.0]))
    if np.linalg.norm(joint.ends[1] - joint.ends[0]) > d:
        return [_shape_at_end(joint, end, rows, *ball) for end in (0, 1)]
    length = np.clip(1.3 * max((_across(joint, boxes, axis) for axis in joint.angles), default=0.0), 3 * d, 9 * d)
    kind = len(joint.angles), len(joint.slides)
    if joint.constraints >= 6:
        shapes = [("box", (1.6 * d,) * 3, np.array([0.0, 0.0, 1.0]))]
    elif kind == (1, 0) and joint.constraints <= 3:
        shapes = [("cylinder", (3 * d, 3 * d, 0.3 * d), joint.angles[0])]
    elif kind in ((1, 0), (2, 0)):
        shapes = [("cylinder", (d, d, length), axis) for axis in joint.angles]
    elif kind[0] == 1:
        shapes = [("cylinder", (1.3 * d, 1.3 * d, max(length, 4 * d)), joint.angles[0])]
    elif kind == (0, 1) and joint.constraints >= 5:
        shapes = [("box", (1.8 * d, 1.8 * d, 3.4 * d), joint.slides[0])]
    else:
        shapes = [ball]
    return [_shape_at_end(joint, 1, rows, *shape) for shape in shapes]


def _shape_at_end(
    joint: _Joint, end: int, rows: Mapping[str, int], shape: str, size: Sequence[float], axis: np.ndarray
) -> dict[str, Any]:
    """A shape about an axis at one end of a joint, in the frame of the body there."""
    body = joint.bodies[end]
    return _shape(joint.name, rows.get(body.name, -1), body, joint.ends[end], shape, size, axis, _PIN)


def _supports(joint: _Joint, boxes: Mapping[str, Any], up: np.ndarray, d: float, size: float) -> list[dict[str, Any]]:
    """The symbol of the ground at a joint: a foot below it, above it if the body hangs, or a rail."""
    shapes: list[dict[str, Any]] = []
    for end, ground in enumerate(joint.bodies):
        if ground.kind != "ground":
            continue
        place, other = joint.ends[end], joint.bodies[1 - end]
        if joint.slides:
            rail = _RAIL * size
            shapes += [
                _shape(joint.name, -1, ground, place, "cylinder", (0.5 * d, 0.5 * d, rail), axis, _SUPPORT)
                for axis in joint.slides[:1]
            ]
            continue
        away = up if _hangs(joint, np.asarray(other.x) - place, up) else -up
        high = 2.4 * d + (0.6 * float(np.min(boxes[other.name][0])) if other.name in boxes else 0.0)
        foot, plate = place + high / 2 * away, place + (high + 0.1 * d) * away
        shapes.append(_shape(joint.name, -1, ground, foot, "cone", (2.6 * d, 2.6 * d, high), -away, _SUPPORT))
        shapes.append(_shape(joint.name, -1, ground, plate, "box", (4.5 * d, 4.5 * d, 0.4 * d), away, _SUPPORT))
    return shapes


def _hangs(joint: _Joint, arm: np.ndarray, up: np.ndarray) -> bool:
    """Whether a body hangs below its joint, rather than standing on it or on a turntable."""
    upright = any(abs(axis @ up) > 0.9 for axis in joint.angles)
    rise = arm @ up
    level = 0.2 * np.linalg.norm(arm)
    return bool(rise < -level or (rise < level and level > 0 and not upright))


def _anchors(model: ModelParts) -> Iterator[np.ndarray]:
    """Points of the ground at which forces between two points act."""
    for _, part in model.parts:
        if not isinstance(part, AbstractForce) or [body.kind == "ground" for body in part.bodies].count(True) != 1:
            continue
        points = part.initial_element().points()
        for body, point in zip(part.bodies, points, strict=False):
            if body.kind == "ground":
                yield np.asarray(point)


def _anchor(point: np.ndarray, d: float) -> dict[str, Any]:
    z = np.array([0.0, 0.0, 1.0])
    return _shape("ground", -1, None, point, "box", (1.6 * d,) * 3, z, _SUPPORT)


def _shape(
    name: str,
    row: int,
    body: Body | None,
    place: np.ndarray,
    shape: str,
    size: Sequence[float],
    axis: np.ndarray,
    colour: str,
) -> dict[str, Any]:
    """A shape with its third direction along an axis, in plain values in the frame of a body."""
    x, R = (np.zeros(3), np.eye(3)) if row < 0 or body is None else (np.asarray(body.x), np.asarray(body.R))
    turn = R.T @ geometry.frames(np.asarray(axis, dtype=float)[None])[0]
    same = {"name": name, "row": row, "colour": colour, "marked": False, "framed": False, "symbol": True}
    numbers = {"size": size, "at": R.T @ (place - x), "turn": turn}
    return {**same, "shape": shape, **{key: np.round(value, 9).tolist() for key, value in numbers.items()}}


def _across(joint: _Joint, boxes: Mapping[str, Any], axis: np.ndarray) -> float:
    """The larger width of two bodies along an axis."""
    widths = [0.0]
    for body in joint.bodies:
        if body.name in boxes:
            size, turn = boxes[body.name]
            widths.append(float(np.abs(axis @ np.asarray(body.R) @ turn) @ size))
    return max(widths)


def _has_place(body: Body, rows: Mapping[str, int]) -> bool:
    return body.kind == "ground" or body.name in rows


def _size(model: ModelParts, points: Iterable[np.ndarray], boxes: Mapping[str, Any]) -> float:
    """Diagonal of the box around all bodies and the points of joints and springs at the start."""
    places = list(points)
    reach = [0.0]
    for body in model.bodies:
        if body.kind not in ("ground", "coordinate"):
            places.append(np.asarray(body.x))
        if body.name in boxes:
            reach.append(float(np.linalg.norm(boxes[body.name][0])))
    diagonal = float(np.linalg.norm(np.ptp(places, axis=0))) if places else 0.0
    return max(diagonal, *reach) or 1.0


def _typical_distance(joints: Sequence[_Joint]) -> float:
    """The median distance from a joint to the nearest one at another place."""
    places = np.unique(np.round([joint.ends[1] for joint in joints], 9), axis=0) if joints else np.zeros((0, 3))
    if len(places) < 2:
        return np.inf
    apart = np.linalg.norm(places[:, None] - places, axis=2) + np.diag(np.full(len(places), np.inf))
    return float(np.median(apart.min(axis=1)))


def _upwards(model: ModelParts, up: Sequence[float]) -> np.ndarray:
    """The direction opposite to gravity; without gravity the given direction."""
    gravity = np.asarray(model.gravity, dtype=float)
    along = -gravity if np.any(gravity) else np.asarray(up, dtype=float)
    return along / np.linalg.norm(along)
