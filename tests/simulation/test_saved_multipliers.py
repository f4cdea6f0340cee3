"""Multipliers at instants within steps are those of the state there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import polhode as ph

INSTANTS = np.linspace(0.03, 0.97, 9)


def pendulum(gravity=9.81):
    """A body on a hinge, which falls from the height of the hinge."""
    model = ph.Model(gravity=jnp.array((0.0, 0.0, -1.0)) * gravity)
    bob = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(1.0, 0, 0), name="bob")
    model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    return model.problem("SO3xR3", t1=1.0)


def exact_tension(run):
    position, velocity = (np.asarray(getattr(run.bodies["bob"], name)) for name in ("position", "velocity"))
    return (velocity**2).sum(1) - 9.81 * position[:, 2]


def hinge_tension(run):
    position = np.asarray(run.bodies["bob"].position)
    return -np.einsum("ij,ij->i", position, np.asarray(run.joints["hinge"].force))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("generalized-alpha", {"rtol": 1e-6}),
        pytest.param("herk54", {"rtol": 1e-6}, marks=pytest.mark.exhaustive),
        pytest.param("herk3", {"h": 0.07}, marks=pytest.mark.exhaustive),
        pytest.param("bdf", {"rtol": 1e-6}, marks=pytest.mark.exhaustive),
    ],
)
def test_multipliers_are_those_of_the_saved_instants(method, options):
    run = ph.simulate(pendulum(), method, save_at=INSTANTS, **options)
    assert_allclose(hinge_tension(run), exact_tension(run), atol=1e-2 if "h" in options else 1e-3)


@pytest.mark.exhaustive
def test_tolerances_leave_the_multipliers_of_generalized_alpha_undisturbed():
    """With index 3 they are off by a tenth of their largest value."""
    run = ph.simulate(pendulum(), "generalized-alpha", rtol=1e-6)
    assert run.meta["integrator"]["options"] == {"constraint": "stabilized-index-2"}
    assert_allclose(hinge_tension(run), exact_tension(run), atol=0.05)
    control = ph.simulate(pendulum(), ph.integrators.get("generalized-alpha", constraint="index-3"), rtol=1e-6)
    assert np.abs(hinge_tension(control) - exact_tension(control)).max() > 2


def multipliers(gravity, method="herk3", **options):
    return ph.simulate(pendulum(gravity), method, save_at=INSTANTS, **options).multipliers


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [{"h": 0.07}, {"rtol": 1e-4, "max_steps": 60}], ids=("steps", "tolerances"))
def test_transformed_runs_have_the_same(options):
    method = "herk54"
    expected = multipliers(9.81, method, **options)
    traced = jax.jit(lambda gravity: multipliers(gravity, method, **options))(9.81)
    assert_allclose(traced, expected, atol=1e-9)


@pytest.mark.exhaustive
def test_runs_with_events_have_the_same():
    event = ph.Event(lambda t, state: state[0][1][2] + 0.5, terminal=False)
    options = {"events": event, "rtol": 1e-6, "method": "herk54", "max_steps": 60}
    traced = jax.jit(lambda gravity: multipliers(gravity, **options))(9.81)
    assert_allclose(traced, multipliers(9.81, **options), atol=1e-9)
    assert_allclose(traced, multipliers(9.81, "herk54", rtol=1e-9), atol=1e-3)


@pytest.mark.parametrize(
    "derivative",
    [
        pytest.param(jax.grad, id="reverse"),
        pytest.param(jax.jacfwd, id="forward", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_derivatives_are_those_of_the_multipliers_within_steps(derivative):
    weights = jnp.asarray(np.random.default_rng(3).normal(size=(len(INSTANTS), 5)))

    def loss(gravity):
        return jnp.sum(weights * multipliers(gravity, h=0.07))

    h = 1e-4
    difference = (loss(9.81 + h) - loss(9.81 - h)) / (2 * h)
    assert_allclose(derivative(loss)(9.81), difference, rtol=1e-7)


@pytest.mark.parametrize("steps", [{"rtol": 1e-6}, {"h": 0.1}], ids=("tolerances", "steps"))
def test_systems_without_multipliers_are_refused_in_words(steps):
    with pytest.raises(ValueError, match="can't take this"):
        ph.simulate(ph.problems.get("grain-pile", grains=1), "generalized-alpha", **steps)
