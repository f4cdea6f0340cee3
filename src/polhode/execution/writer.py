"""Programs on scalars as text of LLVM's intermediate representation.

Every operation of a recorded program is one instruction or one call of the C library; loops and branches become basic
blocks. Products and sums stay two operations: fused ones (`llvm.fma`) were 0 to 4 % faster, but least effort took up to
twenty times as long to compile them, and results would depend on the processor.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from polhode.execution.scalars.regions import Operation, Region, Variable

_TYPES = {
    np.dtype(np.float64): "double",
    np.dtype(np.int64): "i64",
    np.dtype(np.int32): "i32",
    np.dtype(np.uint32): "i64",
    np.dtype(np.bool_): "i1",
}
"""LLVM's numbers have no sign of their own; unsigned ones are kept in larger ones, where they are never negative."""

_COMPARISONS = {
    "lt": ("olt", "slt"),
    "le": ("ole", "sle"),
    "gt": ("ogt", "sgt"),
    "ge": ("oge", "sge"),
    "eq": ("oeq", "eq"),
    "ne": ("une", "ne"),
}

_ARITHMETIC = {"add": "add", "add_any": "add", "sub": "sub", "mul": "mul"}

_LIBRARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
    *("cbrt", "erf", "erfc", "exp", "exp2", "expm1", "lgamma", "log", "log1p", "pow"),
)
"""Functions of the C library by the primitive's name."""

_INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil"}

_SAME = frozenset(["copy", "copy_p", "stop_gradient", "optimization_barrier", "real"])

_LARGEST_OF_32 = 2**32 - 1

_ONE, _INFINITY = "0x3FF0000000000000", "0x7FF0000000000000"


class NotNative(Exception):
    """A program holds an operation or a type that has no rule here."""


def type_of(scalar: Any) -> str:
    """LLVM's type of a scalar. Raises NotNative for types without one."""
    name = _TYPES.get(scalar.dtype)
    if name is None:
        raise NotNative(str(scalar.dtype))
    return name


def constant(value: np.generic) -> str:
    """A literal of the text."""
    kind = type_of(value)
    if kind == "double":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    if kind == "i1":
        return "true" if bool(value) else "false"
    return str(int(value))


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
        head, body, end = (self.label() for _ in range(3))
        before = self.block
        self.jump(head)
        self.open(head)
        at = len(self.lines)
        n = self.value("")
        self.branch(self.value(f"icmp slt i64 {n}, {count}"), body, end)
        self.open(body)
        yield n
        following = self.value(f"add i64 {n}, 1")
        last = self.block
        self.jump(head)
        self.lines[at] = f"{n} = phi i64 [ 0, %{before} ], [ {following}, %{last} ]"
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
            return [FLOATS[name](self, x, params)]
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
        return self.value(f"icmp {words[1].replace('s', 'u') if kind == 'i1' else words[1]} {kind} {a}, {b}")

    def _select(self, operation: Operation, kind: str, x: list[str]) -> str:
        which, *cases = x
        result = type_of(operation.results[0])
        if kind == "i1":
            return self.value(f"select i1 {which}, {result} {cases[1]}, {result} {cases[0]}")
        chosen = cases[0]
        for k, case in enumerate(cases[1:], 1):
            here = self.value(f"icmp sge {kind} {which}, {k}")
            chosen = self.value(f"select i1 {here}, {result} {case}, {result} {chosen}")
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
            return self.value(f"{'uitofp' if kind == 'i1' else 'sitofp'} {kind} {x} to double")
        if kind == "i1":
            return self.value(f"zext i1 {x} to {to}")
        if to == "i1":
            return self.value(f"icmp ne {kind} {x}, 0")
        return self.value(f"{'sext' if kind == 'i32' else 'trunc'} {kind} {x} to {to}")

    def _while(self, operation: Operation, start: list[str]) -> list[str]:
        test, again = operation.params["cond"], operation.params["body"]
        before, head, body, behind = (self.label() for _ in range(4))
        self.jump(before)
        self.open(before)
        self.jump(head)
        self.open(head)
        at = len(self.lines)
        carried = [self.value("") for _ in start]
        (goes_on,) = self.program(test, carried)
        self.branch(goes_on, body, behind)
        self.open(body)
        following = self.program(again, carried)
        last = self.block
        self.jump(head)
        for k, (name, v) in enumerate(zip(carried, operation.results, strict=True)):
            self.lines[at + k] = f"{name} = phi {type_of(v)} [ {start[k]}, %{before} ], [ {following[k]}, %{last} ]"
        self.open(behind)
        return carried

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
        before, head, inside, behind = (self.label() for _ in range(4))
        self.jump(before)
        self.open(before)
        self.jump(head)
        self.open(head)
        at = len(self.lines)
        n = self.value("")
        carried = [self.value("") for _ in start]
        self.branch(self.value(f"icmp slt i64 {n}, {length}"), inside, behind)
        self.open(inside)
        i = self.value(f"sub i64 {length - 1}, {n}") if p["reverse"] else n
        source = self.row(given, i, len(kinds))
        row = [self.load(source, k, kind) for k, kind in enumerate(kinds)]
        results = self.program(region, [*carried, *row])
        target = self.row(made, i, len(out_kinds))
        for k, kind in enumerate(out_kinds):
            self.store(target, k, kind, results[n_carry + k])
        following = self.value(f"add i64 {n}, 1")
        last = self.block
        self.jump(head)
        self.lines[at] = f"{n} = phi i64 [ 0, %{before} ], [ {following}, %{last} ]"
        for k, (name, first, then) in enumerate(zip(carried, start, results[:n_carry], strict=True), 1):
            kind = type_of(region.inputs[k - 1])
            self.lines[at + k] = f"{name} = phi {kind} [ {first}, %{before} ], [ {then}, %{last} ]"
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
"""What becomes basic blocks of its own."""


