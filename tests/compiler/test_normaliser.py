"""The normal form of programs: as few operations as the results take, and the same results."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler.arrays.flat_program import flatten
from polhode.compiler.numpy.interpreter import Interpreter, from_jaxpr, programs
from polhode.compiler.scalars.normal_form import ScalarNormaliser
from polhode.compiler.scalars.program import Program, ProgramBackend
from polhode.compiler.trace import on_scalars, trace

X = np.array([0.3, -1.2, 2.5])


def made(function, *x) -> Interpreter:
    return from_jaxpr(jax.make_jaxpr(function)(*x))


def names(function, *x) -> list[str]:
    return [equation.name for equation in made(function, *x).equations]


@jax.jit
def inner(x):
    return jnp.sin(x) * 2.0


def test_calls_are_opened_and_equal_operations_done_once():
    function = lambda x: inner(x) + jax.jit(lambda y: jnp.cos(jnp.sin(y)))(x) + inner(x)  # noqa: E731
    assert sorted(names(function, X)) == ["add", "add", "cos", "mul", "sin"]
    np.testing.assert_allclose(made(function, X)([X])[0], 4 * np.sin(X) + np.cos(np.sin(X)), rtol=1e-15)


def test_what_no_result_takes_is_left_out():
    assert names(lambda x: (jnp.exp(x), jnp.tan(x))[0], X) == ["exp"]
    assert names(lambda x: jnp.split(jnp.exp(x), 3)[1], X) == ["exp", "split"]


def test_what_is_known_is_worked_out_at_once():
    table = np.arange(12.0).reshape(3, 4)
    function = lambda x: x * jnp.sum(jnp.asarray(table)[1] ** 2) + jnp.arange(3)  # noqa: E731
    assert names(function, X) == ["mul", "add"]
    np.testing.assert_allclose(made(function, X)([X])[0], X * 126.0 + [0, 1, 2], rtol=1e-15)
    np.testing.assert_array_equal(made(lambda x: jnp.cos(jnp.ones(2)), X)([X])[0], np.cos(np.ones(2)))


def test_large_arrays_are_made_when_they_are_needed():
    function = lambda x: x[0] + jnp.sum(jnp.ones(10_000))  # noqa: E731
    assert "broadcast_in_dim" in names(function, X)
    assert made(function, X)([X])[0] == X[0] + 10_000


def test_arrays_too_large_to_compare_are_told_apart():
    # Each is let go of as soon as its one element is known, so that the next may lie where it was.
    def function(x):
        return x[0] + sum(jax.jit(lambda k=k: jnp.asarray(np.full(5000, float(k)))[7])() for k in range(6))

    assert made(function, X)([X])[0] == X[0] + sum(range(6))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 0.0, x * -0.0),
        lambda x: (jnp.zeros(3) / x, -jnp.zeros(3) / x),
        lambda x: (x.astype(int), x.astype(float)),
        lambda x: (jnp.sum(x[None], axis=0), jnp.sum(x[None], axis=1)),
    ],
)
def test_what_differs_in_little_is_told_apart(function):
    alike = lambda x: tuple(function(x))  # noqa: E731
    for found, wanted in zip(made(alike, X)([X]), alike(jnp.asarray(X)), strict=True):
        wanted = np.asarray(wanted)
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes()


def test_parameters_are_told_apart_by_their_signs():
    def function(x):
        return [jax.lax.gather(x, np.array([[9]]), DIMENSIONS, (1,), mode="fill", fill_value=value) for value in Z]

    assert [x.tobytes() for x in made(function, X)([X])] == [np.float64(value).tobytes() for value in Z]


DIMENSIONS = jax.lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
Z = (0.0, -0.0, 1.0)


def test_loops_keep_their_programs():
    function = lambda x: jax.lax.fori_loop(0, 4, lambda _, y: inner(y) + inner(y), x)  # noqa: E731
    program = made(function, X)
    (loop,) = (equation for equation in program.equations if programs(equation))
    assert sum(e.name == "sin" for listing in programs(loop) for e in listing.equations) == 1
    np.testing.assert_allclose(program([X])[0], function(X), rtol=1e-14)


def test_what_is_done_for_its_effect_is_done_each_time():
    seen = []

    def function(x):
        for _ in range(2):
            jax.debug.callback(lambda y: seen.append(float(y)), x[0])
        return 2 * x

    np.testing.assert_array_equal(made(function, X)([X])[0], 2 * X)
    jax.effects_barrier()
    assert seen == [X[0]] * 2


def of_scalars(function, *x, differentiated=False) -> list[str]:
    backend = ProgramBackend(Program([]), differentiated)
    jaxpr = jax.make_jaxpr(function)(*x).jaxpr
    return [equation.name for equation in ScalarNormaliser(backend).program(jaxpr).equations]


def test_every_back_end_has_equal_operations_once():
    def function(x):
        add = lambda: jnp.zeros(5).at[PLACES].add(x)  # noqa: E731
        return inner(x) + inner(x) * 1.0, add() + add()

    for listed in (
        names(function, X),
        [equation.name for equation in flatten(jax.make_jaxpr(function)(X)).equations],
        of_scalars(function, X),
    ):
        assert [listed.count(name) for name in ("sin", "scatter-add", "pjit", "jit")] == [1, 1, 0, 0]


def test_equal_constants_of_array_loops_are_one_array():
    again = lambda: jnp.asarray(TABLE.copy())  # noqa: E731
    function = lambda x, k: (x + again()[k], x * again()[k])  # noqa: E731
    flat = flatten(jax.make_jaxpr(function)(X, jnp.arange(3)))
    tables = {id(v) for e in flat.equations for v in e.inputs if isinstance(v, np.ndarray) and v.shape == TABLE.shape}
    assert len(tables) == 1


PLACES, TABLE = jnp.array([0, 3, 0]), np.linspace(0.0, 1.0, 50)


def test_loops_whose_results_nobody_takes_are_not_unrolled():
    def function(x):
        unused = jax.lax.while_loop(lambda y: y[0] < 3.0, lambda y: y + 1.0, x)
        return jnp.where(True, jnp.cos(x), x), unused[0] * 0.0

    program = on_scalars(trace(lambda x: function(x)[0], X), X)
    assert "while" not in [operation.name for operation in program.operations]


def test_constants_are_folded_by_numpy_only_where_numpy_evaluates():
    """NumPy's functions of arrays may round differently from those that compiled code calls."""
    function = lambda x: x * jnp.sin(jnp.full(3, 0.7))  # noqa: E731
    assert "sin" not in names(function, X)
    assert "sin" in of_scalars(function, X)


def test_zero_derivatives_are_kept_where_programs_are_differentiated():
    function = lambda x: jax.lax.stop_gradient(x) * x  # noqa: E731
    assert of_scalars(function, X) == ["mul"]
    assert of_scalars(function, X, differentiated=True) == ["stop_gradient", "mul"]
