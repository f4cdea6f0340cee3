"""Code of a block of steps: a loop over frames, around programs on scalars or on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.compiler.arrays.array_ir import Function, If, While, pointers_of
from polhode.compiler.arrays.block_builder import FLOAT, INTEGER, TRUTH
from polhode.compiler.loops.loop_code import AbstractLoopCode, Concatenation
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.scalars.program import Variable

_POINTERS = ("args", "progress", "control", "targets", "rows")


FRAME, ADDITION = 1, 2
"""Kinds of rows: frames, which the instants and numbers of frames count, and others between them."""


class ControlValues(NamedTuple):
    """The values of a `LoopControl` in a program."""

    n_limit: Any
    every: Any
    last: Any
    target: Any
    has_target: Any


def block(code: AbstractLoopCode, check: Any, steps: Any, layouts: Sequence[Layout]) -> Function:
    """The function of a block, which returns the number of frames.

    - `check`, `steps`: the programs of `more` and `advance` of `StepLoop`; the latter returns whether there is a row,
      or the kind of the row. - `layouts`: of their arguments, the progress and the contents of a frame.
    """
    k, pointers, (args, progress, row) = code.k, pointers_of(_POINTERS), layouts
    arguments, now = code.read(code.places(pointers["args"], args)), code.places(pointers["progress"], progress)
    n_limit, every, last, n_saved, n_targets, capacity = (
        k.load_slot(pointers["control"], slot, TRUTH if slot == 2 else INTEGER) for slot in range(6)
    )
    count, n_frames, next_count = (Variable(INTEGER) for _ in range(3))
    with k.inside() as head:
        has_target = k.apply("lt", TRUTH, n_frames, n_targets)
        place = k.apply("min", INTEGER, n_frames, n_targets)
        target = k.load_slot(pointers["targets"], place, FLOAT)
        control = map(code.from_scalar, ControlValues(n_limit, every, last, target, has_target))
        inputs = Concatenation(arguments, code.read(now), list(control))
        again = code.to_scalar(code.call(check, inputs)[0])
        proceeds = k.apply("and", TRUTH, again, k.apply("lt", TRUTH, count, capacity))
        with k.inside() as body:
            results = code.call(steps, inputs)
            kind = code.to_scalar(results.pop(len(now)))
            is_saved = kind if kind.dtype == TRUTH else k.apply("ne", TRUTH, kind, kind.dtype.type(0))
            is_frame = kind if kind.dtype == TRUTH else k.apply("eq", TRUTH, kind, kind.dtype.type(FRAME))
            frame = results[len(now) :]
            results = code.detach(results, [*now, *[None] * len(frame)])
            code.write(results[: len(now)], now)
            with k.inside() as save:
                code.write(results[len(now) :], code.places(k.row(pointers["rows"], count, row.size), row))
                more = k.apply("add", INTEGER, count, 1)
            k.append(If(is_saved, save, (next_count,), (more,), (count,)))
            next_frames = k.apply("add", INTEGER, n_frames, k.convert(is_frame, INTEGER))
    k.append(While((count, n_frames), (np.int64(0), n_saved), head, proceeds, body, (next_count, next_frames)))
    return Function(pointers, k.block, count)
