"""All ways to solve a saddle-point system agree with NumPy, and so do their derivatives and batches."""

import importlib
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from structures import STRUCTURES, chain, connected_system

import polhode as ph
from polhode import linalg
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.scalars.cost import cost
from polhode.compiler.xla.entry_points import scalarise
from polhode.linalg import AbstractKKT, Blocks, Indices, kkt_solver
from polhode.linalg.blocks import dense_block, pattern
from polhode.linalg.bordered_tree import Border, BorderedKKT
from polhode.linalg.compliant import CompliantKKT
from polhode.linalg.dense import DefiniteKKT, DenseKKT, LapackKKT, PivotingKKT
from polhode.linalg.elimination import EliminationKKT
from polhode.linalg.host import HostKKT
from polhode.linalg.sparse import Analysis, SparseKKT
from polhode.linalg.symbolic import Plan
from polhode.linalg.tree import Layout, TreeKKT
from polhode.linalg.tree_structure import elimination_tree
from polhode.spaces import Rn
from polhode.systems.mechanical import Mechanical


def elimination(system, padded):
    return EliminationKKT(system.n, system.m, Plan(pattern(system.A), pattern(system.P), system.n, system.m, padded))


def solution(solver, system, values, r, s):
    at = system.with_values(values)
    return jnp.concatenate(solver.solve(solver.factor(at.A, at.P, at.Q), r, s))


def check(found, system, r, s):
    K = system.dense()
    expected = np.linalg.solve(K, np.concatenate((r, s)))
    bound = 20 * np.finfo(float).eps * np.linalg.cond(K)
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound * np.abs(expected).max())


@pytest.mark.sampled(24)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", STRUCTURES)
def test_elimination_agrees_with_numpy(name, padded):
    system = STRUCTURES[name]
    solver = elimination(system, padded)
    r, s = system.right_sides()
    check(evaluated(solution, solver, system, system.values(), r, s), system, r, s)


def along(system):
    return TreeKKT(system.n, system.m, Layout(pattern(system.A), pattern(system.P), system.n, system.m))


def bordered_solver(system):
    """The last constraint is beside the tree."""
    places = Border(Indices(np.arange(system.m - 1)[None]), Indices([[system.m - 1]]))
    layout = Layout(pattern(system.A), places.within(pattern(system.P)), system.n, system.m - 1)
    return BorderedKKT(system.n, system.m, TreeKKT(system.n, system.m - 1, layout), places)


def sparse(system):
    return SparseKKT(system.n, system.m, Analysis(pattern(system.A), pattern(system.P), system.n, system.m))


SOLVERS = {
    "DenseKKT": lambda system: DenseKKT(system.n, system.m),
    "LapackKKT": lambda system: LapackKKT(system.n, system.m),
    "PivotingKKT": lambda system: PivotingKKT(system.n, system.m),
    "EliminationKKT": lambda system: elimination(system, False),
    "TreeKKT": along,
    "DefiniteKKT": lambda system: DefiniteKKT(system.n, system.m),
    "BorderedKKT": bordered_solver,
    "SparseKKT": sparse,
    "CompliantKKT": lambda system: CompliantKKT(DenseKKT(system.n, system.m)),
}


