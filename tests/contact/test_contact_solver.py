"""Contact problems: exact cases, laws evaluated independently, redundancy, derivatives, and no failure at random."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from scipy.optimize import nnls

from polhode.compiler.arrays.selection import has_dynamic_indices
from polhode.compiler.loops.row_map import RowMap
from polhode.contact.contact_problem import OPEN, SLIDE, STICK, ContactProblem, is_paradoxical
from polhode.contact.elimination import _factorise, eliminate
from polhode.contact.impact_laws import newton_restitution, solve_poisson
from polhode.contact.solver import solve

G = 9.81
ROWS = {}


def run(function, *batch):
    """A function of many problems as machine code; programs are kept by their shapes."""
    key = function, *(np.shape(x)[1:] for x in jax.tree.leaves(batch)), jax.tree.structure(batch)
    if key not in ROWS:
        ROWS[key] = RowMap.of(lambda _, row: function(*row), (), jax.tree.map(lambda x: np.asarray(x)[0], batch))
    return ROWS[key]((), jax.tree.map(np.asarray, batch))


def solution(problem, guess=None, function=solve):
    """The solution of one problem."""
    problem = jax.tree.map(lambda x: np.asarray(x)[None], problem)
    k, rows = len(problem.active[0]), len(problem.velocity[0]) // len(problem.active[0])
    guess = np.zeros((k, rows)) if guess is None else guess
    return jax.tree.map(lambda x: x[0], run(function, problem, np.asarray(guess)[None]))


def contact_rows(point, normal, tangent, body, count, sign=1.0, rows=3):
    """Rows of a contact of one body: velocities of a point along n, t₁, t₂, angular velocities about n, t₁, t₂."""
    n = np.asarray(normal, float)
    t = np.asarray(tangent, float) - n * (n @ tangent)
    t /= np.linalg.norm(t)
    axes, W = (n, t, np.cross(n, t)), np.zeros((rows, 6 * count))
    for j in range(3):
        W[j, 6 * body : 6 * body + 6] = sign * np.concatenate((axes[j], np.cross(point, axes[j])))
    for j in range(3, rows):
        W[j, 6 * body + 3 : 6 * body + 6] = sign * axes[j - 3]
    return W


def assemble(W, mass, v, friction, **others):
    """The problem of rows W (k, rows, n), a diagonal mass and free velocities v."""
    k, flat = len(W), np.reshape(W, (-1, len(mass)))
    friction = np.broadcast_to(
        np.asarray(friction, float).reshape(-1, 1) if np.ndim(friction) == 1 else friction, (k, 2)
    )
    others = {"active": np.ones(k, bool), **others}
    return ContactProblem(flat / mass @ flat.T, flat @ v, friction.astype(float), **others)


def law_residual(problem, P):
    """The largest violation of the laws in proximal form, relative to what stops each contact alone."""
    k, rows = P.shape
    A = problem.delassus + (0 if problem.compliance is None else np.diag(problem.compliance))
    u, own = (A @ P.ravel() + problem.velocity).reshape(k, rows), np.diag(A).reshape(k, rows)
    r = np.where(problem.active, 1 / np.maximum(own[:, :3].mean(axis=1), 1e-300), 0.0)
    size = np.max(np.abs(r[:, None] * problem.velocity.reshape(k, rows)))
    worst = 0.0
    for i in np.flatnonzero(problem.active):
        normal = max(0.0, P[i, 0] - r[i] * u[i, 0])
        worst = max(worst, abs(P[i, 0] - normal))
        bounds = [*problem.friction[i]]
        parts = [(slice(1, 3), problem.friction[i])] if rows > 1 else []
        if rows == 6:
            parts += [(slice(3, 4), problem.drilling[i : i + 1]), (slice(4, 6), np.repeat(problem.rolling[i], 2))]
        for part, bounds in parts:
            free = bounds > 0
            worst = max(worst, np.max(np.abs(P[i, part][~free]), initial=0.0))
            S = bounds[free]
            if S.size:
                p = P[i, part][free] / S
                a = p - S * u[i, part][free] * r[i] / np.max(S) ** 2
                length = np.linalg.norm(a)
                worst = max(worst, np.max(np.abs(p - (a * normal / length if length > normal else a)) * S))
    assert not P[~np.asarray(problem.active)].any()
    return worst / (size or 1.0)


BOX = 0.2, 0.15, 0.1
CORNERS = [(x, y, -BOX[2]) for x in (BOX[0], -BOX[0]) for y in (BOX[1], -BOX[1])]


def box_mass(m, half=BOX):
    a, b, c = half
    return np.array([m, m, m, *(m / 3 * np.array([b * b + c * c, a * a + c * c, a * a + b * b]))])


def block_on_incline(friction, angle, h=0.01):
    """A block on its four corners, in axes along and across the incline."""
    W = np.stack([contact_rows(p, (0, 0, 1), (1, 0, 0), 0, 1) for p in CORNERS])
    weight = 3 * G * h * np.array([np.sin(angle), 0, -np.cos(angle), 0, 0, 0])
    mass = box_mass(3.0)
    return assemble(W, mass, weight / mass, friction), h


def test_a_block_sticks_and_slides():
    angle = np.radians(20)
    problem, h = block_on_incline(0.5, angle)
    stuck = solution(problem)
    np.testing.assert_allclose(stuck.impulses.sum(axis=0) / h, [27.65515, -10.06565, 0.0], atol=1e-5)
    np.testing.assert_allclose(problem.delassus @ stuck.impulses.ravel() + problem.velocity, 0.0, atol=1e-14)
    assert (stuck.mode == STICK).all()
    assert not stuck.determined
    problem, h = block_on_incline(0.2, angle)
    sliding = solution(problem)
    normal = 3 * G * np.cos(angle)
    np.testing.assert_allclose(sliding.impulses.sum(axis=0) / h, [normal, -0.2 * normal, 0.0], atol=1e-12)
    assert (sliding.mode == SLIDE).all()


@pytest.mark.parametrize("friction", [0.5, 0.2, 0.0])
def test_undetermined_impulses_have_least_norm(friction):
    problem, _ = block_on_incline(friction, np.radians(15))
    P = solution(problem).impulses
    if friction > np.tan(np.radians(15)):
        trace = np.repeat(np.diag(problem.delassus).reshape(4, 3).sum(axis=1), 3)
        scale = 1 / np.sqrt(trace)
        expected = scale * (np.linalg.pinv(problem.delassus * scale, rcond=1e-12) @ -problem.velocity)
    else:
        # Normal impulses bring friction along: the least norm of these under the equations of normal velocities.
        W = problem.delassus.reshape(4, 3, 4, 3)
        normal = W[:, 0, :, 0] - friction * W[:, 0, :, 1]
        trace = np.diag(problem.delassus).reshape(4, 3).sum(axis=1)
        scale = 1 / np.sqrt(trace)
        P_N = scale * (np.linalg.pinv(normal * scale, rcond=1e-12) @ -problem.velocity.reshape(4, 3)[:, 0])
        expected = np.stack((P_N, -friction * P_N, 0 * P_N), axis=1).ravel()
    np.testing.assert_allclose(P.ravel(), expected, atol=1e-8 * np.abs(P).max())


def balls(count, masses):
    """Masses in a row that touch: contacts without tangents."""
    W = np.zeros((count - 1, 1, count))
    for i in range(count - 1):
        W[i, 0, i : i + 2] = -1.0, 1.0
    return W, np.asarray(masses, float)


@pytest.mark.parametrize(
    ("masses", "expected"), [((1, 1, 1), (-1 / 3, 2 / 3, 2 / 3)), ((1, 2, 3), (-2 / 3, 1 / 3, 1 / 3))]
)
def test_newtons_cradle(masses, expected):
    W, mass = balls(3, masses)
    v = np.array([1.0, 0.0, 0.0])
    problem = assemble(W, mass, v, 0.0)
    bounced = newton_restitution(jnp.asarray(W @ v), jnp.ones(2))
    found = solution(problem._replace(velocity=problem.velocity + np.asarray(bounced)))
    np.testing.assert_allclose(v + W.reshape(2, 3).T @ found.impulses.ravel() / mass, np.array(expected), atol=1e-14)


@pytest.mark.exhaustive
def test_poissons_law_gives_back_what_compression_took():
    """Two contacts that press on each other's side: compression at the first opens the second."""
    problem = ContactProblem(
        np.array([[4.0, 2.0], [2.0, 4.0]]), np.array([-1.0, -0.4]), np.zeros((2, 2)), np.ones(2, bool)
    )
    e = np.array([0.0, 1.0])
    poisson = lambda problem, guess: solve_poisson(problem, guess, e)  # noqa: E731
    found = solution(problem, function=poisson)
    np.testing.assert_allclose(problem.delassus @ found.impulses.ravel() + problem.velocity, [0.0, 0.1], atol=1e-14)
    term = newton_restitution(jnp.asarray(problem.velocity)[:, None], e)
    newton = solution(problem._replace(velocity=problem.velocity + np.asarray(term)))
    np.testing.assert_allclose(problem.delassus @ newton.impulses.ravel() + problem.velocity, [0.0, 0.4], atol=1e-14)
    first = lambda problem, guess: solve_poisson(problem, guess, e[::-1])  # noqa: E731
    found = solution(problem, function=first)
    np.testing.assert_allclose(problem.delassus @ found.impulses.ravel() + problem.velocity, [1.0, 0.6], atol=1e-14)


