"""Loops in the text of a function: the block at which every pass begins, and what one pass leaves to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polhode.compiler.llvm.builder import Builder


class LoopBuilder:
    """A loop under construction: what is written from now on until `end` is done in every pass.

    `values` are the values that a pass begins with.

    **Arguments:**

    - `w`: the function. - `start`: types of these values, and what the first pass begins with.
    """

    def __init__(self, w: Builder, start: Sequence[tuple[str, str]]) -> None:
        self._w, self._start, self._before, self._head = w, start, w.block, w.label()
        w.jump(self._head)
        w.open(self._head)
        self._at = len(w.lines)
        self.values = [w.value("") for _ in start]

    def end(self, values: Sequence[str], metadata: str = "") -> None:
        """Closes a pass. `then`: the values for the next one; `marked`: what is known of the loop."""
        w, last = self._w, self._w.block
        w.jump(self._head)
        w.lines[-1] += metadata
        for n, ((kind, first), name, value) in enumerate(zip(self._start, self.values, values, strict=True)):
            w.lines[self._at + n] = f"{name} = phi {kind} [ {first}, %{self._before} ], [ {value}, %{last} ]"
