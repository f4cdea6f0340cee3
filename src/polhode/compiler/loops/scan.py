"""Scans as machine code: a loop over rows, around a program on scalars."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, TypeAlias, final

from polhode.compiler.llvm.ir_builder import IRBuilder
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.loop_builder import LoopBuilder
from polhode.compiler.llvm.types import type_of
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.scalars.program import Program, Variable, split_inputs

Inputs: TypeAlias = tuple[Sequence[Variable], Collection[Variable]]
"""Inputs of the body, and the variables that it uses."""


class AbstractOperand:
    """Values that the body of a scan takes or returns, packed at an argument of the compiled function.

    **Arguments:**

    - `name`: of this argument. - `layout`: of the values.
    """

    def __init__(self, name: str, layout: Layout) -> None:
        self.name, self.size, self._layout = name, layout.size, layout

    def _store(self, w: IRBuilder, pointers: Sequence[str], values: Sequence[str]) -> None:
        for k, (scalar, value) in enumerate(zip(self._layout.scalars, values, strict=True)):
            for pointer in pointers:
                w.store(pointer, k, type_of(scalar), value)


class AbstractInput(AbstractOperand, abc.ABC):
    """Values that the body takes."""

    @abc.abstractmethod
    def load(self, w: IRBuilder, n: str, inputs: Inputs) -> list[str]:
        """The values for row `n` of these inputs of the body."""


class AbstractOutput(AbstractOperand, abc.ABC):
    """Values that the body returns."""

    @abc.abstractmethod
    def store(self, w: IRBuilder, n: str, values: Sequence[str]) -> None:
        """Stores the values of row `n`."""


@final
class Constants(AbstractInput):
    """The same values for all rows, loaded before the loop."""

    def load(self, w: IRBuilder, n: str, inputs: Inputs) -> list[str]:
        return w.inputs(f"%{self.name}", *inputs)


@final
class Rows(AbstractInput, AbstractOutput):
    """A row of a table."""

    def load(self, w: IRBuilder, n: str, inputs: Inputs) -> list[str]:
        return w.inputs(w.row(f"%{self.name}", n, self.size), *inputs)

    def store(self, w: IRBuilder, n: str, values: Sequence[str]) -> None:
        self._store(w, [w.row(f"%{self.name}", n, self.size)], values)


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

    def load(self, w: IRBuilder, n: str, inputs: Inputs) -> list[str]:
        if not self.increments:
            return w.inputs(f"%{self.name}", *inputs)
        added = w.row(f"%{self.increments}", n, self.size)
        return [_sum(w, w.load(f"%{self.name}", k, "double"), w.load(added, k, "double")) for k in range(self.size)]

    def store(self, w: IRBuilder, n: str, values: Sequence[str]) -> None:
        history = [w.row(f"%{self.history}", n, self.size)] if self.history else []
        self._store(w, [f"%{self.name}", *history], values)


@final
class Sums(AbstractOutput):
    """Sums of numbers over all rows."""

    def store(self, w: IRBuilder, n: str, values: Sequence[str]) -> None:
        for k, value in enumerate(values):
            w.store(f"%{self.name}", k, "double", _sum(w, w.load(f"%{self.name}", k, "double"), value))


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


def compile_scan(body: Program, scan: Scan) -> CompiledFunction:
    """Machine code of a scan; returns the number of rows."""
    w = IRBuilder()
    used, parts = body.used_variables, split_inputs(body, [x.size for x in scan.inputs])
    inputs: dict[AbstractInput, Inputs] = {x: (of, used) for x, of in zip(scan.inputs, parts, strict=True)}
    constants: dict[AbstractInput, list[str]] = {
        x: x.load(w, "", of) for x, of in inputs.items() if isinstance(x, Constants)
    }
    count = w.load("%count", 0, "i64")
    with _each_row(w, count, scan.reverse) as n:
        arguments = [value for x, of in inputs.items() for value in constants.get(x) or x.load(w, n, of)]
        results = w.program(body, arguments)
        for x in scan.outputs:
            x.store(w, n, results[: x.size])
            results = results[x.size :]
    return CompiledFunction(w, scan.pointers, count)


@contextlib.contextmanager
def _each_row(w: IRBuilder, count: str, reverse: bool) -> Iterator[str]:
    """A loop over the numbers of rows: the context writes its body."""
    if not reverse:
        with w.for_each(count) as n:
            yield n
        return
    loop, body, end = LoopBuilder(w, [("i64", count)]), w.label(), w.label()
    (after,) = loop.values
    w.branch(w.value(f"icmp sgt i64 {after}, 0"), body, end)
    w.open(body)
    n = w.value(f"sub i64 {after}, 1")
    yield n
    loop.end([n])
    w.open(end)


def _sum(w: IRBuilder, a: str, b: str) -> str:
    return w.value(f"fadd double {a}, {b}")
