"""Which parts of a system share the energy of an impact: what moves apart from each other shares none."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from polhode.linalg.blocks import Matrix


def label_parts(n: int, mass: Matrix, joints: Matrix, m: int) -> Int[np.ndarray, " n"]:
    """The part of a system to which each velocity belongs: inertia or joints connect all velocities of a part.

    - `mass`, `joints`: M and B, of which only the places of blocks matter. - `m`: rows of B.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = [np.zeros((2, 0), int)]
    for matrix, offset in ((mass, 0), (joints, n)):
        for blocks in matrix:
            rows, cols = blocks.rows.numbers, blocks.cols.numbers
            pairs = np.broadcast_arrays(rows[:, :, None] + offset, cols[:, None, :])
            edges.append(np.reshape(pairs, (2, -1)))
    first, second = np.concatenate(edges, axis=1)
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(n + m, n + m))
    return np.unique(connected_components(graph, directed=False)[1][:n], return_inverse=True)[1].reshape(-1)


def connect(
    parts: Int[np.ndarray, " n"], rows: Float[Array, "k rows n"], presses: Bool[Array, " k"]
) -> tuple[Bool[Array, "k n"], Bool[Array, "k k"]]:
    """For each contact that presses, velocities of what it is connected with by others, and these contacts themselves.

    - `parts`: of the system, by velocity. - `rows`: of the contacts. - `presses`: those that connect parts.
    """
    number = parts.max(initial=0) + 1
    member = jnp.asarray(parts[:, None] == np.arange(number), float)
    sizes = jnp.where(presses[:, None], jnp.sum(jnp.abs(rows), axis=1), 0.0)
    touches = jnp.where(sizes @ member > 0, 1.0, 0.0)
    together = jnp.eye(number) + touches.T @ touches
    # Ways from part to part pass through all of them at most.
    for _ in range(math.ceil(math.log2(max(number - 1, 1)))):
        together = jnp.where(together @ together > 0, 1.0, 0.0)
    island = touches @ together
    return island @ member.T > 0, island @ touches.T > 0
