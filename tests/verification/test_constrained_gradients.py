"""Derivatives of a final position with options of constrained methods, against central differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph

METHODS = {
    "herk2 with projection": ("herk2", {"family": "authors", "projection": "position"}),
    "stabilised": ("generalized-alpha", {"constraint": "stabilized-index-2"}),
    "modified Newton": ("generalized-alpha", {"newton": "modified"}),
}


START = jnp.array([1.3, 0.8, 1.5])


def end(name, parameters):
    """A combination of the final coordinates of a tumbling bar, from its mass, its length and its spin."""
    mass, length, spin = parameters
    model = ph.Model(gravity=(0, 0, -9.81))
    omega = jnp.stack((0.3 * spin, -0.5 * spin, spin))
    centre = length * jnp.array([1.0, 0.2, 0.0])
    bar = model.add_body(
        mass=mass,
        inertia=jnp.array([0.05, 0.09, 0.1]),
        position=centre,
        velocity=jnp.cross(omega, centre),
        angular_velocity=omega,
    )
    model.add(ph.joints.Spherical(model.ground, bar, point=jnp.zeros(3)))
    system, state0 = model.assemble("S3xR3")
    method, options = METHODS[name]
    integrator = ph.integrators.get(method, **options)
    run = ph.simulate(system, integrator, h=0.02, t1=0.08, state0=state0, save_every=None)
    return jnp.sum(jnp.array([1.0, -2.0, 0.5]) * system.pose(jax.tree.map(lambda a: a[-1], run.state[0]), bar).x)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", METHODS)
def test_derivatives_by_masses_lengths_and_speed(name):
    value = jax.jit(lambda p: end(name, p))
    forward = jax.jit(jax.jacfwd(lambda p: end(name, p)))(START)
    e = 1e-4
    # One step of Richardson's extrapolation: its own error is below 1e-10.
    coarse, fine = (
        np.array([float(value(START.at[i].add(s)) - value(START.at[i].add(-s))) / (2 * s) for i in range(3)])
        for s in (e, e / 2)
    )
    np.testing.assert_allclose(forward, (4 * fine - coarse) / 3, rtol=1e-6, atol=1e-8)
