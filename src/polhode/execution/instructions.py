"""Operations on numbers as instructions of LLVM's intermediate representation, or calls of the C library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode.execution.literals import constant

if TYPE_CHECKING:
    from polhode.execution.writer import Writer

_ARITHMETIC = {"add": "add", "add_any": "add", "sub": "sub", "mul": "mul"}

_LIBRARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
    *("cbrt", "erf", "erfc", "exp", "exp2", "expm1", "lgamma", "log", "log1p", "pow"),
)
"""Functions of the C library by the primitive's name."""

_INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil"}

_ONE, _INFINITY = "0x3FF0000000000000", "0x7FF0000000000000"


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
    """Division of whole numbers: by zero, and of the least one by -1, it would end the process, so both have values, as
    XLA gives them."""

    def run(w: Writer, kind: str, x: list[str]) -> str:
        zero = w.value(f"icmp eq {kind} {x[1]}, 0")
        minus = w.value(f"icmp eq {kind} {x[1]}, -1")
        refused = w.value(f"or i1 {zero}, {minus}")
        divisor = w.value(f"select i1 {refused}, {kind} 1, {kind} {x[1]}")
        result = w.value(f"{word} {kind} {x[0]}, {divisor}")
        if word == "sdiv":
            negated = w.value(f"sub {kind} 0, {x[0]}")
            result = w.value(f"select i1 {minus}, {kind} {negated}, {kind} {result}")
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
