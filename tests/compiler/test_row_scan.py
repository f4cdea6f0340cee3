"""Loops over rows in programs that NumPy carries out: machine code where there are many, the same numbers as JAX's."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler.loops.row_scan import codes, compile_scans
from polhode.compiler.numpy.interpreter import Interpreter, from_jaxpr


def body(shared, carry, row):
    gain, table = shared
    (x, count), (matrix, push) = carry, row
    after = jnp.tanh(matrix @ x) + gain * push
    return (after, count + 1), (after[:2], jnp.where(push > 0, count, -count) % 7, table[1] * after.sum())


def swept(shared, start, rows, reverse):
    return jax.lax.scan(lambda c, row: body(shared, c, row), start, rows, reverse=reverse)


def arguments(count: int):
    rng = np.random.default_rng(3)
    shared = np.float64(0.3), rng.standard_normal(2)
    start = rng.standard_normal(3), np.int64(5)
    return shared, start, (rng.standard_normal((count, 3, 3)), rng.standard_normal(count))


def program(function, *args) -> Interpreter:
    made = from_jaxpr(jax.make_jaxpr(function)(*args))
    compile_scans(made)
    return made


def run(made: Interpreter, *args) -> list[np.ndarray]:
    return made([np.asarray(x) for x in jax.tree.leaves(args)])


@pytest.mark.parametrize("reverse", [False, True])
def test_many_rows_are_machine_code_with_the_results_of_a_scan(reverse):
    args = arguments(3000)
    made = program(lambda *given: swept(*given, reverse), *args)
    assert len(list(codes(made))) == 1
    expected = jax.tree.leaves(jax.jit(lambda *given: swept(*given, reverse))(*args))
    for found, wanted in zip(run(made, *args), expected, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


def test_few_rows_are_not_compiled():
    args = arguments(20)
    made = program(lambda *given: swept(*given, False), *args)
    assert not list(codes(made))
    wanted = jax.tree.leaves(jax.jit(lambda *given: swept(*given, False))(*args))
    np.testing.assert_allclose(run(made, *args)[0], wanted[0], rtol=1e-13)


def test_loops_inside_loops_are_found():
    rows = np.random.default_rng(5).uniform(-1.0, 1.0, (4000, 2))

    def halved(x, rows):
        def step(carried):
            total, again = jax.lax.scan(lambda c, row: (0.9 * c + row @ row, jnp.sin(c + row)), carried[0], carried[1])
            return 0.5 * total, again, carried[2] + 1

        return jax.lax.while_loop(lambda carried: carried[2] < 3, step, (x, rows, jnp.asarray(0)))

    made = program(halved, np.float64(1.0), rows)
    assert len(list(codes(made))) == 1
    wanted = jax.tree.leaves(jax.jit(halved)(np.float64(1.0), rows))
    for found, like in zip(run(made, np.float64(1.0), rows), wanted, strict=True):
        np.testing.assert_allclose(found, like, rtol=1e-12, atol=1e-13)


def test_another_process_would_find_it_again():
    args = arguments(3000)
    made = program(lambda *given: swept(*given, True), *args)
    assert made.is_portable
    again = pickle.loads(pickle.dumps(made))
    for found, wanted in zip(run(again, *args), run(made, *args), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_rows_that_have_no_machine_code_are_done_by_numpy():
    x, places = jnp.linspace(0.0, 1.0, 400), np.random.default_rng(7).integers(0, 400, 8000)

    def looked_up(x, places):
        return jax.lax.scan(lambda c, n: (c + x[n], jnp.cos(c) * x[n]), 0.0, places)

    single = np.linspace(0.0, 1.0, 8000, dtype=np.float32)

    def in_single_precision(x):
        return jax.lax.scan(lambda c, row: (jnp.sin(c + row) * row, c - row), jnp.float32(0), x)

    for function, given in ((looked_up, (x, places)), (in_single_precision, (single,))):
        made = program(function, *given)
        assert not list(codes(made))
        for found, wanted in zip(run(made, *given), jax.tree.leaves(function(*given)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5 if wanted.dtype == np.float32 else 1e-11, atol=1e-6)
