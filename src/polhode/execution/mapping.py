"""A function of every row of stacked arrays, as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from polhode.execution.machine import Code
from polhode.execution.recording import recorded
from polhode.execution.slots import Layout
from polhode.execution.writer import Writer, type_of


class RowMap:
    """`function(shared, row)` of all rows.

    **Arguments:**

    - `shared`, `row`: trees to record it with; only structure, shapes and dtypes matter.

    Raises `NotNative` for what can't be done on scalars, or takes too many.
    """

    def __init__(self, function: Callable[[Any, Any], Any], shared: Any, row: Any) -> None:
        program, out = recorded(function, shared, row)
        self._shared, self._row, self._out = Layout(shared), Layout(row), Layout(out)
        self._code = self._compiled(program)

    def __call__(self, shared: Any, stacked: Any) -> Any:
        """The results, stacked as the rows are."""
        count = len(jax.tree.leaves(stacked)[0])
        out = np.empty((count, self._out.size), np.int64)
        self._code(self._shared.pack(shared), self._row.pack_rows(stacked), out, np.array([count]))
        return self._out.unpack(out)

    def _compiled(self, program: Any) -> Code:
        w = Writer()
        shared = [w.load("%shared", k, type_of(s)) for k, s in enumerate(self._shared.scalars)]
        count = w.load("%count", 0, "i64")
        head, body, end = (w.label() for _ in range(3))
        w.jump(head)
        w.open(head)
        at = len(w.lines)
        n = w.value("")
        w.branch(w.value(f"icmp slt i64 {n}, {count}"), body, end)
        w.open(body)
        source = w.row("%rows", n, self._row.size)
        row = [w.load(source, k, type_of(s)) for k, s in enumerate(self._row.scalars)]
        results = w.program(program, [*shared, *row])
        target = w.row("%out", n, self._out.size)
        for k, (scalar, result) in enumerate(zip(self._out.scalars, results, strict=True)):
            w.store(target, k, type_of(scalar), result)
        following = w.value(f"add i64 {n}, 1")
        last = w.block
        w.jump(head)
        w.lines[at] = f"{n} = phi i64 [ 0, %entry ], [ {following}, %{last} ]"
        w.open(end)
        return Code(w, ("shared", "rows", "out", "count"), count)
