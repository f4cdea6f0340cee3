"""Triangles of meshes: checks, and integrals over the body that they enclose."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr


def check_vertices(vertices: Any, fewest: int) -> np.ndarray:
    """Vertices (n, 3) as float64. Raises ValueError for other shapes, traced ones, and fewer than `fewest`."""
    meaning = "vertices of a mesh, one a row"
    if not checks.is_concrete(vertices):
        raise ValueError("`vertices` must be numbers that are known when the shape is made, got traced ones.")
    shape = checks.shape("vertices", vertices, meaning)
    if len(shape) != 2 or shape[1] != 3 or shape[0] < fewest:
        raise ValueError(f"`vertices` must have the shape (n, 3) with n of at least {fewest}, got {shape}.")
    return np.array(checks.values("vertices", vertices, shape, meaning))


def check_faces(faces: Any, count: int) -> np.ndarray:
    """Triangles (n, 3) of vertex numbers below `count`. Raises ValueError for anything else."""
    array = np.asarray(faces)
    if array.ndim != 2 or array.shape[1:] != (3,) or array.dtype.kind not in "iu" or not len(array):
        raise ValueError(f"`faces` must be rows of three vertex numbers, got {short_repr(faces)}.")
    if array.min() < 0 or array.max() >= count:
        raise ValueError(
            f"`faces` has vertex numbers from {array.min()} to {array.max()}, but there are {count} vertices. "
            "Numbers begin with 0."
        )
    return array.astype(np.int32)


def join_corners(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Triangles with the first of all vertices that are at the same place in the place of the others."""
    _, first, number = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    return first[number.reshape(-1)][faces].astype(np.int32)


def check_sides(faces: np.ndarray) -> None:
    """Raises ValueError for two triangles that run along an edge in the same direction: one is turned over."""
    owners: dict[tuple[int, int], int] = {}
    for number, face in enumerate(faces.tolist()):
        for k in range(3):
            edge = face[k], face[(k + 1) % 3]
            other = owners.setdefault(edge, number)
            if other != number:
                raise ValueError(
                    f"`faces` {other} and {number} both run from vertex {edge[0]} to {edge[1]}: they have opposite "
                    "free sides, or lie on each other. Corners are counter-clockwise seen from the free side; turn one over."
                )


def is_closed(faces: np.ndarray) -> bool:
    """Whether each edge belongs to two triangles that run along it in opposite directions."""
    edges = np.concatenate((faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]))
    forward = {(int(a), int(b)) for a, b in edges}
    return len(forward) == len(edges) and all((b, a) in forward for a, b in forward)


def corners_beyond(faces: np.ndarray) -> np.ndarray:
    """For each edge of each triangle the third vertex of its neighbour; its own one where there is none."""
    third = {(f[k], f[(k + 1) % 3]): f[(k + 2) % 3] for f in faces.tolist() for k in range(3)}
    rows = [[third.get((f[(k + 1) % 3], f[k]), f[(k + 2) % 3]) for k in range(3)] for f in faces.tolist()]
    return np.array(rows, np.int32)


def grid_faces(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Triangles of a grid of m × n cells by its vertices in rows, and the cell and half of each."""
    i, j = (each.reshape(-1) for each in np.meshgrid(np.arange(m), np.arange(n), indexing="ij"))
    a, b, c, d = (at * (n + 1) + beside for at, beside in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)))
    halves = np.stack((np.stack((a, b, c), axis=1), np.stack((a, c, d), axis=1)), axis=1)
    cells = np.stack([np.stack((i, j, np.full_like(i, half)), axis=1) for half in (0, 1)], axis=1)
    return halves.reshape(-1, 3), cells.reshape(-1, 3)


def enclosed_volume(corners: Float[Array, "n 3 3"]) -> tuple[Array, Array, Array]:
    """Volume within closed triangles, its centre, and its inertia about that for density one."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    volumes = jnp.sum(a * jnp.cross(b, c), axis=1) / 6
    volume = jnp.sum(volumes)
    centre = jnp.sum(volumes[:, None] * (a + b + c), axis=0) / (4 * volume)
    sums = a + b + c
    second = sum(jnp.einsum("n,ni,nj->ij", volumes, x, x) for x in (a, b, c, sums)) / 20
    central = second - volume * jnp.outer(centre, centre)
    return volume, centre, jnp.trace(central) * jnp.eye(3) - central
