"""Programs on scalars as text of LLVM's intermediate representation.

Every operation of a recorded program is one instruction or one call of the C library; loops and branches become basic
blocks. Products and sums stay two operations: fused ones (`llvm.fma`) were 0 to 4 % faster, but at -O0 they took up to
twenty times as long to compile, and results would depend on the processor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from polhode.compiler.llvm.control_flow import BLOCKS, Block
from polhode.compiler.llvm.instructions import ARITHMETIC, FLOATS, INTEGERS, convert
from polhode.compiler.llvm.loop_builder import LoopBuilder
from polhode.compiler.llvm.procedures import Procedure
from polhode.compiler.llvm.types import UnsupportedNativeOperation, constant, slots_of, type_of
from polhode.compiler.scalars.program import ArrayType, ConstantArray, Operation, Program, Variable

_COMPARISONS = {
    "lt": ("olt", "slt"),
    "le": ("ole", "sle"),
    "gt": ("ogt", "sgt"),
    "ge": ("oge", "sge"),
    "eq": ("oeq", "eq"),
    "ne": ("une", "ne"),
}

_SAME = frozenset(["copy", "copy_p", "stop_gradient", "optimization_barrier", "real"])

_DTYPES = {kind: np.dtype(name) for kind, name in (("double", "f8"), ("i64", "i8"), ("i32", "i4"), ("i1", "?"))}

_LARGEST_OF_32 = 2**32 - 1


class IRBuilder:
    """The text of one function under construction.

    **Arguments:**

    - `width`: number of lanes of each variable; 1 for scalars.
    - `blocks`: by name, operations that become basic blocks of their own; by default those of single numbers.
    """

    def __init__(self, width: int = 1, blocks: Mapping[str, Block] | None = None) -> None:
        self.width = width
        self.blocks = BLOCKS if blocks is None else blocks
        self.lines: list[str] = []
        self.workspace = 0
        self.declared: set[str] = set()
        self.module_lines: list[str] = []
        self.procedures: dict[Program, Procedure] = {}
        self._tables: list[np.ndarray] = []
        self._constant_arrays: dict[tuple[np.dtype, bytes], int] = {}
        self.block = "entry"
        self._names: dict[Variable, str] = {}
        self._values = 0
        self._labels = 0

    @property
    def tables(self) -> np.ndarray:
        """Numbers that the program reads, in slots."""
        return np.concatenate([np.zeros(0, np.int64), *self._tables])

    def table(self, slots: np.ndarray) -> int:
        """The offset of constants in `tables`: outside the text, which they would make long."""
        self._tables.append(slots)
        return sum(x.size for x in self._tables[:-1])

    def value(self, text: str) -> str:
        """A new value, by its name."""
        self._values += 1
        self.lines.append(f"%v{self._values} = {text}")
        return f"%v{self._values}"

    def label(self) -> str:
        """The name of a new block."""
        self._labels += 1
        return f"b{self._labels}"

    def open(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.lines.append(f"br label %{label}")

    def branch(self, condition: str, true: str, false: str) -> None:
        self.lines.append(f"br i1 {condition}, label %{true}, label %{false}")

    @contextlib.contextmanager
    def for_each(self, count: str) -> Generator[str]:
        """A loop over so many rows: the context writes its body, and gets the row's number."""
        loop, body, end = LoopBuilder(self, [("i64", "0")]), self.label(), self.label()
        (n,) = loop.values
        self.branch(self.value(f"icmp slt i64 {n}, {count}"), body, end)
        self.open(body)
        yield n
        loop.end([self.value(f"add i64 {n}, 1")])
        self.open(end)

    def of(self, kind: str) -> str:
        """The type of a variable: that of a single number, or of one for each lane."""
        return kind if self.width == 1 else f"<{self.width} x {kind}>"

    def number(self, kind: str, value: float) -> str:
        """A constant, in all lanes."""
        return self.splat(kind, constant(_DTYPES[kind].type(value)))

    def splat(self, kind: str, value: str) -> str:
        """A literal, in all lanes."""
        return value if self.width == 1 else f"<{', '.join([f'{kind} {value}'] * self.width)}>"

    def do(self, word: str, kind: str, *x: str) -> str:
        """An instruction on operands of one kind."""
        return self.value(f"{word} {self.of(kind)} {', '.join(x)}")

    def select(self, which: str, kind: str, yes: str, no: str) -> str:
        return self.value(f"select {self.of('i1')} {which}, {self.of(kind)} {yes}, {self.of(kind)} {no}")

    def intrinsic(self, name: str, kind: str, *x: str, flag: str = "") -> str:
        """One of LLVM's intrinsics, which is exact; `flag`: a truth value as an additional argument."""
        more = [("i1", flag)] if flag else []
        return self.call(f"llvm.{name}.{self.suffix(kind)}", self.of(kind), *((self.of(kind), v) for v in x), *more)

    def suffix(self, kind: str) -> str:
        """The type in names of intrinsic functions."""
        return ("" if self.width == 1 else f"v{self.width}") + ("f64" if kind == "double" else kind)

    def library(self, name: str, *x: str) -> str:
        """A function of the C library; separate calls for all lanes, since vectorised versions round differently."""
        if self.width == 1:
            return self.call(name, "double", *(("double", v) for v in x))
        kind, result = self.of("double"), "poison"
        for lane in range(self.width):
            scalars = [self.value(f"extractelement {kind} {v}, i64 {lane}") for v in x]
            scalar = self.call(name, "double", *(("double", v) for v in scalars))
            result = self.value(f"insertelement {kind} {result}, double {scalar}, i64 {lane}")
        return result

    def call(self, function: str, kind: str, *arguments: tuple[str, str]) -> str:
        self.declared.add(f"declare {kind} @{function}({', '.join(t for t, _ in arguments)})")
        return self.value(f"call {kind} @{function}({', '.join(f'{t} {v}' for t, v in arguments)})")

    def load(self, pointer: str, slot: int | str, kind: str, metadata: str = "") -> str:
        """The value in a slot of eight bytes; `metadata`: of the access."""
        at = self.value(f"getelementptr i64, ptr {pointer}, i64 {slot}")
        if kind == "double":
            return self.value(f"load double, ptr {at}, align 8{metadata}")
        whole = self.value(f"load i64, ptr {at}, align 8{metadata}")
        return whole if kind == "i64" else self.value(f"trunc i64 {whole} to {kind}")

    def store(self, pointer: str, slot: int | str, kind: str, value: str, metadata: str = "") -> None:
        """Stores a value in a slot of eight bytes."""
        at = self.value(f"getelementptr i64, ptr {pointer}, i64 {slot}")
        if kind not in ("double", "i64"):
            value, kind = self.value(f"{'zext' if kind == 'i1' else 'sext'} {kind} {value} to i64"), "i64"
        self.lines.append(f"store {kind} {value}, ptr {at}, align 8{metadata}")

    def get(self, pointer: str, n: int, kind: str) -> str:
        """Loads variable number n: one slot for each lane, side by side."""
        if self.width == 1:
            return self.load(pointer, n, kind)
        at = self.value(f"getelementptr i64, ptr {pointer}, i64 {n * self.width}")
        if kind == "double":
            return self.value(f"load {self.of(kind)}, ptr {at}, align 8")
        whole = self.value(f"load {self.of('i64')}, ptr {at}, align 8")
        return whole if kind == "i64" else self.value(f"trunc {self.of('i64')} {whole} to {self.of(kind)}")

    def put(self, pointer: str, n: int, kind: str, value: str) -> None:
        """Store variable number n."""
        if self.width == 1:
            self.store(pointer, n, kind, value)
            return
        at = self.value(f"getelementptr i64, ptr {pointer}, i64 {n * self.width}")
        if kind not in ("double", "i64"):
            word = "zext" if kind == "i1" else "sext"
            value, kind = self.value(f"{word} {self.of(kind)} {value} to {self.of('i64')}"), "i64"
        self.lines.append(f"store {self.of(kind)} {value}, ptr {at}, align 8")

    def inputs(self, pointer: str, variables: Sequence[Variable], used: Collection[Variable]) -> list[str]:
        """The values of those inputs of a program that it uses, packed there; of arrays, where they begin."""
        values, slot = [], 0
        for v in variables:
            if v not in used:
                values.append("")
            elif isinstance(v.dtype, ArrayType):
                values.append(self.value(f"getelementptr i64, ptr {pointer}, i64 {slot * self.width}"))
            else:
                values.append(self.get(pointer, slot, type_of(v)))
            slot += v.slots
        return values

    def read(self, operation: Operation, begin: str, position: str) -> str:
        """The element of an array at a position; in lanes each reads its own array, or the same constants."""
        kind = type_of(operation.results[0])
        if self.width == 1:
            return self.load(begin, position, kind)
        shared, result = isinstance(operation.operands[0], ConstantArray), "poison"
        for lane in range(self.width):
            at = self.value(f"extractelement {self.of('i64')} {position}, i64 {lane}")
            if not shared:
                at = self.value(f"add i64 {self.value(f'mul i64 {at}, {self.width}')}, {lane}")
            element = self.load(begin, at, kind)
            result = self.value(f"insertelement {self.of(kind)} {result}, {kind} {element}, i64 {lane}")
        return result

    def _constants(self, array: ConstantArray) -> str:
        """Where an array of constants begins; equal ones are stored once."""
        key = array.values.dtype, array.values.tobytes()
        if key not in self._constant_arrays:
            self._constant_arrays[key] = self.table(slots_of(array.values))
        return self.value(f"getelementptr i64, ptr %tables, i64 {self._constant_arrays[key]}")

    def function(self, pointers: Sequence[str], result: str) -> str:
        """The text of the function `run` of these pointers and those to the `workspace` and the `tables`."""
        arguments = ", ".join(f"ptr noalias %{name}" for name in (*pointers, "workspace", "tables"))
        head = [*sorted(self.declared), f"define i64 @run({arguments}) {{", "entry:"]
        return "\n".join((*head, *self.lines, f"ret i64 {result}", "}", *self.module_lines, ""))

    def name(self, variable: Variable, value: str) -> None:
        """Sets the value of a variable that programs read without taking it as an argument."""
        self._names[variable] = value

    def program(self, region: Program, arguments: Sequence[str]) -> list[str]:
        """The results of a program on scalars."""
        self._names.update(zip(region.inputs, arguments, strict=True))
        for operation in region.operations:
            self.operation(operation)
        return [self.operand(x) for x in region.outputs]

    def operation(self, operation: Operation) -> None:
        """One operation of a program."""
        results = self.apply(operation, [self.operand(x) for x in operation.operands])
        for variable, value in zip(operation.results, results, strict=True):
            self._names[variable] = value

    def operand(self, x: Any) -> str:
        """A variable or a constant."""
        if type(x) is Variable:
            return self._names[x]
        return self._constants(x) if isinstance(x, ConstantArray) else self.splat(type_of(x), constant(x))

    def apply(self, operation: Operation, x: list[str]) -> list[str]:
        """The results of one operation on these values."""
        name, params = operation.name, operation.params
        if name in self.blocks:
            return self.blocks[name](self, operation, x)
        if name in ARITHMETIC and type_of(operation.operands[0]) == type_of(operation.operands[1]) == "double":
            # Most operations; what follows would write the same.
            return [self.do(ARITHMETIC[name], "double", *x)]
        if name in _SAME:
            return x
        if name == "read":
            return [self.read(operation, *x)]
        kind = type_of(operation.operands[0])
        if kind == "double" and name in FLOATS:
            # Powers may have an integer exponent.
            floats = [convert(self, type_of(o), kind, v) for o, v in zip(operation.operands, x, strict=True)]
            return [FLOATS[name](self, floats, params)]
        if name in _COMPARISONS:
            return [self._compare(_COMPARISONS[name], kind, *x)]
        if name == "select_n":
            return [self._select(operation, kind, x)]
        is_unsigned = operation.results[0].dtype == np.uint32
        if name == "convert_element_type" and not (is_unsigned and kind == "double"):
            result = convert(self, kind, type_of(operation.results[0]), x[0])
        elif kind != "double" and name in INTEGERS:
            result = INTEGERS[name](self, kind, x, params)
        else:
            raise UnsupportedNativeOperation(name)
        return [self.do("and", "i64", result, self.number("i64", _LARGEST_OF_32)) if is_unsigned else result]

    def _compare(self, words: tuple[str, str], kind: str, a: str, b: str) -> str:
        if kind == "double":
            return self.do(f"fcmp {words[0]}", "double", a, b)
        if kind == "i1":
            return self._compare_truths(words[1], a, b)
        return self.do(f"icmp {words[1]}", kind, a, b)

    def _compare_truths(self, word: str, a: str, b: str) -> str:
        """By logic: LLVM's fast selector knows no `icmp` of i1, and leaves the rest of the block to the slow one, whose
        cost grows with the square of its length."""
        if word in ("eq", "ne"):
            differs = self.do("xor", "i1", a, b)
            return differs if word == "ne" else self.logical_not(differs)
        if word in ("sgt", "sge"):
            a, b = b, a
        return self.do("and" if word in ("slt", "sgt") else "or", "i1", self.logical_not(a), b)

    def logical_not(self, a: str) -> str:
        return self.do("xor", "i1", a, self.number("i1", 1))

    def blend(self, which: str, kind: str, yes: str, no: str) -> str:
        """One of two values; of truth values by logic, for the same reason as in `_compare_truths`."""
        if kind != "i1":
            return self.select(which, kind, yes, no)
        first, second = self.do("and", "i1", which, yes), self.do("and", "i1", self.logical_not(which), no)
        return self.do("or", "i1", first, second)

    def _select(self, operation: Operation, kind: str, x: list[str]) -> str:
        which, *cases = x
        result = type_of(operation.results[0])
        if kind == "i1":
            return self.blend(which, result, cases[1], cases[0])
        value = cases[0]
        for k, case in enumerate(cases[1:], 1):
            here = self.do("icmp sge", kind, which, self.number(kind, k))
            value = self.blend(here, result, case, value)
        return value

    def procedure(self) -> IRBuilder:
        """A builder of another function of the module."""
        w = IRBuilder(self.width, self.blocks)
        w.workspace, w.procedures = self.workspace, self.procedures
        w.declared, w.module_lines = self.declared, self.module_lines
        w._tables, w._constant_arrays = self._tables, self._constant_arrays
        return w

    def reserve(self, slots: int) -> int:
        """Where a new part of the workspace begins, for so many variables."""
        at, self.workspace = self.workspace, self.workspace + slots * self.width
        return at

    def slots(self, begin: int) -> str:
        """A pointer to a part of the workspace."""
        return self.value(f"getelementptr i64, ptr %workspace, i64 {begin}")

    def new_table(self, slots: int) -> str:
        """A new part of the workspace, for so many variables."""
        return self.slots(self.reserve(slots))

    def row(self, table: str, i: str, width: int) -> str:
        """A pointer to row i of a table of slots."""
        return self.value(f"getelementptr i64, ptr {table}, i64 {self.value(f'mul i64 {i}, {width}')}")
