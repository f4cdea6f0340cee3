"""Matrices of numbers on the host, where nothing is differentiated: as arrays, for SciPy, and its sparse LU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np
import scipy
from jaxtyping import Array, Float

from polhode.linalg.blocks import Matrix
from polhode.linalg.kkt import AbstractKKT


class HostKKT(AbstractKKT):
    """Sparse LU with pivoting of numbers, outside JAX's transformations; NaN where the matrix is exactly singular."""

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix) -> Any:
        whole = saddle(A, P, Q, self.n, self.m)
        if not np.isfinite(whole.data).all():
            return None
        try:
            return scipy.sparse.linalg.splu(scipy.sparse.csc_matrix(whole))
        except RuntimeError:
            # SciPy's error for a zero pivot.
            return None

    def solve(
        self, factors: Any, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        right = np.concatenate((np.asarray(r), np.asarray(s)))
        solution: Any = np.full(right.size, np.nan) if factors is None else factors.solve(right)
        return solution[: self.n], solution[self.n :]


def saddle(A: Matrix, P: Matrix, Q: Matrix, n: int, m: int) -> Any:
    """The whole matrix, sparse."""
    corner = to_sparse(A, (n, n))
    if m == 0:
        return corner
    return scipy.sparse.csc_array(
        scipy.sparse.block_array([[corner, to_sparse(P, (m, n)).T], [to_sparse(Q, (m, n)), None]])
    )


def to_array(matrix: Matrix, shape: tuple[int, int]) -> np.ndarray:
    """A sum of blocks as an array. Small systems do without SciPy, which takes half a second to load.

    Not `to_dense` of `linalg.blocks` in an interpreted program: its scatters took the slider–crank a second to start.
    """
    out = np.zeros(shape)
    for rows, cols, values in _entries(matrix):
        np.add.at(out, (rows, cols), values)
    return out


def to_sparse(matrix: Matrix, shape: tuple[int, int]) -> Any:
    """A sum of blocks as a SciPy matrix."""
    nothing = np.zeros(0, int), np.zeros(0, int), np.zeros(0)
    rows, cols, values = (np.concatenate(parts) for parts in zip(nothing, *_entries(matrix), strict=True))
    return scipy.sparse.csc_array(scipy.sparse.coo_array((values, (rows, cols)), shape=shape))


def _entries(matrix: Matrix) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Row numbers, column numbers and values of each sum of blocks."""
    for g in matrix:
        rows, cols = np.broadcast_arrays(g.rows.numbers[:, :, None], g.cols.numbers[:, None, :])
        yield rows.reshape(-1), cols.reshape(-1), np.asarray(g.values).reshape(-1)
