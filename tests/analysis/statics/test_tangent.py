"""Tangents of constraint forces and of fixed stresses, block by block, against differentiation of the whole."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.linalg.blocks import apply, to_dense

SLOW = [pytest.param(name, marks=pytest.mark.exhaustive) for name in ("SO3xR3", "euler-parameters")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SE3", *SLOW])
@pytest.mark.sampled(6)
def test_geometric_stiffness_is_the_derivative_of_the_constraint_force(formulation: str) -> None:
    model = ph.Model()
    first = model.add_body(
        mass=1.0, inertia=(1, 1.5, 1.2), position=(1, 0, 0), rotation=ph.rotation_vector((0, 0.3, 0))
    )
    second = model.add_body(mass=1.0, inertia=(1, 1.5, 1.2), position=(2, 1, 0))
    model.add(ph.joints.Universal(model.ground, first, point=(0, 0, 0), first_axis=(0, 1, 0), second_axis=(0, 0, 1)))
    model.add(ph.joints.Distance(first, second, first_point=(1.2, 0, 0), second_point=(2, 1, 0.3)))
    system, (q, _) = model.assemble(formulation)
    keys = jax.random.split(jax.random.key(3), 3)
    multipliers = jax.random.normal(keys[0], (system.m,))
    q = system.configuration.move(q, 0.3 * jax.random.normal(keys[1], (system.n,)))
    t = jnp.zeros(())
    direction = jax.random.normal(keys[2], (system.n,))

    @jax.jit
    def both() -> tuple[jax.Array, jax.Array]:
        force = lambda theta: system.constraint_force(t, system.configuration.move(q, theta), multipliers)  # noqa: E731
        whole = jax.jvp(force, (jnp.zeros(system.n),), (direction,))[1]
        return apply(system.geometric_stiffness(t, q, multipliers), direction, system.n), whole

    blocks, whole = both()
    assert np.abs(whole).max() > 0.1
    np.testing.assert_allclose(blocks, whole, atol=1e-13)


@pytest.mark.exhaustive
def test_stiffness_of_fixed_stresses_is_what_the_material_leaves() -> None:
    # K = K(C) + K(σ), both linear: of twice the material with other stresses, twice K leaves the part of stresses.
    turned = 0.3 * jax.random.normal(jax.random.key(4), (12,))

    def placed(scale: float, reference: list[float]) -> tuple[Any, Any]:
        stiffness = scale * np.array([1.0, 1.2, 1.1, 50, 50, 80])
        section = ph.rods.Section(stiffness=stiffness, mass=1.0, inertia=np.ones(3))
        points, strains = np.eye(3)[:1] * np.arange(3)[:, None], np.tile(reference, (2, 1))
        model = ph.Model()
        model.add_rod(points=points, section=section, clamped=("first",), reference=strains, lengths=np.ones(2))
        system, (q, _) = model.assemble()
        return system, system.configuration.move(q, turned)

    @eqx.filter_jit
    def tangent(system: Any, q: Any) -> tuple[jax.Array, Any]:
        t = jnp.zeros(())
        return to_dense(system.stiffness(t, q, jnp.zeros(12)), (12, 12)), system.stresses(t, q)

    system, q = placed(1.0, [0, 0, 0, 0, 0, 1])
    K, stress = tangent(system, q)
    twice, other = tangent(*placed(2.0, [0.3, -0.2, 0.1, 0.2, 0.1, 1.1]))
    left = jax.tree.map(lambda a, b: a - 2 * b, other, stress)
    result = jax.jit(lambda s: to_dense(system.stress_stiffness(jnp.zeros(()), q, s), (12, 12)))(left)
    assert np.abs(result).max() > 1
    np.testing.assert_allclose(result, twice - 2 * K, atol=1e-11)
