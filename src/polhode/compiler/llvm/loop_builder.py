"""Loops in the text of a function: the header block and its phi nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polhode.compiler.llvm.builder import Builder


class LoopBuilder:
    """A loop under construction: everything written until `end` is its body.

    `values` are the loop variables at the beginning of an iteration.

    **Arguments:**

    - `w`: the function. - `start`: types and initial values of these variables.
    """

    def __init__(self, w: Builder, start: Sequence[tuple[str, str]]) -> None:
        self._w, self._start, self._before, self._head = w, start, w.block, w.label()
        w.jump(self._head)
        w.open(self._head)
        self._at = len(w.lines)
        self.values = [w.value("") for _ in start]

    def end(self, values: Sequence[str], metadata: str = "") -> None:
        """Closes the loop. `values`: the variables of the next iteration; `metadata`: of the loop."""
        w, last = self._w, self._w.block
        w.jump(self._head)
        w.lines[-1] += metadata
        for n, ((kind, first), name, value) in enumerate(zip(self._start, self.values, values, strict=True)):
            w.lines[self._at + n] = f"{name} = phi {kind} [ {first}, %{self._before} ], [ {value}, %{last} ]"
