"""The one place that decides how saddle-point systems are solved."""

from __future__ import annotations

from polhode.linalg.blocks import Matrix
from polhode.linalg.dense import DenseKKT
from polhode.linalg.kkt import AbstractKKT


def kkt_solver(A: Matrix, P: Matrix, n: int, m: int) -> AbstractKKT:
    """A solver for matrices with the sparsity of `A` (n×n) and `P` (m×n); only the places of their blocks are read.

    `A` must hold all groups of blocks that will ever be passed to `factor`, in any order.
    """
    del A, P
    return DenseKKT(n, m)
