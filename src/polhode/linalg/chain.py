"""Block-tridiagonal elimination along chains of bodies: rods, cables, serial robots. O(n), one body after the other."""

from __future__ import annotations

import functools
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.execution.rows import sweep
from polhode.linalg import small
from polhode.linalg.blocks import Matrix
from polhode.linalg.gathering import Gathering, take
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.ordering import Pattern


class Links(NamedTuple):
    """Bodies in the order of the chain, each with the constraints that lead to it: unknowns of each block."""

    blocks: list[np.ndarray]


def links(A: Pattern, P: Pattern, n: int, m: int) -> Links | None:
    """The blocks of a matrix whose bodies form chains, or None if they don't.

    Bodies are what the diagonal blocks of A hold together. λ of a constraint belongs to the later one of its bodies.
    """
    body = _bodies(A, n)
    if body is None:
        return None
    of_row = [(rows, np.sort(body[cols], axis=1)) for rows, cols in _rows(P)]
    pairs = {(int(b[0]), int(b[-1])) for _, bodies in of_row for b in bodies}
    if any(np.any((b != b[:, :1]) & (b != b[:, -1:])) for _, b in of_row):
        return None
    pairs |= {(min(i, j), max(i, j)) for i, j in _couplings(A, body)}
    order = _paths(int(body.max()) + 1, {p for p in pairs if p[0] != p[1]})
    if order is None:
        return None
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    blocks: list[list[int]] = [np.flatnonzero(body == b).tolist() for b in order]
    for rows, bodies in of_row:
        for constraints, ends in zip(rows, bodies, strict=True):
            blocks[int(place[ends].max())] += [n + int(row) for row in constraints]
    return Links([np.array(block) for block in blocks])


def _bodies(A: Pattern, n: int) -> np.ndarray | None:
    """Number of the body of each velocity; None if some velocity has no diagonal block."""
    body = np.full(n, -1)
    count = 0
    for rows, cols in A:
        if rows == cols and (body[rows.numbers] < 0).all():
            body[rows.numbers] = count + np.arange(len(rows.numbers))[:, None]
            count += len(rows.numbers)
    return None if not n or (body < 0).any() else body


