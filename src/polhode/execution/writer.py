"""Programs on scalars as text of LLVM's intermediate representation.

Every operation of a recorded program is one instruction or one call of the C library; loops and branches become basic
blocks. Products and sums stay two operations: fused ones (`llvm.fma`) were 0 to 4 % faster, but least effort took up to
twenty times as long to compile them, and results would depend on the processor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polhode.execution.instructions import FLOATS, INTEGERS
from polhode.execution.literals import NotNative, constant, type_of
from polhode.execution.passes import Passes
from polhode.execution.scalars.regions import Operation, Region, Variable

_COMPARISONS = {
    "lt": ("olt", "slt"),
    "le": ("ole", "sle"),
    "gt": ("ogt", "sgt"),
    "ge": ("oge", "sge"),
    "eq": ("oeq", "eq"),
    "ne": ("une", "ne"),
}

_SAME = frozenset(["copy", "copy_p", "stop_gradient", "optimization_barrier", "real"])

_LARGEST_OF_32 = 2**32 - 1


class Writer:
    """The text of one function under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.workspace = 0
        self.declared: set[str] = set()
        self.beside: list[str] = []
        self._tables: list[np.ndarray] = []
        self.block = "entry"
        self._names: dict[Variable, str] = {}
        self._values = 0
        self._labels = 0

    @property
    def tables(self) -> np.ndarray:
        """Numbers that the program reads, in slots."""
        return np.concatenate([np.zeros(0, np.int64), *self._tables])

    def table(self, slots: np.ndarray) -> int:
        """Where among the `tables` known numbers begin: beside the text, which they would make long."""
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
    def each(self, count: str) -> Iterator[str]:
        """A loop over so many rows: what is written while this is open is done for each, by its number."""
        passes, body, end = Passes(self, [("i64", "0")]), self.label(), self.label()
        (n,) = passes.now
        self.branch(self.value(f"icmp slt i64 {n}, {count}"), body, end)
        self.open(body)
        yield n
        passes.end([self.value(f"add i64 {n}, 1")])
        self.open(end)

    def call(self, function: str, kind: str, *arguments: tuple[str, str]) -> str:
        self.declared.add(f"declare {kind} @{function}({', '.join(t for t, _ in arguments)})")
        return self.value(f"call {kind} @{function}({', '.join(f'{t} {v}' for t, v in arguments)})")

    def load(self, pointer: str, slot: int | str, kind: str, marked: str = "") -> str:
        """The value in a slot of eight bytes; `marked`: what is known of the access."""
        at = self.value(f"getelementptr i64, ptr {pointer}, i64 {slot}")
        if kind == "double":
            return self.value(f"load double, ptr {at}, align 8{marked}")
        whole = self.value(f"load i64, ptr {at}, align 8{marked}")
        return whole if kind == "i64" else self.value(f"trunc i64 {whole} to {kind}")

    def store(self, pointer: str, slot: int | str, kind: str, value: str, marked: str = "") -> None:
        """Put a value into a slot of eight bytes."""
        at = self.value(f"getelementptr i64, ptr {pointer}, i64 {slot}")
        if kind not in ("double", "i64"):
            value, kind = self.value(f"{'zext' if kind == 'i1' else 'sext'} {kind} {value} to i64"), "i64"
        self.lines.append(f"store {kind} {value}, ptr {at}, align 8{marked}")

    def function(self, pointers: Sequence[str], returned: str) -> str:
        """The text of the function `run` of these pointers and those to the `workspace` and the `tables`."""
        arguments = ", ".join(f"ptr noalias %{name}" for name in (*pointers, "workspace", "tables"))
        head = [*sorted(self.declared), f"define i64 @run({arguments}) {{", "entry:"]
        return "\n".join((*head, *self.lines, f"ret i64 {returned}", "}", *self.beside, ""))

    def name(self, variable: Variable, value: str) -> None:
        """The value of a variable that programs read without taking it as an argument."""
        self._names[variable] = value

    def program(self, region: Region, arguments: Sequence[str]) -> list[str]:
        """The results of a program on scalars."""
        self._names.update(zip(region.inputs, arguments, strict=True))
        for operation in region.operations:
            results = self.apply(operation, [self._read(x) for x in operation.operands])
            self._names.update(zip(operation.results, results, strict=True))
        return [self._read(x) for x in region.outputs]

    def _read(self, x: Any) -> str:
        return self._names[x] if isinstance(x, Variable) else constant(x)

    def apply(self, operation: Operation, x: list[str]) -> list[str]:
        """The results of one operation on these values."""
        name, params = operation.name, operation.params
        if name in _BLOCKS:
            return _BLOCKS[name](self, operation, x)
        if name in _SAME:
            return x
        kind = type_of(operation.operands[0])
        if kind == "double" and name in FLOATS:
            # A power may have a whole number for an exponent.
            floats = [self._convert(type_of(o), kind, v) for o, v in zip(operation.operands, x, strict=True)]
            return [FLOATS[name](self, floats, params)]
        if name in _COMPARISONS:
            return [self._compare(_COMPARISONS[name], kind, *x)]
        if name == "select_n":
            return [self._select(operation, kind, x)]
        unsigned = operation.results[0].dtype == np.uint32
        if name == "convert_element_type" and not (unsigned and kind == "double"):
            result = self._convert(kind, type_of(operation.results[0]), x[0])
        elif kind != "double" and name in INTEGERS:
            result = INTEGERS[name](self, kind, x)
        else:
            raise NotNative(name)
        return [self.value(f"and i64 {result}, {_LARGEST_OF_32}") if unsigned else result]

    def _compare(self, words: tuple[str, str], kind: str, a: str, b: str) -> str:
        if kind == "double":
            return self.value(f"fcmp {words[0]} double {a}, {b}")
        if kind == "i1":
            return self._compare_truths(words[1], a, b)
        return self.value(f"icmp {words[1]} {kind} {a}, {b}")

    def _compare_truths(self, word: str, a: str, b: str) -> str:
        """By logic: LLVM's fast selector knows no `icmp` of i1, and leaves the rest of the block to the slow one, whose
        cost grows with the square of its length."""
        if word in ("eq", "ne"):
            differs = self.value(f"xor i1 {a}, {b}")
            return differs if word == "ne" else self.negated(differs)
        if word in ("sgt", "sge"):
            a, b = b, a
        joint = "and" if word in ("slt", "sgt") else "or"
        return self.value(f"{joint} i1 {self.negated(a)}, {b}")

    def negated(self, a: str) -> str:
        return self.value(f"xor i1 {a}, true")

    def chosen(self, which: str, kind: str, yes: str, no: str) -> str:
        """One of two values; of truths by logic, for the reason that they are compared by it."""
        if kind != "i1":
            return self.value(f"select i1 {which}, {kind} {yes}, {kind} {no}")
        first, second = self.value(f"and i1 {which}, {yes}"), self.value(f"and i1 {self.negated(which)}, {no}")
        return self.value(f"or i1 {first}, {second}")

    def _select(self, operation: Operation, kind: str, x: list[str]) -> str:
        which, *cases = x
        result = type_of(operation.results[0])
        if kind == "i1":
            return self.chosen(which, result, cases[1], cases[0])
        chosen = cases[0]
        for k, case in enumerate(cases[1:], 1):
            here = self.value(f"icmp sge {kind} {which}, {k}")
            chosen = self.chosen(here, result, case, chosen)
        return chosen

    def _convert(self, kind: str, to: str, x: str) -> str:
        if kind == to:
            return x
        if kind == "double":
            # A conversion of what no whole number is must not be undefined.
            return (
                self.value(f"fcmp une double {x}, 0.0")
                if to == "i1"
                else self.call(f"llvm.fptosi.sat.{to}.f64", to, ("double", x))
            )
        if to == "double":
            one = constant(np.float64(1.0))
            return self.value(
                f"select i1 {x}, double {one}, double 0.0" if kind == "i1" else f"sitofp {kind} {x} to double"
            )
        if kind == "i1":
            return self.value(f"zext i1 {x} to {to}")
        if to == "i1":
            return self.value(f"icmp ne {kind} {x}, 0")
        return self.value(f"{'sext' if kind == 'i32' else 'trunc'} {kind} {x} to {to}")

    def _while(self, operation: Operation, start: list[str]) -> list[str]:
        test, again = operation.params["cond"], operation.params["body"]
        passes = Passes(self, [(type_of(v), first) for v, first in zip(operation.results, start, strict=True)])
        body, behind = self.label(), self.label()
        (goes_on,) = self.program(test, passes.now)
        self.branch(goes_on, body, behind)
        self.open(body)
        passes.end(self.program(again, passes.now))
        self.open(behind)
        return passes.now

    def _rows(self, operation: Operation, x: list[str]) -> list[str]:
        """A loop over rows, in tables of slots."""
        p = operation.params
        n_carry, length, region = p["carried"], p["length"], p["body"]
        kinds = [type_of(v) for v in region.inputs[n_carry:]]
        out_kinds = [type_of(v) for v in region.outputs[n_carry:]]
        start, elements = x[:n_carry], x[n_carry:]
        given, made = self._table(len(elements)), self._table(length * len(out_kinds))
        for slot, element in enumerate(elements):
            self.store(given, slot, kinds[slot % len(kinds)], element)
        first = [(type_of(v), value) for v, value in zip(region.inputs, start, strict=False)]
        passes, inside, behind = Passes(self, [("i64", "0"), *first]), self.label(), self.label()
        n, *carried = passes.now
        self.branch(self.value(f"icmp slt i64 {n}, {length}"), inside, behind)
        self.open(inside)
        i = self.value(f"sub i64 {length - 1}, {n}") if p["reverse"] else n
        source = self.row(given, i, len(kinds))
        row = [self.load(source, k, kind) for k, kind in enumerate(kinds)]
        results = self.program(region, [*carried, *row])
        target = self.row(made, i, len(out_kinds))
        for k, kind in enumerate(out_kinds):
            self.store(target, k, kind, results[n_carry + k])
        passes.end([self.value(f"add i64 {n}, 1"), *results[:n_carry]])
        self.open(behind)
        return [*carried, *(self.load(made, k, out_kinds[k % len(out_kinds)]) for k in range(length * len(out_kinds)))]

    def _table(self, slots: int) -> str:
        """A part of the workspace that nothing else uses."""
        at, self.workspace = self.workspace, self.workspace + slots
        return self.value(f"getelementptr i64, ptr %workspace, i64 {at}")

    def row(self, table: str, i: str, width: int) -> str:
        """Where row i of a table of slots begins."""
        return self.value(f"getelementptr i64, ptr {table}, i64 {self.value(f'mul i64 {i}, {width}')}")

    def _cond(self, operation: Operation, x: list[str]) -> list[str]:
        branches, (which,) = operation.params["branches"], x
        kind = type_of(operation.operands[0])
        labels, behind = [self.label() for _ in branches], self.label()
        if kind == "i1":
            self.branch(which, labels[1], labels[0])
        else:
            cases = " ".join(f"{kind} {k}, label %{label}" for k, label in enumerate(labels[:-1]))
            self.lines.append(f"switch {kind} {which}, label %{labels[-1]} [ {cases} ]")
        ends = []
        for label, branch in zip(labels, branches, strict=True):
            self.open(label)
            ends.append((self.program(branch, []), self.block))
            self.jump(behind)
        self.open(behind)
        return [
            self.value(f"phi {type_of(v)} " + ", ".join(f"[ {outs[k]}, %{block} ]" for outs, block in ends))
            for k, v in enumerate(operation.results)
        ]


_BLOCKS = {"while": Writer._while, "cond": Writer._cond, "rows": Writer._rows}
"""Operations that become basic blocks of their own."""
