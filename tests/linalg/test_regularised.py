"""A that is singular without its constraints, as of Euler parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import quick
from structures import KKTSystem

from polhode.linalg import Blocks, Places, kkt_solver
from polhode.linalg.regularised import RegularisedKKT


def euler_parameters(bodies: int, scale: float = 1.0) -> tuple[KKTSystem, tuple[int, ...]]:
    """4×4 mass matrices of rank 3, normalisations, and one joint row between neighbours."""
    rng = np.random.default_rng(11)
    p = rng.normal(size=(bodies, 4))
    p /= np.linalg.norm(p, axis=1, keepdims=True)
    basis = np.stack([np.linalg.svd(row[None])[2][1:] for row in p])
    inertia = scale * np.array([2.0, 3.0, 5.0])
    own = np.arange(4 * bodies).reshape(bodies, 4)
    A = Blocks(jnp.asarray(basis.mT * inertia @ basis), Places(own), Places(own))
    norms = Blocks(jnp.asarray(2 * p[:, None]), Places(np.arange(bodies)[:, None]), Places(own))
    joints = []
    for k in range(bodies - 1):
        row = Places([[bodies + k]])
        joints.append(Blocks(jnp.asarray(rng.normal(size=(1, 1, 8))), row, Places(own[k : k + 2].reshape(1, 8))))
    P = (norms, *joints)
    return KKTSystem((A,), P, P, 4 * bodies, 2 * bodies - 1), tuple(range(bodies))


@pytest.mark.parametrize(("bodies", "scale"), [(1, 1.0), (2, 1e-6), (3, 1e4)])
def test_solves_what_is_singular_otherwise(bodies, scale):
    system, norms = euler_parameters(bodies, scale)
    r, s = system.right_sides()
    solver = kkt_solver(system.A, system.P, system.n, system.m, regularise=norms)
    assert isinstance(solver, RegularisedKKT)
    expected = np.linalg.solve(system.dense(), np.concatenate((scale * r, s)))
    x, multipliers = quick(lambda A, P, Q, r, s: solver.solve(solver.factor(A, P, Q), r, s), *system[:3], scale * r, s)
    np.testing.assert_allclose(x, expected[: system.n], rtol=0, atol=1e-12 * np.abs(expected[: system.n]).max())
    largest = np.abs(expected[system.n :]).max()
    np.testing.assert_allclose(multipliers, expected[system.n :], rtol=0, atol=1e-12 * largest)


def test_derivatives_do_not_see_the_weight():
    system, norms = euler_parameters(1)
    r, s = system.right_sides()
    solver = kkt_solver(system.A, system.P, system.n, system.m, regularise=Places(norms))

    def first(values, r, s):
        at = system.with_values(values)
        return solver.solve(solver.factor(at.A, at.P, at.Q), r, s)[0][0]

    values, direction = system.values(), jax.tree.map(np.cos, system.values())
    found = quick(lambda v, d: jax.jvp(lambda v: first(v, r, s), (v,), (d,))[1], values, direction)
    shifted = [system.with_values(jax.tree.map(lambda v, d, e=e: v + e * d, values, direction)) for e in (1e-6, -1e-6)]
    plus, minus = (np.linalg.solve(at.dense(), np.concatenate((r, s)))[0] for at in shifted)
    np.testing.assert_allclose(found, (plus - minus) / 2e-6, rtol=1e-7)


def test_rows_must_be_whole():
    system, _ = euler_parameters(2)
    with pytest.raises(ValueError, match=r"rows \[9\] are in no block of P"):
        kkt_solver(system.A, system.P, system.n, system.m, regularise=(9,))
    with pytest.raises(ValueError, match="some are in several blocks"):
        kkt_solver(system.A, system.P * 2, system.n, system.m, regularise=(0,))