def _rows(P: Pattern) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each element with constraints its rows and all columns, groups with the same rows taken together."""
    found: dict[bytes, tuple[np.ndarray, list[np.ndarray]]] = {}
    for rows, cols in P:
        found.setdefault(rows.numbers.tobytes(), (rows.numbers, []))[1].append(cols.numbers)
    return [(rows, np.concatenate(columns, axis=1)) for rows, columns in found.values()]


def _couplings(A: Pattern, body: np.ndarray) -> set[tuple[int, int]]:
    """Pairs of bodies that blocks of A couple."""
    found, count = set[tuple[int, int]](), int(body.max()) + 1
    for rows, cols in A:
        # As one number each, which are sorted much faster than rows.
        pairs = body[rows.numbers][:, :, None] * count + body[cols.numbers][:, None, :]
        i, j = np.divmod(np.unique(pairs), count)
        found.update(zip(i.tolist(), j.tolist(), strict=True))
    return found


def _paths(count: int, pairs: set[tuple[int, int]]) -> list[int] | None:
    """All bodies in an order in which only successive ones are coupled, or None if there is no such order."""
    near: list[list[int]] = [[] for _ in range(count)]
    for i, j in sorted(pairs):
        near[i].append(j)
        near[j].append(i)
    if any(len(others) > 2 for others in near):
        return None
    order: list[int] = []
    done = np.zeros(count, bool)
    for start in (b for b in range(count) if len(near[b]) < 2):
        b: int | None = None if done[start] else start
        while b is not None:
            done[b] = True
            order.append(b)
            b = next((other for other in near[b] if not done[other]), None)
    return order if len(order) == count else None


class Layout:
    """Where the entries of blocks come from, for matrices of one pattern. Layouts of equal patterns are equal.

    Blocks are D on the diagonal, L left and U right of it, all of the size of the largest one; smaller ones are
    filled up with the identity. Entries that vanish in all blocks are never stored or multiplied.
    """

    def __init__(self, A: Pattern, P: Pattern, n: int, m: int) -> None:
        self._identity = (A, P, n, m)
        self._n, self._unknowns = n, n + m
        found = links(A, P, n, m)
        assert found is not None
        self.count = len(found.blocks)
        self.size = s = max(block.size for block in found.blocks)
        self.unknowns = np.full((self.count, s), n + m, np.int64)
        self._block, self._local = np.empty(n + m, np.int64), np.empty(n + m, np.int64)
        for b, block in enumerate(found.blocks):
            self.unknowns[b, : block.size] = block
            self._block[block], self._local[block] = b, np.arange(block.size)
        self.where = (self._block * s + self._local).astype(np.int32)
        keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(k.reshape(-1) for k in self._pattern_keys(A, P))]))
        padded = np.argwhere(self.unknowns == n + m)
        self._present = np.unique(np.concatenate((keys % (3 * s * s), np.arange(s) * (s + 1))))
        self._rank = np.full(3 * s * s, -1)
        self._rank[self._present] = np.arange(self._present.size)
        self.filling = np.zeros((self.count, self._present.size))
        self.filling[padded[:, 0], self._rank[padded[:, 1] * (s + 1)]] = 1.0

    @functools.cached_property
    def masks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions of the entries of D, L and U in a row of the table, -1 for structural zeros; shapes (s, s)."""
        d, left, right = self._rank.reshape(3, self.size, self.size)
        return d, left, right

    @property
    def coupled(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of L and columns of U that are not zero everywhere."""
        _, left, right = self.masks
        return np.flatnonzero((left >= 0).any(axis=1)), np.flatnonzero((right >= 0).any(axis=0))

    def reading(self, A: Matrix, P: Matrix, Q: Matrix, compliant: bool) -> Gathering:
        """How the table of entries, a row a block, collects the values of A, P and Q, and -E if `compliant`."""
        n = self._n
        keys = [self._keys(g.rows.numbers[:, :, None], g.cols.numbers[:, None, :]) for g in A]
        keys += [self._keys(g.cols.numbers[:, None, :], n + g.rows.numbers[:, :, None]) for g in P]
        keys += [self._keys(n + g.rows.numbers[:, :, None], g.cols.numbers[:, None, :]) for g in Q]
        diagonal = np.arange(n, self._unknowns) if compliant else np.zeros(0, np.int64)
        flat = np.concatenate([np.zeros(0, np.int64), *(k.reshape(-1) for k in keys), self._keys(diagonal, diagonal)])
        block, entry = np.divmod(flat, 3 * self.size**2)
        rank = self._rank[entry]
        if (rank < 0).any():
            raise ValueError(
                "A matrix has blocks at places that were not announced to `kkt_solver`; pass it all groups of blocks "
                "that `factor` will ever receive."
            )
        return Gathering(block * self._present.size + rank, self.count * self._present.size)

    def _pattern_keys(self, A: Pattern, P: Pattern) -> list[np.ndarray]:
        n = self._n
        keys = [self._keys(r.numbers[:, :, None], c.numbers[:, None, :]) for r, c in A]
        keys += [self._keys(c.numbers[:, None, :], n + r.numbers[:, :, None]) for r, c in P]
        return keys + [self._keys(n + r.numbers[:, :, None], c.numbers[:, None, :]) for r, c in P]

    def _keys(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Block of row i, then which of D, L, U, then row and column in the block, in one number."""
        s = self.size
        which = np.choose(self._block[j] - self._block[i] + 1, [1, 0, 2])
        return ((self._block[i] * 3 + which) * s + self._local[i]) * s + self._local[j]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


class ChainFactors(NamedTuple):
    """Of every block: its triangular factors, what is left of it, and the solutions for what is right of it.

    Of L only the rows that are not zero everywhere, of D'⁻¹U only the columns.
    """

    lu: Float[Array, "count s s"]
    left: Float[Array, "count a s"]
    right: Float[Array, "count s b"]


class ChainKKT(AbstractKKT):
    r"""Eliminates along chains, block by block: a body together with the constraints that lead to it.

    $D_i' = D_i - L_iD_{i-1}'^{-1}U_{i-1}$, the block form of the tridiagonal algorithm. It needs no pivoting while A is
    positive definite up to perturbations and constraints are independent: in each block velocities go first, then
    the pivots of its constraints are negative definite. On the CPU a loop runs over the blocks with everything else
    on scalars, without the entries that are zero everywhere; its cost is linear in the blocks, its compile time
    that of one block.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> ChainFactors:
        layout = self.layout
        d, left, right = layout.masks
        values = [g.values for g in (*A, *P, *Q)] + ([] if E is None else [-E])
        filled = layout.reading(A, P, Q, E is not None)(values) + layout.filling.reshape(-1)
        entries = filled.reshape(layout.count, -1)
        s, (a, b) = layout.size, layout.coupled

        def eliminate(_: None, before: Array, row: Array) -> tuple[Array, ChainFactors]:
            table = jnp.append(row, 0.0)
            D, L, U = table[d], table[left[a]], table[right[:, b]]
            lu = small.factor(D.at[np.ix_(a, b)].add(-L @ before)[..., None])
            X = small.solve(lu, U[..., None])[..., 0]
            return X, ChainFactors(lu[..., 0], L, X)

        return sweep(eliminate, None, jnp.zeros((s, b.size)), entries)[1]

    def solve(
        self, factors: ChainFactors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        layout = self.layout
        a, b = layout.coupled
        given = take(jnp.concatenate((r, s, jnp.zeros(1))), layout.unknowns)

        def onward(_: None, before: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            lu, L, right = row
            y = small.solve(lu[..., None], right.at[a].add(-L @ before)[:, None, None])[:, 0, 0]
            return y, y

        def back(_: None, after: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
            X, y = row
            x = y - X @ after[b]
            return x, x

        zero = jnp.zeros(layout.size)
        y = sweep(onward, None, zero, (factors.lu, factors.left, given))[1]
        x = sweep(back, None, zero, (factors.right, y), reverse=True)[1]
        solution = take(x.reshape(-1), layout.where)
        return solution[: self.n], solution[self.n :]
