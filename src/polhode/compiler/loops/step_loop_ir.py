"""IR of a block of steps: a loop over frames, around a program on scalars or on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polhode.compiler.llvm.ir_builder import IRBuilder
from polhode.compiler.llvm.loop_builder import LoopBuilder

POINTERS = ("args", "progress", "control", "targets", "rows")
"""Arguments of the compiled function."""


class ControlValues(NamedTuple):
    """The values of a `LoopControl` in the IR, and their types."""

    n_limit: str
    every: str
    last: str
    target: str
    has_target: str

    @property
    def types(self) -> tuple[np.dtype, ...]:
        return tuple(map(np.dtype, ("int64", "int64", "bool", "float64", "bool")))


def block(
    w: IRBuilder,
    goes_on: Callable[[ControlValues], str],
    step: Callable[[ControlValues], str],
    keep: Callable[[str], None],
    width: int,
) -> str:
    """Writes a block; returns the number of frames.

    - `goes_on`: writes whether there is another frame. - `step`: writes the steps to it; returns whether it is saved.
    - `keep`: stores it in its row, of this `width`.
    """
    n_limit, every, last, n_saved, n_targets, capacity = (
        w.load("%control", k, "i1" if k == 2 else "i64") for k in range(6)
    )
    loop = LoopBuilder(w, [("i64", "0")])
    (count,) = loop.values
    body, store, next_pass, end = (w.label() for _ in range(4))
    n_frames = w.value(f"add i64 {n_saved}, {count}")
    has_target = w.value(f"icmp slt i64 {n_frames}, {n_targets}")
    place = w.call("llvm.smin.i64", "i64", ("i64", n_frames), ("i64", n_targets))
    values = ControlValues(n_limit, every, last, w.load("%targets", place, "double"), has_target)
    again = goes_on(values)
    room = w.value(f"icmp slt i64 {count}, {capacity}")
    w.branch(w.value(f"and i1 {again}, {room}"), body, end)
    w.open(body)
    is_saved, before = step(values), w.block
    w.branch(is_saved, store, next_pass)
    w.open(store)
    keep(w.row("%rows", count, width))
    more, after = w.value(f"add i64 {count}, 1"), w.block
    w.jump(next_pass)
    w.open(next_pass)
    loop.end([w.value(f"phi i64 [ {count}, %{before} ], [ {more}, %{after} ]")])
    w.open(end)
    return count
