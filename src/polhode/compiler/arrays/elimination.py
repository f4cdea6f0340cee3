"""Elimination of a full matrix in memory."""

from __future__ import annotations

import numpy as np

from polhode.compiler.arrays.array_ir import If, Pointer
from polhode.compiler.arrays.block_builder import INTEGER, TRUTH, BlockBuilder

_NUMBER = np.dtype(float)


def factorise(k: BlockBuilder, a: Pointer, n: int) -> None:
    """Replaces an n × n matrix, row by row in memory, by its factors: see `polhode.compiler.primitives.elimination`.

    Rows in which the column of a pivot is zero stay as they are, so that unknowns without any coupling cost nothing:
    slots for contacts are mostly empty.
    """
    strides = n, 1
    with k.loop(n) as count:
        pivot = k.apply("sub", INTEGER, n - 1, count)
        reciprocal = k.apply("div", _NUMBER, np.float64(1.0), k.load(a, (pivot, pivot), strides, _NUMBER))
        k.store(a, (pivot, pivot), strides, reciprocal)
        with k.loop(pivot) as row:
            entry = k.load(a, (row, pivot), strides, _NUMBER)
            with k.inside() as subtraction:
                factor = k.apply("mul", _NUMBER, entry, reciprocal)
                k.store(a, (row, pivot), strides, factor)
                with k.loop(pivot, independent=True) as column:
                    product = k.apply("mul", _NUMBER, factor, k.load(a, (pivot, column), strides, _NUMBER))
                    own = k.load(a, (row, column), strides, _NUMBER)
                    k.store(a, (row, column), strides, k.apply("sub", _NUMBER, own, product))
            k.append(If(k.apply("ne", TRUTH, entry, np.float64(0.0)), subtraction))
