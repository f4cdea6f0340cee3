"""IR of a block of steps: a loop over frames, around a program on scalars or on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from polhode.compiler.arrays.array_ir import If, Pointer, Scalar, While
from polhode.compiler.arrays.block_builder import FLOAT, INTEGER, TRUTH, BlockBuilder
from polhode.compiler.scalars.program import Variable

POINTERS = ("args", "progress", "control", "targets", "rows")
"""Arguments of the compiled function."""


FRAME, ADDITION = 1, 2
"""Kinds of rows: frames, which the instants and numbers of frames count, and others between them."""


class ControlValues(NamedTuple):
    """The values of a `LoopControl` in the IR."""

    n_limit: Any
    every: Any
    last: Any
    target: Any
    has_target: Any


def block(
    k: BlockBuilder,
    pointers: Mapping[str, Pointer],
    goes_on: Callable[[ControlValues], Scalar],
    step: Callable[[ControlValues], Scalar],
    keep: Callable[[Pointer], None],
    width: int,
) -> Variable:
    """Appends a block; returns the number of frames.

    - `goes_on`: appends whether there is another frame. - `step`: appends the steps to it; returns whether it is saved,
      or the kind of row that is.
    - `keep`: stores it in its row, of this `width`.
    """
    n_limit, every, last, n_saved, n_targets, capacity = (
        k.load_slot(pointers["control"], slot, TRUTH if slot == 2 else INTEGER) for slot in range(6)
    )
    count, n_frames, next_count = (Variable(INTEGER) for _ in range(3))
    with k.inside() as head:
        has_target = k.apply("lt", TRUTH, n_frames, n_targets)
        place = k.apply("min", INTEGER, n_frames, n_targets)
        target = k.load_slot(pointers["targets"], place, FLOAT)
        values = ControlValues(n_limit, every, last, target, has_target)
        again = goes_on(values)
        proceeds = k.apply("and", TRUTH, again, k.apply("lt", TRUTH, count, capacity))
        with k.inside() as body:
            kind = step(values)
            is_saved = kind if kind.dtype == TRUTH else k.apply("ne", TRUTH, kind, kind.dtype.type(0))
            is_frame = kind if kind.dtype == TRUTH else k.apply("eq", TRUTH, kind, kind.dtype.type(FRAME))
            with k.inside() as store:
                keep(k.row(pointers["rows"], count, width))
                more = k.apply("add", INTEGER, count, 1)
            k.append(If(is_saved, store, (next_count,), (more,), (count,)))
            next_frames = k.apply("add", INTEGER, n_frames, k.convert(is_frame, INTEGER))
    k.append(While((count, n_frames), (np.int64(0), n_saved), head, proceeds, body, (next_count, next_frames)))
    return count
