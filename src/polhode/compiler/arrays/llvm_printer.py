"""Array programs as text of LLVM's intermediate representation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from polhode.compiler import size_limits
from polhode.compiler.arrays.array_ir import (
    Address,
    Allocate,
    DivMod,
    Function,
    If,
    Index,
    Load,
    Nest,
    Other,
    Place,
    Pointer,
    Store,
    Switch,
    Table,
    While,
)
from polhode.compiler.arrays.printer import AbstractPrinter
from polhode.compiler.compile_report import CompileReport
from polhode.compiler.llvm.ir_builder import IRBuilder
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.loop_builder import LoopBuilder
from polhode.compiler.llvm.types import TooManyOperations, slots_of, type_of
from polhode.compiler.scalars.program import Operation, Variable

Tell = Callable[[CompileReport], None] | None


def compile_function(function: Function, tell: Tell = None, long: bool = False) -> CompiledFunction:
    """The machine code of a function. `tell`, `long`: see `CompiledFunction`.

    Raises `UnsupportedNativeOperation` for unsupported or too many operations.
    """
    printer = _Printer()
    printer.block(function.body)
    w = printer.w
    if long and len(w.lines) > size_limits.LINES:
        raise TooManyOperations(f"{len(w.lines)} lines")
    return CompiledFunction(w, tuple(function.arguments), w.operand(function.result), tell, long)


@final
class _Printer(AbstractPrinter):
    """The text of one function under construction. Its workspace is that of the `IRBuilder`."""

    def __init__(self) -> None:
        super().__init__()
        self.w = IRBuilder()
        self._pointers: dict[Pointer, str] = {}
        self._offsets: dict[Table, int] = {}
        self._access = ""
        self._marks = 0

    def operation(self, s: Operation) -> None:
        self.w.operation(s)

    # --- operands -----------------------------------------------------------------------------------------------------

    def operand(self, x: Any) -> str:
        """A variable, a constant or a pointer."""
        if isinstance(x, Pointer):
            return f"%{x.name}" if x.name else self._pointers[x]
        return str(x) if isinstance(x, int) else self.w.operand(x)

    def _kind(self, x: Any) -> str:
        return "ptr" if isinstance(x, Pointer) else type_of(x)

    def _name(self, x: Variable | Pointer, value: str) -> None:
        if isinstance(x, Pointer):
            self._pointers[x] = value
        else:
            self.w.name(x, value)

    def _position(self, place: Place, strides: tuple[int, ...]) -> int | str:
        """Slots from the first element to that at a place."""
        position: int | str = 0
        for p, stride in zip(place, strides, strict=True):
            position = self._sum(position, self._product(p, stride))
        return position

    def _product(self, p: Index, stride: int) -> int | str:
        if isinstance(p, int):
            return p * stride
        if stride == 0:
            return 0
        return self.operand(p) if stride == 1 else self.w.value(f"mul i64 {self.operand(p)}, {stride}")

    def _sum(self, a: int | str, b: int | str) -> int | str:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.w.value(f"add i64 {a}, {b}")

    # --- memory -------------------------------------------------------------------------------------------------------

    def allocate(self, s: Allocate) -> None:
        self.w.workspace = max(self.w.workspace, s.begin + s.slots)
        self._pointers[s.result] = self.w.value(f"getelementptr i64, ptr %workspace, i64 {s.begin}")

    def address(self, s: Address) -> None:
        text = f"getelementptr i64, ptr {self.operand(s.base)}, i64 {self.operand(s.slots)}"
        self._name(s.result, self.w.value(text))

    def other(self, s: Other) -> None:
        now, first, second = map(self.operand, s[1:])
        is_first = self.w.value(f"icmp eq ptr {now}, {first}")
        self._pointers[s.result] = self.w.value(f"select i1 {is_first}, ptr {second}, ptr {first}")

    def load(self, s: Load) -> None:
        position, kind = self._position(s.place, s.strides), type_of(s.result)
        if isinstance(s.source, Table):
            value = self._constant(s.source, position, kind)
        else:
            value = self.w.load(self.operand(s.source), position, kind, self._access)
        self.w.name(s.result, value)

    def _constant(self, table: Table, position: int | str, kind: str) -> str:
        if table not in self._offsets:
            self._offsets[table] = self.w.table(_slots(table.values))
        begin = self._offsets[table]
        if kind != "i32":
            return self.w.load("%tables", self._sum(position, begin), kind, self._access)
        at = self.w.value(f"getelementptr i32, ptr %tables, i64 {self._sum(position, 2 * begin)}")
        return self.w.value(f"load i32, ptr {at}, align 4{self._access}")

    def store(self, s: Store) -> None:
        position, target = self._position(s.place, s.strides), self.operand(s.target)
        self.w.store(target, position, type_of(s.value), self.operand(s.value), self._access)

    def divide(self, s: DivMod) -> None:
        # By a product: code that is compiled quickly has divisions otherwise, which are ten times as slow. It is exact
        # below 2³¹, and no array has so many elements.
        w, dividend, shift = self.w, self.operand(s.dividend), 31 + s.divisor.bit_length()
        product = w.value(f"mul i64 {dividend}, {-(-(1 << shift) // s.divisor)}")
        quotient = w.value(f"lshr i64 {product}, {shift}")
        self.w.name(s.remainder, w.value(f"sub i64 {dividend}, {w.value(f'mul i64 {quotient}, {s.divisor}')}"))
        self.w.name(s.quotient, quotient)

    # --- loops and branches -------------------------------------------------------------------------------------------

    def nest(self, s: Nest) -> None:
        self._loop(s, 0)

    def _loop(self, s: Nest, axis: int) -> None:
        """The loop along an axis and those inside it; the last one tells LLVM that its iterations are independent."""
        w, outer, last = self.w, self._access, axis == len(s.indices) - 1
        loop, body, after = LoopBuilder(w, [("i64", "0")]), w.label(), w.label()
        (index,) = loop.values
        w.name(s.indices[axis], index)
        w.branch(w.value(f"icmp slt i64 {index}, {self.operand(s.bounds[axis])}"), body, after)
        w.open(body)
        group = self._metadata() if last and s.independent else ""
        self._access = f", !llvm.access.group {group}" if group else ""
        if last:
            self.block(s.body)
        else:
            self._loop(s, axis + 1)
        self._access = outer
        next_index = w.value(f"add i64 {index}, 1")
        loop.end([next_index], f", !llvm.loop {self._metadata(group)}" if group else "")
        w.open(after)

    def _metadata(self, accesses: str = "") -> str:
        """LLVM metadata: an access group, or, given its accesses, that of a loop with independent iterations."""
        self._marks += 1
        name = f"!{2 * self._marks}"
        if not accesses:
            self.w.module_lines.append(f"{name} = distinct !{{}}")
            return name
        property_name = f"!{2 * self._marks + 1}"
        self.w.module_lines.append(f'{property_name} = !{{!"llvm.loop.parallel_accesses", {accesses}}}')
        self.w.module_lines.append(f"{name} = distinct !{{{name}, {property_name}}}")
        return name

    def while_(self, s: While) -> None:
        w = self.w
        start = [(self._kind(v), self.operand(x)) for v, x in zip(s.carried, s.start, strict=True)]
        loop, body, after = LoopBuilder(w, start), w.label(), w.label()
        for v, value in zip(s.carried, loop.values, strict=True):
            self._name(v, value)
        self.block(s.condition)
        w.branch(self.operand(s.proceeds), body, after)
        w.open(body)
        self.block(s.body)
        loop.end([self.operand(x) for x in s.following])
        w.open(after)

    def if_(self, s: If) -> None:
        w = self.w
        inside, after, before = w.label(), w.label(), w.block
        w.branch(self.operand(s.condition), inside, after)
        w.open(inside)
        self.block(s.block)
        end = w.block
        w.jump(after)
        w.open(after)
        for v, yes, no in zip(s.results, s.values, s.otherwise, strict=True):
            self._name(v, self._phi(v, [(self.operand(no), before), (self.operand(yes), end)]))

    def switch(self, s: Switch) -> None:
        w, which, kind = self.w, self.operand(s.which), self._kind(s.which)
        labels, after = [w.label() for _ in s.blocks], w.label()
        if kind == "i1":
            w.branch(which, labels[1], labels[0])
        else:
            cases = " ".join(f"{kind} {n}, label %{label}" for n, label in enumerate(labels[:-1]))
            w.lines.append(f"switch {kind} {which}, label %{labels[-1]} [ {cases} ]")
        ends: list[str] = []
        for label, block in zip(labels, s.blocks, strict=True):
            w.open(label)
            self.block(block)
            ends.append(w.block)
            w.jump(after)
        w.open(after)
        for n, v in enumerate(s.results):
            self._name(v, self._phi(v, [(self.operand(x[n]), end) for x, end in zip(s.values, ends, strict=True)]))

    def _phi(self, v: Variable | Pointer, ends: list[tuple[str, str]]) -> str:
        cases = ", ".join(f"[ {value}, %{block} ]" for value, block in ends)
        return self.w.value(f"phi {self._kind(v)} {cases}")


def _slots(values: np.ndarray) -> np.ndarray:
    """Constants in slots of eight bytes; two of 32 bits share one, since reading indices can dominate a gather."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype == np.int32:
        return np.concatenate([flat, np.zeros(flat.size % 2, np.int32)]).view(np.int64)
    return slots_of(flat)
