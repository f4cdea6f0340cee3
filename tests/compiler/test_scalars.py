"""Scalar programs compute what the array programs compute."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import PROGRAMS, A, V

from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.scalars.cost import cost
from polhode.compiler.scalars.flat_lists import split
from polhode.compiler.scalars.traced_function import TracedFunction
from polhode.compiler.trace import on_scalars, trace
from polhode.compiler.xla import scalar_backend
from polhode.compiler.xla.entry_points import scalarise


@pytest.mark.sampled(52)
@pytest.mark.parametrize("one_kernel", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_result(name, one_kernel):
    fun = PROGRAMS[name]
    expected = jax.tree.leaves(jax.jit(fun)(A, V))
    measured = jax.tree.leaves(jax.jit(scalarise(fun, 1e9, one_kernel))(A, V))
    for x, y in zip(measured, expected, strict=True):
        assert x.shape == jnp.shape(y)
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-14)


def test_cuts_change_nothing(monkeypatch):
    def fun(a, v):
        for _ in range(6):
            v = jnp.sin(a @ v) + jnp.cos(a.T @ v)
        return v

    expected = jax.jit(fun)(A, V)
    monkeypatch.setattr(scalar_backend, "_SMALL", 0)
    monkeypatch.setattr(scalar_backend, "_CUT_ABOVE", 4)
    program = jax.jit(scalarise(fun, 1e9))
    assert "div" in program.lower(A, V).as_text()
    np.testing.assert_allclose(program(A, V), expected, rtol=1e-13)


def test_equal_expressions_are_one_operation():
    program = TracedFunction(lambda v: (v * v + 1, v * v + 1), V)
    text = jax.jit(lambda v: program(split(v))).lower(V).as_text()
    assert text.count("stablehlo.multiply") == 3


def test_sums_with_negative_terms_are_differences():
    x, y = np.array([0.0, -0.0, 1e300, -2.5]), np.array([-0.0, 0.0, 3.0, 0.1])

    def fun(x, y):
        return jnp.stack([x + -y, -x + y, x - -y, -x - y, -x + -y])

    program = on_scalars(trace(fun, x, y), x, y)
    # Only one sum has none but negative terms.
    assert [o.name for o in program.operations].count("neg") == 4
    rows = RowMap.of(lambda _, row: fun(*row), (), (x, y))
    assert np.asarray(rows((), (x[None], y[None]))[0]).tobytes() == np.asarray(fun(x, y)).tobytes()


@pytest.mark.exhaustive
def test_batch_and_derivatives_of_a_scalar_program():
    fun = lambda v: jnp.sum(jnp.sin(A @ v))  # noqa: E731
    program = TracedFunction(fun, V)
    scalar = lambda v: program(split(v))[0]  # noqa: E731
    np.testing.assert_allclose(jax.grad(scalar)(V), jax.grad(fun)(V), rtol=1e-13)
    vs = jnp.stack([V, 2 * V])
    np.testing.assert_allclose(jax.vmap(scalar)(vs), jax.vmap(fun)(vs), rtol=1e-13)


def test_cost_counts_operations_and_scans_stay_on_arrays():
    assert cost(jax.make_jaxpr(lambda v: v + v)(V).jaxpr) == 3
    assert cost(jax.make_jaxpr(PROGRAMS["scan"])(A, V).jaxpr) == float("inf")


def test_known_indices_leave_no_indexing():
    def fun(a, v):
        return PROGRAMS["scatter"](a, v), PROGRAMS["scatter and combine"](a, v), PROGRAMS["cumulative"](a, v)

    program = TracedFunction(fun, A, V)
    text = jax.jit(lambda a, v: program(split((a, v)))).lower(A, V).as_text()
    assert "scatter" not in text
    assert "gather" not in text
    assert cost(jax.make_jaxpr(lambda v: v.at[np.array([0, 2, 0])].add(v))(V).jaxpr) == 3
    assert cost(jax.make_jaxpr(jnp.cumsum)(V).jaxpr) == 2


def test_a_number_at_known_places_is_an_array_without_dimension():
    numbers = jax.lax.GatherDimensionNumbers((), (0, 1), (0, 1))

    def fun(a):
        return 2.0 * jax.lax.gather(a, np.array([1, 0]), numbers, (1, 1), mode="clip")

    program = TracedFunction(fun, A)
    assert jax.jit(lambda a: program(split(a)))(A)[0] == 2.0 * A[1, 0]
