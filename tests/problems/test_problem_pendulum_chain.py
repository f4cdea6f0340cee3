import jax
import jax.numpy as jnp
import numpy as np
import pytest
from motion_checks import along, hat, solve

from polhode import problems
from polhode.problems.chain_dynamics import MAX_UNROLLED, ChainDynamics, solve_tridiagonal

SIZES = [1, 2, 5, 40]


def random_chain(n, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(n, 3))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    omega = rng.normal(size=(n, 3))
    omega -= q * np.sum(q * omega, axis=1, keepdims=True)
    return rng.uniform(0.5, 2, n), rng.uniform(0.3, 1.5, n), q, omega


def dense_acceleration(masses, lengths, gravity, q, omega):
    """Solution of R(q) ω̇ = r with the full 3n×3n matrix."""
    n = len(masses)
    tail = np.cumsum(masses[::-1])[::-1]
    M = np.array([[tail[max(i, j)] * lengths[i] * lengths[j] for j in range(n)] for i in range(n)])
    R, r = np.zeros((3 * n, 3 * n)), np.zeros((n, 3))
    for i in range(n):
        r[i] = -tail[i] * gravity * lengths[i] * np.cross(q[i], [0, 0, 1.0])
        for j in range(n):
            R[3 * i : 3 * i + 3, 3 * j : 3 * j + 3] = (
                M[i, i] * np.eye(3) if i == j else M[i, j] * hat(q[i]).T @ hat(q[j])
            )
            if i != j:
                r[i] += M[i, j] * omega[j] @ omega[j] * np.cross(q[i], q[j])
    return np.linalg.solve(R, r.ravel()).reshape(n, 3)


def cartesian_acceleration(masses, lengths, gravity, q, omega):
    """ẍ of the masses from Newton's law with one multiplier a rod, as a full KKT system."""
    n = len(masses)
    d, d_dot = lengths[:, None] * q, lengths[:, None] * np.cross(omega, q)
    G = np.zeros((n, 3 * n))
    for i in range(n):
        G[i, 3 * i : 3 * i + 3] = d[i]
        if i:
            G[i, 3 * i - 3 : 3 * i] = -d[i]
    M = np.diag(np.repeat(masses, 3))
    force = np.concatenate([[0, 0, -m * gravity] for m in masses])
    matrix = np.block([[M, G.T], [G, np.zeros((n, n))]])
    return np.linalg.solve(matrix, np.concatenate((force, -np.sum(d_dot**2, axis=1))))[: 3 * n].reshape(n, 3)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", SIZES)
def test_accelerations_against_the_dense_system_and_newton(n):
    masses, lengths, q, omega = random_chain(n)
    dynamics = ChainDynamics(jnp.asarray(masses), jnp.asarray(lengths), jnp.asarray(9.81))
    result = np.asarray(dynamics.angular_acceleration(jnp.asarray(q), jnp.asarray(omega)))
    scale = np.max(np.abs(result))
    np.testing.assert_allclose(result, dense_acceleration(masses, lengths, 9.81, q, omega), atol=1e-12 * scale)
    relative = np.diff(cartesian_acceleration(masses, lengths, 9.81, q, omega), axis=0, prepend=np.zeros((1, 3)))
    np.testing.assert_allclose(result, np.cross(q, relative / lengths[:, None]), atol=1e-12 * scale)
    assert np.max(np.abs(np.sum(result * q, axis=1))) < 1e-14 * scale


