"""Choice of solvers for saddle-point systems."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from polhode.compiler.placement import on_processor
from polhode.linalg.blocks import Matrix, pattern
from polhode.linalg.bordered_tree import BorderedKKT, border
from polhode.linalg.branches import BranchKKT, least_operations
from polhode.linalg.branches import operations as branch_operations
from polhode.linalg.compliant import CompliantKKT
from polhode.linalg.condensation import CondensedKKT, Partition
from polhode.linalg.dense import DefiniteKKT, DenseKKT, LapackKKT, PivotingKKT
from polhode.linalg.elimination import EliminationKKT
from polhode.linalg.host import HostKKT
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.ordering import Pattern
from polhode.linalg.sparse import Analysis, SparseKKT
from polhode.linalg.symbolic import Plan, operations
from polhode.linalg.tree import Layout, TreeKKT
from polhode.linalg.tree_structure import elimination_tree

FUSED_UNKNOWNS = 30
"""Up to this size a dense matrix is solved in the compiled step, above it by LAPACK. 9 unknowns take 0.6 µs fused and
1.7 µs with LAPACK in a compiled loop; from about 30 on LAPACK is faster."""

UNPIVOTED_UNKNOWNS = 60
"""Up to this size machine code, which can't call LAPACK, solves definite systems by itself: a step of a robot with 33
unknowns is left to XLA otherwise, 97 s of processor time to the first result instead of 7.5."""

PIVOTING_UNKNOWNS = 30
"""Up to this size machine code pivots by itself, with about n³ operations; it can't call LAPACK. The implicit midpoint
rule on two bodies in SE(3), 24 unknowns: 68,000 operations, 8 s of compiling and 60 µs a step, by XLA with LAPACK 44 s
and 11 ms."""

LARGEST_PART = 12
"""Parts of more unknowns than this are not worth unrolling: compile time grows with the cube."""

SCALAR_OPERATIONS = 8_000
"""Eliminations with up to this many operations are made for steps that run on scalars, which the driver does for up to
20,000 operations a step, and on 10,000 inside transformations. A slider-crank with 35 unknowns has 5,726, of which
3,356 are left when structural zeros are gone; dense elimination has 31,493."""

BATCHES = 20
"""More batches than this take too long to compile, about 0.6 s each.