def three_cylinders(on_ground, between):
    """A cylinder on two others on the ground, which just don't touch: impulses, velocities and the weight in a step."""
    R, count, h = 0.1, 3, 0.01
    centres = np.array([[-R, 0, R], [R, 0, R], [0, 0, R + np.sqrt(3) * R]])
    pairs = [(None, 0), (None, 1), (0, 2), (1, 2)]
    W = np.zeros((4, 3, 6 * count))
    for i, (a, b) in enumerate(pairs):
        n = np.array([0, 0, 1.0]) if a is None else (centres[b] - centres[a]) / (2 * R)
        t = np.array([0, 1.0, 0])
        W[i] += contact_rows(-R * n, n, t, b, count)
        if a is not None:
            W[i] += contact_rows(R * n, n, t, a, count, -1.0)
    m = 2.0
    mass = np.tile([m, m, m, m * R**2, 0.5 * m * R**2, m * R**2], count)
    v = np.tile([0, 0, -G * h, 0, 0, 0], count)
    problem = assemble(W, mass, v, np.array([on_ground, on_ground, between, between]))
    P = solution(problem)
    return P, problem.delassus @ P.impulses.ravel() + problem.velocity, m * G * h


def test_three_cylinders_hold_just_above_both_thresholds():
    between = np.tan(np.radians(15))
    on_ground = between / 3
    held, u, weight = three_cylinders(1.001 * on_ground, 1.001 * between)
    assert held.solved
    assert held.determined
    np.testing.assert_allclose(u, 0.0, atol=1e-12 * weight)
    np.testing.assert_allclose(held.impulses[:2, 0], 1.5 * weight, rtol=1e-9)
    np.testing.assert_allclose(held.impulses[2:4, 0], 0.5 * weight, rtol=1e-9)
    for factors in ((0.999, 1.001), (1.001, 0.999)):
        falling, u, _ = three_cylinders(factors[0] * on_ground, factors[1] * between)
        assert falling.solved
        assert np.abs(u).max() > 1e-6 * G * 0.01


