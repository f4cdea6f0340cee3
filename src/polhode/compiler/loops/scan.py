"""Scans as machine code: a loop over rows, around a program on scalars or on arrays."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

from polhode.compiler.arrays.array_ir import Function, Index, Pointer, pointers_of
from polhode.compiler.arrays.block_builder import INTEGER
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.loops.loop_code import AbstractLoopCode, Concatenation
from polhode.compiler.loops.packed_layout import Layout


class Row(NamedTuple):
    """A row of a scan.

    - `code`: the loop. - `pointers`: arguments of the compiled function, by name. - `n`: the number of the row.
    - `shared`: of each operand, values or places that are the same for all rows.
    """

    code: AbstractLoopCode
    pointers: Mapping[str, Pointer]
    n: Index
    shared: Mapping[AbstractOperand, Sequence[Any]]

    def places(self, name: str, layout: Layout) -> Sequence[Any]:
        """The places of this row of a table."""
        return self.code.places(self.code.k.row(self.pointers[name], self.n, layout.size), layout)


class AbstractOperand(abc.ABC):
    """Values that the body of a scan takes or returns, packed at an argument of the compiled function.

    **Arguments:**

    - `name`: of this argument. - `layout`: of the values.
    """

    def __init__(self, name: str, layout: Layout) -> None:
        self.name, self.layout = name, layout

    @abc.abstractmethod
    def share(self, code: AbstractLoopCode, pointer: Pointer) -> Sequence[Any]:
        """Values or places that are the same for all rows, before the loop."""


class AbstractInput(AbstractOperand):
    """Values that the body takes."""

    @abc.abstractmethod
    def read(self, row: Row) -> Sequence[Any]:
        """The values for a row."""


class AbstractOutput(AbstractOperand):
    """Values that the body returns."""

    @abc.abstractmethod
    def write(self, row: Row, values: Sequence[Any]) -> None:
        """Stores the values of a row."""


@final
class Constants(AbstractInput):
    """The same values for all rows, read before the loop."""

    def share(self, code: AbstractLoopCode, pointer: Pointer) -> Sequence[Any]:
        return code.read(code.places(pointer, self.layout))

    def read(self, row: Row) -> Sequence[Any]:
        return row.shared[self]


@final
class Rows(AbstractInput, AbstractOutput):
    """A row of a table."""

    def share(self, code: AbstractLoopCode, pointer: Pointer) -> Sequence[Any]:
        return ()

    def read(self, row: Row) -> Sequence[Any]:
        return row.code.read(row.places(self.name, self.layout))

    def write(self, row: Row, values: Sequence[Any]) -> None:
        row.code.write(values, row.places(self.name, self.layout))


@final
class Carry(AbstractInput, AbstractOutput):
    """Values that each row passes on to the next.

    **Arguments:**

    - `increments`: a table of numbers that are added to them before each row.
    - `history`: a table for them after each row.
    """

    def __init__(self, name: str, layout: Layout, increments: str = "", history: str = "") -> None:
        super().__init__(name, layout)
        self.increments, self.history = increments, history

    def share(self, code: AbstractLoopCode, pointer: Pointer) -> Sequence[Any]:
        return code.places(pointer, self.layout)

    def read(self, row: Row) -> Sequence[Any]:
        if self.increments:
            row.code.add(row.shared[self], row.code.read(row.places(self.increments, self.layout)))
        return row.code.read(row.shared[self])

    def write(self, row: Row, values: Sequence[Any]) -> None:
        history = [row.places(self.history, self.layout)] if self.history else []
        row.code.write(values, row.shared[self], *history)


@final
class Sums(AbstractOutput):
    """Sums of numbers over all rows."""

    def share(self, code: AbstractLoopCode, pointer: Pointer) -> Sequence[Any]:
        return code.places(pointer, self.layout)

    def write(self, row: Row, values: Sequence[Any]) -> None:
        row.code.add(row.shared[self], values)


class Scan(NamedTuple):
    """A loop over rows.

    - `inputs`, `outputs`: what its body takes and returns, in order. - `reverse`: whether the last row comes first.
    """

    inputs: tuple[AbstractInput, ...]
    outputs: tuple[AbstractOutput, ...]
    reverse: bool = False

    @property
    def pointers(self) -> tuple[str, ...]:
        """Arguments of the compiled function; `count` is the number of rows."""
        carries = [x for x in self.inputs if isinstance(x, Carry)]
        tables = [name for x in carries for name in (x.increments, x.history) if name]
        return (*dict.fromkeys((*(x.name for x in self.inputs), *tables, *(x.name for x in self.outputs))), "count")

    def compile(self, code: AbstractLoopCode, body: Any) -> CompiledFunction:
        """Its machine code around a program. Raises `UnsupportedNativeOperation` for what there is no code for."""
        return code.compile(self.function(code, body))

    def function(self, code: AbstractLoopCode, body: Any) -> Function:
        """The function of a scan around a program, which returns the number of rows."""
        k, pointers = code.k, pointers_of(self.pointers)
        operands: dict[AbstractOperand, None] = dict.fromkeys((*self.inputs, *self.outputs))
        shared = {x: x.share(code, pointers[x.name]) for x in operands}
        count = k.load_slot(pointers["count"], 0, INTEGER)
        with k.loop(count) as step:
            n = k.apply("sub", INTEGER, k.apply("sub", INTEGER, count, step), 1) if self.reverse else step
            row = Row(code, pointers, n, shared)
            results = code.call(body, Concatenation(*(x.read(row) for x in self.inputs)))
            sizes = [code.size(x.layout) for x in self.outputs]
            if any(x in self.inputs for x in self.outputs):
                own = [shared[x] or [None] * size for x, size in zip(self.outputs, sizes, strict=True)]
                results = code.detach(results, [place for places in own for place in places])
            for x, size in zip(self.outputs, sizes, strict=True):
                x.write(row, results[:size])
                results = results[size:]
        return Function(pointers, k.block, count)
