"""Functions of machine code around programs on arrays: blocks of steps, and maps over rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polhode.execution.arrays.builder import Builder
from polhode.execution.arrays.building import Arrays, run
from polhode.execution.arrays.flattening import flattened
from polhode.execution.arrays.places import Buffer, Register
from polhode.execution.arrays.programs import leaves
from polhode.execution.machine import Code
from polhode.execution.reports import Compiled
from polhode.execution.slots import Layout
from polhode.execution.writer import NotNative, Writer

LIMIT = 150_000
"""Lines of text above which a program stays with XLA."""

Tell = Callable[[Compiled], None] | None


def block(check: Any, steps: Any, layouts: tuple[Layout, Layout, Layout], tell: Tell) -> Code:
    """The function of a block: a loop over frames. `check` and `steps` are traces of `more` and `advance` of
    `Marching`; `layouts` are of arguments, progress and the contents of a frame.
    """
    w = Writer()
    b, (args, progress, row) = Builder(w), layouts
    fixed, now = leaves(w, "%args", args), leaves(w, "%progress", progress)
    n_limit, every, last, done, n_targets, capacity = (
        w.load("%control", k, "i1" if k == 2 else "i64") for k in range(6)
    )
    head, body, keep, following, end = (w.label() for _ in range(5))
    w.jump(head)
    w.open(head)
    at = len(w.lines)
    count = w.value("")
    reached = w.value(f"add i64 {done}, {count}")
    waiting = w.value(f"icmp slt i64 {reached}, {n_targets}")
    place = w.call("llvm.smin.i64", "i64", ("i64", reached), ("i64", n_targets))
    target = w.load("%targets", place, "double")
    control = [
        Register(name, np.dtype(kind))
        for name, kind in (
            *((n_limit, "int64"), (every, "int64"), (last, "bool")),
            *((target, "float64"), (waiting, "bool")),
        )
    ]
    told = [*fixed, *now, *control]
    (again,) = run(b, flattened(check), told)
    goes_on = b.number(again)
    room = w.value(f"icmp slt i64 {count}, {capacity}")
    w.branch(w.value(f"and i1 {goes_on}, {room}"), body, end)
    w.open(body)
    results = run(b, flattened(steps), told)
    saved = b.number(results.pop(len(now)))
    settled = _settled(b, results, told, now)
    for x, to in zip(settled, now, strict=False):
        b.copy(x, to)
    before_frame = w.block
    w.branch(saved, keep, following)
    w.open(keep)
    for x, to in zip(settled[len(now) :], leaves(w, w.row("%rows", count, row.size), row), strict=True):
        b.copy(x, to)
    more = w.value(f"add i64 {count}, 1")
    kept = w.block
    w.jump(following)
    w.open(following)
    new = w.value(f"phi i64 [ {count}, %{before_frame} ], [ {more}, %{kept} ]")
    w.jump(head)
    w.lines[at] = f"{count} = phi i64 [ 0, %entry ], [ {new}, %{following} ]"
    w.open(end)
    return _code(w, ("args", "progress", "control", "targets", "rows"), count, tell)


def _settled(b: Builder, results: Arrays, told: Sequence[Any], now: Sequence[Buffer]) -> Arrays:
    """Results that don't change when the arguments do."""
    pointers = {x.pointer for x in told if isinstance(x, Buffer)}

    def apart(x: Any, own: Any) -> Any:
        if not x.shape:
            return Register(b.number(x), x.dtype)
        if isinstance(x, Buffer) and (x is own or x.pointer not in pointers):
            return x
        return b.copied(x)

    owners = [*now, *[None] * len(results)]
    return [apart(x, owners[n]) for n, x in enumerate(results)]


def row_map(program: Any, shared: Layout, row: Layout, out: Layout) -> Code:
    """The function of `RowMap`: a loop over rows."""
    w = Writer()
    b = Builder(w)
    fixed, count = leaves(w, "%shared", shared), w.load("%count", 0, "i64")
    with w.each(count) as n:
        given = leaves(w, w.row("%rows", n, row.size), row)
        results = run(b, flattened(program), [*fixed, *given])
        for x, to in zip(results, leaves(w, w.row("%out", n, out.size), out), strict=True):
            b.copy(x, to)
    return _code(w, ("shared", "rows", "out", "count"), count, None)


def _code(w: Writer, pointers: tuple[str, ...], returned: str, tell: Tell) -> Code:
    if len(w.lines) > LIMIT:
        raise NotNative(f"{len(w.lines)} lines")
    return Code(w, pointers, returned, tell, long=True)