def stack(masses, h=0.01):
    """Boxes on top of each other, four corners at each interface."""
    count = len(masses)
    W = []
    for i in range(count):
        for x, y, z in CORNERS:
            rows = contact_rows((x, y, z), (0, 0, 1), (1, 0, 0), i, count)
            if i:
                rows = rows + contact_rows((x, y, -z), (0, 0, 1), (1, 0, 0), i - 1, count, -1.0)
            W.append(rows)
    mass = np.concatenate([box_mass(m) for m in masses])
    return assemble(np.stack(W), mass, np.tile([0, 0, -G * h, 0, 0, 0], count), 0.5), h


@pytest.mark.exhaustive
@pytest.mark.parametrize("masses", [(1.0, 1e4), (1e4, 1.0), (1.0, 1.0, 1.0, 1e4)])
def test_forces_between_boxes_of_very_different_masses(masses):
    problem, h = stack(masses)
    found = solution(problem)
    expected = np.cumsum(masses[::-1])[::-1] * G
    np.testing.assert_allclose(found.impulses[:, 0].reshape(-1, 4).sum(axis=1) / h, expected, rtol=1e-8)
    assert found.solved


@pytest.mark.exhaustive
def test_ten_boxes_with_a_heavy_one_on_top():
    masses = [*np.ones(9), 1e4]
    problem, h = stack(masses)
    found = solution(problem)
    assert found.solved
    expected = np.cumsum(masses[::-1])[::-1] * G
    np.testing.assert_allclose(found.impulses[:, 0].reshape(-1, 4).sum(axis=1) / h, expected, rtol=1e-8)


