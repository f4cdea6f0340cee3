"""Programs on scalars as text of LLVM's intermediate representation.

Every operation of a recorded program is one instruction or one call of the C library; loops and branches become basic
blocks. Products and sums stay two operations: fused ones (`llvm.fma`) were 0 to 4 % faster, but least effort took up to
twenty times as long to compile them, and results would depend on the processor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from polhode._scalar.primitives import ROWS, SUBCALLS, opened

_TYPES = {"float64": "double", "int64": "i64", "int32": "i32", "bool": "i1"}

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
_RESHAPES = frozenset(["broadcast_in_dim", "reshape", "squeeze", "expand_dims"])

_ONE, _INFINITY = "0x3FF0000000000000", "0x7FF0000000000000"


class NotNative(Exception):
    """A program holds an operation or a type that has no rule here."""


def type_of(aval: Any) -> str:
    """LLVM's type of a scalar. Raises NotNative for arrays and other types."""
    name = _TYPES.get(str(aval.dtype))
    if name is None or aval.size != 1:
        raise NotNative(f"{aval.dtype}{list(aval.shape)}")
    return name


def constant(value: Any, dtype: Any) -> str:
    """A literal of the text."""
    kind = _TYPES.get(str(np.dtype(dtype)))
    if kind is None:
        raise NotNative(str(dtype))
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
        self.operations = 0
        self.block = "entry"
        self._values = 0
        self._labels = 0

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

    def call(self, function: str, kind: str, *arguments: tuple[str, str]) -> str:
        self.declared.add(f"declare {kind} @{function}({', '.join(t for t, _ in arguments)})")
        return self.value(f"call {kind} @{function}({', '.join(f'{t} {v}' for t, v in arguments)})")

    def load(self, pointer: str, slot: int | str, kind: str) -> str:
        """The value in a slot of eight bytes."""
        at = self.value(f"getelementptr i64, ptr {pointer}, i64 {slot}")
        if kind == "double":
            return self.value(f"load double, ptr {at}, align 8")
        whole = self.value(f"load i64, ptr {at}, align 8")
        return whole if kind == "i64" else self.value(f"trunc i64 {whole} to {kind}")

    def store(self, pointer: str, slot: int | str, kind: str, value: str) -> None:
        """Put a value into a slot of eight bytes."""
        at = self.value(f"getelementptr i64, ptr {pointer}, i64 {slot}")
        if kind not in ("double", "i64"):
            value, kind = self.value(f"{'zext' if kind == 'i1' else 'sext'} {kind} {value} to i64"), "i64"
        self.lines.append(f"store {kind} {value}, ptr {at}, align 8")

    def function(self, pointers: Sequence[str], returned: str) -> str:
        """The text of the function `run` of these pointers and one to the `workspace`."""
        arguments = ", ".join(f"ptr noalias %{name}" for name in (*pointers, "workspace"))
        head = [*sorted(self.declared), f"define i64 @run({arguments}) {{", "entry:"]
        return "\n".join((*head, *self.lines, f"ret i64 {returned}", "}", ""))

    def program(self, closed: core.ClosedJaxpr, arguments: Sequence[str]) -> list[str]:
        """The results of a program on scalars."""
        return self._evaluate(closed.jaxpr, closed.consts, arguments)

    def _evaluate(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[str]) -> list[str]:
        env: dict[Any, str] = {}
        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            known = np.asarray(const)
            env[variable] = constant(known.reshape(-1)[0], known.dtype)
        env.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> str:
            aval: Any = atom.aval
            return constant(atom.val, aval.dtype) if isinstance(atom, core.Literal) else env[atom]

        for eqn in jaxpr.eqns:
            env.update(zip(eqn.outvars, self._apply(eqn, [read(v) for v in eqn.invars]), strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _apply(self, eqn: Any, x: list[str]) -> list[str]:
        name, params = eqn.primitive.name, eqn.params
        if name in SUBCALLS:
            inner, consts = opened(params[SUBCALLS[name]])
            return self._evaluate(inner, consts, x)
        if name == "while":
            return self._while(eqn, x)
        if name == "cond":
            return self._cond(eqn, x)
        if name == ROWS:
            return self._rows(eqn, x)
        if name in _SAME:
            return x
        if eqn.outvars and all(v.aval.size == 0 for v in eqn.outvars):
            return ["empty"] * len(eqn.outvars)
        self.operations += 1
        if name in _RESHAPES:
            type_of(eqn.outvars[0].aval)
            return x
        kind = type_of(eqn.invars[0].aval)
        if kind == "double" and name in FLOATS:
            return [FLOATS[name](self, x, params)]
        if name in _COMPARISONS:
            return [self._compare(_COMPARISONS[name], kind, *x)]
        if name == "select_n":
            return [self._select(eqn, kind, x)]
        if name == "convert_element_type":
            return [self._convert(kind, type_of(eqn.outvars[0].aval), x[0])]
        if kind != "double" and name in INTEGERS:
            return [INTEGERS[name](self, kind, x)]
        raise NotNative(name)

    def _compare(self, words: tuple[str, str], kind: str, a: str, b: str) -> str:
        if kind == "double":
            return self.value(f"fcmp {words[0]} double {a}, {b}")
        return self.value(f"icmp {words[1].replace('s', 'u') if kind == 'i1' else words[1]} {kind} {a}, {b}")

    def _select(self, eqn: Any, kind: str, x: list[str]) -> str:
        which, *cases = x
        result = type_of(eqn.outvars[0].aval)
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

    def _while(self, eqn: Any, x: list[str]) -> list[str]:
        p = eqn.params
        n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
        of_cond, of_body, start = x[:n_cond], x[n_cond : n_cond + n_body], x[n_cond + n_body :]
        before, head, body, behind = (self.label() for _ in range(4))
        self.jump(before)
        self.open(before)
        self.jump(head)
        self.open(head)
        at = len(self.lines)
        carried = [self.value("") for _ in start]
        (again,) = self.program(p["cond_jaxpr"], [*of_cond, *carried])
        self.branch(again, body, behind)
        self.open(body)
        following = self.program(p["body_jaxpr"], [*of_body, *carried])
        last = self.block
        self.jump(head)
        for k, (name, v) in enumerate(zip(carried, eqn.outvars, strict=True)):
            self.lines[at + k] = (
                f"{name} = phi {type_of(v.aval)} [ {start[k]}, %{before} ], [ {following[k]}, %{last} ]"
            )
        self.open(behind)
        return carried

    def _rows(self, eqn: Any, x: list[str]) -> list[str]:
        """A loop over rows, in tables of slots."""
        p = eqn.params
        n_shared, n_carry, length, body = p["shared"], p["carried"], p["length"], p["jaxpr"]
        kinds = [type_of(a) for a in body.in_avals[n_shared + n_carry :]]
        out_kinds = [type_of(a) for a in body.out_avals[n_carry:]]
        shared, start, elements = x[:n_shared], x[n_shared : n_shared + n_carry], x[n_shared + n_carry :]
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
        results = self.program(body, [*shared, *carried, *row])
        target = self.row(made, i, len(out_kinds))
        for k, kind in enumerate(out_kinds):
            self.store(target, k, kind, results[n_carry + k])
        following = self.value(f"add i64 {n}, 1")
        last = self.block
        self.jump(head)
        self.lines[at] = f"{n} = phi i64 [ 0, %{before} ], [ {following}, %{last} ]"
        for k, (name, first, then) in enumerate(zip(carried, start, results[:n_carry], strict=True), 1):
            kind = type_of(body.in_avals[n_shared + k - 1])
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

    def _cond(self, eqn: Any, x: list[str]) -> list[str]:
        branches, which, operands = eqn.params["branches"], x[0], x[1:]
        kind = type_of(eqn.invars[0].aval)
        labels, behind = [self.label() for _ in branches], self.label()
        if kind == "i1":
            self.branch(which, labels[1], labels[0])
        else:
            cases = " ".join(f"{kind} {k}, label %{label}" for k, label in enumerate(labels[:-1]))
            self.lines.append(f"switch {kind} {which}, label %{labels[-1]} [ {cases} ]")
        ends = []
        for label, branch in zip(labels, branches, strict=True):
            self.open(label)
            ends.append((self.program(branch, operands), self.block))
            self.jump(behind)
        self.open(behind)
        return [
            self.value(f"phi {type_of(v.aval)} " + ", ".join(f"[ {outs[k]}, %{block} ]" for outs, block in ends))
            for k, v in enumerate(eqn.outvars)
        ]


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
    other = w.value(f"select i1 {negative}, double {constant(-1.0, np.float64)}, double {x}")
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