def _power(w: Writer, base: str, exponent: int) -> str:
    """By repeated squares."""
    left, square, result = abs(exponent), base, None
    while left:
        if left & 1:
            result = square if result is None else w.value(f"fmul double {result}, {square}")
        left >>= 1
        if left:
            square = w.value(f"fmul double {square}, {square}")
    result = result or _ONE
    return w.value(f"fdiv double {_ONE}, {result}") if exponent < 0 else result


def _sign(w: Writer, x: str) -> str:
    positive = w.value(f"fcmp ogt double {x}, 0.0")
    negative = w.value(f"fcmp olt double {x}, 0.0")
    other = w.value(f"select i1 {negative}, double {constant(np.float64(-1.0))}, double {x}")
    return w.value(f"select i1 {positive}, double {_ONE}, double {other}")


def _intrinsic(name: str) -> Callable[[Writer, list[str], Any], str]:
    return lambda w, x, p: w.call(f"llvm.{name}.f64", "double", *(("double", v) for v in x))


def _function(name: str) -> Callable[[Writer, list[str], Any], str]:
    return lambda w, x, p: w.call(name, "double", *(("double", v) for v in x))


def _binary(word: str) -> Callable[[Writer, list[str], Any], str]:
    return lambda w, x, p: w.value(f"{word} double {x[0]}, {x[1]}")


def _clamp(w: Writer, x: list[str], params: Any) -> str:
    low, value, high = x
    raised = w.call("llvm.maximum.f64", "double", ("double", low), ("double", value))
    return w.call("llvm.minimum.f64", "double", ("double", raised), ("double", high))


def _round(w: Writer, x: list[str], params: Any) -> str:
    name = "roundeven" if int(params["rounding_method"]) == 1 else "round"
    return w.call(f"llvm.{name}.f64", "double", ("double", x[0]))


def _logistic(w: Writer, x: list[str], params: Any) -> str:
    minus = w.value(f"fneg double {x[0]}")
    below = w.value(f"fadd double {_ONE}, {w.call('exp', 'double', ('double', minus))}")
    return w.value(f"fdiv double {_ONE}, {below}")