def test_friction_of_an_ellipse():
    mu = np.array([0.6, 0.2])
    problem = assemble(np.eye(3)[None, [2, 0, 1]], np.full(3, 2.0), np.array([1.0, 0.7, -0.5]), mu[None])
    P = solution(problem).impulses[0]
    u = (problem.delassus @ P + problem.velocity)[1:]
    assert P[0] == pytest.approx(1.0)
    p = P[1:] / mu
    assert np.linalg.norm(p) == pytest.approx(P[0])
    # The velocity in scaled coordinates is normal to the disc.
    np.testing.assert_allclose(-mu * u / np.linalg.norm(mu * u), p / P[0], atol=1e-12)


@pytest.mark.parametrize(("spin", "expected"), [(0.1, 0.1 * 0.02), (5.0, 0.05 * 2.0)])
def test_drilling_and_rolling_of_a_ball(spin, expected):
    m, R, inertia = 2.0, 0.1, 0.02
    W = contact_rows((0, 0, -R), (0, 0, 1), (1, 0, 0), 0, 1, rows=6)[None]
    mass = np.array([m, m, m, inertia, inertia, inertia])
    v = np.array([0, 0, -1.0, 0, 0, spin])
    lengths = {"drilling": np.array([0.05]), "rolling": np.array([0.03])}
    P = solution(assemble(W, mass, v, 0.4, **lengths)).impulses[0]
    np.testing.assert_allclose(P, [m, 0, 0, -expected, 0, 0], atol=1e-14)
    # A rolling ball without sliding: rolling friction slows both motions, along x and about y.
    v = np.array([1.0, 0, -1.0, 0, 1.0 / R, 0])
    P = solution(assemble(W, mass, v, 0.9, **lengths)).impulses[0]
    after = v + W[0].T @ P / mass
    np.testing.assert_allclose([P[0], abs(P[5])], [m, 0.03 * m], atol=1e-12)
    assert after[0] == pytest.approx(R * after[4])
    assert after[0] == pytest.approx(1.0 - (0.03 * m / R) / (m + inertia / R**2))


