"""Mechanical systems: constraints, their derivatives and accelerations; conversion; explained mistakes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode.linalg.blocks import to_dense
from polhode.spaces import SE3, SO3, Rn, direct_so3_r3
from polhode.spaces.base import cross
from polhode.systems import Mechanical

J = jnp.array([0.3, 0.5, 0.7])
X = jnp.array([0.1, 1.0, -0.3])


def spring_force(t, q, v):
    return jnp.concatenate((-cross(v[:3], J * v[:3]), jnp.array([0.1 * t, 0.2, -9.81]) - 0.3 * v[3:]))


def driven(t, q):
    """A body-fixed point of height sin t, and a turn about one axis only."""
    R, x = q
    return jnp.stack(((x + R @ X)[2] - jnp.sin(t), R[0, 1], R[0, 2]))


SYSTEM = Mechanical(direct_so3_r3(), jnp.diag(jnp.concatenate((J, jnp.full(3, 2.0)))), spring_force, driven, 3)
T, KEY = jnp.asarray(0.4), jax.random.key(5)
Q, V = SYSTEM.configuration.random(KEY), jax.random.normal(jax.random.key(6), (6,))


def test_the_constraint_rate_is_the_time_derivative():
    e = 1e-6

    def evaluate(q, v):
        return SYSTEM.constraint_rate(T, q, v), [SYSTEM.constraint(T + s, SYSTEM.flow(q, v, s)) for s in (e, -e)]

    rate, (ahead, behind) = evaluated(evaluate, Q, V)
    np.testing.assert_allclose(rate, (ahead - behind) / (2 * e), atol=1e-9)


def test_the_jacobian_and_the_drive_make_the_rate():

    def evaluate(q, v):
        B = to_dense(SYSTEM.jacobian(T, q), (3, 6))
        return B, SYSTEM.constraint_rate(T, q, jnp.zeros(6)), SYSTEM.constraint_rate(T, q, v)

    B, drive, rate = evaluated(evaluate, Q, V)
    np.testing.assert_allclose(drive, [-np.cos(0.4), 0, 0], atol=1e-15)
    np.testing.assert_allclose(B @ V + drive, rate, atol=1e-14)


def test_the_curvature_is_the_second_derivative_along_a_frozen_velocity():
    e = 1e-4

    def evaluate(q, v):
        return SYSTEM.curvature(T, q, v), [SYSTEM.constraint(T + s, SYSTEM.flow(q, v, s)) for s in (-e, 0.0, e)]

    curvature, values = evaluated(evaluate, Q, V)
    np.testing.assert_allclose(curvature, (values[0] - 2 * values[1] + values[2]) / e**2, atol=1e-6)


def test_accelerations_obey_both_equations():

    def evaluate(q, v):
        B, M = to_dense(SYSTEM.jacobian(T, q), (3, 6)), to_dense(SYSTEM.mass(T, q), (6, 6))
        return *SYSTEM.accelerations(T, q, v), B, M, SYSTEM.force(T, q, v), SYSTEM.curvature(T, q, v)

    vdot, multipliers, B, M, force, curvature = evaluated(evaluate, Q, V)
    np.testing.assert_allclose(M @ vdot, force - B.T @ multipliers, atol=1e-12)
    np.testing.assert_allclose(B @ vdot, -curvature, atol=1e-12)


def test_tangents_are_derivatives_of_the_force():
    e, d = 1e-6, jax.random.normal(jax.random.key(1), (6,))

    def evaluate(q, v):
        displaced = [SYSTEM.force(T, SYSTEM.configuration.move(q, s * d), v) for s in (e, -e)]
        faster = [SYSTEM.force(T, q, v + s * d) for s in (e, -e)]
        return (
            displaced,
            faster,
            [to_dense(x, (6, 6)) for x in (SYSTEM.stiffness(T, q, v), SYSTEM.damping(T, q, v))],
        )

    displaced, faster, (K, C) = evaluated(evaluate, Q, V)
    np.testing.assert_allclose(-K @ d, (displaced[0] - displaced[1]) / (2 * e), atol=1e-8)
    np.testing.assert_allclose(-C @ d, (faster[0] - faster[1]) / (2 * e), atol=1e-8)


def test_without_constraints_every_explicit_method_runs():
    free = Mechanical(SO3(), jnp.diag(J), lambda t, q, v: -cross(v, J * v))
    state = (jnp.eye(3), jnp.array([0.4, -0.2, 1.0]))
    errors = []
    best = ph.simulate(free, "rkmk4", h=1e-3, t1=1.0, state0=state, save_every=None)
    for h in (0.1, 0.05):
        run = ph.simulate(free, "rkmk4", h=h, t1=1.0, state0=state, save_every=None)
        errors.append(float(jnp.max(jnp.abs(run.state[0][-1] - best.state[0][-1]))))
    assert 3.7 < np.log2(errors[0] / errors[1]) < 4.4


def test_methods_of_other_systems_are_refused_with_those_that_take_constraints():
    with pytest.raises(
        ValueError, match=r"can't take this Mechanical: it takes a Hamiltonian.*herk54, .*bdf, generalized-alpha"
    ):
        ph.simulate(SYSTEM, "symplectic", h=0.1, t1=1.0, state0=(Q, V))
    with pytest.raises(ValueError, match="violates the constraints on positions"):
        ph.simulate(SYSTEM, "rkmk4", h=0.1, t1=1.0, state0=(Q, V))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forces": lambda t, q, v: v[:2]}, r"forces\(t, q, v\).*shape \(6,\)"),
        ({"forces": lambda t, q, v: float(v[0])}, "can't be traced"),
        ({"mass_matrix": jnp.eye(3)}, r"mass_matrix.*\(6, 6\)"),
        ({"mass_matrix": lambda q: jnp.eye(3)}, r"mass_matrix\(q\).*\(6, 6\)"),
        ({"constraints": lambda t, q: q[1], "number": 2}, r"constraints\(t, q\).*\(2,\)"),
    ],
)
def test_wrong_functions_are_explained_before_compiling(change, message):
    arguments = {"space": SE3(), "mass_matrix": jnp.eye(6), "forces": spring_force, **change}
    with pytest.raises(ValueError, match=message):
        Mechanical(**arguments).check(0.0, (SE3().origin(), jnp.zeros(6)))


def test_constraints_come_with_their_number():
    with pytest.raises(ValueError, match="number"):
        Mechanical(Rn(3), jnp.eye(3), lambda t, q, v: -q, lambda t, q: q[:1])
