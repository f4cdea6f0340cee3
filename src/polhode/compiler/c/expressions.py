"""Operations on numbers as expressions in C, with the meaning that `polhode.compiler.llvm.instructions` gives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from polhode.compiler.llvm.types import UnsupportedNativeOperation

_TYPES = {
    np.dtype(np.float64): "double",
    np.dtype(np.int64): "int64_t",
    np.dtype(np.int32): "int32_t",
    np.dtype(np.uint32): "int64_t",
    np.dtype(np.bool_): "bool",
}

Expression: TypeAlias = Callable[[Sequence[str], Mapping[str, Any]], str]
"""An expression from operands and parameters."""


def c_type(dtype: Any) -> str:
    """Raises `UnsupportedNativeOperation` for types that there are not; unsigned numbers of 32 bits are in 64."""
    name = _TYPES.get(np.dtype(dtype))
    if name is None:
        raise UnsupportedNativeOperation(f"{dtype} in C")
    return name


def literal(value: np.generic) -> str:
    """A constant, exactly."""
    kind = c_type(value.dtype)
    if kind == "double":
        number = float(value)
        size = "NAN" if math.isnan(number) else "INFINITY" if math.isinf(number) else repr(abs(number))
        return f"(-{size})" if math.copysign(1.0, number) < 0 else size
    if kind == "bool":
        return "true" if value else "false"
    whole = int(value)
    if abs(whole) < 2**31:
        return str(whole) if whole >= 0 else f"({whole})"
    return "INT64_MIN" if whole == -(2**63) else f"INT64_C({whole})" if whole > 0 else f"(-INT64_C({-whole}))"


def expression(name: str, params: Mapping[str, Any], operands: Sequence[tuple[str, Any]], result: Any) -> str:
    """An operation on operands, given by text and dtype, with a result of a dtype."""
    x, dtypes = [text for text, _ in operands], [np.dtype(dtype) for _, dtype in operands]
    kind, is_unsigned = dtypes[0], np.dtype(result) == np.uint32
    if name in _SAME:
        return x[0]
    if kind.kind == "f" and name in FLOATS:
        return FLOATS[name](x, params)
    if name in _COMPARISONS:
        return f"{x[0]} {_COMPARISONS[name]} {x[1]}"
    if name == "select_n":
        return _select(x, kind)
    if name == "convert_element_type" and not (is_unsigned and kind.kind == "f"):
        text = _convert(x[0], kind, result)
    elif kind.kind == "b" and name in _TRUTHS:
        text = _TRUTHS[name](x, params)
    elif kind.kind in "iu" and name in INTEGERS:
        text = _narrow(INTEGERS[name](x, params), kind)
    else:
        raise UnsupportedNativeOperation(f"{name} in C")
    return f"({text}) & INT64_C(0xFFFFFFFF)" if is_unsigned else text


_SAME = frozenset(["copy", "copy_p", "stop_gradient", "optimization_barrier", "real"])

_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}

_LIBRARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
    *("cbrt", "erf", "erfc", "exp", "exp2", "expm1", "lgamma", "log", "log1p", "pow", "nextafter", "sqrt"),
    *("floor", "ceil"),
)


def _select(x: Sequence[str], kind: np.dtype) -> str:
    which, first, *others = x
    if kind.kind == "b":
        return f"{which} ? {others[0]} : {first}"
    for k, case in enumerate(others, 1):
        first = f"({which} >= {k} ? {case} : {first})"
    return first


def _convert(x: str, kind: np.dtype, to: Any) -> str:
    if kind == to:
        return x
    if np.dtype(to).kind == "b":
        return f"{x} != 0"
    if kind.kind == "f":
        return f"to_{'int32' if to == np.int32 else 'int64'}({x})"
    return f"({c_type(to)}){x}"


def _narrow(text: str, kind: np.dtype) -> str:
    """An integer of 64 bits as one of this kind."""
    return f"(int32_t)({text})" if kind == np.int32 else text


def _call(name: str) -> Expression:
    return lambda x, p: f"{name}({', '.join(x)})"


def _infix(symbol: str) -> Expression:
    return lambda x, p: f"{x[0]} {symbol} {x[1]}"


def _modular(symbol: str) -> Expression:
    """Integer arithmetic modulo 2⁶⁴; in C only that of unsigned integers is defined."""
    return lambda x, p: f"(int64_t)((uint64_t){x[0]} {symbol} (uint64_t){x[1]})"


def _integer_power(x: Sequence[str], p: Mapping[str, Any]) -> str:
    power = f"power({x[0]}, {abs(p['y'])}u)"
    return f"1.0 / {power}" if p["y"] < 0 else power


def _whole_power(x: str, exponent: int) -> str:
    """A product modulo 2⁶⁴."""
    return "(int64_t)(" + " * ".join((f"(uint64_t){x}",) * exponent or ("UINT64_C(1)",)) + ")"


def _by_rank(symbol: str) -> Expression:
    return lambda x, p: f"rank_of({x[0]}) {symbol} rank_of({x[1]})"


FLOATS: dict[str, Expression] = {
    **{name: _call(name) for name in _LIBRARY},
    **{
        name: _infix(symbol)
        for name, symbol in (("add", "+"), ("add_any", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))
    },
    "rem": _call("fmod"),
    "abs": _call("fabs"),
    "max": _call("maximum"),
    "min": _call("minimum"),
    "sign": _call("sign_of"),
    "clamp": lambda x, p: f"minimum(maximum({x[0]}, {x[1]}), {x[2]})",
    "neg": lambda x, p: f"-{x[0]}",
    "square": lambda x, p: f"{x[0]} * {x[0]}",
    "integer_pow": _integer_power,
    "rsqrt": lambda x, p: f"1.0 / sqrt({x[0]})",
    "logistic": lambda x, p: f"1.0 / (1.0 + exp(-{x[0]}))",
    "round": lambda x, p: f"{'nearbyint' if int(p['rounding_method']) == 1 else 'round'}({x[0]})",
    "is_finite": lambda x, p: f"fabs({x[0]}) < INFINITY",
    "le_to": _by_rank("<="),
    "lt_to": _by_rank("<"),
}
"""Operations on numbers in double precision."""

_BITS = {"and": _infix("&"), "or": _infix("|"), "xor": _infix("^")}

INTEGERS: dict[str, Expression] = {
    **{name: _modular(symbol) for name, symbol in (("add", "+"), ("add_any", "+"), ("sub", "-"), ("mul", "*"))},
    **_BITS,
    "max": lambda x, p: f"{x[0]} > {x[1]} ? {x[0]} : {x[1]}",
    "min": lambda x, p: f"{x[0]} < {x[1]} ? {x[0]} : {x[1]}",
    "clamp": lambda x, p: f"{x[1]} < {x[0]} ? ({x[0]} < {x[2]} ? {x[0]} : {x[2]}) : {x[1]} < {x[2]} ? {x[1]} : {x[2]}",
    "div": _call("quotient"),
    "rem": _call("remainder_of"),
    "neg": _call("negate"),
    "not": lambda x, p: f"~{x[0]}",
    "sign": lambda x, p: f"({x[0]} > 0) - ({x[0]} < 0)",
    "abs": lambda x, p: f"{x[0]} < 0 ? negate({x[0]}) : {x[0]}",
    "integer_pow": lambda x, p: _whole_power(x[0], p["y"]),
    "square": lambda x, p: _whole_power(x[0], 2),
}
"""Operations on integers, computed in 64 bits."""

_TRUTHS: dict[str, Expression] = {
    **_BITS,
    "max": _infix("|"),
    "min": _infix("&"),
    "not": lambda x, p: f"!{x[0]}",
}
