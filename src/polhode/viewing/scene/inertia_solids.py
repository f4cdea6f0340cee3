"""The appearance of bodies without shapes: a solid of their inertia, and limbs to what is attached to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode.multibody.bodies import Body
from polhode.viewing.scene.geometry import frames

_THINNEST = 0.02
"""Least thickness of a solid, relative to its length."""
_POINT = 0.03
"""Diameter of a mass point, relative to the size of the model."""
_SAME = 1e-3
"""Relative difference of moments of inertia that count as equal."""
_ROOM = 1.2
"""Half the largest extent of a solid over the distance of what is attached farthest: it does not hide its machine."""
_INSIDE = 1.05
"""Factor by which a solid is enlarged to tell whether an attachment lies in it."""
_LIMB = (0.008, 0.06)
"""Least radius of a limb over the size of the model, and largest one over its length."""


def solid(body: Body, points: Sequence[np.ndarray], size: float) -> dict[str, Any]:
    """The solid of uniform density with the mass and inertia of a body, or the ball of a particle or mass point.

    It is a ball where all moments of inertia are equal, a cylinder where two of them are, else a box.

    **Arguments:**

    - `points`: what is attached to it, in its frame; the solid is reduced to reach not much farther.
    - `size`: of the model.
    """
    if body.diameter is not None:
        return _ball(float(body.diameter))
    if body.kind == "point":
        return _ball(_POINT * size)
    shape, extents, turn = _uniform(np.asarray(body.inertia, float), float(body.mass))
    largest = float(np.max(extents))
    if largest == 0:
        return _ball(_POINT * size)
    reach = max((float(np.linalg.norm(point)) for point in points), default=0.0)
    room = 2 * _ROOM * reach if reach > _POINT * size else np.inf
    extents = np.maximum(extents, _THINNEST * largest) * min(1.0, room / largest)
    return {"shape": shape, "size": extents.tolist(), "turn": turn.tolist()}


def limbs(solid: dict[str, Any], points: Sequence[np.ndarray], size: float) -> list[dict[str, Any]]:
    """Capsules from the centre of mass to each point outside of the solid."""
    extents, turn = np.asarray(solid["size"]), np.asarray(solid["turn"])
    ends: list[np.ndarray] = []
    for point in points:
        outside = np.any(np.abs(turn.T @ point) > 0.5 * _INSIDE * extents)
        if outside and not any(np.allclose(point, end, rtol=0, atol=1e-6 * size) for end in ends):
            ends.append(point)
    return [_limb(end, float(np.min(extents)) / 2, size) for end in ends]


def _limb(end: np.ndarray, radius: float, size: float) -> dict[str, Any]:
    length = float(np.linalg.norm(end))
    radius = max(min(radius, _LIMB[1] * length), _LIMB[0] * size)
    turn = frames(end[None])[0]
    extents = [2 * radius, 2 * radius, length + 2 * radius]
    return {"shape": "capsule", "size": extents, "at": (end / 2).tolist(), "turn": turn.tolist(), "marked": False}


def _ball(diameter: float) -> dict[str, Any]:
    return {"shape": "ellipsoid", "size": [diameter] * 3, "turn": np.eye(3).tolist()}


def _uniform(inertia: np.ndarray, mass: float) -> tuple[str, np.ndarray, np.ndarray]:
    """Shape, extents and directions of the solid with these moments; unphysical moments give extents of zero."""
    moments, turn = np.linalg.eigh(inertia)
    low, middle, high = moments
    turn[:, 2] *= np.sign(np.linalg.det(turn))
    close = _SAME * high
    if high - low <= close:
        return "ellipsoid", np.full(3, 2 * np.sqrt(max(2.5 * middle / mass, 0.0))), turn
    if middle - low <= close:
        return "cylinder", _cylinder(high, low, mass), turn
    if high - middle <= close:
        # The axis is the first direction.
        return "cylinder", _cylinder(low, high, mass), turn[:, [1, 2, 0]]
    # A box has the moments m (b² + c²)/12, …
    return "box", np.sqrt(np.maximum(6 * (np.sum(moments) - 2 * moments) / mass, 0.0)), turn


def _cylinder(about: float, across: float, mass: float) -> np.ndarray:
    """Extents of a cylinder about its third direction: moments m r²/2 about it, m r²/4 + m l²/12 across it."""
    diameter = 2 * np.sqrt(max(2 * about / mass, 0.0))
    return np.array([diameter, diameter, np.sqrt(max(12 * (across - about / 2) / mass, 0.0))])
