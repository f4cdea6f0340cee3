"""The builder of a function's text, as instructions, loops and control flow use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np


class Builder(Protocol):
    """See `polhode.compiler.llvm.ir_builder.IRBuilder`.

    - `width`: numbers in a variable of programs. - `lines`: the text so far. - `block`: label of the current block.
    - `workspace`: its slots. - `module_lines`: the text after the function. - `procedures`: those of the module.
    """

    width: int
    lines: list[str]
    block: str
    workspace: int
    module_lines: list[str]
    procedures: dict[Any, Any]

    def value(self, text: str) -> str:
        """A new value, computed by an instruction."""
        ...

    def label(self) -> str:
        """A new label."""
        ...

    def open(self, label: str) -> None:
        """Begin a basic block."""
        ...

    def jump(self, label: str) -> None:
        """End the block with a jump."""
        ...

    def branch(self, condition: str, true: str, false: str) -> None:
        """End the block with a jump to one of two."""
        ...

    def of(self, kind: str) -> str:
        """The type of variables of a kind: numbers, or vectors of lanes."""
        ...

    def suffix(self, kind: str) -> str:
        """The type in names of intrinsic functions."""
        ...

    def number(self, kind: str, value: float) -> str:
        """A literal."""
        ...

    def do(self, word: str, kind: str, *x: str) -> str:
        """An instruction with operands of one kind."""
        ...

    def logical_not(self, a: str) -> str:
        """The negation of a truth."""
        ...

    def blend(self, which: str, kind: str, yes: str, no: str) -> str:
        """One of two values in each lane."""
        ...

    def call(self, function: str, kind: str, *arguments: tuple[str, str]) -> str:
        """A call of a function of the module."""
        ...

    def select(self, which: str, kind: str, yes: str, no: str) -> str:
        """One of two values."""
        ...

    def intrinsic(self, name: str, kind: str, *x: str, flag: str = "") -> str:
        """A call of an intrinsic function of LLVM."""
        ...

    def library(self, name: str, *x: str) -> str:
        """A call of the C library."""
        ...

    def get(self, pointer: str, n: int, kind: str) -> str:
        """The n-th variable of a table."""
        ...

    def put(self, pointer: str, n: int, kind: str, value: str) -> None:
        """Store the n-th variable of a table."""
        ...

    def operand(self, x: Any) -> str:
        """A variable or a constant."""
        ...

    def name(self, variable: Any, value: str) -> None:
        """Sets the value of a variable that programs read without taking it as an argument."""
        ...

    def procedure(self) -> Builder:
        """A builder of another function of the module."""
        ...

    def reserve(self, slots: int) -> int:
        """Where a new part of the workspace begins, for so many variables."""
        ...

    def slots(self, begin: int) -> str:
        """A pointer to a part of the workspace."""
        ...

    def new_table(self, slots: int) -> str:
        """A table of variables in the workspace."""
        ...

    def table(self, slots: np.ndarray) -> int:
        """The offset of constants in `tables`."""
        ...

    def row(self, table: str, i: str, width: int) -> str:
        """Row i of a table."""
        ...

    def operation(self, operation: Any) -> None:
        """An operation of a program."""
        ...

    def program(self, region: Any, arguments: Sequence[str]) -> list[str]:
        """The results of a program."""
        ...
