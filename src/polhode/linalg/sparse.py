"""Sparse LU for large systems of any structure, by SuiteSparse's KLU."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.linalg.blocks import Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.ordering import Pattern
from polhode.linalg.segment_sum import GatherSum


class Analysis:
    """The entries of the whole matrix and KLU's ordering of it. Analyses of equal patterns are equal.

    KLU keeps the ordering outside JAX's arrays, and compiled programs only have its address. Their lifetime is
    unknown, so orderings are never freed; equal ones are shared.
    """

    def __init__(self, A: Pattern, P: Pattern, n: int, m: int) -> None:
        self._identity = (A, P, n, m)
        self._size, self._shift = n + m, n
        keys = np.concatenate(
            [
                np.arange(n + m) * (self._size + 1),
                *(self._keys(r.numbers, c.numbers) for r, c in A),
                *(self._keys(r.numbers + n, c.numbers) for r, c in P),
                *(self._keys(r.numbers + n, c.numbers, transposed=True) for r, c in P),
            ]
        )
        self.keys = np.unique(keys)
        self.rows, self.cols = (x.astype(np.int32) for x in np.divmod(self.keys, self._size))
        self.diagonal = np.flatnonzero(self.rows == self.cols)
        self.constrained = np.flatnonzero((self.rows >= n) & (self.cols < n))
        self.symbolic = _ordering(self.keys.tobytes(), self._size)

    def gather_sum(self, A: Matrix, P: Matrix, Q: Matrix) -> GatherSum:
        """The sum of the blocks of A, P and Q into the entries."""
        n = self._shift
        keys = [self._keys(g.rows.numbers, g.cols.numbers) for g in A]
        keys += [self._keys(g.rows.numbers + n, g.cols.numbers, transposed=True) for g in P]
        keys += [self._keys(g.rows.numbers + n, g.cols.numbers) for g in Q]
        places = np.concatenate([np.zeros(0, np.int64), *keys])
        if not np.isin(places, self.keys).all():
            raise ValueError(
                "A matrix has blocks at places that were not announced to `kkt_solver`; pass it all groups of blocks "
                "that `factor` will ever receive."
            )
        return GatherSum(np.searchsorted(self.keys, places), self.keys.size)

    def _keys(self, rows: np.ndarray, cols: np.ndarray, transposed: bool = False) -> np.ndarray:
        """One number for each entry of stacked blocks, in the order of their values."""
        i, j = rows[:, :, None], cols[:, None, :]
        return (j * self._size + i if transposed else i * self._size + j).reshape(-1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Analysis) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@functools.cache
def _ordering(keys: bytes, size: int) -> Any:
    rows, cols = (x.astype(np.int32) for x in np.divmod(np.frombuffer(keys, np.int64), size))
    with jax.ensure_compile_time_eval():
        return _klujax().analyze(rows, cols, size)


class Entries(NamedTuple):
    """Entries of a matrix, and data to check its solutions.

    - `values`: the matrix as KLU gets it, changed in the last digits.
    - `changed`: by how much its diagonal in the rows of constraints differs from zero.
    - `sizes`: magnitudes of A's diagonal.
    - `regular`: whether all entries are finite and no constraint is empty.
    """

    values: Float[Array, " entries"]
    changed: Float[Array, " m"]
    sizes: Float[Array, " n"]
    regular: Bool[Array, ""]


class SparseKKT(AbstractKKT):
    """Sparse LU with pivoting. The ordering is computed once; every solution factorises again.

    KLU's numeric factors live outside JAX's arrays, where nothing frees them in a compiled loop; so `factor` only
    collects the entries. Needs `klujax` and runs on the CPU.

    KLU throws on a pivot that is exactly zero, and programs compiled by XLA don't reliably survive that. So each
    diagonal entry is moved by a few units in the last place of what elimination adds to it, which is within the error
    of the factorisation; singular matrices then show by constraints that the solution breaks.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    analysis: Analysis = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> Entries:
        values = self.analysis.gather_sum(A, P, Q)([g.values for g in (*A, *P, *Q)])
        plain = jax.lax.stop_gradient(values)
        finite = jnp.isfinite(plain).all()
        plain = jnp.where(finite, plain, 0.0)
        diagonal = jnp.abs(plain[self.analysis.diagonal[: self.n]])
        largest = jnp.max(diagonal, initial=0.0)
        sizes = jnp.where(diagonal > 0, diagonal, jnp.where(largest > 0, largest, 1.0))
        schur = self._rows(plain**2, 1 / sizes)
        regular = finite
        if E is None:
            diagonal_shift = -_UNITS * jnp.where(schur > 0, schur, 1.0)
            regular = regular & (schur > 0).all()
            constraint_shift = diagonal_shift
        else:
            # Callers that give a compliance judge its error themselves.
            diagonal_shift, constraint_shift = jnp.zeros_like(schur), -E
        shifts = jnp.concatenate((_UNITS * sizes, constraint_shift))
        values = jnp.where(finite, values, 0.0).at[self.analysis.diagonal].add(shifts)
        return Entries(values, diagonal_shift, sizes, regular)

    def solve(
        self, factors: Entries, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        a = self.analysis
        right = jnp.concatenate((r, s))
        solution = _klujax().solve_with_symbol(a.rows, a.cols, factors.values, right, a.symbolic)
        x, multipliers = solution[: self.n], solution[self.n :]
        broken = jnp.abs(factors.changed * multipliers)
        # Loads elsewhere may move the bodies at a constraint.
        largest = jnp.full(self.n, jnp.max(jnp.abs(r) / factors.sizes, initial=0.0))
        size = jnp.abs(s) + self._rows(jnp.abs(factors.values), largest)
        regular = factors.regular & (broken <= _BROKEN * size).all()
        return jnp.where(regular, x, jnp.nan), jnp.where(regular, multipliers, jnp.nan)

    def _rows(self, values: Float[Array, " entries"], x: Float[Array, " n"]) -> Float[Array, " m"]:
        """The rows of the constraints in `values`, times x."""
        a, at = self.analysis, self.analysis.constrained
        return jnp.zeros(self.m).at[a.rows[at] - self.n].add(values[at] * x[a.cols[at]])


_UNITS = 4 * np.finfo(float).eps
_BROKEN = 1e-6
"""Share of the accelerations at a constraint by which a solution may break it."""


def _klujax() -> ModuleType:
    """The module `klujax`, without the effect of its import on JAX's choice of platform."""
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
