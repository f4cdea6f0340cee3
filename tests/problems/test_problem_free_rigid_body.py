import jax.numpy as jnp
import numpy as np
import pytest
from motion_checks import along, hat, rotation
from scipy.integrate import solve_ivp

from polhode import problems
from polhode.problems import free_rigid_body_solution
from polhode.spaces import S3

INERTIA = np.array([6.0, 8.0, 3.0])
OMEGA = np.array([10.0, 20.0, 20.0])
FORMULATIONS = ["SO3", "S3", "coadjoint"]


def state_of(formulation, R, omega):
    if formulation == "coadjoint":
        return jnp.asarray(INERTIA * omega), jnp.asarray(R)
    if formulation == "S3":
        w = np.sqrt(1 + np.trace(R)) / 2
        skew = (R - R.T) / (4 * w)
        return jnp.array([w, skew[2, 1], skew[0, 2], skew[1, 0]]), jnp.asarray(omega)
    return jnp.asarray(R), jnp.asarray(omega)


def near_rotation(seed):
    """A rotation by less than π, so that the plain quaternion formula of `state_of` holds."""
    R = rotation(seed)
    return R if np.trace(R) > -0.5 else R @ np.diag([1.0, -1.0, -1.0]) @ R


def integrate(inertia, omega, t):
    def rate(_, y):
        R, w = y[:9].reshape(3, 3), y[9:]
        return np.concatenate(((R @ hat(w)).ravel(), np.cross(inertia * w, w) / inertia))

    run = solve_ivp(rate, (0, t), np.concatenate((np.eye(3).ravel(), omega)), "DOP853", rtol=3e-14, atol=1e-14)
    return run.y[:9, -1].reshape(3, 3), run.y[9:, -1]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("seed", [1, 2])
def test_motion_is_euler_equations(formulation, seed):
    problem = problems.get("free-rigid-body", formulation=formulation)
    R, omega = near_rotation(seed), np.random.default_rng(seed).normal(size=3)
    state = state_of(formulation, R, omega)
    np.testing.assert_allclose(problem.outputs["rotation"](0.0, state), R, atol=1e-14)
    np.testing.assert_allclose(problem.outputs["angular_velocity"](0.0, state), omega, atol=1e-14)
    np.testing.assert_allclose(along(problem, problem.outputs["rotation"], 0.0, state), R @ hat(omega), atol=1e-13)
    moment_free = along(problem, problem.outputs["angular_velocity"], 0.0, state)
    np.testing.assert_allclose(INERTIA * moment_free, np.cross(INERTIA * omega, omega), atol=1e-13)


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("name", ["energy", "angular_momentum"])
def test_invariants_stay_and_notice_a_fault(formulation, name):
    problem = problems.get("free-rigid-body", formulation=formulation)
    state = state_of(formulation, near_rotation(3), np.array([1.0, -2.0, 0.5]))
    invariant = problem.invariants[name]
    assert np.max(np.abs(along(problem, invariant, 0.0, state))) < 1e-12
    fault = 1e-6 * np.array([0, 0, 0, 1.0, 0, 0] if formulation != "coadjoint" else [0, 1.0, 0, 0, 0, 0])
    assert np.max(np.abs(along(problem, invariant, 0.0, state, fault))) > 1e-7


def test_published_end_state():
    R, omega = free_rigid_body_solution(INERTIA, OMEGA, np.asarray(2.0))
    q = np.array([0.930545003, 0.140954753, 0.2982509407, 0.158946945])
    np.testing.assert_allclose(omega, [12.7435288951, 19.2852563396, 18.7104777341], atol=2e-10)
    np.testing.assert_allclose(S3().to_matrix(jnp.asarray(q)), R, atol=3e-9)


def test_reference_of_the_problem_is_the_exact_solution():
    problem = problems.get("free-rigid-body", inertia=(1.0, 2.0, 2.5), angular_velocity=(0.3, 1.0, -2.0), duration=0.7)
    R, omega = integrate(np.array([1.0, 2.0, 2.5]), np.array([0.3, 1.0, -2.0]), 0.7)
    np.testing.assert_allclose(problem.reference["rotation"]["value"], R, atol=1e-12)
    np.testing.assert_allclose(problem.reference["angular_velocity"]["value"], omega, atol=1e-12)


DEGENERATE = {
    "symmetric, tall": ([2, 2, 1], [1, 2, 3]),
    "symmetric about the second axis": ([2, 1, 2], [1, 2, 3]),
    "symmetric, flat": ([1, 2, 2], [3, 0.1, 0.2]),
    "spin about the symmetry axis": ([1, 2, 2], [3, 0, 0]),
    "sphere": ([2, 2, 2], [3, 1, 2]),
    "at rest": ([1, 2, 3], [0, 0, 0]),
    "separatrix": ([1, 2, 3], [np.sqrt(3), 1, 1]),
    "one component zero": ([1, 2, 3], [1, 1, 0]),
    "other orientation": ([3, 1, 2], [-1, 2, -3]),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("t", [-2.5, 3.0])
def test_solution_in_degenerate_cases(case, t):
    inertia, omega = (np.array(x, float) for x in DEGENERATE[case])
    for result, exact in zip(free_rigid_body_solution(inertia, omega, t), integrate(inertia, omega, t), strict=True):
        np.testing.assert_allclose(result, exact, atol=1e-12)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(20))
def test_solution_at_random(seed):
    rng = np.random.default_rng(seed)
    inertia, omega, t = rng.uniform(0.5, 3, 3), 3 * rng.normal(size=3), rng.uniform(-3, 6)
    for result, exact in zip(free_rigid_body_solution(inertia, omega, t), integrate(inertia, omega, t), strict=True):
        np.testing.assert_allclose(result, exact, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_solution_is_a_flow_that_keeps_the_momentum_for_long(seed):
    rng = np.random.default_rng(seed)
    inertia, omega = rng.uniform(0.5, 3, 3), rng.normal(size=3)
    times = np.array([0.0, 11.0, 400.0, 411.0])
    R, velocity = free_rigid_body_solution(inertia, omega, times)
    np.testing.assert_allclose(R[0], np.eye(3), atol=1e-15)
    np.testing.assert_allclose(
        R @ (inertia * velocity)[..., None], np.tile((inertia * omega)[:, None], (4, 1, 1)), atol=1e-12
    )
    further, last = free_rigid_body_solution(inertia, velocity[2], 11.0)
    np.testing.assert_allclose(R[2] @ further, R[3], atol=1e-11)
    np.testing.assert_allclose(last, velocity[3], atol=1e-11)


@pytest.mark.parametrize(
    ("inertia", "omega", "message"),
    [((1, 2), (1, 1, 1), "inertia"), ((1, 2, -1), (1, 1, 1), "positive"), ((1, 2, 3), (1, 1), "angular_velocity")],
)
def test_solution_rejects_bad_input(inertia, omega, message):
    with pytest.raises(ValueError, match=message):
        free_rigid_body_solution(np.array(inertia, float), np.array(omega, float), np.asarray(1.0))
