"""Sparse LU for large systems of any structure, by SuiteSparse's KLU."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import Matrix
from polhode.linalg.gathering import Gathering
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.ordering import Pattern


class Analysis:
    """The entries of the whole matrix and KLU's ordering of it. Analyses of equal patterns are equal.

    KLU keeps the ordering outside JAX's arrays for as long as this object lives, so compiled programs must hold it:
    they do, as a static field of the solver.
    """

    def __init__(self, A: Pattern, P: Pattern, n: int, m: int) -> None:
        self._identity = (A, P, n, m)
        self._size, self._shift = n + m, n
        keys = np.concatenate(
            [
                np.arange(n) * (self._size + 1),
                *(self._keys(r.numbers, c.numbers) for r, c in A),
                *(self._keys(r.numbers + n, c.numbers) for r, c in P),
                *(self._keys(r.numbers + n, c.numbers, transposed=True) for r, c in P),
            ]
        )
        self.keys = np.unique(keys)
        self.rows, self.cols = (x.astype(np.int32) for x in np.divmod(self.keys, self._size))
        with jax.ensure_compile_time_eval():
            self.symbolic: Any = _klujax().analyze(self.rows, self.cols, self._size)

    def reading(self, A: Matrix, P: Matrix, Q: Matrix) -> Gathering:
        """How the entries collect the values of the blocks of A, P and Q."""
        n = self._shift
        keys = [self._keys(g.rows.numbers, g.cols.numbers) for g in A]
        keys += [self._keys(g.rows.numbers + n, g.cols.numbers, transposed=True) for g in P]
        keys += [self._keys(g.rows.numbers + n, g.cols.numbers) for g in Q]
        wanted = np.concatenate([np.zeros(0, np.int64), *keys])
        if not np.isin(wanted, self.keys).all():
            raise ValueError(
                "A matrix has blocks at places that were not announced to `kkt_solver`; pass it all groups of blocks "
                "that `factor` will ever receive."
            )
        return Gathering(np.searchsorted(self.keys, wanted), self.keys.size)

    def _keys(self, rows: np.ndarray, cols: np.ndarray, transposed: bool = False) -> np.ndarray:
        """One number for each entry of stacked blocks, in the order of their values."""
        i, j = rows[:, :, None], cols[:, None, :]
        return (j * self._size + i if transposed else i * self._size + j).reshape(-1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Analysis) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


class SparseKKT(AbstractKKT):
    """Sparse LU with pivoting. The ordering is found once; numbers are factorised anew with every solution.

    KLU's numeric factors live outside JAX's arrays, where nothing frees them in a compiled loop; so `factor` only
    collects the entries. Needs `klujax` and runs on the CPU. An exactly singular matrix ends the program with KLU's
    own error, where the other solvers give NaN.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    analysis: Analysis = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix) -> Float[Array, " entries"]:
        return self.analysis.reading(A, P, Q)([g.values for g in (*A, *P, *Q)])

    def solve(
        self, factors: Float[Array, " entries"], r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        a = self.analysis
        right = jnp.concatenate((r, s))
        solution = _klujax().solve_with_symbol(a.rows, a.cols, factors, right, a.symbolic)
        return solution[: self.n], solution[self.n :]


def _klujax() -> ModuleType:
    """The module `klujax`, without what its import does to JAX's choice of platform."""
    platform = jax.config.values["jax_platform_name"]
    try:
        import klujax
    except ImportError as error:
        raise ImportError(
            "Large systems that are neither chains nor trees are solved by `klujax`, which is not installed here; "
            "install it with `pip install klujax`."
        ) from error
    jax.config.update("jax_platform_name", platform)
    return klujax


def broke_down(error: Exception) -> bool:
    """Whether an error that ended a compiled program is KLU's, which can't return what a singular matrix gives."""
    return "klu_factor" in str(error) or "klu_refactor" in str(error)
