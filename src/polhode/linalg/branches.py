"""Elimination from the leaves of trees in joint coordinates, whose matrices are zero between branches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode.compiler.primitives.backend_query import lapack_or
from polhode.compiler.primitives.elimination import Paths, eliminate
from polhode.linalg.blocks import Indices, Matrix, to_dense
from polhode.linalg.compliant import refinement
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.known_places import add_entries, set_entries, take, take_entries

_LOOPED_UPDATES = 15_000
"""Subtractions above which elimination is made of loops. A step of a dog with 26,000 takes 136 µs without and 109 with
them, in quick code 392 and 221: the processor reads long code as slowly as data. Smaller trees were not measured."""

_LARGER = 1.3
"""How many times that may become where unknowns don't depend on all that carry them."""


class BranchFactors(NamedTuple):
    """Factors of the whole matrix, its unknowns in the solver's order.

    - `lu`: reciprocal pivots on the diagonal; right of each pivot its row of U, above it its column of L. With `pivots`
      as LAPACK has them where that factorises, otherwise meaningless.
    """

    lu: Float[Array, "k k"]
    pivots: Int[Array, " k"]


class BranchKKT(AbstractKKT):
    r"""Eliminates the velocities of leaves first, then those of the links that carry them, and loops one by one.

    In joint coordinates $A_{ij}$ vanishes unless one of the joints i and j carries the other, and with this order
    nothing is filled in (R. Featherstone, *Rigid Body Dynamics Algorithms*, §6.5, for symmetric A). The cost is
    the sum of the squares of the depths of all velocities. What couples branches fills in where it must. A constraint
    comes behind the velocities of its loop and before those that carry the whole loop, so that the Schur complement
    $QA^{-1}P^T + E$ of many loops is never formed as a whole. No pivoting: A is positive definite up to
    perturbations, and so are the pivots of independent constraints, but for their sign. Above `fused` unknowns LAPACK
    does it where it can be called.

    - `loops`: velocities of each constraint; entries of P and Q elsewhere are taken to be zero. `direct` corrects what
      is missed by that while joints are open.
    - `order`: unknowns, velocities and then constraints, from the last that is eliminated to the first.
    - `earlier`: for each, places in this order of those before it to which it is coupled when its turn comes.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    loops: tuple[Indices, ...] = eqx.field(static=True)
    order: Indices = eqx.field(static=True)
    earlier: tuple[Indices, ...] = eqx.field(static=True)
    fused: int = eqx.field(static=True)

    @classmethod
    def of(cls, n: int, sets: Iterable[np.ndarray], loops: Sequence[np.ndarray], fused: int) -> BranchKKT:
        """For matrices A with full blocks on `sets` of velocities, and constraints on `loops` of velocities."""
        first = [int(velocities.min()) if velocities.size else 0 for velocities in loops]
        order = np.argsort(np.concatenate((np.arange(n) + 0.5, first)), kind="stable")
        place = np.argsort(order)
        coupled = [place[numbers] for numbers in sets]
        coupled += [place[np.append(velocities, n + k)] for k, velocities in enumerate(loops)]
        own = tuple(Indices(np.asarray(velocities)) for velocities in loops)
        return cls(n, len(loops), own, Indices(order), couplings(n + len(loops), coupled), fused)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> BranchFactors:
        return self._factor(_eliminate, A, P, Q, E)

    def factor_symmetric(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> BranchFactors:
        # Half the work, if the border is symmetric, too.
        return self._factor(_eliminate_symmetric if P is Q or not self.m else _eliminate, A, P, Q, E)

    def solve(
        self, factors: BranchFactors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        order = self.order.numbers
        b = take(jnp.concatenate((r, s)), order)
        if b.size <= self.fused:
            x = _substitute(factors.lu, self.earlier, b)
        else:
            x = lapack_or(
                lambda lu, pivots, b: jax.scipy.linalg.lu_solve((lu, pivots), b),
                lambda lu, _, b: _substitute(lu, self.earlier, b),
                b, factors.lu, factors.pivots, b,
            )  # fmt: skip
        x = take(x, np.argsort(order))
        return x[: self.n], x[self.n :]

    def direct(self, A: Matrix, P: Matrix, Q: Matrix) -> Callable[[Array, Array], tuple[Array, Array]]:
        factors = self.factor_symmetric(A, P, Q)
        if self._mask.all():
            return lambda r, s: self.solve(factors, r, s)
        return refinement(self, factors, A, P, Q)

    @property
    def _mask(self) -> np.ndarray:
        """Which entries of P and Q may be other than zero."""
        mask = np.zeros((self.m, self.n), bool)
        for row, velocities in zip(mask, self.loops, strict=True):
            row[velocities.numbers] = True
        return mask

    def _factor(
        self,
        eliminate: Callable[[Array, Sequence[Indices]], Array],
        A: Matrix,
        P: Matrix,
        Q: Matrix,
        E: Float[Array, " m"] | None,
    ) -> BranchFactors:
        a = self._whole(A, P, Q, E)
        without = lambda a: (eliminate(a, self.earlier), jnp.zeros(len(a), jnp.int32))  # noqa: E731
        if len(a) <= self.fused:
            return BranchFactors(*without(a))
        return BranchFactors(*lapack_or(jax.scipy.linalg.lu_factor, without, (a, jnp.zeros(len(a), jnp.int32)), a))

    def _whole(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None) -> Float[Array, "k k"]:
        n, m, order = self.n, self.m, self.order.numbers
        a = to_dense(A, (n, n))
        if not m:
            return a
        p, q = (jnp.where(self._mask, to_dense(x, (m, n)), 0.0) for x in (P, Q))
        corner = jnp.zeros((m, m)) if E is None else -jnp.diag(E)
        return take_entries(jnp.block([[a, p.T], [q, corner]]), *np.ix_(order, order))


def _eliminate(a: Float[Array, "n n"], earlier: Sequence[Indices]) -> Float[Array, "n n"]:
    paths = _paths(earlier)
    one_by_one = functools.partial(_eliminate_one_by_one, earlier=earlier)
    return one_by_one(a) if paths is None else eliminate(one_by_one, a, paths)


def _paths(earlier: Sequence[Indices]) -> Paths | None:
    """For each unknown the ones that are reached by going on to the last of `earlier`; None without loops."""
    paths: list[tuple[int, ...]] = []
    for near in earlier:
        numbers = near.numbers
        paths.append((*paths[numbers[-1]], int(numbers[-1])) if numbers.size else ())
    updates, more = (sum(len(x) ** 2 for x in lists) for lists in ([near.numbers for near in earlier], paths))
    return tuple(paths) if updates > _LOOPED_UPDATES and more < _LARGER * updates else None


def _eliminate_one_by_one(a: Float[Array, "n n"], earlier: Sequence[Indices]) -> Float[Array, "n n"]:
    for k in reversed(range(len(earlier))):
        near, reciprocal = earlier[k].numbers, 1.0 / take_entries(a, k, k)
        a = set_entries(a, reciprocal, k, k)
        if near.size:
            column = take_entries(a, near, k) * reciprocal
            row = take_entries(a, k, near)
            a = set_entries(a, column, near, k)
            a = add_entries(a, -jnp.outer(column, row), *np.ix_(near, near))
    return a


def _eliminate_symmetric(a: Float[Array, "n n"], earlier: Sequence[Indices]) -> Float[Array, "n n"]:
    """The same for a symmetric matrix, of which entries below the diagonal are read only."""
    for k in reversed(range(len(earlier))):
        near, reciprocal = earlier[k].numbers, 1.0 / take_entries(a, k, k)
        a = set_entries(a, reciprocal, k, k)
        if near.size:
            row = take_entries(a, k, near)
            column = row * reciprocal
            i, j = np.tril_indices(near.size)
            a = set_entries(a, column, near, k)
            a = add_entries(a, -take(column, i) * take(row, j), near[i], near[j])
    return a


def _substitute(a: Float[Array, "n n"], earlier: Sequence[Indices], b: Array) -> Array:
    beside = (...,) + (None,) * (b.ndim - 1)
    later: list[list[int]] = [[] for _ in earlier]
    for k in reversed(range(len(earlier))):
        near = earlier[k].numbers
        if near.size:
            b = add_entries(b, -take_entries(a, near, k)[beside] * take_entries(b, k), near)
        for i in near.tolist():
            later[i].insert(0, k)
    for k, after in enumerate(later):
        x = take_entries(b, k) * take_entries(a, k, k)
        b = set_entries(b, x, k)
        if after:
            rows = np.array(after)
            b = add_entries(b, -take_entries(a, rows, k)[beside] * x, rows)
    return b


def couplings(n: int, sets: Iterable[np.ndarray]) -> tuple[Indices, ...]:
    """`earlier` of `BranchKKT` for n unknowns with full blocks on `sets` of them, with all that is filled in."""
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
