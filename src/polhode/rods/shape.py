"""The curve of a rod: lengths of its edges and frames along it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.numpy_jit import numpy_jit
from polhode.spaces import quaternions

Points = Float[Array, "nodes 3"]
Frames = Float[Array, "nodes 3 3"]

_E3 = np.array([0.0, 0.0, 1.0])
_OPPOSITE = -0.999
"""Cosine between neighbouring edges below which the curve reverses."""

_ALONG = 0.05
"""Cosine between a given third axis and the edge beside it below which the axis is refused."""


def points_of(value: Any, closed: bool = False) -> Points:
    """Nodes of a rod. Raises ValueError for fewer than two, and for coincident neighbours."""
    shape = checks.shape("points", value, "nodes of a rod")
    if len(shape) != 2 or shape[1] != 3 or shape[0] < 2:
        raise ValueError(f"`points` must be the nodes of a rod, shape (n + 1, 3) for n ≥ 1 edges, got shape {shape}.")
    points = checks.array("points", value, (shape[0], 3), "nodes of a rod, inertial frame")
    if checks.is_concrete(points):
        _check_distances(np.asarray(points), closed)
    return points


def _check_distances(points: np.ndarray, closed: bool) -> None:
    """Raises ValueError, naming the edge, for edges without length."""
    after = np.roll(points, -1, axis=0)
    lengths = np.linalg.norm(after - points, axis=1)[: None if closed else -1]
    shortest = int(np.argmin(lengths))
    if not lengths[shortest] > 1e-9 * np.mean(lengths):
        nodes = f"{shortest} and {(shortest + 1) % len(points)}"
        repeats_first = closed and shortest == len(points) - 1
        remedy = (
            "A closed rod leads back to its first node by itself: leave out the last point."
            if repeats_first
            else "Take one of the nodes away, or use fewer edges."
        )
        raise ValueError(
            f"Edge {shortest + 1} of the rod has no length (its nodes {nodes} coincide): {lengths[shortest]:.3g}. "
            f"{remedy}"
        )


def frames_along(points: Points, normal: Any, closed: bool) -> Frames:
    r"""Rotation matrices of the nodes, third axis along the curve, turning about it as little as possible.

    Tangents are those of the circle through each node and its neighbours if edges are of equal length; at free ends
    they continue the circle of the first and of the last edge, so that arcs of circles have constant curvature. From
    node to node the frame makes the smallest rotation between the tangents.
    """
    cosines, tangents = _tangents(points, closed)
    if checks.is_concrete(points):
        _check_turns(np.asarray(cosines), closed)
    return _transport_frames(None if normal is None else _first_frame(tangents[0], normal), tangents)


@numpy_jit
def _tangents(points: Points, closed: bool) -> tuple[Array, Points]:
    """Cosines between neighbouring edges, and the tangents at the nodes."""
    edges = jnp.diff(points, axis=0, append=points[:1]) if closed else jnp.diff(points, axis=0)
    e = edges / jnp.linalg.norm(edges, axis=1, keepdims=True)
    before, after = (jnp.roll(e, 1, axis=0), e) if closed else (e[:-1], e[1:])
    inner = before + after
    tangents = inner / jnp.linalg.norm(inner, axis=1, keepdims=True)
    if not closed:
        ends = (e[0], e[0]) if len(e) == 1 else (_mirror(tangents[0], e[0]), _mirror(tangents[-1], e[-1]))
        tangents = jnp.concatenate((ends[0][None], tangents, ends[1][None]))
    return jnp.sum(before * after, axis=1), tangents


@numpy_jit
def _transport_frames(first: Float[Array, "3 3"] | None, tangents: Points) -> Frames:
    """The frames of all nodes from the first, by default the smallest rotation that takes e₃ to its tangent."""
    if first is None:
        first = _turn(jnp.asarray(_E3), tangents[0])

    def onward(R: Array, tangent: Array) -> tuple[Array, Array]:
        rotated = _turn(R[:, 2], tangent) @ R
        return rotated, rotated

    rest = jax.lax.scan(onward, first, tangents[1:])[1]
    return jnp.concatenate((first[None], rest))


def _turn(a: Array, b: Array) -> Float[Array, "3 3"]:
    """The smallest rotation from one unit vector to another."""
    return quaternions.to_matrix(quaternions.from_vector(quaternions.between(a, b)))


def _mirror(tangent: Array, e: Array) -> Array:
    return 2 * (tangent @ e) * e - tangent


def _check_turns(cosines: np.ndarray, closed: bool) -> None:
    if cosines.size and np.min(cosines) < _OPPOSITE:
        node = int(np.argmin(cosines)) + (0 if closed else 1)
        raise ValueError(
            f"The rod turns back on itself at node {node}: there is no tangent there. Add nodes around the bend, or "
            "make two rods with a joint."
        )


def _first_frame(tangent: Array, normal: Any) -> Float[Array, "3 3"]:
    """The frame with a given first axis."""
    n = checks.array("normal", normal, (3,), "first axis of the section at the first node")
    across = n - (n @ tangent) * tangent
    if checks.is_concrete(across) and not float(jnp.linalg.norm(across)) > 1e-6 * float(jnp.linalg.norm(n)):
        raise ValueError(f"`normal` must not be zero or parallel to the rod, got {np.asarray(n).tolist()}.")
    d1 = across / jnp.linalg.norm(across)
    return jnp.stack((d1, jnp.cross(tangent, d1), tangent), axis=1)


def given_frames(rotations: Any, points: Points, closed: bool) -> Frames:
    """Checked rotations of the nodes.

    Raises ValueError unless they are rotation matrices whose third axes point along the rod.
    """
    count = len(points)
    R = checks.array("rotations", rotations, (count, 3, 3), "rotations of the nodes, third axis along the rod")
    if checks.is_concrete(R):
        matrices = np.asarray(R)
        defect = np.max(np.abs(np.einsum("nji,njk->nik", matrices, matrices) - np.eye(3)), axis=(1, 2))
        bad = np.flatnonzero((defect > 1e-6) | (np.linalg.det(matrices) < 0))
        if bad.size:
            raise ValueError(
                f"`rotations[{bad[0]}]` is not a rotation matrix: |RᵀR - 1| = {defect[bad[0]]:.2g}, determinant "
                f"{np.linalg.det(matrices[bad[0]]):.3g}."
            )
        # To round-off, by two steps of Newton's method.
        for _ in range(2):
            matrices = matrices @ (1.5 * np.eye(3) - 0.5 * np.einsum("nji,njk->nik", matrices, matrices))
        R = jnp.asarray(matrices)
        if checks.is_concrete(points):
            _check_directions(matrices[:, :, 2], np.asarray(points), closed)
    return R


def _check_directions(axes: np.ndarray, points: np.ndarray, closed: bool) -> None:
    edges = (np.roll(points, -1, axis=0) - points)[: None if closed else -1]
    e = edges / np.linalg.norm(edges, axis=1, keepdims=True)
    along = np.minimum(np.sum(axes[: len(e)] * e, axis=1), np.sum(np.roll(axes, -1, axis=0)[: len(e)] * e, axis=1))
    worst = int(np.argmin(along))
    if along[worst] < _ALONG:
        raise ValueError(
            f"`rotations` must have their third axes along the rod: at edge {worst + 1} one makes an angle of "
            f"{np.degrees(np.arccos(np.clip(along[worst], -1, 1))):.0f}° with it. Leave `rotations` out for frames "
            "along the points, with `normal` for the first axis."
        )