def test_every_solver_has_a_row():
    for module in pkgutil.iter_modules(linalg.__path__, "polhode.linalg."):
        importlib.import_module(module.name)
    kinds = [kind for kind in AbstractKKT.__subclasses__() if kind.__module__.startswith("polhode.linalg.")]
    # The last two are tested with the structures that they are made for.
    assert {kind.__name__ for kind in kinds} == {*SOLVERS, "HostKKT", "BranchKKT", "CondensedKKT"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", STRUCTURES)
def test_the_solver_of_numbers_agrees_with_numpy(name):
    system = STRUCTURES[name]
    r, s = system.right_sides()
    check(solution(HostKKT(system.n, system.m), system, system.values(), r, s), system, r, s)


def test_the_solver_of_numbers_knows_singular_matrices():
    system = STRUCTURES[next(iter(STRUCTURES))]
    r, s = system.right_sides()
    values = jax.tree.map(jnp.zeros_like, system.values())
    assert np.isnan(solution(HostKKT(system.n, system.m), system, values, r, s)).all()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_agrees_with_numpy_for_several_right_sides(name):
    system = chain(3, rows=1, size=2)
    solver, (r, s) = SOLVERS[name](system), system.right_sides()

    def solved(A, P, Q):
        if name == "CompliantKKT":
            return [jnp.concatenate(solver.solution(A, P, Q, a * r, a * s)) for a in (1.0, -3.0)]
        factors = solver.factor(A, P, Q)
        return [jnp.concatenate(solver.solve(factors, a * r, a * s)) for a in (1.0, -3.0)]

    for result, scale in zip(evaluated(solved, system.A, system.P, system.Q), (1.0, -3.0), strict=True):
        check(result, system, scale * r, scale * s)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("n", "m"), [(1, 0), (2, 0), (7, 0), (5, 4)])
