"""Programs with data-dependent indexing, as fused array loops in machine code."""

import typing
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler.arrays import llvm_printer
from polhode.compiler.arrays.array_ir import Statement
from polhode.compiler.arrays.selection import has_dynamic_indices
from polhode.compiler.c import array_printer, expressions
from polhode.compiler.llvm import instructions, jit
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.loop_code import ArrayLoopCode, ScalarLoopCode
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.loops.scan import Carry, Constants, Rows, Scan
from polhode.compiler.numpy.interpreter import from_jaxpr
from polhode.compiler.trace import on_scalars, trace
from polhode.contact.elimination import eliminate

N = 53
"""No multiple of the number of lanes."""

_RNG = np.random.default_rng(7)
X, WHERE = _RNG.normal(size=(2, N)), _RNG.integers(0, N, (2, 7, N))


def _swap(x, where):
    return jax.lax.fori_loop(0, 3, lambda k, ab: (ab[1], ab[0][where[k]] + 1), (x, -x))


def _iterate_to_tolerance(x, where):
    def step(carry):
        a, k, table = carry
        return 0.5 * a + a[where[0]], k + 1, table.at[k, where[1]].set(a, mode="drop")

    def condition(carry):
        return (carry[1] < 9) & (jnp.max(jnp.abs(carry[0])) > 1e-3)

    return jax.lax.while_loop(condition, step, (x, jnp.int32(0), jnp.ones((4, N))))


def _rows(reverse):
    def row(carry, which):
        a, b, n = carry
        return (a + jnp.cos(a) * b[which], b[::-1] + a, n + 1), (a[which], n)

    return lambda x, where: jax.lax.scan(row, (x, 2 * x, 0), where, reverse=reverse)


def _rows_of_numbers(reverse):
    """Rows of few numbers: some constant and equal in all rows, some constant but different, some unused."""

    def row(carry, values):
        y, block, zero, number, _unused = values
        total, last = carry
        block_sum = jnp.array([[1.0, 0.0], [zero[0], 2.0]]) @ (block + number) + last
        return (total + block_sum[0, 0] * y, block_sum @ block_sum.T), (block_sum, zero + 1, total > 0)

    def function(x, where):
        blocks = jnp.stack([x, jnp.cos(x[where[0]]), x * x, -x], axis=1).reshape(N, 2, 2)
        rows = (x, blocks, jnp.zeros((N, 3)), np.arange(N) / N, blocks)
        return jax.lax.scan(row, (x[0], 1e-3 * jnp.eye(2)), rows, reverse=reverse)

    return function


