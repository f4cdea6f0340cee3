"""All forces in one system: the same accelerations in several coordinates, tangents against plain differentiation."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from test_forces import PAIRS, F, T, bodies

from polhode.linalg.blocks import to_dense
from polhode.multibody.mechanism.poses import Twist
from polhode.systems.mechanical import AbstractMechanical

# Programs of all forces take long to compile.
pytestmark = pytest.mark.exhaustive

FORMULATIONS = ("SO3xR3", "SE3")


@functools.cache
def twist_rates(formulation: str) -> Any:
    """Twist rates, and stiffness and damping beside their defaults, of a system with all forces."""

    def run(slope: Any) -> Any:
        model, a, b = bodies()
        for make in PAIRS.values():
            model.add(make(a, b))
        model.add(F.PointForce(a, lambda t: slope * jnp.stack((t, t, t)), frame="body"))
        system, (q, _) = model.assemble(formulation)
        (group,), parts = system.coordinates.bodies, jnp.linspace(-1.0, 1.0, 12).reshape(2, 6)
        v = jax.vmap(lambda p, w: group.formulation.from_twist(p, Twist(w[:3], w[3:])))(q[0], parts).reshape(-1)
        force, mass = system.force(T, q, v), to_dense(system.mass(T, q), (12, 12))
        vdot = jnp.linalg.solve(mass, force)
        twist = lambda s: jnp.concatenate(  # noqa: E731
            [jnp.concatenate(system.twist(system.flow(q, v, s), v + s * vdot, body)) for body in (a, b)]
        )
        dense = [to_dense(K, (12, 12)) for K in (system.stiffness(T, q, v), system.damping(T, q, v))]
        defaults = AbstractMechanical.stiffness, AbstractMechanical.damping
        plain = [to_dense(tangent(system, T, q, v), (12, 12)) for tangent in defaults]
        return jax.jvp(twist, (0.0,), (1.0,))[1], dense, plain

    return evaluated(run, jnp.ones(()))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_tangents_are_those_of_plain_differentiation(formulation: str) -> None:
    _, dense, plain = twist_rates(formulation)
    for result, expected in zip(dense, plain, strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("formulation", FORMULATIONS[1:])
def test_coordinates_agree_on_accelerations(formulation: str) -> None:
    reference = twist_rates(FORMULATIONS[0])[0]
    np.testing.assert_allclose(twist_rates(formulation)[0], reference, rtol=0, atol=1e-13 * np.abs(reference).max())
