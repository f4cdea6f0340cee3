"""Data-dependent reads and writes in scalar machine code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler.loops.row_map import RowMap

TABLE = jnp.asarray(np.random.default_rng(0).standard_normal((5, 4)))
LINE = jnp.linspace(0.0, 1.0, 7) ** 2
NUMBERS = jax.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))


def _row_by_row(k):
    return jax.lax.gather(TABLE, jnp.stack((k, k + 1))[:, None], NUMBERS, (1, 4), mode="clip")


READS = {
    "an element": lambda k: TABLE[2, k],
    "a row, counted from the end": lambda k: TABLE[-k],
    "two unknown places": lambda k: TABLE[k, k + 1],
    "nothing there": lambda k: TABLE.at[k, 1].get(mode="fill", fill_value=7.0),
    "rows": _row_by_row,
    "a window": lambda k: jax.lax.dynamic_slice(TABLE, (k, 2 - k), (2, 3)),
    "one place known": lambda k: jax.lax.dynamic_slice(TABLE, (1, k), (2, 3)),
    "batches": lambda k: jnp.take_along_axis(TABLE, jnp.full((5, 1), k), axis=1),
    "whole numbers": lambda k: jnp.arange(10, 15)[k],
    "truth": lambda k: (TABLE[:, 0] > 0)[k],
}

WRITES = {
    "an element": lambda k: TABLE.at[1, k].set(9.0),
    "a row": lambda k: TABLE.at[k].set(jnp.arange(4.0)),
    "dropped outside": lambda k: TABLE.at[k, 0].set(3.0, mode="drop"),
    "a window": lambda k: jax.lax.dynamic_update_slice(TABLE, jnp.ones((2, 3)), (k, k - 1)),
    "sums, some of them at one place": lambda k: TABLE.at[jnp.stack((k, 1, k))].add(jnp.arange(12.0).reshape(3, 4)),
    "products": lambda k: TABLE.at[k].multiply(2.0),
    "largest": lambda k: TABLE.at[:, k].max(0.0),
}


@pytest.mark.sampled(17)
@pytest.mark.parametrize(
    "function", [*READS.values(), *WRITES.values()], ids=[*READS, *(f"{w} written" for w in WRITES)]
)
def test_reads_and_writes_are_those_of_jax(function):
    k = np.arange(-7, 9)
    results = RowMap.of(lambda _, k: function(k), (), k[0])((), k)
    expected = jax.vmap(function)(k)
    np.testing.assert_array_equal(results, expected)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.interp(x, LINE, jnp.sin(LINE)),
        lambda x: jnp.searchsorted(LINE, x, side="right"),
        lambda x: jnp.searchsorted(jnp.array([-1.0, -0.0, 0.0, 2.0]), x),
        jax.grad(lambda x: jnp.interp(x, LINE, jnp.sin(LINE))),
    ],
)
def test_tables_are_looked_up(function):
    x = np.array([-1.0, -0.0, 0.0, 1e-300, 0.3, *np.asarray(LINE), 1.0 + 1e-15, 5.0, np.nan])
    results = RowMap.of(lambda _, x: function(x), (), x[0])((), x)
    np.testing.assert_allclose(results, jax.vmap(function)(x), rtol=1e-15, atol=0)


@pytest.mark.parametrize("edges", [(-2, 3, 0), (1, -3, 2), (-3, -4, 1), (-1, 0, 3), (2, 2, 0)])
def test_padding_may_cut(edges):
    def function(x):
        return jax.lax.pad(x, 7.0, [edges, (0, -1, 1)])

    x = np.random.default_rng(1).standard_normal((2, 6, 3))
    results = RowMap.of(lambda _, row: function(row), (), x[0])((), x)
    np.testing.assert_array_equal(results, jax.vmap(function)(x))


def test_long_tables_take_loops_over_arrays():
    long, k = jnp.arange(5000.0), np.array([0, 17, 4999])
    np.testing.assert_array_equal(RowMap.of(lambda _, k: long[k], (), k[0])((), k), k)


def test_unsigned_numbers():
    def function(a, b):
        a, b = a.astype(jnp.uint32), b.astype(jnp.uint32)
        return (a - b, a + b, a * b, a // jnp.maximum(b, 1), a < b, (a - b).astype(float), ~a, jnp.minimum(a, b) % 7)

    rows = np.array([[3, 5], [2**31 + 5, 2**31 + 3], [2**32 - 1, 2], [0, 0], [-1, 4]])
    results = RowMap.of(lambda _, x: function(x[0], x[1]), (), rows[0])((), rows)
    for one, other in zip(results, jax.vmap(lambda x: function(x[0], x[1]))(rows), strict=True):
        np.testing.assert_array_equal(one, other)
