"""Trees with few constraints more agree with NumPy, and so do their derivatives, batches and machine code."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from structures import connected_system

from polhode.compiler.loops.row_map import RowMap
from polhode.linalg import kkt_solver
from polhode.linalg.blocks import pattern
from polhode.linalg.bordered_tree import BorderedKKT, border
from polhode.linalg.dense import LapackKKT
from polhode.linalg.tree import Layout, TreeKKT


def loop_system(seed, bodies=9, size=3):
    """A tree with numbers that say nothing of places, a loop, a second joint with the ground, one of four bodies."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(bodies).tolist()
    tree = [((name[k], name[rng.integers(0, k)]), 2) for k in range(1, bodies)]
    others = [((name[-1], name[-2]), 1), ((name[-3],), 1), (tuple(name[i] for i in (0, 2, 4, 6)), 1)]
    joints = [((name[0],), 2), *tree, *others]
    return connected_system(bodies, [joints[i] for i in rng.permutation(len(joints))], size=size)


def find_border(system):
    return border(pattern(system.A), pattern(system.P), system.n, system.m)


def bordered_solver(system):
    beside = find_border(system)
    m = system.m - beside.count
    layout = Layout(pattern(system.A), beside.within(pattern(system.P)), system.n, m)
    return BorderedKKT(system.n, system.m, TreeKKT(system.n, m, layout), beside)


def solution(solver, A, P, Q, b, E=None):
    return jnp.concatenate(solver.solve(solver.factor(A, P, Q, E), b[: solver.n], b[solver.n :]))


def check(x, K, b):
    expected = np.linalg.solve(K, b)
    bound = 20 * np.finfo(float).eps * np.linalg.cond(K)
    np.testing.assert_allclose(x, expected, rtol=0, atol=bound * np.abs(expected).max())


RING = connected_system(9, [((k, (k + 1) % 9), 2) for k in range(9)])
SYSTEMS = {"ring": RING, **{f"looped {seed}": loop_system(seed) for seed in range(4)}}


def test_the_border_has_what_closes_loops():
    assert [find_border(system).count for system in SYSTEMS.values()] == [2, 3, 3, 3, 3]
    # Of a loop the joint with the fewest constraints, wherever it is.
    assert find_border(connected_system(3, [((0, 1), 1), ((1, 2), 2), ((2, 0), 2)])).outer.numbers.tolist() == [[0]]
    # A second joint between the same two bodies, or of one body with the ground, closes none.
    assert find_border(connected_system(2, [((0,), 1), ((0,), 1), ((0, 1), 1), ((1, 0), 1)])).count == 0
    assert find_border(connected_system(2, [((0,), 2), ((0, 1), 2), ((1,), 1)])).outer.numbers.tolist() == [[4]]
    # Springs are no constraints, so they can't be taken out.
    assert find_border(connected_system(3, [], springs=[(0, 1), (1, 2), (2, 0)])) is None


@pytest.mark.sampled(10)
@pytest.mark.parametrize("compliant", [False, True])
@pytest.mark.parametrize("name", SYSTEMS)
def test_trees_with_a_border_agree_with_numpy(name, compliant):
    system = SYSTEMS[name]
    b = np.concatenate(system.right_sides())
    K, E = system.dense(), np.linspace(0.1, 0.3, system.m) if compliant else None
    if compliant:
        K[system.n :, system.n :] -= np.diag(E)
    solver = bordered_solver(system)
    check(evaluated(lambda *args: solution(solver, *args), system.A, system.P, system.Q, b, E), K, b)


def test_machine_code_has_the_same_solution():
    system = SYSTEMS["looped 0"]
    solver, b = bordered_solver(system), np.concatenate(system.right_sides())
    shared = system.A, system.P, system.Q
    x = RowMap.of(lambda shared, b: solution(solver, *shared, b), shared, b)(shared, b[None])[0]
    check(x, system.dense(), b)


@pytest.mark.exhaustive
def test_trees_with_a_border_have_derivatives_and_batches():
    system = SYSTEMS["looped 1"]
    solver, b = bordered_solver(system), np.concatenate(system.right_sides())

    def gradient(way):
        objective = lambda values, b: jnp.sum(solution(way, *system.with_values(values)[:3], b) ** 2)  # noqa: E731
        return evaluated(jax.grad(objective, (0, 1)), system.values(), b)

    gradients = [gradient(way) for way in (solver, LapackKKT(system.n, system.m))]
    largest = max(np.abs(y).max() for y in jax.tree.leaves(gradients[1]))
    for x, y in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.linalg.cond(system.dense()) * largest)
    several = evaluated(jax.vmap(lambda b: solution(solver, system.A, system.P, system.Q, b)), np.stack([b, -b]))
    check(several[1], system.dense(), -b)


def test_dependent_constraints_of_the_border_give_no_finite_numbers():
    solver = bordered_solver(RING)
    b, outside = np.ones(RING.n + RING.m), solver.border.outer.numbers
    P = tuple(g.times(0.0 if np.isin(g.rows.numbers, outside).any() else 1.0) for g in RING.P)
    x = evaluated(lambda P: solution(solver, RING.A, P, P, b), P)
    assert not np.isfinite(x).all()


def test_large_trees_with_a_border_of_few_constraints_are_solved_so():
    joints = [((0,), 5), *(((k, 2 * k + c), 5) for k in range(31) for c in (1, 2))]

    def kind(more):
        system = connected_system(63, [*joints, *more], size=6)
        return kkt_solver(system.A, system.P, system.n, system.m)

    assert isinstance(kind([]), TreeKKT)
    assert isinstance(kind([((61, 62), 5)]), BorderedKKT)
    assert isinstance(kind([((31 + k, 62 - k), 2) for k in range(12)]), BorderedKKT)
    assert not isinstance(kind([((31 + k, 62 - k), 2) for k in range(13)]), BorderedKKT)
