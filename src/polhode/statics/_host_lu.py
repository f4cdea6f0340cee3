"""Sparse LU by SciPy on the host, for searches that are not differentiated."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float
from scipy import sparse
from scipy.sparse.linalg import splu

from polhode.linalg.blocks import Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.multibody.consistency import to_sparse


class HostKKT(AbstractKKT):
    """Sparse LU with pivoting of numbers, outside JAX's transformations; NaN where the matrix is exactly singular."""

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix) -> Any:
        whole = saddle(A, P, Q, self.n, self.m)
        if not np.isfinite(whole.data).all():
            return None
        try:
            return splu(sparse.csc_matrix(whole))
        except RuntimeError:
            # SciPy's word for a zero pivot.
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
    return sparse.csc_array(sparse.block_array([[corner, to_sparse(P, (m, n)).T], [to_sparse(Q, (m, n)), None]]))