def _concatenated_parts(x, where):
    """Reads at constant places from concatenated parts of different shapes."""
    table = jnp.stack([x, jnp.sin(x[where[0]])], axis=1)
    flat = jnp.concatenate([table.reshape(-1), jnp.zeros(2), (x[:, None, None] * jnp.ones((3, 2))).reshape(-1), -x])
    places = np.arange(4 * N).reshape(N, 4)[::-1] * 2
    return flat.at[places].get(mode="promise_in_bounds") + table[np.arange(N) // 2, 1][:, None]


def _branches(x, where):
    first = jax.lax.cond(x[where[0, 0]] > 0, lambda a: a, lambda a: a[where[0]] + 1, x)
    return first, jax.lax.switch(where[0, 1] % 3, [lambda a: (a, 1), lambda a: (-a, 2), lambda a: (a[where[1]], 3)], x)


def _update_sometimes(x, where):
    """A table that is updated in place, but not in every iteration."""

    def step(k, carry):
        table, a = carry
        table = jax.lax.cond(k % 3 == 1, lambda t: t.at[:, where[0]].add(1.0) * 2, lambda t: t, table)
        return table, a + jnp.sum(table, axis=0)

    return jax.lax.fori_loop(0, 7, step, (jnp.zeros((6, N)) + x, x))


def _other_names(x, where):
    """Branches and loops that return an array of the carry as it was, beside and before its update in place."""

    def row(carry, which):
        a, b, c, d = carry
        pair = jax.lax.cond(which[0] > 20, lambda: (a + 1, a), lambda: (a, a[which]))
        early = jax.lax.switch(which[1] % 2, [lambda: c, lambda: c[which]])
        late = jax.lax.while_loop(lambda y: jnp.sum(y) > which[2], lambda y: 0.5 * y[which] - 1, d)
        where_to = which[3] + (jnp.sum(early) > 0) + (jnp.sum(late) > 0)
        after = pair[0], b + pair[1] + early + late, c.at[where_to].set(5.0, mode="drop"), d.at[where_to].add(1)
        return after, pair[1][0]

    return jax.lax.scan(row, (x, 2 * x, -x, x + 30), where)


def _same_result_twice(x, where):
    """An array of the carry as it was, for two others of the next carry."""

    def row(carry, which):
        a, _, _ = carry
        after, before = jax.lax.cond(which[0] > 20, lambda: (a + 1, a), lambda: (a, a[which] * 2))
        return (after, before, before), before[0]

    return jax.lax.scan(row, (x, 2 * x, x), where)


def _nested_branches(x, where):
    """An array that is returned by a branch inside a branch, in a loop of an unknown number of rounds."""

    def step(carry):
        k, a, b = carry
        which = where[k]

        def inner():
            same = jax.lax.cond(which[1] > 20, lambda: a, lambda: -a)
            return a + 1, same

        after, before = jax.lax.cond(which[0] > 10, inner, lambda: (a[which], a))
        return k + 1, after, b + before[which]

    return jax.lax.while_loop(lambda carry: (carry[0] < 7) & (carry[1][0] < 99), step, (0, x, 2 * x))


PROGRAMS = {
    "sums of what was picked": lambda x, where: (jnp.sum(x[where], axis=0) + x, jnp.sum(jnp.sin(x)[where] ** 2)),
    "means": lambda x, where: x[where[0]] - jnp.mean(x),
    "extremes": lambda x, where: (jnp.max(x[where]), jnp.min(x[where], axis=1), jnp.argmax(x[where[:, :1]], axis=0)),
    "places of extremes": lambda x, where: (
        jnp.argmax(x[where], axis=1),
        jnp.argmin(jnp.where(where % 7 == 3, jnp.nan, x[where]), axis=1),
        jnp.argmin(jnp.zeros_like(x)),
    ),
    "short extremes": lambda x, where: (
        lambda y: (
            jnp.max(y),
            jnp.sum(jnp.abs(y - jnp.min(y)) / (jnp.max(y) - x[where[0, 0]])),
            jnp.sum(y * jnp.min(y)),
        )
    )(jnp.sin(x[where[1, :12]])),
    "truth of all and any": lambda x, where: (jnp.all(where != 3, axis=0), jnp.any(x[where] > 1), jnp.sum(where < 9)),
    "columns": lambda x, where: jnp.stack([x, jnp.cos(x), x * x], axis=1)[where[0]] @ jnp.ones((3, 2)),
    "small matrices": lambda x, where: jnp.einsum("ni,nj,nj->ni", *[jnp.stack([x, x[where[0]]], 1)] * 3),
    "out of range": lambda x, where: (
        x.at[where + 20].get(mode="fill", fill_value=-1.0),
        x.at[where + 20].get(mode="clip"),
        x.at[where - 2 * N].get(mode="fill"),
    ),
    "windows": lambda x, where: jax.lax.dynamic_slice(x, (where[0, 0],), (9,)),
    "rows of tables": lambda x, where: where[x[0].astype(int)].reshape(-1)[::3],
    "added": lambda x, where: (jnp.zeros(N).at[where[0]].add(x), x.at[where[1]].max(0.5), x.at[where[2]].multiply(x)),
    "put": lambda x, where: jnp.zeros((5, N)).at[jnp.minimum(where[0], 6), jnp.arange(N)].set(x, mode="drop"),
    "concatenated": lambda x, where: jnp.concatenate((x, jnp.zeros(1), -x))[2 * where],
    "sorted": lambda x, where: (
        jnp.argsort(where[0] // 5),
        jnp.searchsorted(jnp.sort(where[1]), where[2], side="right"),
    ),
    "interpolated": lambda x, where: jnp.interp(x * where[0, 0], jnp.linspace(-1, 1, 9), jnp.cos(x[:9])),
    "in total order": lambda x, where: jnp.searchsorted(
        jnp.array([-jnp.inf, -1.0, -0.0, 0.0, jnp.nan]), jnp.array([0.0, -0.0, jnp.nan, -3.0, 2.0])[where % 5]
    ),
    "derivatives": lambda x, where: jax.grad(lambda y: jnp.sum((y[where[0]] - y) ** 2))(x),
    "swapped": _swap,
    "while": _iterate_to_tolerance,
    "loops of a batch": lambda x, where: jax.vmap(
        lambda a, k: jax.lax.while_loop(lambda c: c[1] < 12, lambda c: (0.9 * c[0] + 0.1, c[1] + 1 + k % 3), (a, k))
    )(x[where[0]], where[0] % 20),
    "rows": _rows(reverse=False),
    "rows backwards": _rows(reverse=True),
    "rows of numbers": _rows_of_numbers(reverse=False),
    "rows of numbers backwards": _rows_of_numbers(reverse=True),
    "put together": _concatenated_parts,
    "long products": lambda x, where: (x[where[0]] @ jnp.cos(x), jnp.outer(x, x[where[1]]) @ x, x @ np.eye(N)[:, ::2]),
    "branches": _branches,
    "renewed": _update_sometimes,
    "other names": _other_names,
    "the same twice": _same_result_twice,
    "nested branches": _nested_branches,
    "of nothing": lambda x, where: (
        x[where[0]],
        x[where[:0, 0]],
        jnp.sum(x[where[:, :0]], axis=1),
        jnp.zeros((0, 3)) + x[where[0, 0]],
    ),
}


def _compile_on_arrays(function):
    """The function of rows as loops on arrays, although their few numbers would make it a program on scalars."""
    row = X[0], WHERE[0]
    program = trace(lambda _, row: function(*row), (), row)
    out = Layout(program.out_shape)
    scan = Scan((Constants("shared", Layout(())), Rows("rows", Layout(row))), (Rows("out", out),))
    return RowMap(scan.compile(ArrayLoopCode(), program.closed_jaxpr), out, (), row)


def _numpy_results(function, x, where):
    """By NumPy, operation by operation."""
    with np.errstate(all="ignore"):
        return from_jaxpr(jax.make_jaxpr(lambda *args: jax.tree.leaves(function(*args)))(x, where))([x, where])


@pytest.mark.sampled(29)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_results_are_those_of_numpy(name):
    function = PROGRAMS[name]
    mapping = _compile_on_arrays(function)
    results = jax.tree.leaves(mapping((), (X, WHERE)))
    for k in range(2):
        for a, b in zip(results, _numpy_results(function, X[k], WHERE[k]), strict=True):
            assert (a.shape[1:], a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a[k], b, rtol=1e-13, atol=1e-13)


def test_full_matrices_are_eliminated_in_memory():
    """Also where unknowns are coupled with nothing; indices that are split by division are those of NumPy."""
    n = 30

    def function(x, where):
        used = where[0, :n] % 3 > 0
        a = jnp.where(used & used[:, None], jnp.sin(jnp.outer(x[:n], x[-n:])), 0.0) + 3 * jnp.eye(n)
        solve, smallest = eliminate(a)
        return a, solve(x[:n]), smallest, x[:52].reshape(4, 13).T.reshape(26, 2), (2 * x[:52]).reshape(13, 4)

    a, solution, smallest, split, whole = (x[0] for x in _compile_on_arrays(function)((), (X[:1], WHERE[:1])))
    alone = np.count_nonzero(a, axis=1) == 1
    assert 0 < np.count_nonzero(alone) < n - 10
    np.testing.assert_allclose(solution, np.linalg.solve(a, X[0, :n]), rtol=1e-12)
    np.testing.assert_array_equal(solution[alone], X[0, :n][alone] * (1 / np.float64(3)))
    np.testing.assert_allclose(smallest, _numpy_results(function, X[0], WHERE[0])[2], rtol=1e-13)
    np.testing.assert_array_equal(split, X[0, :52].reshape(4, 13).T.reshape(26, 2))
    np.testing.assert_array_equal(whole, 2 * X[0, :52].reshape(13, 4))


@pytest.mark.parametrize("code", [ArrayLoopCode, ScalarLoopCode])
def test_a_carry_in_place_may_become_another_one(code):
    """Each of two arrays is written where it was; the first one is also the second of the next row."""

    def body(_, carry, number):
        a, b = carry
        return (a + 1, jax.lax.cond(number % 2 == 0, lambda: a, lambda: b[::-1])), ()

    carry, number = [np.arange(9.0), np.arange(9.0) ** 2], np.int64(0)
    program = trace(body, (), carry, number)
    layouts = Layout(()), Layout(carry), Layout(number)
    now = Carry("carry", layouts[1])
    scan = Scan((Constants("shared", layouts[0]), now, Rows("rows", layouts[2])), (now,))
    on_code = program.closed_jaxpr if code is ArrayLoopCode else on_scalars(program, (), carry, number)
    slots = layouts[1].pack(carry)
    scan.compile(code(), on_code)(layouts[0].pack(()), slots, np.arange(3)[:, None], np.array([3]))
    # Rows 0 and 2 take the first array, row 1 turns the second one round.
    np.testing.assert_array_equal(layouts[1].unpack(slots), [np.arange(9.0) + 3, np.arange(9.0) + 2])


def test_the_optimisation_level_does_not_change_a_bit(monkeypatch):
    def function(*row):
        return [PROGRAMS[name](*row) for name in ("sums of what was picked", "rows", "while", "renewed", "columns")]

    monkeypatch.setattr(jit, "_SECONDS_EACH", dict.fromkeys(range(3), 1e9))
    mapping = _compile_on_arrays(function)
    text = mapping.code._pending_text
    assert text is not None
    results = {}
    for level in (jit._O0, jit._O1, jit._O2):
        mapping.code._engine, mapping.code._call = mapping.code._compile(text, level)
        results[level] = [x.tobytes() for x in jax.tree.leaves(mapping((), (X, WHERE)))]
    assert results[jit._O0] == results[jit._O1] == results[jit._O2]


@pytest.mark.parametrize("n", [1, 3, 5, 15, 16, 17, 160])
def test_sums_of_any_length(n):
    x, at = np.linspace(1, 2, n), np.arange(n)[::-1].copy()
    mapping = RowMap.of(lambda _, row: jnp.sum(row[0][row[1]] * row[0]), (), (x, at))
    np.testing.assert_allclose(mapping((), (x[None], at[None])), [x[::-1] @ x], rtol=1e-14)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, where: jnp.fft.rfft(x)[where[0, 0]],
        lambda x, where: x.astype(jnp.float32)[where[0]],
        lambda x, where: jnp.sort(x[where[0]]),
    ],
    ids=["transforms", "single precision", "sorted numbers"],
)
def test_operations_without_a_rule_are_unsupported(function):
    with pytest.raises(UnsupportedNativeOperation):
        RowMap.of(lambda _, row: function(*row), (), (X[0], WHERE[0]))