def random_problem(rng, k, bodies, rows=3, largest=1.0):
    """Contacts in random directions between random bodies and the ground."""
    mass = np.concatenate([box_mass(10 ** rng.uniform(-0.5, 0.5)) for _ in range(bodies)])
    W = np.zeros((k, rows, 6 * bodies))
    for i in range(k):
        a, b = (i, -1) if i < bodies else (rng.integers(bodies), rng.integers(-1, bodies))
        n, t = np.linalg.qr(rng.normal(size=(3, 3)))[0][:, :2].T
        W[i] += contact_rows(0.5 * rng.normal(size=3), n, t, a, bodies, rows=rows)
        if b not in (-1, a):
            W[i] += contact_rows(0.5 * rng.normal(size=3), n, t, b, bodies, -1.0, rows)
    others = {"drilling": rng.uniform(0, 0.1, k), "rolling": rng.uniform(0, 0.1, k)} if rows == 6 else {}
    friction = rng.uniform(0, largest, (k, 1)) * rng.uniform(0.3, 1.0, (k, 2)) * (rng.random((k, 1)) > 0.2)
    return assemble(W, mass, rng.normal(size=6 * bodies), friction, active=rng.random(k) > 0.1, **others)


def random_problems(seed, count, *args, **others):
    rng = np.random.default_rng(seed)
    return [random_problem(rng, *args, **others) for _ in range(count)]


def solve_all(problems):
    batch = jax.tree.map(lambda *x: np.stack(x), *problems)
    k, rows = batch.active.shape[1], batch.velocity.shape[1] // batch.active.shape[1]
    return run(solve, batch, np.zeros((len(problems), k, rows)))


@pytest.mark.parametrize(
    ("count", "k", "bodies", "rows"),
    [
        (300, 4, 2, 3),
        (100, 2, 1, 6),
        pytest.param(1000, 5, 2, 3, marks=pytest.mark.exhaustive),
        pytest.param(300, 8, 3, 6, marks=pytest.mark.exhaustive),
        pytest.param(100, 24, 10, 3, marks=pytest.mark.exhaustive),
        pytest.param(20, 60, 20, 3, marks=pytest.mark.exhaustive),
    ],
)
def test_random_problems_satisfy_the_laws(count, k, bodies, rows):
    problems = random_problems(count + k, count, k, bodies, rows=rows)
    found = solve_all(problems)
    assert found.solved.all()
    assert np.isfinite(found.impulses).all()
    residuals = [law_residual(problem, P) for problem, P in zip(problems, found.impulses, strict=True)]
    assert max(residuals) < 1e-8
    assert np.mean(found.iterations) < 12


def test_impulses_without_friction_minimise_a_quadratic_form():
    problems = [p._replace(friction=0 * p.friction) for p in random_problems(5, 50, 4, 2)]
    found = solve_all(problems)
    for problem, P in zip(problems, found.impulses, strict=True):
        on = np.flatnonzero(problem.active)
        A, b = problem.delassus[::3, ::3][np.ix_(on, on)], problem.velocity[::3][on]
        values, vectors = np.linalg.eigh(A)
        root = np.sqrt(np.maximum(values, 1e-30))[:, None] * vectors.T
        expected, _ = nnls(root, -(vectors.T @ b) / np.sqrt(np.maximum(values, 1e-30)))
        np.testing.assert_allclose(P[on, 0], expected, atol=1e-8 * max(1.0, np.abs(expected).max()))


def test_turned_tangents_turn_friction():
    for problem in random_problems(8, 5, 4, 2):
        isotropic = problem._replace(friction=np.repeat(problem.friction[:, :1], 2, axis=1))
        angles, turn = np.linspace(0.3, 2.0, 4), np.eye(12)
        for i, angle in enumerate(angles):
            turn[3 * i + 1 : 3 * i + 3, 3 * i + 1 : 3 * i + 3] = [
                [np.cos(angle), -np.sin(angle)],
                [np.sin(angle), np.cos(angle)],
            ]
        other = isotropic._replace(delassus=turn @ isotropic.delassus @ turn.T, velocity=turn @ isotropic.velocity)
        first, second = solution(isotropic), solution(other)
        size = np.abs(first.impulses).max()
        np.testing.assert_allclose(second.impulses.ravel(), turn @ first.impulses.ravel(), atol=1e-8 * size)


