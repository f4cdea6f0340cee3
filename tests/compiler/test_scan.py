"""Scans as machine code: every kind of operand, in both directions, against a loop of Python."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from polhode.compiler.loops.loop_code import ArrayLoopCode, Concatenation, ScalarLoopCode
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.scan import Carry, Constants, Rows, Scan, Sums
from polhode.compiler.trace import on_scalars, trace

RNG = np.random.default_rng(7)
GAIN, TABLE = RNG.standard_normal(2), RNG.standard_normal((5, 2))
START, ADDED = RNG.standard_normal(2), RNG.standard_normal((5, 2))


def body(gain, row, carry):
    """The next carry, a row of results and a summand; none of them commutes with the order of rows."""
    after = 0.5 * carry + gain * row
    return after, after[:1] * row[:1], carry * row


def by_python(reverse):
    carry, sums = START, np.zeros(2)
    out, history = np.zeros((5, 1)), np.zeros((5, 2))
    for n in range(4, -1, -1) if reverse else range(5):
        carry, out[n], term = body(GAIN, TABLE[n], carry + ADDED[n])
        history[n], sums = carry, sums + term
    return carry, history, out, sums


def compile_for_scalars(scan, function, *examples):
    return scan.compile(ScalarLoopCode(), on_scalars(trace(function, *examples), *examples))


def compile_for_arrays(scan, function, *examples):
    return scan.compile(ArrayLoopCode(), trace(function, *examples).closed_jaxpr)


KINDS = pytest.mark.parametrize("compile_for", [compile_for_scalars, compile_for_arrays])


@KINDS
@pytest.mark.parametrize("reverse", [False, True])
def test_every_kind_of_operand_is_read_and_written_in_the_order_of_rows(compile_for, reverse):
    pair, single = np.zeros(2), np.zeros(1)
    now = Carry("carry", Layout(pair), increments="added", history="history")
    inputs = Constants("gain", Layout(pair)), Rows("rows", Layout(pair)), now
    scan = Scan(inputs, (now, Rows("out", Layout(single)), Sums("sums", Layout(pair))), reverse)
    code = compile_for(scan, body, pair, pair, pair)
    assert scan.pointers == ("gain", "rows", "carry", "added", "history", "out", "sums", "count")
    carry, sums = START.copy(), np.zeros(2)
    out, history = np.full((5, 1), np.nan), np.full((5, 2), np.nan)
    assert code(GAIN, TABLE, carry, ADDED, history, out, sums, np.array([5])) == 5
    for result, expected in zip((carry, history, out, sums), by_python(reverse), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-14)


@KINDS
def test_no_rows_change_nothing(compile_for):
    now = Carry("carry", Layout(np.zeros(2)))
    scan = Scan((Rows("rows", Layout(np.zeros(2))), now), (now,), reverse=True)
    code = compile_for(scan, lambda row, carry: row * carry, np.zeros(2), np.zeros(2))
    carry = START.copy()
    assert code(np.zeros((0, 2)), carry, np.array([0])) == 0
    np.testing.assert_array_equal(carry, START)


@KINDS
@pytest.mark.parametrize("reverse", [False, True])
def test_values_that_change_places_are_not_overwritten_before_they_are_read(compile_for, reverse):
    size = 12
    carries = [Carry(name, Layout(np.zeros(size))) for name in "ab"]
    out = Rows("out", Layout(np.zeros(size)))
    # The row of results comes first, so that places of a carry don't begin with those of results.
    scan = Scan((Rows("rows", Layout(np.zeros(size))), *carries), (out, *carries), reverse)
    code = compile_for(scan, lambda row, a, b: (a + row, b, a), *[np.zeros(size)] * 3)
    a, b, rows = RNG.standard_normal(size), RNG.standard_normal(size), RNG.standard_normal((5, size))
    expected, now = np.zeros((5, size)), (a.copy(), b.copy())
    for n in range(4, -1, -1) if reverse else range(5):
        expected[n], now = now[0] + rows[n], now[::-1]
    results = np.full((5, size), np.nan)
    assert code(rows, a, b, results, np.array([5])) == 5
    for result, wanted in zip((a, b, results), (*now, expected), strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_places_of_numbers_are_those_of_the_layout_and_of_long_tables_only_those_that_are_read():
    layout = Layout((np.zeros(3), np.zeros((2, 2), np.int64), np.zeros(5, bool)))
    places = ScalarLoopCode().places("pointer", layout)
    assert [(place.slot, place.dtype) for place in places] == [(n, x.dtype) for n, x in enumerate(layout.scalars)]
    assert [place.slot for place in places[-2:]] == [layout.size - 2, layout.size - 1]
    joined = Concatenation([1, 2], [], places, [3])
    assert list(joined) == [1, 2, *places, 3]
    assert joined[-1] == 3
    with pytest.raises(IndexError):
        joined[len(joined)]
    table = jax.ShapeDtypeStruct((10**12,), float)
    assert ScalarLoopCode().places("pointer", Layout(table))[10**11].slot == 10**11