A chain of 1,000 bodies has 11, one of 100 with bushings 23."""

OPERATIONS_PER_UNKNOWN = 1_000
"""Beyond this, without padding, elimination by parts takes too much. Chains and loops with revolute
joints take 340 at any length, a binary tree of 127 bodies 380, six bodies in Euler parameters 730, a chain with
bushings 1,600, a net of 10×10 bodies 3,600. A chain of 20 bodies with bushings takes 264 µs by parts, 18 s to compile;
with KLU 145 µs and 1.1 s."""

TREE_BODIES = 8
"""From this many bodies on chains and trees are eliminated one body after the other on the CPU. A rod of 16 edges
without shear takes 8 µs and 1.3 s to compile, in rounds, as for other structures, 53 µs and 4.6 s; with couplings by
stiffness 30 µs. Binary trees with revolute joints of 8 to 16 bodies begin in three quarters of the time that rounds
take, with steps as long; of 26 bodies in 2.6 s instead of 22."""

BORDERED_BODIES = 24
"""The same for trees with a border, of which smaller ones are eliminated by parts, if they can be: Andrews' mechanism
of 7 bodies takes 154,000 operations a step in `herk54`, with a border 240,000.
Rings of 24 bodies take as long either way; of 48, 2.6 s to the first result with a border and 15 s by parts."""

BORDER = 24
"""Constraints beside a tree, for each of which a factorisation takes one solution more."""

BLOCK = 18
"""Bodies with more unknowns than this, constraints included, compile too long."""

BRANCH_OPERATIONS = 60_000
"""Trees in joint coordinates whose elimination from the leaves takes more are dense for LAPACK: a chain of 45 links. A
tower of three Stewart platforms, 63 velocities in 15 loops, takes 67,000."""

SPARSE_UNKNOWNS = 60
"""From this size on KLU is faster than LAPACK on sparse matrices: 110 unknowns take 28 µs, and 65 µs dense."""

SPARSE_DENSITY = 0.2
"""Matrices with more than this fraction of entries are taken to be dense."""


def kkt_solver(A: Matrix, P: Matrix, n: int, m: int, *, compliant: bool = False) -> AbstractKKT:
    """A solver for matrices with the sparsity of `A` (n×n) and `P` (m×n); only the places of their blocks are read.

    `A` must hold all groups of blocks that will ever be passed to `factor`, in any order; without any, its sparsity is
    taken to be unknown. `compliant`: whether constraints may lose rank in some positions (`CompliantKKT`).
    """
    solver = _select_solver(pattern(A), pattern(P), n, m, on_processor())
    return CompliantKKT(solver) if compliant and m else solver


def condensed_solver(A: Matrix, P: Matrix, first: int, n: int, m: int, *, compliant: bool = False) -> AbstractKKT:
    """The same where velocities from `first` on belong to a small dense part, in blocks that mix it with no other."""
    places = pattern(A), pattern(P), n, m, on_processor()
    solver = _condensation(*places, first) or _select_solver(*places)
    return CompliantKKT(solver) if compliant and m else solver


def tree_solver(
    n: int, sets: Sequence[np.ndarray], loops: Sequence[np.ndarray], *, compliant: bool = False
) -> AbstractKKT:
    """A solver for matrices of a tree in joint coordinates.

    `sets`: velocities that A couples. `loops`: those of each constraint.
    """
    m = len(loops)
    solver = (_branch_solver(n, sets, loops) if on_processor() else None) or _dense(n, m)
    return CompliantKKT(solver) if compliant and m else solver


def _branch_solver(n: int, sets: Sequence[np.ndarray], loops: Sequence[np.ndarray]) -> BranchKKT | None:
    """Elimination from the leaves, where it takes few operations."""
    if least_operations([*sets, *loops]) > BRANCH_OPERATIONS:
        return None
    solver = BranchKKT.of(n, sets, loops, FUSED_UNKNOWNS)
    return solver if branch_operations(solver.earlier) <= BRANCH_OPERATIONS else None


def has_few_operations(solver: AbstractKKT) -> bool:
    """Whether a solver of `tree_solver` eliminates along branches; dense ones are all that there is elsewhere."""
    inner = solver.inner if isinstance(solver, CompliantKKT) else solver
    return isinstance(inner, BranchKKT) or not on_processor()


def pivoting_solver(n: int, m: int) -> AbstractKKT:
    """A solver for matrices without structure of which leading minors may vanish."""
    return PivotingKKT(n, m) if n + m <= PIVOTING_UNKNOWNS else LapackKKT(n, m)


def fused_solver(n: int, m: int) -> AbstractKKT:
    """A solver for matrices without structure whose leading minors don't vanish, without libraries at any size.

    For steps that run as machine code, which can't call any.
    """
    return DenseKKT(n, m)


def library_solver(n: int, m: int) -> AbstractKKT:
    """A solver for matrices without structure that are solved once: it pivots, and compiles at once."""
    return LapackKKT(n, m)


def indefinite_solver(A: Matrix, P: Matrix, n: int, m: int) -> AbstractKKT:
    """A solver for matrices like those of `kkt_solver` of which `A` may be indefinite; it always pivots."""
    return _indefinite(pattern(A), pattern(P), n, m)


def host_solver(n: int, m: int) -> AbstractKKT:
    """A solver for matrices of numbers, of any structure, outside JAX's transformations."""
    return HostKKT(n, m)


