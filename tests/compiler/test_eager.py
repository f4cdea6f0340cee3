"""Operations outside compiled programs, evaluated with NumPy while models are built."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.compiler.numpy.eager import eager_numpy
from polhode.jax_context import inside_transformation

X = np.array([0.3, -1.2, 2.5])


def by_jax(x):
    return jnp.linalg.norm(x) * jnp.cross(x, x**2) + jnp.where(x > 0, jnp.sin(x), jnp.exp(x))


OPERATIONS = {
    "functions": by_jax,
    "gradient": lambda x: jax.grad(lambda v: by_jax(v).sum())(x),
    "forward Jacobian": jax.jacfwd(by_jax),
    "Hessian": jax.hessian(lambda v: by_jax(v) @ v),
    "rows": lambda x: jax.vmap(by_jax)(jnp.stack([x, 2 * x])),
    "parts": lambda x: jnp.concatenate([x[1:], x.at[0].add(2.0)[:1]]),
    "linear solve": lambda x: jnp.linalg.solve(jnp.eye(3) + jnp.outer(x, x), x),
    "eigenvalues": lambda x: jnp.linalg.eigvalsh(jnp.outer(x, x)),
    "loop": lambda x: jax.lax.fori_loop(0, 5, lambda k, y: y + k * x, x),
    "scan": lambda x: jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, x)[1],
    "branch": lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "compiled function": jax.jit(by_jax),
    "custom derivative": lambda x: jax.grad(lambda v: jax.nn.relu(v).sum())(x),
    "whole numbers": lambda x: jnp.arange(3, dtype=jnp.int32).sum() // 2 + jnp.argmax(x),
    "applied in places": lambda x: x.at[1:].apply(jnp.cos),
    "call back": lambda x: jax.pure_callback(lambda v: 2 * np.asarray(v), jax.ShapeDtypeStruct((3,), x.dtype), x),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_values_and_types_are_those_of_jax(operation):
    wanted = operation(jnp.asarray(X))
    with eager_numpy():
        found = operation(jnp.asarray(X))
    assert isinstance(found, jax.Array)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-14)


def test_arrays_of_others_may_change_afterwards():
    values = np.zeros(64)
    with eager_numpy():
        seen = [jnp.asarray(values), jnp.array(values), jax.lax.reshape(values, (8, 8)), jax.lax.neg(-values)]
    values[:] = 1.0
    assert all(not np.any(x) for x in seen)


def test_nothing_is_evaluated_inside_transformations():
    @jax.jit
    def traced(x):
        with eager_numpy():
            assert inside_transformation()
            return jnp.sin(x)

    np.testing.assert_allclose(traced(X), np.sin(X), rtol=1e-15)
    with eager_numpy():
        assert not inside_transformation()


_COMPILED: list[str] = []


@pytest.fixture
def compiled():
    """What JAX has compiled since the test began."""
    if not _COMPILED:
        jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: _COMPILED.append(event))
    jax.jit(lambda x: x + 1.2345)(np.arange(7.0))
    assert any("backend_compile" in event for event in _COMPILED)
    before = len(_COMPILED)
    return lambda: [event for event in _COMPILED[before:] if "backend_compile" in event]


@pytest.mark.exhaustive
def test_known_values_under_a_gradient_are_evaluated_too(compiled):
    seen = []

    def function(x):
        before = compiled()
        with eager_numpy():
            found = by_jax(x) @ x
        seen.append(compiled()[len(before) :])
        return found

    slope = jax.grad(function)(jnp.asarray(X))
    assert seen == [[]]
    np.testing.assert_allclose(slope, jax.grad(lambda x: by_jax(x) @ x)(X), rtol=1e-13)


def pendulum(length):
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=2.0, inertia=(0.3, 0.2, 0.25), position=(length, 0, 0))
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    model.add(ph.forces.SpringDamper(model.ground, body, (0, 0, 1), (length, 0, 0), stiffness=3.0))
    return model.problem("SE3", t1=1.0)


@pytest.mark.exhaustive
def test_models_are_built_without_compiling(compiled):
    ph.problems.get("slider-crank", formulation="S3xR3")
    ph.problems.get("four-bar-loop")
    ph.problems.get("roll-up", n=3)
    pendulum(0.5)
    assert compiled() == []


@pytest.mark.exhaustive
def test_rest_positions_and_vibrations_are_found_without_compiling(compiled):
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.15), position=(0.7, 0, 0))
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    model.add(ph.forces.TorsionalSpringDamper(model.ground, body, axis=(0, 1, 0), stiffness=20.0, damping=0.1))
    problem = model.problem("SE3", t1=1.0)
    rest = ph.equilibrium(problem)
    ph.modes(problem, rest.state).displacements()
    assert compiled() == []


@pytest.mark.exhaustive
def test_derivatives_pass_through_the_numbers_of_a_model():
    def energy(length):
        problem = pendulum(length)
        return problem.invariants["energy"](0.0, problem.state0)

    slope = jax.grad(energy)(0.5)
    with eager_numpy():
        inside = jax.grad(energy)(0.5)
    difference = (energy(0.5 + 1e-6) - energy(0.5 - 1e-6)) / 2e-6
    np.testing.assert_allclose([slope, inside], difference, rtol=1e-8)


def test_types_that_give_way_do_so():
    def product():
        return jnp.asarray(2.0) * jnp.ones(2, jnp.float32), jnp.add(1, 2) * jnp.ones(2, jnp.int8), jnp.sin(2.0)

    wanted = product()
    with eager_numpy():
        found = product()
    assert [(x.dtype, x.weak_type) for x in found] == [(x.dtype, x.weak_type) for x in wanted]


def test_random_numbers_are_those_of_jax():
    wanted = jax.random.normal(jax.random.key(3), (4,))
    with eager_numpy():
        keys = jax.random.split(jax.random.key(3))
        np.testing.assert_array_equal(jax.random.normal(jax.random.key(3), (4,)), wanted)
        assert jax.random.randint(keys[0], (), 0, 10) == jax.random.randint(keys[0], (), 0, 10)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_what_is_no_whole_number_becomes_one_as_in_jax(kind):
    values = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -1.0, 300.7, 3.7, -3.7])
    wanted = jax.jit(lambda x: x.astype(kind))(values)
    with eager_numpy():
        np.testing.assert_array_equal(jnp.asarray(values).astype(kind), wanted)
