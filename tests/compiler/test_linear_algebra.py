"""Factorisations of small matrices and short sorts in scalar machine code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.row_map import RowMap

RNG = np.random.default_rng(5)


def matrices(n, count=6):
    """Matrices that need pivoting, among them one with a zero diagonal and a permutation."""
    out = RNG.standard_normal((count, n, n))
    out[1] -= np.diag(np.diag(out[1]))
    out[2] = np.eye(n)[RNG.permutation(n)]
    return out


def check_against_jax(function, x, rtol=1e-11):
    results = RowMap.of(lambda _, row: function(row), (), x[0])((), x)
    for one, other in zip(jax.tree.leaves(results), jax.tree.leaves(jax.vmap(function)(x)), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(
            one, other, rtol=rtol, atol=rtol * np.max(np.abs(other), initial=1.0, where=np.isfinite(other))
        )


B = RNG.standard_normal((8, 3))
FUNCTIONS = {
    "solve": lambda a: jnp.linalg.solve(a, B[: len(a)]),
    "one right side": lambda a: jnp.linalg.solve(a, B[: len(a), 0]),
    "inverse": jnp.linalg.inv,
    "determinant": jnp.linalg.det,
    "logarithm of it": jnp.linalg.slogdet,
    "factors": jax.scipy.linalg.lu_factor,
    "Cholesky": lambda a: jnp.linalg.cholesky(a @ a.T + jnp.eye(len(a))),
    "solved by it": lambda a: jax.scipy.linalg.cho_solve(
        jax.scipy.linalg.cho_factor(a @ a.T + jnp.eye(len(a))), B[: len(a)]
    ),
    "from the right, transposed": lambda a: jax.lax.linalg.triangular_solve(
        a + 5 * jnp.eye(len(a)), B[: len(a)].T, left_side=False, lower=True, transpose_a=True
    ),
    "above, unit": lambda a: jax.lax.linalg.triangular_solve(a, B[: len(a)], left_side=True, unit_diagonal=True),
    "derivative": jax.grad(lambda a: jnp.sum(jnp.sin(jnp.linalg.solve(a + 4 * jnp.eye(len(a)), B[: len(a)])))),
}


@pytest.mark.sampled(33)
@pytest.mark.parametrize("n", [1, 3, 6])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_factorisations_are_those_of_lapack(name, n):
    check_against_jax(FUNCTIONS[name], matrices(n))


def test_singular_matrices_give_the_results_of_lapack():
    check_against_jax(jnp.linalg.cholesky, np.stack([np.eye(3), np.diag([1.0, -1.0, 2.0])]))
    check_against_jax(lambda a: jax.scipy.linalg.lu_factor(a)[0], np.stack([np.zeros((3, 3)), np.ones((3, 3))]))


@pytest.mark.parametrize("function", [jnp.sort, jnp.argsort, lambda x: jnp.sort(x, descending=True), jnp.median])
def test_short_sorts(function):
    rows = RNG.standard_normal((5, 7))
    rows[1, 2:5] = 0.25
    rows[2, 3], rows[3, 1], rows[3, 2] = np.nan, 0.0, -0.0
    check_against_jax(function, rows)
    check_against_jax(jnp.sort, RNG.integers(0, 4, (5, 6)))


def test_large_matrices_are_unsupported():
    with pytest.raises(UnsupportedNativeOperation):
        RowMap.of(lambda _, a: jnp.linalg.inv(a), (), np.eye(12))