@functools.lru_cache(maxsize=16)
def _indefinite(A: Pattern, P: Pattern, n: int, m: int) -> AbstractKKT:
    return SparseKKT(n, m, Analysis(A, P, n, m)) if A and _is_sparse(A, P, n, m) else LapackKKT(n, m)


def _is_sparse(A: Pattern, P: Pattern, n: int, m: int) -> bool:
    """Whether few entries of the whole matrix are in blocks, of which several may be at the same place."""
    return _entries(A, n) + 2 * _entries(P, n) < SPARSE_DENSITY * (n + m) ** 2


def _entries(groups: Pattern, n: int) -> int:
    places = [(r.numbers[:, :, None] * n + c.numbers[:, None, :]).reshape(-1) for r, c in groups]
    return np.unique(np.concatenate([np.zeros(0, int), *places])).size


@functools.lru_cache(maxsize=64)
def _select_solver(A: Pattern, P: Pattern, n: int, m: int, cpu: bool) -> AbstractKKT:
    dense = _dense(n, m)
    if not A:
        return dense
    large = cpu and n + m >= SPARSE_UNKNOWNS
    tree = _tree_solver(A, P, n, m) if large else None
    if tree is not None:
        return tree
    border_solver = _bordered_solver(A, P, n, m) if large else None
    if border_solver is not None and border_solver.tree.layout.count >= BORDERED_BODIES:
        return border_solver
    plan = Plan(A, P, n, m, padded=False)
    operation_count, all_at_once = plan.operations, operations(n, m) + operations(m, 0)
    if operation_count > SCALAR_OPERATIONS:
        plan = Plan(A, P, n, m, padded=True)
    if _by_parts(plan, operation_count, n + m) and plan.operations < all_at_once:
        return EliminationKKT(n, m, plan)
    if border_solver is not None:
        return border_solver
    if n + m >= SPARSE_UNKNOWNS and _is_sparse(A, P, n, m):
        return SparseKKT(n, m, Analysis(A, P, n, m))
    return dense


@functools.lru_cache(maxsize=16)
def _condensation(A: Pattern, P: Pattern, n: int, m: int, cpu: bool, first: int) -> CondensedKKT | None:
    """Static condensation of the rest, where that is sparse."""
    partition = Partition.of(A, P, first, m)
    inner = _select_solver(*partition.inner_pattern(A, P), first, partition.inner.numbers.size, cpu)
    if not isinstance(inner, EliminationKKT | TreeKKT | BorderedKKT):
        return None
    return CondensedKKT(n, m, inner, _dense(n - first + partition.outer.numbers.size, 0), partition)


def _dense(n: int, m: int) -> AbstractKKT:
    if n + m <= FUSED_UNKNOWNS:
        return DenseKKT(n, m)
    return DefiniteKKT(n, m) if n + m <= UNPIVOTED_UNKNOWNS else LapackKKT(n, m)


def _tree_solver(A: Pattern, P: Pattern, n: int, m: int) -> TreeKKT | None:
    """A solver that eliminates body by body, if it suits."""
    structure = elimination_tree(A, P, n, m)
    if structure is None or len(structure.blocks) < TREE_BODIES or max(map(len, structure.blocks)) > BLOCK:
        return None
    return TreeKKT(n, m, Layout(A, P, n, m))


def _bordered_solver(A: Pattern, P: Pattern, n: int, m: int) -> BorderedKKT | None:
    """The same for trees with a few additional constraints."""
    beside = border(A, P, n, m)
    if beside is None or not 0 < beside.count <= BORDER:
        return None
    tree = _tree_solver(A, beside.within(P), n, m - beside.count)
    return None if tree is None else BorderedKKT(n, m, tree, beside)


def _by_parts(plan: Plan, operation_count: int, unknowns: int) -> bool:
    within = plan.largest <= LARGEST_PART and plan.batches <= BATCHES
    return within and operation_count <= OPERATIONS_PER_UNKNOWN * unknowns