def test_pivots_are_found_without_lapack(n, m):
    """Machine code has no other way; leading minors vanish."""
    rng = np.random.default_rng(n)
    A, P, Q = rng.normal(size=(n, n)), rng.normal(size=(m, n)), rng.normal(size=(m, n))
    A[: n // 2, : n // 2] = 0.0
    solver, b = PivotingKKT(n, m), jnp.asarray(rng.normal(size=n + m))

    def solved(A, P, Q, b):
        blocks = [dense_block(x) if x.size else () for x in (A, P, Q)]
        return jnp.concatenate(solver.solve(solver.factor(*blocks), b[:n], b[n:]))

    K = np.block([[A, P.T], [Q, np.zeros((m, m))]])
    result = RowMap.of(lambda shared, b: solved(*shared, b), (A, P, Q), b)((A, P, Q), np.asarray(b)[None])[0]
    np.testing.assert_allclose(result, np.linalg.solve(K, b), rtol=1e-11)


def random_tree(seed, bodies=20):
    """A tree in which numbers say nothing of places: two springs, joints of one to three rows, one with the ground."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(bodies).tolist()
    pairs = [(name[k], name[rng.integers(0, k)]) for k in range(1, bodies)]
    joints = [((name[0],), 2), *((pair, int(rng.integers(1, 4))) for pair in pairs[1:])]
    return connected_system(bodies, joints, springs=[pairs[0], pairs[5]])


def links_of(system):
    return elimination_tree(pattern(system.A), pattern(system.P), system.n, system.m)


FOREST = connected_system(8, [((0, 1), 2), ((0, 2), 2), ((0, 3), 1), ((4, 5), 2), ((5, 6), 2), ((5, 7), 1)])
GROWN = {"forest": FOREST, **{f"grown {seed}": random_tree(seed) for seed in range(4)}}
TREES = {name: s for name, s in {**STRUCTURES, **GROWN}.items() if links_of(s)}


def test_chains_and_trees_are_recognised():
    is_path = lambda parents: np.array_equal(parents[:-1], np.arange(1, len(parents)))  # noqa: E731
    paths = {name for name, system in TREES.items() if is_path(links_of(system).parents)}
    assert {"chain", "chain with springs", "loop", "free body"} <= paths
    assert {"tree", "star", *GROWN} <= set(TREES) - paths
    assert not {"springs", "three bodies in one joint"} & set(TREES)
    # The last body of a branch in a second joint with the ground: together they may be more than it can meet.
    assert links_of(connected_system(4, [((0,), 2), ((0, 1), 2), ((0, 2), 2), ((0, 3), 2)]))
    assert not links_of(connected_system(4, [((0,), 2), ((0, 1), 2), ((0, 2), 2), ((0, 3), 2), ((3,), 2)]))


def test_few_blocks_of_trees_wait():
    assert along(STRUCTURES["chain"]).layout.registers.count == 1
    assert along(FOREST).layout.registers.count == 1
    binary = connected_system(63, [], [(k, 2 * k + c) for k in range(31) for c in (1, 2)])
    assert along(binary).layout.registers.count == 5


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", TREES)
def test_elimination_along_chains_and_trees_agrees_with_numpy(name):
    system = TREES[name]
    r, s = system.right_sides()
    check(evaluated(solution, along(system), system, system.values(), r, s), system, r, s)


@pytest.mark.exhaustive
@pytest.mark.parametrize("system", [chain(4), STRUCTURES["tree"]], ids=["chain", "tree"])
def test_elimination_along_chains_and_trees_has_derivatives_and_batches(system):
    r, s = system.right_sides()
    values, dense = system.values(), LapackKKT(system.n, system.m)
    result, expected = (
        evaluated(
            jax.grad(lambda values, r, s, way=way: jnp.sum(solution(way, system, values, r, s) ** 2)), values, r, s
        )
        for way in (along(system), dense)
    )
    largest = max(np.abs(y).max() for y in jax.tree.leaves(expected))
    for x, y in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.linalg.cond(system.dense()) * largest)
    several = evaluated(jax.vmap(lambda r: solution(along(system), system, values, r, s)), np.stack([r, -r]))
    check(several[1], system, -r, s)


def test_factors_serve_several_right_sides():
    system = STRUCTURES["chain"]
    solver = elimination(system, True)
    r, s = system.right_sides()
    factors = evaluated(solver.factor, system.A, system.P, system.Q)
    for scale in (1.0, -3.0):
        check(np.concatenate(evaluated(solver.solve, factors, scale * r, s)), system, scale * r, s)


@pytest.mark.parametrize("solver", [DenseKKT, LapackKKT])
def test_dense_solvers_agree_with_numpy(solver):
    for name in ("free body", "one row each"):
        system = STRUCTURES[name]
        r, s = system.right_sides()
        check(evaluated(solution, solver(system.n, system.m), system, system.values(), r, s), system, r, s)


def test_sparse_lu_agrees_with_numpy():
    system = STRUCTURES["loop"]
    r, s = system.right_sides()
    solver = SparseKKT(system.n, system.m, Analysis(pattern(system.A), pattern(system.P), system.n, system.m))
    values = system.values()
    check(evaluated(solution, solver, system, values, r, s), system, r, s)
    dense = LapackKKT(system.n, system.m)
    result, expected = (
        evaluated(jax.grad(lambda values, r, s, way=way: jnp.sum(solution(way, system, values, r, s))), values, r, s)
        for way in (solver, dense)
    )
    for x, y in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.linalg.cond(system.dense()) * np.abs(y).max())
    several = evaluated(jax.vmap(lambda r: solution(solver, system, values, r, s)), np.stack([r, -r]))
    check(several[1], system, -r, s)


def test_choice_follows_structure_and_size():
    def kind(system):
        return kkt_solver(system.A, system.P, system.n, system.m)

    assert isinstance(kkt_solver((), (), 9, 3), DenseKKT)
    assert isinstance(kkt_solver((), (), 40, 3), DefiniteKKT)
    assert isinstance(kkt_solver((), (), 90, 3), LapackKKT)
    assert isinstance(kind(chain(1, rows=5, size=6)), DenseKKT)
    few, many = kind(chain(3, rows=5, size=6)), kind(chain(100, rows=5, size=6))
    assert isinstance(few, EliminationKKT)
    assert isinstance(many, TreeKKT)
    tree = connected_system(63, [((0,), 5)], [(k, 2 * k + c) for k in range(31) for c in (1, 2)], 6)
    assert isinstance(kind(tree), TreeKKT)
    looped = connected_system(63, [((0,), 5), ((61, 62), 1)], [(k, 2 * k + c) for k in range(31) for c in (1, 2)], 6)
    assert isinstance(kind(looped), BorderedKKT)
    small = connected_system(10, [((0,), 5), ((0, 9), 3)], [(k, k + 1) for k in range(9)], 6)
    assert isinstance(kind(small), EliminationKKT)
    assert isinstance(kind(connected_system(6, [((k, (k + 1) % 6), 5) for k in range(6)], size=6)), EliminationKKT)
    net = connected_system(
        64, [((0,), 2)], [(k, k + 1) for k in range(63) if k % 8 < 7] + [(k, k + 8) for k in range(56)], 6
    )
    assert isinstance(kind(net), SparseKKT)
    # 100 bodies at once, then their joints by cyclic reduction.
    rounds = elimination(chain(100, rows=5, size=6), True).plan
    assert len(rounds.rounds) == 8
    assert rounds.batches == 8
    assert kind(chain(100, rows=5, size=6)) == many


def test_equal_plans_make_equal_solvers():
    one, other, different = chain(3), chain(3), chain(4)
    assert elimination(one, True) == elimination(other, True)
    assert hash(elimination(one, True)) == hash(elimination(other, True))
    assert elimination(one, True) != elimination(different, True)


def test_long_chains_cost_as_much_per_body_as_short_ones():
    cost_of = lambda bodies: elimination(chain(bodies, rows=5, size=6), True).plan.operations / bodies  # noqa: E731
    assert cost_of(400) < 1.05 * cost_of(100)


def test_runs_on_few_scalars():
    system = connected_system(3, [((0,), 5), ((0, 1), 3), ((1, 2), 4), ((2,), 5)], size=6)
    r, s = system.right_sides()
    solver = kkt_solver(system.A, system.P, system.n, system.m)
    fun = lambda values, r, s: solution(solver, system, values, r, s)  # noqa: E731
    assert cost(jax.make_jaxpr(fun)(system.values(), r, s).jaxpr) < 8_000
    text = jax.jit(scalarise(fun, 1e9)).lower(system.values(), r, s).as_text()
    assert not any(name in text for name in ("scatter", "gather", "dot_general"))


@pytest.mark.exhaustive
def test_derivatives_and_batches():
    system = connected_system(2, [((0,), 1), ((0, 1), 2)], springs=[(0, 1)], size=2)
    r, s = system.right_sides()
    values, solver = system.values(), elimination(system, True)
    weights = jnp.cos(jnp.arange(system.n + system.m))
    dense = LapackKKT(system.n, system.m)

    def objective(solver, values, r, s):
        return weights @ solution(solver, system, values, r, s)

    reverse = evaluated(jax.grad(lambda *args: objective(solver, *args), (0, 1, 2)), values, r, s)
    expected = evaluated(jax.grad(lambda *args: objective(dense, *args), (0, 1, 2)), values, r, s)
    bound = 1e-13 * np.linalg.cond(system.dense())
    largest = max(np.abs(x).max() for x in jax.tree.leaves(expected))
    for x, y in zip(jax.tree.leaves(reverse), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=bound * largest)
    direction = jax.tree.map(np.sin, (values, r, s))
    push = lambda *args: jax.jvp(lambda *a: objective(solver, *a), args, direction)[1]  # noqa: E731
    along = sum(np.vdot(g, d) for g, d in zip(jax.tree.leaves(expected), jax.tree.leaves(direction), strict=True))
    np.testing.assert_allclose(evaluated(push, values, r, s), along, rtol=0, atol=10 * bound * largest)

    several = np.stack([r, 2 * r, -r])
    result = evaluated(jax.vmap(lambda r: solution(solver, system, values, r, s)), several)
    for x, r in zip(result, several, strict=True):
        check(x, system, r, s)


@pytest.mark.parametrize("padded", [False, True])
def test_dependent_constraints_give_no_finite_numbers(padded):
    places = Indices(np.arange(2)[None])
    A = (Blocks(jnp.eye(2)[None], places, places),)
    P = (Blocks(jnp.array([[[1.0, 0.0], [1.0, 0.0]]]), places, places),)
    solver = EliminationKKT(2, 2, Plan(pattern(A), pattern(P), 2, 2, padded))
    x, multipliers = evaluated(lambda A, P: solver.solve(solver.factor(A, P, P), jnp.ones(2), jnp.ones(2)), A, P)
    assert not np.isfinite(np.concatenate((x, multipliers))).all()


def test_unannounced_places_are_refused():
    system, other = chain(3), chain(3, springs=[(0, 2)])
    with pytest.raises(ValueError, match="not announced to `kkt_solver`"):
        elimination(system, False).factor(other.A, other.P, other.Q)


class _VanishingMinors(Mechanical):
    """A point on a line whose constraint disappears at t = 0.055, solved by KLU."""

    @property
    def kkt(self) -> SparseKKT:
        whole, row = Indices(np.arange(2)[None]), Indices(np.arange(1)[None])
        A, P = Blocks(jnp.eye(2)[None], whole, whole), Blocks(jnp.ones((1, 1, 2)), row, whole)
        return SparseKKT(2, 1, Analysis(pattern((A,)), pattern((P,)), 2, 1))


@pytest.mark.exhaustive
def test_a_singular_matrix_ends_the_run_and_not_the_program():
    line = lambda t, q: jnp.where(t < 0.055, q[1:], 0 * q[1:])  # noqa: E731
    system = _VanishingMinors(Rn(2), jnp.eye(2), lambda t, q, v: jnp.array([0.0, -1.0]), line, 1)
    state0 = (jnp.zeros(2), jnp.array([1.0, 0.0]))
    run = ph.simulate(system, "herk2", h=0.01, t1=0.1, state0=state0, throw=False)
    assert run.stats["result"] == ph.Result.singular_constraints
    np.testing.assert_allclose(run.t, np.linspace(0, 0.05, 6), atol=1e-15)


def _sparse(A, P):
    return SparseKKT(A.shape[0], P.shape[0], Analysis(pattern(dense_block(A)), pattern(dense_block(P)), *P.T.shape))


def test_sparse_lu_of_dependent_constraints():
    """Consistent right sides are solved, others and what has no finite numbers give NaN; none of them throws."""
    A, P = jnp.diag(jnp.array([2.0, 3.0, 5.0])), jnp.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    solver, r = _sparse(A, P), jnp.array([1.0, -2.0, 0.5])
    solve = lambda A, P, s: solver.solve(solver.factor(dense_block(A), dense_block(P), dense_block(P)), r, s)  # noqa: E731
    expected, _ = np.split(np.linalg.solve(np.block([[A, P[:1].T], [P[:1], 0.0]]), [*r, 0.3]), [3])
    x, multipliers = evaluated(solve, A, P, jnp.array([0.3, 0.6]))
    np.testing.assert_allclose(x, expected, rtol=1e-12)
    np.testing.assert_allclose(A @ x + P.T @ multipliers, r, atol=1e-12)
    for matrix, rows, s in ((A, P, [0.3, 0.5]), (A, 0 * P, [0.0, 0.0]), (jnp.nan * A, P, [0.0, 0.0])):
        assert np.isnan(np.concatenate(evaluated(solve, matrix, rows, jnp.array(s)))).all()


@pytest.mark.exhaustive
def test_light_bodies_between_heavy_ones_move_as_they_do_without_compliance():
    A, Q = np.diag([0.75, 1e-8, 0.75]), np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    r, s = np.array([1.0, 2e-8, 3.0]), np.array([0.5, -0.25])
    solver = CompliantKKT(LapackKKT(3, 2))
    x, _ = solver.solution(*(dense_block(jnp.asarray(a)) for a in (A, Q, Q)), jnp.asarray(r), jnp.asarray(s))
    # The three move together, but for what the constraints ask for.
    last = (r.sum() - 0.75 * 0.25 + 0.25e-8) / np.trace(A)
    np.testing.assert_allclose(x, [last + 0.25, last - 0.25, last], rtol=0, atol=1e-10)
