import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from motion_checks import along, rotation, solve

from polhode import problems
from polhode.problems import AbstractController, Control, Transport
from polhode.problems.quadrotor_model import by_name, to_point

E3 = np.array([0.0, 0.0, 1.0])
MY, M, L = 0.4, np.array([0.755, 0.755]), np.array([0.6, 0.8])
KY, KV, KQ, KW, G = 12.0, 5.0, 16.0, 5.0, 9.81
J = np.array([0.0820, 0.0845, 0.1377])


class Constant(AbstractController):
    """Thrusts and moments that never change."""

    thrusts: Array
    moments: Array

    def __call__(self, t, state):
        return Control(self.thrusts, self.moments)


def random_state(seed):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(2, 3))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    omega = rng.normal(size=(2, 3))
    omega -= q * np.sum(q * omega, axis=1, keepdims=True)
    R = np.stack((rotation(seed), rotation(seed + 1)))
    parts = (rng.normal(size=3), rng.normal(size=3), R, rng.normal(size=(2, 3)), q, omega)
    return Transport(*(jnp.asarray(x) for x in parts))


def motion(problem, t, state):
    """v̇ and ω̇ along the problem's field."""
    point = to_point(state)
    dv = along(problem, lambda t, s: by_name(s).load_velocity, t, point)
    return np.asarray(dv), np.asarray(along(problem, lambda t, s: by_name(s).link_rates, t, point))


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equations_against_newton_with_rods(seed):
    """Three point masses in inertial coordinates, each rod a multiplier."""
    rng = np.random.default_rng(seed + 50)
    u = rng.normal(size=(2, 3)) * 5
    problem = problems.get("quadrotors", controller=Constant(jnp.asarray(u), jnp.zeros((2, 3))))
    state = random_state(seed)
    q, omega = np.asarray(state.links), np.asarray(state.link_rates)
    constraint = np.zeros((2, 9))
    for i in range(2):
        constraint[i, :3], constraint[i, 3 + 3 * i : 6 + 3 * i] = q[i], -q[i]
    mass = np.diag(np.repeat([MY, *M], 3))
    force = np.concatenate((MY * G * E3, M[0] * G * E3 + u[0], M[1] * G * E3 + u[1]))
    matrix = np.block([[mass, constraint.T], [constraint, np.zeros((2, 2))]])
    a = np.linalg.solve(matrix, np.concatenate((force, -L * np.sum(omega**2, axis=1))))[:9].reshape(3, 3)
    dv, domega = motion(problem, 0.0, state)
    np.testing.assert_allclose(dv, a[0], atol=1e-12)
    np.testing.assert_allclose(domega, np.cross(q, (a[0] - a[1:]) / L[:, None]), atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, 1])
def test_power_balance(seed):
    """Ė = Σ u_i·ẏ_i + Σ M_i·Ω_i, hence energy is kept exactly when the rotors stand still."""
    rng = np.random.default_rng(seed)
    u, moments = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    state = random_state(seed)
    velocities = state.load_velocity - L[:, None] * np.cross(state.link_rates, state.links)
    power = np.sum(u * velocities) + np.sum(moments * np.asarray(state.body_rates))
    for scale in (1.0, 0.0):
        problem = problems.get("quadrotors", controller=Constant(jnp.asarray(scale * u), jnp.asarray(scale * moments)))
        field = problem.system.field
        rate = along(problem, lambda t, s, f=field: f.energy(by_name(s)), 0.0, to_point(state))
        np.testing.assert_allclose(rate, scale * power, atol=1e-12)


@pytest.mark.exhaustive
def test_quadrotors_turn_as_rigid_bodies():
    problem, state = problems.get("quadrotors"), random_state(3)
    spatial = lambda t, s: jnp.einsum("ijk,ik->ij", by_name(s).attitudes, J * by_name(s).body_rates)  # noqa: E731
    moment = along(problem, spatial, 0.3, to_point(state))
    np.testing.assert_allclose(moment, np.einsum("ijk,k->ij", state.attitudes, np.ones(3)), atol=1e-13)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (1, 2))])