def test_compliance_gives_way():
    problem = assemble(np.eye(3)[None, [2, 0, 1]], np.full(3, 2.0), np.array([0, 0, -1.0]), 0.5)
    soft = problem._replace(compliance=np.array([0.5, 0.0, 0.0]))
    assert solution(soft).impulses[0, 0] == pytest.approx(1.0)


def test_what_does_not_touch_costs_nothing_and_changes_nothing():
    (problem,) = random_problems(3, 1, 4, 2)
    problem = problem._replace(active=np.zeros(4, bool))
    none = solution(problem, np.ones((4, 3)))
    assert not none.impulses.any()
    assert (none.iterations, none.residual) == (0, 0.0)
    assert none.solved
    assert none.determined
    apart = problem._replace(active=np.ones(4, bool), velocity=np.abs(problem.velocity))
    assert not solution(apart).impulses.any()
    assert (solution(apart).mode == OPEN).all()


def test_a_solution_is_where_the_search_from_it_ends():
    problem, _ = block_on_incline(0.5, np.radians(20))
    cold = solution(problem)
    warm = solution(problem, cold.impulses)
    np.testing.assert_allclose(warm.impulses, cold.impulses, atol=1e-8 * np.abs(cold.impulses).max())
    assert warm.iterations <= 1
    size = np.abs(cold.impulses).max()
    nearby = cold.impulses * (1 + 0.1 * np.random.default_rng(2).normal(size=(4, 3)))
    for guess in (np.full((4, 3), np.nan), nearby):
        np.testing.assert_allclose(solution(problem, guess).impulses, cold.impulses, atol=1e-8 * size)
    far = solution(problem, np.full((4, 3), 1e3))
    assert far.solved
    assert law_residual(problem, far.impulses) < 1e-9


def test_paradoxical_contacts_are_recognised():
    W = contact_rows((0.3, 0, -1.0), (0, 0, 1), (1, 0, 0), 0, 1)[None]
    mass = np.array([1.0, 1, 1, 0.03, 0.03, 0.03])
    limit = (1 + 0.09 / 0.03) / (0.3 / 0.03)
    problems = [assemble(W, mass, np.zeros(6), factor * limit) for factor in (0.999, 1.001)]
    assert [bool(is_paradoxical(jax.tree.map(jnp.asarray, problem))[0]) for problem in problems] == [False, True]


@functools.cache
def mixed_problem():
    """Four contacts that stick, slide, slide and are open."""
    for problem in random_problems(12, 200, 4, 2):
        problem = problem._replace(friction=np.maximum(problem.friction, 0.05), active=np.ones(4, bool))
        found = solution(problem)
        if sorted(found.mode) == [OPEN, STICK, SLIDE, SLIDE] and found.determined:
            return problem
    raise AssertionError


def impulses(G, b, friction, problem):
    return solve(problem._replace(delassus=G, velocity=b, friction=friction), jnp.zeros((4, 3))).impulses


def directions(at, seed=4):
    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.normal(size=x.shape)) for x in at), jnp.asarray(rng.normal(size=(4, 3)))


@pytest.mark.exhaustive
def test_derivatives_are_those_of_differences():
    problem = jax.tree.map(jnp.asarray, mixed_problem())
    at = problem.delassus, problem.velocity, problem.friction
    d, weights = directions(at)
    f = lambda *x: impulses(*x, problem)  # noqa: E731
    tangent = evaluated(lambda at, d: jax.jvp(f, at, d)[1], at, d)
    eps = 1e-6
    near = [problem._replace(delassus=G, velocity=b, friction=mu) for G, b, mu in shifts(at, d, eps)]
    plus, minus = (solution(jax.tree.map(np.asarray, problem)).impulses for problem in near)
    np.testing.assert_allclose(tangent, (plus - minus) / (2 * eps), atol=1e-7 * np.abs(tangent).max())
    gradient = evaluated(lambda at: jax.grad(lambda at: jnp.sum(weights * f(*at)))(at), at)
    work = sum(jnp.sum(g * x) for g, x in zip(gradient, d, strict=True))
    np.testing.assert_allclose(work, jnp.sum(weights * tangent), rtol=1e-9)