@pytest.mark.exhaustive
def test_field_is_the_generator_of_the_motion():
    masses, lengths, q, omega = random_chain(3)
    problem = problems.get("pendulum-chain", n=3, length=lengths, masses=masses, q=q, omega=omega)
    dq = along(problem, problem.outputs["directions"], 0.0, problem.state0)
    domega = along(problem, problem.outputs["angular_velocities"], 0.0, problem.state0)
    np.testing.assert_allclose(dq, np.cross(omega, q), atol=1e-13)
    np.testing.assert_allclose(domega, dense_acceleration(masses, lengths, 9.81, q, omega), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", [1, 2, MAX_UNROLLED, MAX_UNROLLED + 1, 40])
def test_tridiagonal_solver(n):
    rng = np.random.default_rng(n)
    beside = rng.uniform(-1, 1, n - 1)
    diagonal = 0.1 + np.abs(np.append(beside, 0)) + np.abs(np.insert(beside, 0, 0))
    right = rng.normal(size=n)
    matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    solution = solve_tridiagonal(jnp.asarray(diagonal), jnp.asarray(beside), jnp.asarray(right))
    np.testing.assert_allclose(matrix @ np.asarray(solution), right, atol=1e-13 * (1 + np.max(np.abs(solution))))


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["energy", "vertical_angular_momentum"])
@pytest.mark.parametrize("n", [1, 3, MAX_UNROLLED + 3])
def test_invariants_stay_and_notice_a_fault(name, n):
    masses, lengths, q, omega = random_chain(n, seed=4)
    problem = problems.get("pendulum-chain", n=n, length=lengths, masses=masses, q=q, omega=omega)
    size = float(problem.invariants["energy"](0.0, (problem.state0[0], 2 * problem.state0[1])))
    rate = along(problem, problem.invariants[name], 0.0, problem.state0)
    assert abs(rate) < 1e-12 * max(1.0, abs(size))
    fault = 1e-4 * np.tile([0.0, 0, 0, 1, 2, 3], n)
    assert abs(along(problem, problem.invariants[name], 0.0, problem.state0, fault)) > 1e-6


FINAL = {
    2: (
        [0.7139974591086979, 0.0, 0.7001482902830017, 0.0, -0.9658818133181056, 0.0],
        [-0.5777064140251327, 0.0, 0.8162446319541681, 0.0, 1.2891476896999277, 0.0],
    ),
    4: (
        [0.8336545739883285, 0.0, -0.5522862041263756, 0.0, 4.150888033165746, 0.0],
        [-0.9707847392575679, 0.0, 0.2399520577626495, 0.0, 7.119780693504244, 0.0],
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", FINAL)
def test_published_final_states(n):
    problem = problems.get("pendulum-chain", n=n)
    (end,) = solve(problem, [3.0])
    first, last = (np.concatenate((end[0][i], end[1][i])) for i in (0, -1))
    np.testing.assert_allclose(first, FINAL[n][0], atol=1e-8)
    np.testing.assert_allclose(last, FINAL[n][1], atol=1e-8)
    for name, reference in problem.reference.items():
        np.testing.assert_allclose(problem.outputs[name](3.0, end), reference["value"], atol=reference["error"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("n", "energy"), [(2, 23.310153), (4, 84.367175), (10, 574.019464), (20, 2891.711)])
def test_energy_of_the_papers_start(n, energy):
    problem = problems.get("pendulum-chain", n=n)
    np.testing.assert_allclose(problem.invariants["energy"](0.0, problem.state0), energy, rtol=2e-7)


def test_lengths_and_starts():
    assert np.allclose(problems.get("pendulum-chain", n=4, length="fixed-total").system.field.lengths, 1.25)
    assert np.allclose(problems.get("pendulum-chain", n=2, length=[1.0, 2.0]).system.field.lengths, [1, 2])
    level = problems.get("pendulum-chain", n=2, start="level")
    assert np.allclose(level.state0[0], [1, 0, 0])
    assert not np.any(np.asarray(level.state0[1]))
    assert not level.reference
    assert np.allclose(level.outputs["positions"](0.0, level.state0), [[1, 0, 0], [2, 0, 0]])


@pytest.mark.exhaustive
def test_gradients_through_both_solvers():
    for n in (3, MAX_UNROLLED + 2):
        masses, lengths, q, omega = (jnp.asarray(x) for x in random_chain(n))

        @jax.jit
        def total(m, lengths=lengths, q=q, omega=omega):
            return jnp.sum(ChainDynamics(m, lengths, jnp.asarray(9.81)).angular_acceleration(q, omega) ** 2)

        direction = jnp.linspace(-1, 1, n)
        step = 1e-6
        difference = (total(masses + step * direction) - total(masses - step * direction)) / (2 * step)
        np.testing.assert_allclose(jax.grad(total)(masses) @ direction, difference, rtol=1e-7)