def test_closed_loop_of_the_load(seed):
    """v̇ = g e₃ + (μ₁ + μ₂)/m_y with the printed c_i = 1/((r_i·e₃)|r₁ + r₂|)."""
    problem, state, t = problems.get("quadrotors"), random_state(seed), 0.7
    y_d = np.array([t - 2.5, 0, (t - 2.5) ** 2 - 7])
    error, error_dot = np.asarray(state.load) - y_d, np.asarray(state.load_velocity) - [1, 0, 2 * (t - 2.5)]
    F = MY * (-KY * error - KV * error_dot + [0, 0, 2.0] - G * E3)
    r = np.array([[0.5, 0, np.sqrt(0.75)], [-0.5, 0, np.sqrt(0.75)]])
    c = 1 / (r[:, 2] * np.linalg.norm(r[0] + r[1]))
    q = np.asarray(state.links)
    mu = (c * (q @ F))[:, None] * q
    dv, _ = motion(problem, t, state)
    np.testing.assert_allclose(dv, G * E3 + (mu[0] + mu[1]) / MY, atol=1e-11)
    np.testing.assert_allclose(problem.outputs["load_target"](t, to_point(state)), y_d, atol=1e-14)
    np.testing.assert_allclose(problem.outputs["tracking_error"](t, to_point(state)), np.linalg.norm(error), rtol=1e-14)


@pytest.mark.exhaustive
def test_closed_loop_of_the_rods():
    """ω̇ as the law states it, the derivatives of q_id taken along the simulated motion itself."""
    problem, t = problems.get("quadrotors"), jnp.asarray(0.7)
    targets = problem.outputs["link_targets"]
    first = lambda t, s: along(problem, targets, t, s)  # noqa: E731
    second = jax.jit(lambda t, s: (targets(t, s), first(t, s), along(problem, first, t, s)))
    twice = lambda q, x: np.cross(q, np.cross(q, x))  # noqa: E731
    for seed in range(4):
        state = random_state(seed)
        d, d_dot, d_ddot = (np.asarray(x) for x in second(t, to_point(state)))
        q, omega = np.asarray(state.links), np.asarray(state.link_rates)
        omega_d, omega_d_dot = np.cross(d, d_dot), np.cross(d, d_ddot)
        expected = -KQ * np.cross(d, q) - KW * (omega + twice(q, omega_d))
        expected -= np.sum(q * omega_d, axis=1, keepdims=True) * np.cross(omega, q) + twice(q, omega_d_dot)
        _, domega = motion(problem, t, state)
        np.testing.assert_allclose(domega, expected, rtol=1e-10, atol=1e-10 * np.max(np.abs(d_ddot)))


@pytest.mark.exhaustive
def test_formation_holds_the_load_for_unequal_directions():
    """With the rods in formation Σμ_i = F, also for directions that are not mirror images."""
    formation = np.array([[np.sin(0.3), 0, np.cos(0.3)], [-np.sin(0.8), 0, np.cos(0.8)]])
    problem = problems.get("quadrotors", formation=formation)
    state = random_state(0)
    links = problem.outputs["link_targets"](0.0, to_point(state))
    dv, _ = motion(problem, 0.0, state._replace(links=links))
    law = problem.system.field.controller
    wish = (
        -KY * (state.load - law.path(0.0)) - KV * (state.load_velocity - np.array([1, 0, -5])) + np.array([0, 0, 2.0])
    )
    np.testing.assert_allclose(dv, wish, atol=1e-11)


@pytest.fixture(scope="module")
def tracking_run():
    problem = problems.get("quadrotors")
    times = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]
    return problem, times, solve(problem, times, rtol=1e-12)


@pytest.mark.exhaustive
def test_published_tracking(tracking_run):
    problem, times, states = tracking_run
    errors = [float(problem.outputs["tracking_error"](t, s)) for t, s in zip(times, states, strict=True)]
    np.testing.assert_allclose(errors, [2.93, 1.206, 9.55e-2, 3.45e-3, 2.37e-4, 5.12e-5], rtol=2e-3)


@pytest.mark.exhaustive
def test_published_end_state(tracking_run):
    problem, _, states = tracking_run
    end = by_name(states[-1])
    np.testing.assert_allclose(end.load, problem.reference["load"]["value"], atol=1e-10)
    links = [[-3.13529232658e-06, -0.500000009176, 0.866025398481], [2.5120521016e-06, 0.500000056578, 0.866025371116]]
    np.testing.assert_allclose(end.links, links, atol=1e-10)
    np.testing.assert_allclose(end.body_rates[0], [-10.4584027206, -0.677905503362, 36.5416494623], atol=1e-8)


def test_own_law_and_path():
    class Hover(AbstractController):
        gain: float

        def __call__(self, t, state):
            return Control(-self.gain * jnp.tile(E3, (2, 1)), jnp.zeros((2, 3)))

    problem = problems.get("quadrotors", controller=Hover(3.0), path=lambda t: jnp.stack((jnp.cos(t), jnp.sin(t), t)))
    assert "link_targets" not in problem.outputs
    assert not problem.reference
    np.testing.assert_allclose(problem.outputs["load_target"](0.0, problem.state0), [1, 0, 0])
    assert eqx.tree_equal(problem.system.field.controller, Hover(3.0))
