"""Static condensation of matrices with a small dense part, against the whole matrix."""

import jax.numpy as jnp
import numpy as np
import pytest

from polhode.linalg import solver_choice
from polhode.linalg.blocks import Blocks, Indices, to_dense
from polhode.linalg.condensation import CondensedKKT

COUNT, WIDTH, REST = 12, 6, 5
FIRST = COUNT * WIDTH
N = FIRST + REST


def chain_beside_a_dense_part(rng, force: bool):
    """A chain of bodies coupled by stiffness, and a dense part that shares a constraint, and a force, with its ends."""
    columns = np.arange(FIRST).reshape(COUNT, WIDTH)
    rest = np.arange(FIRST, N)[None]

    def blocks(rows, columns):
        values = rng.normal(size=(len(rows), rows.shape[1], columns.shape[1]))
        return Blocks(jnp.asarray(values), Indices(rows), Indices(columns))

    def regular(numbers):
        k, n = numbers.shape
        values = rng.normal(size=(k, n, n)) + 3 * n * np.eye(n)
        return Blocks(jnp.asarray(values), Indices(numbers), Indices(numbers))

    A = [regular(columns), regular(rest)]
    A += [blocks(columns[:-1], columns[1:]), blocks(columns[1:], columns[:-1])]
    if force:
        A += [blocks(columns[:1], rest[:, 1:3]), blocks(rest[:, 1:3], columns[:1])]
    shared, own, alone = np.array([[1, 2, 4]]), np.array([[0, 3]]), np.array([[5]])

    def constraints():
        on_chain = blocks(shared, columns[-1:]), blocks(own, columns[2:3])
        return *on_chain, blocks(shared, rest), blocks(alone, rest)

    return tuple(A), constraints(), constraints()


@pytest.mark.exhaustive
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("compliant", [False, True])
def test_a_dense_part_beside_a_chain_is_condensed(force, compliant):
    rng = np.random.default_rng(3)
    A, P, Q = chain_beside_a_dense_part(rng, force)
    m = 6
    solver = solver_choice.condensed_solver(A, P, FIRST, N, m)
    assert isinstance(solver, CondensedKKT)
    assert len(solver.partition.coupled.numbers[0]) == 2 * force
    E = jnp.asarray(rng.uniform(0.1, 1.0, m)) if compliant else None
    r, s = rng.normal(size=N), rng.normal(size=m)
    x, multipliers = solver.solve(solver.factor(A, P, Q, E), jnp.asarray(r), jnp.asarray(s))
    whole = np.block(
        [
            [np.asarray(to_dense(A, (N, N))), np.asarray(to_dense(P, (m, N))).T],
            [np.asarray(to_dense(Q, (m, N))), -np.diag(np.zeros(m) if E is None else np.asarray(E))],
        ]
    )
    expected = np.linalg.solve(whole, np.concatenate((r, s)))
    np.testing.assert_allclose(
        np.concatenate((x, multipliers)), expected, atol=1e-12 * np.max(np.abs(expected)) + 1e-13
    )