def shifts(at, d, eps):
    return [[x + s * eps * y for x, y in zip(at, d, strict=True)] for s in (1, -1)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("friction", [0.5, 0.2, 0.0])
@pytest.mark.exhaustive
def test_derivatives_of_sums_of_undetermined_impulses(friction):
    """The sum of the forces of a block: m g cos α, and friction, with respect to the coefficient and the weight."""
    problem, h = block_on_incline(friction, np.radians(20))
    problem = jax.tree.map(jnp.asarray, problem)

    def total(weight, friction):
        other = problem._replace(velocity=weight * problem.velocity, friction=jnp.full((4, 2), friction))
        return jnp.sum(solve(other, jnp.zeros((4, 3))).impulses, axis=0) / h

    by_weight, by_friction = evaluated(jax.jacfwd(total, (0, 1)), jnp.asarray(1.0), jnp.asarray(friction))
    normal, along = 3 * G * np.cos(np.radians(20)), 3 * G * np.sin(np.radians(20))
    sliding = friction < np.tan(np.radians(20))
    np.testing.assert_allclose(by_weight, [normal, -friction * normal if sliding else -along, 0.0], atol=1e-7)
    if friction:
        np.testing.assert_allclose(by_friction, [0.0, -normal if sliding else 0.0, 0.0], atol=1e-7)


@pytest.mark.exhaustive
def test_machine_code_and_xla_have_the_same_derivatives():
    problem = jax.tree.map(jnp.asarray, mixed_problem())
    at = problem.delassus, problem.velocity, problem.friction
    d, weights = directions(at)
    function = lambda _, row: impulses(*row, problem)  # noqa: E731
    example = jax.tree.map(np.asarray, at)
    code = RowMap.vjp(function, lambda _, row: row, (), example, np.asarray(weights))
    found = jax.tree.map(lambda x: x[0], code((), jax.tree.map(lambda x: np.asarray(x)[None], (example, weights))))
    expected = jax.jit(jax.grad(lambda at: jnp.sum(weights * impulses(*at, problem))))(at)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8 * np.abs(b).max())
    code = RowMap.jvp(function, lambda _, row: row, (), example)
    tangent = code((), jax.tree.map(lambda x: np.asarray(x)[None], (example, d)))[0]
    np.testing.assert_allclose(np.sum(weights * tangent), sum(np.sum(g * x) for g, x in zip(found, d, strict=True)))


@pytest.mark.exhaustive
def test_batches_have_the_solutions_of_their_members():
    problems = random_problems(21, 6, 4, 2)
    batch = jax.tree.map(lambda *x: jnp.stack(x), *problems)
    found = jax.jit(jax.vmap(solve))(batch, jnp.zeros((6, 4, 3)))
    np.testing.assert_allclose(found.impulses, solve_all(problems).impulses, atol=1e-9)


def test_many_contacts_of_one_body_follow_its_motion():
    """Eight contacts at the limit of friction: from the solution of a step the next one takes a few iterations."""
    rng = np.random.default_rng(0)
    W = np.stack([contact_rows((*rng.normal(size=2), -0.5), (0, 0, 1), (1, 0, 0), 0, 1) for _ in range(8)])
    mass = np.array([1, 1, 1, 0.1, 0.2, 0.15])
    P = np.zeros((8, 3))
    for step in range(4):
        v = np.array([0.3, 0.2, -1, 0.1, 0.2, 0.3]) * (1 + 0.003 * step)
        problem = assemble(W, mass, v, 0.4)
        found = solution(problem, P)
        P = found.impulses
        assert law_residual(problem, P) < 1e-9
        assert not found.determined
        assert step == 0 or found.iterations <= 8


