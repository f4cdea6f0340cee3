"""Sparse LU by SciPy on the host, for searches that are not differentiated."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import sparse
from scipy.sparse.linalg import splu

from polhode.linalg.blocks import Blocks, Matrix
from polhode.linalg.kkt import AbstractKKT

Entries = tuple[Int[Array, " entries"], Int[Array, " entries"], Float[Array, " entries"]]


class HostKKT(AbstractKKT):
    """Sparse LU with pivoting, called back from compiled programs; NaN where the matrix is exactly singular."""

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix) -> Entries:
        n = self.n
        parts = [_entries(g, 0, 0) for g in A] + [_entries(g, n, 0) for g in Q]
        for rows, cols, values in [_entries(g, n, 0) for g in P]:
            parts.append((cols, rows, values))
        rows, cols = (np.concatenate(x).astype(np.int32) for x in list(zip(*parts, strict=True))[:2])
        return jnp.asarray(rows), jnp.asarray(cols), jnp.concatenate([values for _, _, values in parts])

    def solve(
        self, factors: Entries, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        right = jnp.concatenate((r, s))
        like = jax.ShapeDtypeStruct(right.shape, right.dtype)
        solution = jax.pure_callback(_solved, like, *factors, right, vmap_method="sequential")
        return solution[: self.n], solution[self.n :]


def _entries(g: Blocks, down: int, right: int) -> tuple[np.ndarray, np.ndarray, Array]:
    i, j = np.broadcast_arrays(g.rows.numbers[:, :, None] + down, g.cols.numbers[:, None, :] + right)
    return i.reshape(-1), j.reshape(-1), g.values.reshape(-1)


def _solved(rows: Array, cols: Array, values: Array, right: Array) -> np.ndarray:
    rows, cols, values, right = (np.asarray(x) for x in (rows, cols, values, right))
    matrix = sparse.csc_matrix((values, (rows, cols)), shape=(right.size, right.size))
    if not np.isfinite(values).all():
        return np.full(right.size, np.nan)
    try:
        return splu(matrix).solve(right)
    except RuntimeError:
        # SciPy's word for a zero pivot.
        return np.full(right.size, np.nan)
