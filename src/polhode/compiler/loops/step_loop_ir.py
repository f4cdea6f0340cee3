"""Code of a block of steps: a loop over frames, around programs on scalars or on arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polhode.compiler.arrays.array_ir import Function, If, While, pointers_of
from polhode.compiler.arrays.block_builder import FLOAT, INTEGER, TRUTH
from polhode.compiler.loops.loop_code import AbstractLoopCode
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.scalars.program import Variable

_POINTERS = ("args", "progress", "control", "targets", "rows")


class ControlValues(NamedTuple):
    """The values of a `LoopControl` in a program."""

    n_limit: Any
    every: Any
    last: Any
    target: Any
    has_target: Any


def block(code: AbstractLoopCode, check: Any, steps: Any, layouts: tuple[Layout, Layout, Layout]) -> Function:
    """The function of a block, which returns the number of frames.

    - `check`, `steps`: the programs of `more` and `advance` of `StepLoop`. - `layouts`: of their arguments, the
      progress and the contents of a frame.
    """
    k, pointers, (args, progress, row) = code.k, pointers_of(_POINTERS), layouts
    arguments, now = code.read(code.places(pointers["args"], args)), code.places(pointers["progress"], progress)
    n_limit, every, last, n_saved, n_targets, capacity = (
        k.load_slot(pointers["control"], slot, TRUTH if slot == 2 else INTEGER) for slot in range(6)
    )
    count, next_count = Variable(INTEGER), Variable(INTEGER)
    with k.inside() as head:
        n_frames = k.apply("add", INTEGER, n_saved, count)
        has_target = k.apply("lt", TRUTH, n_frames, n_targets)
        place = k.apply("min", INTEGER, n_frames, n_targets)
        target = k.load_slot(pointers["targets"], place, FLOAT)
        control = map(code.from_scalar, ControlValues(n_limit, every, last, target, has_target))
        inputs = [*arguments, *code.read(now), *control]
        again = code.to_scalar(code.call(check, inputs)[0])
        proceeds = k.apply("and", TRUTH, again, k.apply("lt", TRUTH, count, capacity))
        with k.inside() as body:
            results = code.call(steps, inputs)
            is_saved = code.to_scalar(results.pop(len(now)))
            frame = results[len(now) :]
            results = code.detach(results, [*now, *[None] * len(frame)])
            code.write(results[: len(now)], now)
            with k.inside() as save:
                code.write(results[len(now) :], code.places(k.row(pointers["rows"], count, row.size), row))
                more = k.apply("add", INTEGER, count, 1)
            k.append(If(is_saved, save, (next_count,), (more,), (count,)))
    k.append(While((count,), (np.int64(0),), head, proceeds, body, (next_count,)))
    return Function(pointers, k.block, count)