def _is_finite(w: Writer, x: list[str], params: Any) -> str:
    size = w.call("llvm.fabs.f64", "double", ("double", x[0]))
    return w.value(f"fcmp olt double {size}, {_INFINITY}")


FLOATS: dict[str, Callable[[Writer, list[str], Any], str]] = {
    **{name: _function(name) for name in _LIBRARY},
    **{name: _intrinsic(of) for name, of in _INTRINSICS.items()},
    **{name: _binary(f"f{word}") for name, word in _ARITHMETIC.items()},
    "div": _binary("fdiv"),
    "rem": _function("fmod"),
    "nextafter": _function("nextafter"),
    "abs": _intrinsic("fabs"),
    "max": _intrinsic("maximum"),
    "min": _intrinsic("minimum"),
    "clamp": _clamp,
    "neg": lambda w, x, p: w.value(f"fneg double {x[0]}"),
    "square": lambda w, x, p: w.value(f"fmul double {x[0]}, {x[0]}"),
    "integer_pow": lambda w, x, p: _power(w, x[0], p["y"]),
    "rsqrt": lambda w, x, p: w.value(f"fdiv double {_ONE}, {w.call('llvm.sqrt.f64', 'double', ('double', x[0]))}"),
    "logistic": _logistic,
    "round": _round,
    "sign": lambda w, x, p: _sign(w, x[0]),
    "is_finite": _is_finite,
}
"""Operations on numbers in double precision."""


def _extreme(name: str, of_bits: str) -> Callable[[Writer, str, list[str]], str]:
    def run(w: Writer, kind: str, x: list[str]) -> str:
        if kind == "i1":
            return w.value(f"{of_bits} i1 {x[0]}, {x[1]}")
        return w.call(f"llvm.s{name}.{kind}", kind, (kind, x[0]), (kind, x[1]))

    return run


def _whole(word: str) -> Callable[[Writer, str, list[str]], str]:
    return lambda w, kind, x: w.value(f"{word} {kind} {x[0]}, {x[1]}")


def _quotient(word: str, by_zero: int | None) -> Callable[[Writer, str, list[str]], str]:
    """Division of whole numbers: by zero it would end the process, so it has a value, as XLA gives it."""

    def run(w: Writer, kind: str, x: list[str]) -> str:
        zero = w.value(f"icmp eq {kind} {x[1]}, 0")
        divisor = w.value(f"select i1 {zero}, {kind} 1, {kind} {x[1]}")
        result = w.value(f"{word} {kind} {x[0]}, {divisor}")
        return w.value(f"select i1 {zero}, {kind} {x[0] if by_zero is None else by_zero}, {kind} {result}")

    return run


def _whole_sign(w: Writer, kind: str, x: list[str]) -> str:
    positive = w.value(f"icmp sgt {kind} {x[0]}, 0")
    negative = w.value(f"icmp slt {kind} {x[0]}, 0")
    other = w.value(f"select i1 {negative}, {kind} -1, {kind} 0")
    return w.value(f"select i1 {positive}, {kind} 1, {kind} {other}")


def _whole_clamp(w: Writer, kind: str, x: list[str]) -> str:
    low, value, high = x
    return _extreme("min", "and")(w, kind, [_extreme("max", "or")(w, kind, [low, value]), high])


INTEGERS: dict[str, Callable[[Writer, str, list[str]], str]] = {
    **{name: _whole(word) for name, word in _ARITHMETIC.items()},
    **{name: _whole(name) for name in ("and", "or", "xor")},
    "max": _extreme("max", "or"),
    "min": _extreme("min", "and"),
    "clamp": _whole_clamp,
    "div": _quotient("sdiv", -1),
    "rem": _quotient("srem", None),
    "neg": lambda w, kind, x: w.value(f"sub {kind} 0, {x[0]}"),
    "not": lambda w, kind, x: w.value(f"xor {kind} {x[0]}, {'true' if kind == 'i1' else '-1'}"),
    "sign": _whole_sign,
    "abs": lambda w, kind, x: w.call(f"llvm.abs.{kind}", kind, (kind, x[0]), ("i1", "false")),
}
"""Operations on whole numbers and truth values."""
