"""Stable merge sort by integer keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polhode.compiler.array_program import Equation
from polhode.compiler.arrays.array_ir import Pointer, Sort
from polhode.compiler.arrays.block_builder import INTEGER, BlockBuilder
from polhode.compiler.arrays.operands import Buffer, View, allocate
from polhode.compiler.llvm.types import UnsupportedNativeOperation


def sort_by_key(
    k: BlockBuilder, e: Equation, x: Sequence[Buffer], copy: Callable[[View, Buffer], None]
) -> Sequence[Buffer]:
    """All operands, sorted by the first, which are integers; `copy` copies an array to memory."""
    keys, p = x[0], e.params
    if p["num_keys"] != 1 or len(keys.shape) != 1 or keys.dtype.kind not in "iu" or keys.strides != (1,):
        raise UnsupportedNativeOperation("sort")
    n = keys.shape[0]
    permutation = Pointer()
    k.append(Sort(permutation, keys.pointer, k.space(n), k.space(n), n))
    outs = []
    for a in x:
        out = allocate(k, a.shape, a.dtype)
        copy(View(a.shape, a.dtype, lambda k, place, a=a: a.at(k, (k.load_slot(permutation, place[0], INTEGER),))), out)
        outs.append(out)
    return outs