@pytest.mark.exhaustive
def test_a_wall_of_ten_boxes():
    """Rows of four, three, two and one, each box on two halves: a wall that stands, and carries its weight."""
    h, count, places = 0.01, 10, []
    for level, number in enumerate((4, 3, 2, 1)):
        places += [(0.4 * i + 0.2 * level, level) for i in range(number)]
    W = []
    for i, (x, level) in enumerate(places):
        supports = [j for j, (y, other) in enumerate(places) if other == level - 1 and abs(x - y) < 0.3]
        for support in supports or [None]:
            left = -0.2 if support is None or places[support][0] < x else 0.0
            for dx, dy in ((left, -0.15), (left, 0.15), (left + (0.4 if support is None else 0.2), -0.15)):
                for offset in (0.0,):
                    W.append(contact_rows((dx + offset, dy, -0.1), (0, 0, 1), (1, 0, 0), i, count))
                    if support is not None:
                        local = (dx + x - places[support][0], dy, 0.1)
                        W[-1] = W[-1] + contact_rows(local, (0, 0, 1), (1, 0, 0), support, count, -1.0)
    mass = np.tile(box_mass(3.0), count)
    problem = assemble(np.stack(W), mass, np.tile([0, 0, -G * h, 0, 0, 0], count), 0.5)
    found = solution(problem)
    assert found.solved
    np.testing.assert_allclose(problem.delassus @ found.impulses.ravel() + problem.velocity, 0.0, atol=1e-10 * G * h)
    assert found.impulses[:12, 0].sum() == pytest.approx(10 * 3.0 * G * h, rel=1e-10)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("error", "solved"), [(1e-11, True), pytest.param(1e-6, False, marks=pytest.mark.exhaustive)])
def test_sticking_points_of_one_body_may_ask_for_what_it_cannot_do_by_round_off_of_second_order(error, solved):
    """Along the line between two points a rigid body has one velocity: what they ask for differs by `error`.

    Larger contradictions have a solution too, in which both points slide apart.
    """
    arms = np.array([[0.1, 0.0, -0.1], [-0.1, 0.0, -0.1]])
    spins = [np.cross(np.eye(3), arm).T for arm in arms]
    rows = np.concatenate([np.hstack((np.eye(3), spin.T))[[2, 0, 1]] for spin in spins])
    G = rows @ np.diag([1.0] * 3 + [100.0] * 3) @ rows.T
    b = np.tile([-1.0, 0.02, 0.01], 2)
    b[4] += error
    problem = ContactProblem(jnp.asarray(G), jnp.asarray(b), jnp.full((2, 2), 0.5), jnp.ones(2, bool))
    solution = solve(problem, jnp.zeros((2, 3)))
    assert solution.solved
    assert (np.asarray(solution.mode) == STICK).all() == solved


def test_many_unknowns_are_eliminated_without_a_search_for_each_pivot():
    rng = np.random.default_rng(3)
    x, y, b = 0.2 * rng.normal(size=(25, 2)), rng.normal(size=(25, 2)), rng.normal(size=25)

    def solve_once(x, y, b):
        solve_with, smallest = eliminate(jnp.eye(25) + x @ y.T)
        return solve_with(b), smallest

    z, smallest = jax.tree.map(lambda x: x[0], run(solve_once, x[None], y[None], b[None]))
    a = np.eye(25) + x @ y.T
    minors = [np.linalg.det(a[:k, :k]) for k in range(26)]
    np.testing.assert_allclose(a @ z, b, rtol=0, atol=1e-13)
    np.testing.assert_allclose(smallest, np.min(np.abs(np.divide(minors[1:], minors[:-1]))), rtol=1e-10)
    factors = np.asarray(_factorise(jnp.asarray(a)))
    upper, lower = np.triu(factors, 1) + np.eye(25), np.tril(factors, -1) + np.diag(1 / np.diag(factors))
    np.testing.assert_allclose(upper @ lower, a, rtol=0, atol=1e-14)
    # An index that is known at run time only is compared with every position, which took 100 times as long.
    assert not has_dynamic_indices(jax.make_jaxpr(solve_once)(x, y, b).jaxpr, larger=300)
