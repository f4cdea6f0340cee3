"""The curve of a rod: lengths of its edges and frames along it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.spaces import quaternions

Points = Float[Array, "nodes 3"]
Frames = Float[Array, "nodes 3 3"]

_E3 = np.array([0.0, 0.0, 1.0])
_OPPOSITE = -0.999
"""Cosine between neighbouring edges below which the curve turns back on itself."""


def points_of(value: Any) -> Points:
    """Nodes of a rod. Raises ValueError for fewer than two, and for nodes that follow each other at one place."""
    shape = np.shape(value)
    if len(shape) != 2 or shape[1] != 3 or shape[0] < 2:
        raise ValueError(f"`points` must be the nodes of a rod, shape (n + 1, 3) for n ≥ 1 edges, got shape {shape}.")
    points = checks.array("points", value, (shape[0], 3), "nodes of a rod, inertial frame")
    if checks.is_concrete(points):
        check_lengths(np.linalg.norm(np.diff(np.asarray(points), axis=0), axis=1))
    return points


def check_lengths(lengths: np.ndarray) -> None:
    """Raises ValueError, naming the edge, for edges without length."""
    shortest = int(np.argmin(lengths))
    if not lengths[shortest] > 1e-12 * np.max(lengths):
        raise ValueError(
            f"Edge {shortest + 1} of the rod has no length (its nodes {shortest} and {shortest + 1} coincide): "
            f"{lengths[shortest]:.3g}. Take one of the nodes away, or use fewer edges."
        )


def frames_along(points: Points, normal: Any, closed: bool) -> Frames:
    r"""Rotation matrices of the nodes, third axis along the curve, turning about it as little as possible.

    Tangents are those of the circle through each node and its neighbours if edges are of equal length; at free ends
    they continue the circle of the first and of the last edge, so that arcs of circles have constant curvature. From
    node to node the frame makes the smallest rotation between the tangents.
    """
    edges = jnp.diff(points, axis=0, append=points[:1]) if closed else jnp.diff(points, axis=0)
    e = edges / jnp.linalg.norm(edges, axis=1, keepdims=True)
    before, after = (jnp.roll(e, 1, axis=0), e) if closed else (e[:-1], e[1:])
    if checks.is_concrete(points):
        _check_turns(np.sum(np.asarray(before) * np.asarray(after), axis=1), closed)
    inner = before + after
    tangents = inner / jnp.linalg.norm(inner, axis=1, keepdims=True)
    if not closed:
        ends = (e[0], e[0]) if len(e) == 1 else (_mirrored(tangents[0], e[0]), _mirrored(tangents[-1], e[-1]))
        tangents = jnp.concatenate((ends[0][None], tangents, ends[1][None]))
    first = _first_frame(tangents[0], normal)

    def onward(R: Array, tangent: Array) -> tuple[Array, Array]:
        turned = quaternions.to_matrix(quaternions.from_vector(quaternions.between(R[:, 2], tangent))) @ R
        return turned, turned

    rest = jax.lax.scan(onward, first, tangents[1:])[1]
    return jnp.concatenate((first[None], rest))


def _mirrored(tangent: Array, e: Array) -> Array:
    return 2 * (tangent @ e) * e - tangent


def _check_turns(cosines: np.ndarray, closed: bool) -> None:
    if cosines.size and np.min(cosines) < _OPPOSITE:
        node = int(np.argmin(cosines)) + (0 if closed else 1)
        raise ValueError(
            f"The rod turns back on itself at node {node}: there is no tangent there. Add nodes around the bend, or "
            "make two rods with a joint."
        )


def _first_frame(tangent: Array, normal: Any) -> Float[Array, "3 3"]:
    """The smallest rotation that takes the third axis to the tangent, or the frame with a given first axis."""
    if normal is None:
        return quaternions.to_matrix(quaternions.from_vector(quaternions.between(jnp.asarray(_E3), tangent)))
    n = checks.array("normal", normal, (3,), "first axis of the section at the first node")
    across = n - (n @ tangent) * tangent
    if checks.is_concrete(across) and not float(jnp.linalg.norm(across)) > 1e-6 * float(jnp.linalg.norm(n)):
        raise ValueError(f"`normal` must not be zero or parallel to the rod, got {np.asarray(n).tolist()}.")
    d1 = across / jnp.linalg.norm(across)
    return jnp.stack((d1, jnp.cross(tangent, d1), tangent), axis=1)


def given_frames(rotations: Any, count: int) -> Frames:
    """Rotations of the nodes as a user gives them. Raises ValueError unless they are rotation matrices."""
    R = checks.array("rotations", rotations, (count, 3, 3), "rotations of the nodes, third axis along the rod")
    if checks.is_concrete(R):
        given = np.asarray(R)
        defect = np.max(np.abs(np.einsum("nji,njk->nik", given, given) - np.eye(3)), axis=(1, 2))
        bad = np.flatnonzero((defect > 1e-6) | (np.linalg.det(given) < 0))
        if bad.size:
            raise ValueError(
                f"`rotations[{bad[0]}]` is not a rotation matrix: |RᵀR - 1| = {defect[bad[0]]:.2g}, determinant "
                f"{np.linalg.det(given[bad[0]]):.3g}."
            )
        # To round-off, by two steps of Newton's method.
        for _ in range(2):
            given = given @ (1.5 * np.eye(3) - 0.5 * np.einsum("nji,njk->nik", given, given))
        R = jnp.asarray(given)
    return R
