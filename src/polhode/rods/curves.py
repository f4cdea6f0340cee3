"""Curves on which the nodes of a rod are placed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from polhode import checks


def catenary(
    first: Any, last: Any, *, length: float, edges: int, down: Any = (0.0, 0.0, -1.0)
) -> Float[np.ndarray, "nodes 3"]:
    """Nodes of a cable that hangs between two points: the start from which statics of cables converge.

    The curve is that of a cable without bending stiffness and extension under its own weight. A cable that bends or
    stretches hangs near it, so `polhode.equilibrium` takes few iterations from there, however stiff its edges are;
    from a straight line or a polygon with a corner it takes many, or finds none. Give `Model.add_rod` the same length
    as `lengths=length / edges`: arcs through the nodes differ from it at second order.

    **Arguments:**

    - `first`, `last`: the ends, inertial frame, shape (3,).
    - `length`: of the cable between them, at least their distance; equal to it, the nodes lie on a line.
    - `edges`: their number; all have the same part of the length.
    - `down`: the direction of gravity, shape (3,).

    **Returns** the edges + 1 nodes, shape (edges + 1, 3), for `points`.

    **Raises** ValueError for a cable that is too short, and for ends above one another, between which it hangs folded.
    """
    a, b = (np.asarray(checks.values(*each, (3,), "an end")) for each in (("first", first), ("last", last)))
    axis = np.asarray(checks.values("down", down, (3,), "the direction of gravity"))
    if not np.linalg.norm(axis) > 0:
        raise ValueError(f"`down` must not be zero, got {axis.tolist()}.")
    L = float(checks.positive("length", length, (), "of the cable"))
    n = checks.count("edges", edges, "of the cable")
    up = -axis / np.linalg.norm(axis)
    rise = float((b - a) @ up)
    level = b - a - rise * up
    width, distance = float(np.linalg.norm(level)), float(np.linalg.norm(b - a))
    if distance > L * (1 + 1e-12):
        raise ValueError(
            f"`length` must be at least the distance of the ends, {distance:.6g}, got {L:g}. For a cable under "
            "tension from the start place its nodes on the line, with `lengths=` of its edges without stress."
        )
    if not width > 1e-6 * L:
        raise ValueError(
            f"The ends lie above one another, {width:.3g} apart across `down`: the cable would hang folded. Move one "
            "end to the side, or place the nodes on a vertical line if the cable is held at one end."
        )
    across, height = _catenary_points(width, rise, L, np.linspace(0.0, L, n + 1))
    nodes = a + across[:, None] * (level / width) + height[:, None] * up
    nodes[0], nodes[-1] = a, b
    return nodes


def _catenary_points(width: float, rise: float, length: float, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances across and up from the first end, at arc lengths s from it."""
    ratio = math.sqrt(max(length**2 - rise**2, width**2)) / width
    if ratio - 1 < 1e-15:
        return s * (width / length), s * (rise / length)
    # sinh(x)/x = ratio with x = width/2a, in logarithms, whose slope is bounded.
    most = 2 * math.log(2 * ratio) + 2
    x: Any = scipy.optimize.brentq(lambda x: math.log(math.sinh(x) / x / ratio), 1e-9, most, xtol=1e-15)
    a = width / (2 * x)
    from_lowest = a * math.sinh(math.atanh(rise / length) - x) + s
    across = a * (np.arcsinh(from_lowest / a) - np.arcsinh(from_lowest[0] / a))
    top = np.hypot(a, from_lowest)
    # A difference of squares, for cables that hardly sag.
    return across, s * (from_lowest + from_lowest[0]) / (top + top[0])
