"""Derivatives through controlled runs and at zero rotation; constant steps and batches are in the table of methods."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph


def tip(values, integrator="rkmk4", **how):
    """Height of the heavy top's centre of mass at the end, as a function of (mass, gravity, distance)."""
    mass, gravity, length = values
    problem = ph.problems.get("heavy-top", formulation="S3").replace(mass=mass, gravity=gravity, length=length)
    run = ph.simulate(problem, integrator, t1=0.03, save_every=None, **how)
    return run.outputs["centre_of_mass"][-1] @ jnp.array([1.0, 2.0, 3.0])


START = jnp.array([15.0, 9.81, 1.0])


def central(f, x, step=1e-4):
    columns = jnp.eye(len(x)) * step
    return jnp.array([(f(x + e) - f(x - e)) / (2 * step) for e in columns])


@pytest.mark.exhaustive
def test_reverse_and_forward_agree_with_differences_of_the_held_step_sequence():
    """At a tight tolerance the derivative with the steps held fixed is that of the exact flow."""
    f = lambda x: tip(x, "rkmk54", rtol=1e-9, max_steps=128)  # noqa: E731
    exact = lambda x: tip(x, "rkmk6", h=2e-4)  # noqa: E731
    reverse, forward = jax.grad(f)(START), jax.jacfwd(f)(START)
    np.testing.assert_allclose(reverse, central(exact, START), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)


@pytest.mark.exhaustive
def test_gradient_is_finite_at_zero_rotation_and_zero_velocity():
    problem = ph.problems.get("heavy-top", formulation="SO3")

    def end(velocity):
        run = ph.simulate(problem, "rkmk4", h=5e-3, t1=0.02, state0=(jnp.eye(3), velocity), save_every=None)
        return run.outputs["centre_of_mass"][-1] @ jnp.array([1.0, 2.0, 3.0])

    gradient = jax.grad(end)(jnp.zeros(3))
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient, central(end, jnp.zeros(3)), rtol=1e-6, atol=1e-9)


@pytest.mark.exhaustive
def test_traced_run_equals_host_run():
    problem = ph.problems.get("heavy-top", formulation="S3")
    times = jnp.array([0.0, 0.0103, 0.02, 0.03])

    def traced(state):
        return ph.simulate(problem, "rkmk54", rtol=1e-7, t1=0.03, state0=state, save_at=times, max_steps=64).outputs[
            "axis"
        ]

    host = ph.simulate(problem, "rkmk54", rtol=1e-7, t1=0.03, save_at=times).outputs["axis"]
    np.testing.assert_allclose(jax.jit(traced)(problem.state0), host, atol=1e-13)


def test_adaptive_run_inside_a_transformation_needs_times():
    with pytest.raises(ValueError, match="no fixed number of frames"):
        jax.grad(
            lambda x: ph.simulate(
                ph.problems.get("heavy-top", formulation="S3").replace(mass=x), "rkmk54", rtol=1e-6, t1=0.01
            ).t[-1]
        )(15.0)


@pytest.mark.exhaustive
def test_traced_adaptive_run_reports_too_many_steps():
    problem = ph.problems.get("heavy-top", formulation="S3")
    run = jax.jit(
        lambda s: ph.simulate(problem, "rkmk54", rtol=1e-9, t1=0.1, state0=s, save_every=None, max_steps=8).stats[
            "result"
        ]
    )
    assert int(run(problem.state0)) == ph.Result.max_steps_reached