def test_constant_indices_are_not_dynamic():
    places = np.array([2, 0, 1])
    assert not has_dynamic_indices(jax.make_jaxpr(lambda v: v.at[places].add(v[places]))(np.ones(3)).jaxpr)
    assert has_dynamic_indices(jax.make_jaxpr(lambda v, k: v[k])(np.ones(3), 1).jaxpr)
    assert not has_dynamic_indices(
        jax.make_jaxpr(lambda v: jax.lax.fori_loop(0, 3, lambda k, s: s + v[places[1]], 0.0))(np.ones(3)).jaxpr
    )


def test_constants_that_are_not_selected_fold_without_warning():
    table = np.linspace(-1.0, 1.0, N)

    def function(x, where):
        inverse = 1 / jnp.sqrt(jnp.asarray(table) - table[0])
        return jnp.where(table > table[0], inverse, x)[where[0]]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = RowMap.of(lambda _, row: function(*row), (), (X[0], WHERE[0]))((), (X, WHERE))
    np.testing.assert_allclose(results[0], _numpy_results(function, X[0], WHERE[0])[0], rtol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 101])
def test_sorting_is_stable_and_has_all_indices_whatever_their_number(size):
    keys = np.random.default_rng(size).integers(-3, 3, (4, size)).astype(np.int32)
    keys[0], keys[1] = np.arange(size), np.arange(size)[::-1]
    order = RowMap.of(lambda _, row: jnp.argsort(row), (), keys[0])((), keys)
    np.testing.assert_array_equal(order, np.argsort(keys, axis=1, kind="stable"))


def test_printers_know_every_statement_and_the_same_operations():
    assert array_printer._Printer("run")._methods.keys() == llvm_printer._Printer()._methods.keys()
    assert {*llvm_printer._Printer()._methods} == {*typing.get_args(Statement)}
    assert expressions.FLOATS.keys() == instructions.FLOATS.keys()
    assert expressions.INTEGERS.keys() == instructions.INTEGERS.keys()
