"""The tangent of constraint forces, block by block, against differentiation of the whole."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.linalg.blocks import to_dense
from polhode.systems.mechanical import AbstractMechanical


@pytest.mark.parametrize("formulation", ["SE3", "SO3xR3", pytest.param("euler-parameters", marks=pytest.mark.long)])
def test_geometric_stiffness_is_the_derivative_of_the_constraint_force(formulation: str) -> None:
    model = ph.Model()
    first = model.add_body(
        mass=1.0, inertia=(1, 1.5, 1.2), position=(1, 0, 0), rotation=ph.rotation_vector((0, 0.3, 0))
    )
    second = model.add_body(mass=1.0, inertia=(1, 1.5, 1.2), position=(2, 1, 0))
    model.add(ph.joints.Universal(model.ground, first, point=(0, 0, 0), first_axis=(0, 1, 0), second_axis=(0, 0, 1)))
    model.add(ph.joints.Distance(first, second, first_point=(1.2, 0, 0), second_point=(2, 1, 0.3)))
    system, (q, _) = model.assemble(formulation)
    keys = jax.random.split(jax.random.key(3))
    multipliers = jax.random.normal(keys[0], (system.m,))
    q = system.configuration.move(q, 0.3 * jax.random.normal(keys[1], (system.n,)))
    t, shape = jnp.zeros(()), (system.n, system.n)

    @jax.jit
    def both() -> tuple[jax.Array, jax.Array]:
        whole = AbstractMechanical.geometric_stiffness(system, t, q, multipliers)
        return to_dense(system.geometric_stiffness(t, q, multipliers), shape), to_dense(whole, shape)

    blocks, whole = both()
    assert np.abs(whole).max() > 0.1
    np.testing.assert_allclose(blocks, whole, atol=1e-13)
