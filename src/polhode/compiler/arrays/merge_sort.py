"""Stable merge sort by integer keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from polhode.compiler.array_program import Equation
from polhode.compiler.arrays.array_ir import If, Pointer, Switch, While
from polhode.compiler.arrays.block_builder import INTEGER, TRUTH, BlockBuilder
from polhode.compiler.arrays.operands import Buffer, View, allocate
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.scalars.program import Variable


def sort_by_key(
    k: BlockBuilder, e: Equation, x: Sequence[Buffer], copy: Callable[[View, Buffer], None]
) -> Sequence[Buffer]:
    """All operands, sorted by the first, which are integers; `copy` copies an array to memory."""
    keys, p = x[0], e.params
    if p["num_keys"] != 1 or len(keys.shape) != 1 or keys.dtype.kind not in "iu" or keys.strides != (1,):
        raise UnsupportedNativeOperation("sort")
    n = keys.shape[0]
    permutation = _sort(k, keys.pointer, n)
    outs = []
    for a in x:
        out = allocate(k, a.shape, a.dtype)
        copy(View(a.shape, a.dtype, lambda k, place, a=a: a.at(k, (k.load_slot(permutation, place[0], INTEGER),))), out)
        outs.append(out)
    return outs


def _sort(k: BlockBuilder, keys: Pointer, n: int) -> Pointer:
    """Where the indices 0 … n - 1 are in ascending order of their keys: runs of growing width are merged in pairs."""
    order, spare = k.space(n), k.space(n)
    with k.loop(n, independent=True) as i:
        k.store(order, (i,), (1,), i)
    width, source, target = Variable(INTEGER), Pointer(), Pointer()
    with k.inside() as condition:
        proceeds = k.apply("lt", TRUTH, width, n)
    with k.inside() as body:
        twice = k.apply("add", INTEGER, width, width)
        begin = Variable(INTEGER)
        with k.inside() as has_pair:
            is_inside = k.apply("lt", TRUTH, begin, n)
        with k.inside() as pair:
            middle, end = (k.apply("min", INTEGER, k.apply("add", INTEGER, begin, x), n) for x in (width, twice))
            _merge(k, keys, source, target, begin, middle, end)
        k.append(While((begin,), (np.int64(0),), has_pair, is_inside, pair, (end,)))
    start = np.int64(1), order, spare
    k.append(While((width, source, target), start, condition, proceeds, body, (twice, target, source)))
    return source


def _merge(
    k: BlockBuilder, keys: Pointer, source: Pointer, target: Pointer, begin: Variable, middle: Variable, end: Variable
) -> None:
    """Merges two sorted runs of indices, which meet at `middle`."""
    a, b, to = (Variable(INTEGER) for _ in range(3))
    with k.inside() as condition:
        proceeds = k.apply("lt", TRUTH, to, end)
    with k.inside() as body:
        has_first, has_second = k.apply("lt", TRUTH, a, middle), k.apply("lt", TRUTH, b, end)
        with k.inside() as comparison:
            first, second = (k.load_slot(keys, k.load_slot(source, x, INTEGER), INTEGER) for x in (a, b))
            is_less = k.apply("lt", TRUTH, second, first)
        takes_second, has_both = Variable(TRUTH), k.apply("and", TRUTH, has_first, has_second)
        k.append(If(has_both, comparison, (takes_second,), (is_less,), (k.apply("not", TRUTH, has_first),)))
        # Branches, which processors predict, since runs are often in order already.
        following, blocks, values = [Variable(INTEGER) for _ in range(2)], [], []
        for x in (a, b):
            with k.inside() as block:
                k.store(target, (to,), (1,), k.load_slot(source, x, INTEGER))
                after = k.apply("add", INTEGER, x, 1)
            blocks.append(block)
            values.append((after, b) if x is a else (a, after))
        k.append(Switch(takes_second, tuple(blocks), tuple(following), tuple(values)))
        following.append(k.apply("add", INTEGER, to, 1))
    k.append(While((a, b, to), (begin, middle, begin), condition, proceeds, body, tuple(following)))
