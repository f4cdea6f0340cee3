"""Block elimination along chains and trees of bodies: rods, cables, robots. O(n), one body after the other."""

from __future__ import annotations

import functools
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.linalg import small
from polhode.linalg.blocks import Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.known_places import take
from polhode.linalg.ordering import Pattern
from polhode.linalg.registers import Registers, add, put, read
from polhode.linalg.segment_sum import GatherSum
from polhode.linalg.tree_structure import elimination_tree


class Layout:
    """Sources of the entries of blocks, for matrices of one pattern. Layouts of equal patterns are equal.

    Blocks are D on the diagonal, U right of it in the columns of the parent, L below it in the parent's rows, all of
    the size of the largest one; smaller ones are padded with the identity. Entries that vanish in all blocks are
    never stored or multiplied.
    """

    def __init__(self, A: Pattern, P: Pattern, n: int, m: int) -> None:
        self._identity = (A, P, n, m)
        self._n, self._unknowns = n, n + m
        structure = elimination_tree(A, P, n, m)
        assert structure is not None
        self.count, self.registers = len(structure.blocks), Registers.of(structure.parents, roots_add_zero=True)
        self.size = s = max(block.size for block in structure.blocks)
        self.unknowns = np.full((self.count, s), n + m, np.int64)
        self._block, self._local = np.empty(n + m, np.int64), np.empty(n + m, np.int64)
        for b, block in enumerate(structure.blocks):
            self.unknowns[b, : block.size] = block
            self._block[block], self._local[block] = b, np.arange(block.size)
        self.where = (self._block * s + self._local).astype(np.int32)
        keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(k.reshape(-1) for k in self._pattern_keys(A, P))]))
        padding = np.argwhere(self.unknowns == n + m)
        self._present = np.unique(np.concatenate((keys % (3 * s * s), np.arange(s) * (s + 1))))
        self._rank = np.full(3 * s * s, -1)
        self._rank[self._present] = np.arange(self._present.size)
        self.padding = np.zeros((self.count, self._present.size))
        self.padding[padding[:, 0], self._rank[padding[:, 1] * (s + 1)]] = 1.0

    @functools.cached_property
    def masks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions of the entries of D, L and U in a row of the table, -1 for structural zeros; shapes (s, s)."""
        d, below, right = self._rank.reshape(3, self.size, self.size)
        return d, below, right

    @property
    def nonzero_lines(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of L and columns of U that are not zero everywhere."""
        _, below, right = self.masks
        return np.flatnonzero((below >= 0).any(axis=1)), np.flatnonzero((right >= 0).any(axis=0))

    def gather_sum(self, A: Matrix, P: Matrix, Q: Matrix, compliant: bool) -> GatherSum:
        """The sum of A, P and Q, and -E if `compliant`, into the table of entries, a row a block."""
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
        return GatherSum(block * self._present.size + rank, self.count * self._present.size)

    def _pattern_keys(self, A: Pattern, P: Pattern) -> list[np.ndarray]:
        n = self._n
        keys = [self._keys(r.numbers[:, :, None], c.numbers[:, None, :]) for r, c in A]
        keys += [self._keys(c.numbers[:, None, :], n + r.numbers[:, :, None]) for r, c in P]
        return keys + [self._keys(n + r.numbers[:, :, None], c.numbers[:, None, :]) for r, c in P]

    def _keys(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """The earlier block of row i and column j, then which of D, L, U, then row and column, in one number."""
        s, (row, col) = self.size, (self._block[i], self._block[j])
        which = np.where(row == col, 0, np.where(row > col, 1, 2))
        return ((np.minimum(row, col) * 3 + which) * s + self._local[i]) * s + self._local[j]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


class TreeFactors(NamedTuple):
    """Factors of every block: triangular ones, the part below, and the solutions for the part right of it.

    Of L only the rows that are not zero everywhere, of D'⁻¹U only the columns.
    """

    lu: Float[Array, "count s s"]
    below: Float[Array, "count a s"]
    right: Float[Array, "count s b"]


class TreeKKT(AbstractKKT):
    r"""Eliminates along chains and from the leaves of trees, block by block: bodies together with their constraints.

    $D_p' = D_p - \sum_c L_cD_c'^{-1}U_c$ over the children c of p, for chains the block form of the tridiagonal
    algorithm. It needs no pivoting while A is positive definite up to perturbations and constraints are independent: in
    each block velocities go first, then the pivots of its constraints are negative definite. A loop runs over the
    blocks with everything else on scalars, without the entries that are zero everywhere; its cost is linear in the
    blocks, its compile time that of one block.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> TreeFactors:
        layout = self.layout
        d, below, right = layout.masks
        values = [g.values for g in (*A, *P, *Q)] + ([] if E is None else [-E])
        flat = layout.gather_sum(A, P, Q, E is not None)(values) + layout.padding.reshape(-1)
        entries = flat.reshape(layout.count, -1)
        a, b = layout.nonzero_lines

        def eliminate(_: None, registers: Array, block: tuple[Array, Registers]) -> tuple[Array, TreeFactors]:
            row, places = block
            table = jnp.append(row, 0.0)
            D, L, U = table[d], table[below[a]], table[right[:, b]]
            lu = small.factor(D.at[np.ix_(a, b)].add(-read(registers, places.source))[..., None])
            X = small.solve(lu, U[..., None])[..., 0]
            return add(registers, L @ X, places), TreeFactors(lu[..., 0], L, X)

        empty = jnp.zeros((layout.registers.count, a.size, b.size))
        return scan_rows(eliminate, None, empty, (entries, layout.registers))[1]

    def solve(
        self, factors: TreeFactors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        layout, places = self.layout, self.layout.registers
        a, b = layout.nonzero_lines
        rhs = take(jnp.concatenate((r, s, jnp.zeros(1))), layout.unknowns)

        def inwards(_: None, registers: Array, row: tuple[Array, Array, Array, Registers]) -> tuple[Array, Array]:
            lu, L, right, places = row
            y = small.solve(lu[..., None], right.at[a].add(-read(registers, places.source))[:, None, None])[:, 0, 0]
            return add(registers, L @ y, places), y

        def outwards(_: None, registers: Array, row: tuple[Array, Array, Registers]) -> tuple[Array, Array]:
            X, y, places = row
            x = y - X @ read(registers, places.target)
            return put(registers, x[b], places.source), x

        empty = (places.count, a.size), (places.count, b.size)
        y = scan_rows(inwards, None, jnp.zeros(empty[0]), (factors.lu, factors.below, rhs, places))[1]
        x = scan_rows(outwards, None, jnp.zeros(empty[1]), (factors.right, y, places), reverse=True)[1]
        solution = take(x.reshape(-1), layout.where)
        return solution[: self.n], solution[self.n :]
