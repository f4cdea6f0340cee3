"""Matrices of trees in joint coordinates: eliminated from the leaves, they agree with NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

from polhode.compiler.loops.row_map import RowMap
from polhode.linalg.blocks import dense_block
from polhode.linalg.branches import BranchKKT, couplings, least_operations, operations
from polhode.linalg.solver_choice import tree_solver

PARENTS = {
    "chain": [-1, 0, 1, 2, 3, 4],
    "star": [-1, 0, 0, 0, 0, 0],
    "hand": [-1, 0, 1, 2, 0, 4, 5, 0, 7, 8],
    "forest": [-1, 0, 1, -1, 3, 3],
    "large": [-1, *(0 if k % 8 == 0 else k for k in range(32))],
}


def carrying(parents):
    sets = []
    for k, parent in enumerate(parents):
        sets.append(np.append(sets[parent] if parent >= 0 else np.zeros(0, int), k))
    return sets


def matrix(parents, seed, symmetric, more=()):
    """Random, definite, with the couplings of a tree and full blocks on `more`."""
    random, n = np.random.default_rng(seed), len(parents)
    A = np.zeros((n, n))
    for numbers in (*carrying(parents), *more):
        B = random.standard_normal((len(numbers), len(numbers)))
        A[np.ix_(numbers, numbers)] += B @ B.T + 0.3 * np.eye(len(numbers))
        if not symmetric:
            A[np.ix_(numbers, numbers)] += 0.1 * random.standard_normal(B.shape)
    return A


def unknowns(solver, symmetric, A, P, Q, r, s):
    blocks = [dense_block(x) for x in (A, P, Q)]
    if P is Q:
        blocks[2] = blocks[1]
    return jnp.concatenate(solver.solve((solver.factor_symmetric if symmetric else solver.factor)(*blocks), r, s))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("m", [0, 2])
@pytest.mark.parametrize("symmetric", [True, False], ids=["mass", "tangent"])
@pytest.mark.parametrize("name", PARENTS)
def test_elimination_from_the_leaves_agrees_with_numpy(name, symmetric, m):
    parents, random = PARENTS[name], np.random.default_rng(5)
    n = len(parents)
    A = matrix(parents, 3, symmetric)
    P, Q = random.standard_normal((2, m, n))
    r, s = random.standard_normal(n), random.standard_normal(m)
    solver = tree_solver(n, carrying(parents), [np.arange(n)] * m)
    assert isinstance(solver, BranchKKT)
    K = np.block([[A, P.T], [Q, np.zeros((m, m))]])
    expected = np.linalg.solve(K, np.concatenate((r, s)))
    bound = 50 * np.finfo(float).eps * np.linalg.cond(K) * np.abs(expected).max()
    # By NumPy with LAPACK, and as machine code, which can't call it.
    found = evaluated(lambda *x: unknowns(solver, symmetric, *x), A, P, Q, r, s)
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)
    program = RowMap.of(lambda _, x: unknowns(solver, symmetric, *x), (), (A, P, Q, r, s))
    rows = program.rows(program.arguments(()), jax.tree.map(lambda x: np.asarray(x)[None], (A, P, Q, r, s)))
    np.testing.assert_allclose(rows[0], expected, rtol=0, atol=bound)


def test_nothing_is_filled_in_between_branches():
    hand = PARENTS["hand"]
    earlier = couplings(len(hand), carrying(hand))
    assert [len(near.numbers) for near in earlier] == [len(numbers) - 1 for numbers in carrying(hand)]
    chain = couplings(40, carrying([-1, *range(39)]))
    tree = couplings(40, carrying([-1, *((k - 1) // 2 for k in range(1, 40))]))
    assert operations(tree) < 0.04 * operations(chain)
    assert 0.9 * operations(chain) < least_operations(carrying([-1, *range(39)])) <= operations(chain)


def test_forces_between_branches_fill_in_where_they_must():
    hand, across = PARENTS["hand"], np.array([3, 6])
    A = matrix(hand, 8, False, [across])
    b = np.random.default_rng(1).standard_normal(len(hand))
    solver = BranchKKT.of(len(hand), [*carrying(hand), across], (), 30)
    found = evaluated(lambda A, b: unknowns(solver, False, A, b[:0, None], b[:0, None], b, b[:0]), A, b)
    np.testing.assert_allclose(found, np.linalg.solve(A, b), rtol=1e-11)
    # Without the coupling announced, the result is wrong: the entries do matter.
    blind = BranchKKT.of(len(hand), carrying(hand), (), 30)
    wrong = evaluated(lambda A, b: unknowns(blind, False, A, b[:0, None], b[:0, None], b, b[:0]), A, b)
    assert np.abs(wrong - np.linalg.solve(A, b)).max() > 1e-3


@pytest.mark.parametrize("symmetric", [True, False], ids=["mass", "tangent"])
def test_loops_are_closed_one_by_one(symmetric):
    """Two fingers with a loop each, whose constraints come before the palm, and one between both, which comes last."""
    hand, random = PARENTS["hand"], np.random.default_rng(7)
    loops = [np.array([1, 2, 3]), np.array([1, 3]), np.array([4, 5, 6]), np.array([2, 6])]
    n, m = len(hand), len(loops)
    A, P = matrix(hand, 3, symmetric), np.zeros((m, n))
    for row, velocities in zip(P, loops, strict=True):
        row[velocities] = random.standard_normal(velocities.size)
    r, s = random.standard_normal(n), random.standard_normal(m)
    solver = tree_solver(n, carrying(hand), loops)
    assert isinstance(solver, BranchKKT)
    order = solver.order.numbers.tolist()
    assert all(order.index(n + k) < order.index(v) for k, loop in enumerate(loops) for v in loop)
    assert order.index(0) < min(order.index(n + k) for k in range(m))
    together = BranchKKT.of(n, carrying(hand), [np.arange(n)] * m, 30)
    assert operations(solver.earlier) < 0.7 * operations(together.earlier)
    K = np.block([[A, P.T], [P, np.zeros((m, m))]])
    found = evaluated(lambda A, P, r, s: unknowns(solver, symmetric, A, P, P, r, s), A, P, r, s)
    np.testing.assert_allclose(found, np.linalg.solve(K, np.concatenate((r, s))), rtol=0, atol=1e-10)
