"""Elimination from the leaves of trees in joint coordinates, whose matrices are zero between branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode.compiler.primitives.backend_query import lapack_or
from polhode.linalg.blocks import Indices, Matrix, to_dense
from polhode.linalg.dense import lu_factor, lu_solve
from polhode.linalg.kkt import AbstractKKT


class BranchFactors(NamedTuple):
    """Factors of A, A⁻¹Pᵀ, Q, and factors of the Schur complement.

    - `a`: reciprocal pivots on the diagonal; right of each pivot its row of U, above it its column of L. With `pivots`
      as LAPACK has them where that factorises, otherwise meaningless.
    """

    a: Float[Array, "n n"]
    pivots: Int[Array, " n"]
    columns: Float[Array, "n m"]
    q: Float[Array, "m n"]
    schur: Float[Array, "m m"]


class BranchKKT(AbstractKKT):
    r"""Eliminates the velocities of leaves first, then those of the links that carry them.

    In joint coordinates $A_{ij}$ vanishes unless one of the joints i and j carries the other, and with this order
    nothing is filled in (R. Featherstone, *Rigid Body Dynamics Algorithms*, §6.5, for symmetric A). The cost is
    the sum of the squares of the depths of all velocities. What couples branches fills in where it must. The
    constraints come last, by the Schur complement $QA^{-1}P^T + E$. No pivoting: A is positive definite up to
    perturbations. Above `fused` velocities LAPACK does it where it can be called.

    - `earlier`: for each velocity the numbers of those before it to which it is coupled when its turn comes.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    earlier: tuple[Indices, ...] = eqx.field(static=True)
    fused: int = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> BranchFactors:
        return self._factor(_eliminate, A, P, Q, E)

    def factor_symmetric(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> BranchFactors:
        return self._factor(_eliminate_symmetric, A, P, Q, E)

    def solve(
        self, factors: BranchFactors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        x = self._solve(factors.a, factors.pivots, r)
        if not self.m:
            return x, s
        multipliers = lu_solve(factors.schur, factors.q @ x - s)
        return x - factors.columns @ multipliers, multipliers

    def _factor(
        self,
        eliminate: Callable[[Array, Sequence[Indices]], Array],
        A: Matrix,
        P: Matrix,
        Q: Matrix,
        E: Float[Array, " m"] | None,
    ) -> BranchFactors:
        n, m = self.n, self.m
        a, pivots = to_dense(A, (n, n)), jnp.zeros(n, jnp.int32)
        if n <= self.fused:
            a = eliminate(a, self.earlier)
        else:
            without = lambda a: (eliminate(a, self.earlier), jnp.zeros(n, jnp.int32))  # noqa: E731
            a, pivots = lapack_or(jax.scipy.linalg.lu_factor, without, (a, pivots), a)
        if not m:
            return BranchFactors(a, pivots, jnp.zeros((n, 0)), jnp.zeros((0, n)), jnp.zeros((0, 0)))
        q = to_dense(Q, (m, n))
        columns = self._solve(a, pivots, to_dense(P, (m, n)).T)
        schur = q @ columns
        return BranchFactors(a, pivots, columns, q, lu_factor(schur if E is None else schur + jnp.diag(E)))

    def _solve(self, a: Float[Array, "n n"], pivots: Int[Array, " n"], b: Array) -> Array:
        """Solution of a factored system for one or several right-hand sides, shape (n,) or (n, k)."""
        if self.n <= self.fused:
            return _substitute(a, self.earlier, b)
        return lapack_or(
            lambda a, pivots, b: jax.scipy.linalg.lu_solve((a, pivots), b),
            lambda a, _, b: _substitute(a, self.earlier, b),
            b, a, pivots, b,
        )  # fmt: skip


def _eliminate(a: Float[Array, "n n"], earlier: Sequence[Indices]) -> Float[Array, "n n"]:
    for k in reversed(range(len(earlier))):
        near, reciprocal = earlier[k].numbers, 1.0 / a[k, k]
        column = a[near, k] * reciprocal
        a = a.at[k, k].set(reciprocal).at[near, k].set(column)
        a = a.at[np.ix_(near, near)].add(-column[:, None] * a[k, near])
    return a


def _eliminate_symmetric(a: Float[Array, "n n"], earlier: Sequence[Indices]) -> Float[Array, "n n"]:
    """The same for a symmetric matrix, of which entries below the diagonal are read only."""
    for k in reversed(range(len(earlier))):
        near, reciprocal = earlier[k].numbers, 1.0 / a[k, k]
        row = a[k, near]
        column = row * reciprocal
        i, j = np.tril_indices(near.size)
        a = a.at[k, k].set(reciprocal).at[near, k].set(column)
        a = a.at[near[i], near[j]].add(-column[i] * row[j])
    return a


def _substitute(a: Float[Array, "n n"], earlier: Sequence[Indices], b: Array) -> Array:
    beside = (None,) * (b.ndim - 1)
    for k in reversed(range(len(earlier))):
        near = earlier[k].numbers
        b = b.at[near].add(-a[near, k, *beside] * b[k])
    x: list[Array] = []
    for k, before in enumerate(earlier):
        rest = b[k]
        for i in before.numbers.tolist():
            rest = rest - a[k, i] * x[i]
        x.append(rest * a[k, k])
    return jnp.stack(x)


def couplings(n: int, sets: Iterable[np.ndarray]) -> tuple[Indices, ...]:
    """`earlier` of `BranchKKT` for matrices with full blocks on `sets` of velocities, with all that is filled in."""
    is_coupled = np.zeros((n, n), bool)
    for numbers in sets:
        is_coupled[np.ix_(numbers, numbers)] = True
    earlier: list[Indices] = []
    for k in reversed(range(n)):
        near = np.flatnonzero(is_coupled[k, :k])
        is_coupled[np.ix_(near, near)] = True
        earlier.append(Indices(near))
    return tuple(earlier[::-1])


def operations(earlier: tuple[Indices, ...]) -> int:
    """Multiplications and additions of factorising a matrix that isn't symmetric."""
    return sum(2 * near.numbers.size**2 + near.numbers.size + 1 for near in earlier)


def least_operations(sets: Iterable[np.ndarray]) -> int:
    """A lower bound of them for matrices with full blocks on `sets` of velocities, before these are combined."""
    sizes: dict[int, int] = {}
    for numbers in sets:
        if numbers.size:
            last = int(numbers.max())
            sizes[last] = max(sizes.get(last, 0), numbers.size - 1)
    return sum(2 * size**2 for size in sizes.values())
