"""Derivatives of runs with contacts at fixed modes, against closed forms and differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.spaces import Rn
from polhode.systems.mechanical import FunctionContacts, Mechanical

G = 9.81
START = jnp.array([0.1, 0.5, 0.1, 2.0])


def sliding_ball() -> ph.Model:
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    friction, restitution, radius, speed = (
        ph.Parameter(name, float(x))
        for name, x in zip(("friction", "restitution", "radius", "speed"), START, strict=True)
    )
    model.add_body(
        mass=2.0, shape=ph.shapes.Sphere(radius), position=(0, 0, radius), velocity=(speed, 0, 0), name="ball"
    )
    model.contacts(friction=friction, restitution=restitution)
    return model


PROBLEM = sliding_ball().problem(t1=0.2, h=0.01)


def end(values, t1=0.2, method=None):
    """Position and velocity at the end of a run."""
    friction, restitution, radius, speed = values
    changed = PROBLEM.replace(friction=friction, restitution=restitution, radius=radius, speed=speed)
    ball = ph.simulate(changed, method, t1=t1).bodies["ball"]
    return jnp.concatenate((ball.position[-1], ball.velocity[-1]))


@pytest.mark.exhaustive
def test_derivatives_of_sliding_are_those_of_its_closed_form():
    """While the ball slides, x = vt - μgt²/2."""
    t, jacobian = 0.2, jax.jacrev(end)(START)
    np.testing.assert_allclose(jacobian[0], [-G * t**2 / 2, 0, 0, t], atol=1e-12)
    np.testing.assert_allclose(jacobian[2], [0, 0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(jacobian[3], [-G * t, 0, 0, 1], atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "rattle"])
def test_derivatives_of_rolling_are_those_of_its_closed_form(method):
    """After sliding the ball rolls with 5/7 of its speed, whatever its friction, up to an error of the step."""
    _, slope = jax.jvp(lambda x: end(x, 1.0, method), (START,), (jnp.array([0.0, 0.0, 0.0, 1.0]),))
    np.testing.assert_allclose(slope[3], 5 / 7, atol=1e-9)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "rattle"])
@pytest.mark.parametrize("formulation", ["SO3xR3", "minimal"])
def test_derivatives_of_impacts_with_joints_are_those_of_differences(formulation, method):
    def force(values):
        mass, wall, friction = values
        model = ph.Model(gravity=(0, 0, -G), units="SI")
        turn = ph.rotation_vector((0, np.pi / 2, 0))
        model.ground.add_shape(ph.shapes.Plane(position=(wall, 0, 0), rotation=turn, name="wall"))
        bob = model.add_body(
            mass=mass,
            inertia=(0.1, 0.1, 0.1),
            shape=ph.shapes.Sphere(0.05),
            position=(0.3, 0, -np.sqrt(1 - 0.3**2)),
            name="bob",
        )
        model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
        model.contacts(friction=friction, restitution=0.3)
        run = ph.simulate(model.problem(formulation, t1=0.2, h=0.01), method)
        return jnp.concatenate((run.bodies["bob"].position[-1], run.contacts["wall", "bob"].normal_forces[-1]))

    x, e = jnp.array([2.0, 0.2, 0.2]), 1e-5
    reverse, forward = jax.jacrev(force)(x), jax.jacfwd(force)(x)
    differences = jnp.stack([(force(x + e * d) - force(x - e * d)) / (2 * e) for d in jnp.eye(3)], axis=-1)
    np.testing.assert_allclose(reverse, differences, atol=1e-5)
    np.testing.assert_allclose(forward, reverse, atol=1e-10)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "rattle", "generalized-alpha"])
def test_derivatives_of_the_place_where_a_block_stops(method):
    """It is v²/2μg, to first order in the step; derivatives of both directions are those of differences."""

    def place(values):
        friction, speed = values
        contacts = FunctionContacts(lambda t, q: q[1:], lambda t, q, v: v[:1], number=1, friction=friction)
        force = lambda t, q, v: jnp.array([0.0, -2.0 * G]) + 0 * q  # noqa: E731
        system = Mechanical(Rn(2), 2.0 * np.eye(2), force, contact_set=contacts)
        start = jnp.zeros(2), jnp.stack([speed, 0 * speed])
        return ph.simulate(system, method, t1=1.0, h=0.01, state0=start).state[0][-1, 0]

    x, e = jnp.array([0.4, 2.0]), 1e-6
    reverse, forward = jax.jacrev(place)(x), jax.jacfwd(place)(x)
    differences = [(place(x + e * d) - place(x - e * d)) / (2 * e) for d in jnp.eye(2)]
    np.testing.assert_allclose(reverse, differences, rtol=1e-7)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)
    np.testing.assert_allclose(reverse, [-(2.0**2) / (2 * 0.4**2 * G), 2.0 / (0.4 * G)], rtol=0.02)


@pytest.mark.filterwarnings("ignore:XLA compiles this derivative")
@pytest.mark.exhaustive
def test_derivatives_inside_jit_and_vmap_are_those_outside():
    native = jax.jacrev(end)(START)
    np.testing.assert_allclose(jax.jit(jax.jacrev(end))(START), native, atol=1e-12)
    several = jnp.stack((START, 1.01 * START))
    np.testing.assert_allclose(jax.vmap(jax.jacrev(end))(several)[0], native, atol=1e-12)


@pytest.mark.parametrize("bad", [{"friction": -0.1}, {"restitution": 1.5}, {"radius": -1.0}])
def test_parameters_of_contacts_that_make_no_sense_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        ph.simulate(PROBLEM.replace(**bad))
