"""The heavy top as a mechanical system: its equations, its start, and the errors of the generalized-α method."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from motion_checks import ODD, hat, rotation

import polhode as ph
from polhode import problems
from polhode.multibody import formulations
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.problems.heavy_top_coordinates import TopInCoordinates
from polhode.spaces import SO3

NAMES = ["rotation-vector", "euler-angles", "euler-angles-kinematic", "euler-parameters"]


def top(name: str, **parameters: Any) -> Any:
    return problems.get("heavy-top", formulation=name, **parameters)


def state_of(problem: Any, seed: int) -> Any:
    """A random attitude and angular velocity as a state, with both of them."""
    R, omega = jnp.asarray(rotation(seed)), jnp.asarray(np.random.default_rng(seed).normal(size=3))
    coordinates = problem.system.formulation
    q = coordinates.from_pose(Pose(jnp.zeros(3), R))
    v = coordinates.from_twist(q, Twist(omega, jnp.zeros(3)))
    return (q[0], v[: problem.system.n]), np.asarray(R), np.asarray(omega)


def motion(problem: Any, state: Any, faults: Any) -> Any:
    """Values, and for every fault added to the accelerations time derivatives, of outputs, momentum and invariants."""
    system, inertia = problem.system, jnp.asarray(problem.parameters["inertia"])

    def quantities(state):
        result = {name: f(0.0, state) for name, f in (problem.outputs | problem.invariants).items()}
        return {**result, "momentum": result["rotation"] @ (inertia * result["angular_velocity"])}

    @eqx.filter_jit
    def both(state, faults):
        velocity = system.velocity(jnp.zeros(()), state)

        def rates(fault):
            changed = velocity.at[system.configuration.dim :].add(fault)
            moving = lambda s: quantities(system.state_space.move(state, s * changed))  # noqa: E731
            return jax.jvp(moving, (0.0,), (1.0,))[1]

        return quantities(state), jax.vmap(rates)(faults)

    return both(state, faults)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "parameters"), [("rotation-vector", {}), *((name, ODD) for name in NAMES)], ids=["benchmark", *NAMES]
)
def test_motion_balances_the_moment_of_the_weight(name, parameters):
    problem = top(name, **parameters)
    p = {k: np.array(v) for k, v in problem.parameters.items() if not isinstance(v, str)}
    state, R, omega = state_of(problem, 1)
    n = problem.system.n
    values, rates = motion(problem, state, np.stack((np.zeros(n), 1e-6 * np.random.default_rng(3).normal(size=n))))
    centre = p["length"] * R @ p["axis"]
    np.testing.assert_allclose(values["rotation"], R, atol=1e-14)
    np.testing.assert_allclose(values["angular_velocity"], omega, atol=1e-14)
    np.testing.assert_allclose(rates["rotation"][0], R @ hat(omega), atol=1e-13)
    weight = np.array([0, 0, -p["mass"] * p["gravity"]])
    np.testing.assert_allclose(rates["momentum"][0], np.cross(centre, weight), rtol=1e-12, atol=1e-10)
    for name in problem.invariants:
        rate, with_fault = np.abs(rates[name])
        assert rate < 1e-11, name
        assert with_fault > 1e-9, name


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_start_is_that_of_the_other_formulations(name):
    problem, other = top(name), top("SO3")
    for key, output in other.outputs.items():
        np.testing.assert_allclose(
            problem.outputs[key](0.0, problem.state0), output(0.0, other.state0), atol=1e-13, err_msg=key
        )
    assert all(value < 1e-13 for value in problem.system.residuals(jnp.zeros(()), problem.state0).values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "error", "iterations"), [("rotation-vector", 8.24e-4, 1.0), ("euler-parameters", 7.63e-5, 2.0)]
)
def test_implicit_errors_are_those_of_an_independent_code(name, error, iterations):
    """Exudyn 1.13.6 with h = 1e-4; it takes one iteration for the first and two for the second."""
    problem = top(name)
    run = ph.simulate(problem, "generalized-alpha", h=1e-4, save_every=None)
    distance = np.linalg.norm(run.outputs["centre_of_mass"][-1] - problem.reference["centre_of_mass"]["value"])
    np.testing.assert_allclose(distance, error, rtol=2e-3)
    assert run.stats["newton_iterations"] <= iterations


@pytest.mark.parametrize(("name", "error"), [("euler-angles", 1.93e-2), ("rotation-vector", 1.662e-8)])
def test_explicit_errors_are_those_of_an_independent_code(name, error):
    problem = top(name)
    run = ph.simulate(problem, "rkmk4", h=1e-4, save_every=None)
    distance = np.linalg.norm(run.outputs["centre_of_mass"][-1] - problem.reference["centre_of_mass"]["value"])
    np.testing.assert_allclose(distance, error, rtol=2e-3)


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NAMES)
def test_accelerations_can_be_differentiated_by_every_number(name):
    problem = top(name, **ODD)
    numbers = {key: jnp.asarray(value, float) for key, value in ODD.items()}
    state, _, _ = state_of(problem, 2)

    @jax.jit
    def value(numbers):
        changed = problem.replace(**numbers)
        start = jnp.concatenate([jnp.ravel(part) for part in changed.state0])
        rates = changed.system.velocity(jnp.zeros(()), state)
        return rates @ jnp.cos(jnp.arange(rates.size)) + start @ jnp.sin(1.0 + jnp.arange(start.size))

    gradient = jax.jit(jax.grad(value))(numbers)
    for key, start in numbers.items():
        up, down = (value({**numbers, key: start + sign * 1e-6}) for sign in (1, -1))
        np.testing.assert_allclose(jnp.sum(gradient[key]), (up - down) / 2e-6, rtol=1e-6, atol=1e-7, err_msg=key)
        assert jnp.any(gradient[key] != 0)


def test_methods_that_do_not_fit_are_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"quasi-velocities"):
        ph.simulate(top("euler-angles-kinematic"), "generalized-alpha", h=1e-3)
    with pytest.raises(ValueError, match=r"it takes a Hamiltonian system.*Integrators for it: .*herk4"):
        ph.simulate(top("euler-parameters"), "symplectic", h=1e-3)
    data = top("rotation-vector").system.top
    with pytest.raises(ValueError, match=r"direct product of rotations and R³.*SE3"):
        TopInCoordinates(data, formulations.get("SE3"))
    assert isinstance(TopInCoordinates(data, formulations.get("SO3xR3")).configuration, SO3)
