"""Operations on numbers as instructions of LLVM's intermediate representation, or calls of the C library.

Each is written for single numbers or for vectors of lanes, as the `IRBuilder` is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polhode.compiler.llvm.builder import Builder

_ARITHMETIC = {"add": "add", "add_any": "add", "sub": "sub", "mul": "mul"}

ARITHMETIC = {name: f"f{word}" for name, word in _ARITHMETIC.items()} | {"div": "fdiv"}
"""Instructions of two numbers in double precision."""

_LIBRARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
    *("cbrt", "erf", "erfc", "exp", "exp2", "expm1", "lgamma", "log", "log1p", "pow"),
)
"""Functions of the C library by the primitive's name."""

_INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil"}

_INFINITY = float("inf")


def _power(w: Builder, base: str, exponent: int) -> str:
    result = _product(w, ("fmul", "double"), base, abs(exponent)) or w.number("double", 1.0)
    return w.do("fdiv", "double", w.number("double", 1.0), result) if exponent < 0 else result


def _product(w: Builder, times: tuple[str, str], base: str, count: int) -> str | None:
    """The product of equal factors, by repeated squares; None of no factors."""
    square, result = base, None
    while count:
        if count & 1:
            result = square if result is None else w.do(*times, result, square)
        count >>= 1
        if count:
            square = w.do(*times, square, square)
    return result


def _sign(w: Builder, x: str) -> str:
    zero = w.number("double", 0.0)
    positive, negative = w.do("fcmp ogt", "double", x, zero), w.do("fcmp olt", "double", x, zero)
    other = w.select(negative, "double", w.number("double", -1.0), x)
    return w.select(positive, "double", w.number("double", 1.0), other)


def _intrinsic(name: str) -> Callable[[Builder, list[str], Any], str]:
    return lambda w, x, p: w.intrinsic(name, "double", *x)


def _function(name: str) -> Callable[[Builder, list[str], Any], str]:
    return lambda w, x, p: w.library(name, *x)


def _binary(word: str) -> Callable[[Builder, list[str], Any], str]:
    return lambda w, x, p: w.do(word, "double", *x)


def _clamp(w: Builder, x: list[str], params: Any) -> str:
    low, value, high = x
    return w.intrinsic("minimum", "double", w.intrinsic("maximum", "double", low, value), high)


def _round(w: Builder, x: list[str], params: Any) -> str:
    return w.intrinsic("roundeven" if int(params["rounding_method"]) == 1 else "round", "double", x[0])


def _reciprocal(w: Builder, x: str) -> str:
    return w.do("fdiv", "double", w.number("double", 1.0), x)


def _logistic(w: Builder, x: list[str], params: Any) -> str:
    decay = w.library("exp", w.do("fneg", "double", x[0]))
    return _reciprocal(w, w.do("fadd", "double", w.number("double", 1.0), decay))


def _is_finite(w: Builder, x: list[str], params: Any) -> str:
    return w.do("fcmp olt", "double", w.intrinsic("fabs", "double", x[0]), w.number("double", _INFINITY))


def _rank(w: Builder, x: str) -> str:
    """An integer key for the total order of floats, signed zeros and NaN included."""
    bits = w.value(f"bitcast {w.of('double')} {x} to {w.of('i64')}")
    negative = w.do("icmp slt", "i64", bits, w.number("i64", 0))
    flipped_bits = w.do("xor", "i64", bits, w.number("i64", 2**63 - 1))
    return w.select(negative, "i64", flipped_bits, bits)


def _by_rank(word: str) -> Callable[[Builder, list[str], Any], str]:
    return lambda w, x, p: w.do(word, "i64", *[_rank(w, v) for v in x])


FLOATS: dict[str, Callable[[Builder, list[str], Any], str]] = {
    **{name: _function(name) for name in _LIBRARY},
    **{name: _intrinsic(of) for name, of in _INTRINSICS.items()},
    **{name: _binary(word) for name, word in ARITHMETIC.items()},
    "rem": _function("fmod"),
    "nextafter": _function("nextafter"),
    "abs": _intrinsic("fabs"),
    "max": _intrinsic("maximum"),
    "min": _intrinsic("minimum"),
    "clamp": _clamp,
    "neg": lambda w, x, p: w.do("fneg", "double", x[0]),
    "square": lambda w, x, p: w.do("fmul", "double", x[0], x[0]),
    "integer_pow": lambda w, x, p: _power(w, x[0], p["y"]),
    "rsqrt": lambda w, x, p: _reciprocal(w, w.intrinsic("sqrt", "double", x[0])),
    "logistic": _logistic,
    "round": _round,
    "sign": lambda w, x, p: _sign(w, x[0]),
    "is_finite": _is_finite,
    "le_to": _by_rank("icmp sle"),
    "lt_to": _by_rank("icmp slt"),
}
"""Operations on numbers in double precision."""


def _extreme(name: str, of_bits: str) -> Callable[[Builder, str, list[str], Any], str]:
    def write(w: Builder, kind: str, x: list[str], params: Any) -> str:
        return w.do(of_bits, kind, *x) if kind == "i1" else w.intrinsic(f"s{name}", kind, *x)

    return write


def _whole(word: str) -> Callable[[Builder, str, list[str], Any], str]:
    return lambda w, kind, x, p: w.do(word, kind, *x)


def _quotient(word: str, by_zero: int | None) -> Callable[[Builder, str, list[str], Any], str]:
    """Division of whole numbers: by zero, and of the least one by -1, it would end the process, so both have values, as
    XLA gives them."""

    def write(w: Builder, kind: str, x: list[str], params: Any) -> str:
        zero, minus = (w.do("icmp eq", kind, x[1], w.number(kind, k)) for k in (0, -1))
        invalid = w.do("or", "i1", zero, minus)
        divisor = w.select(invalid, kind, w.number(kind, 1), x[1])
        result = w.do(word, kind, x[0], divisor)
        if word == "sdiv":
            result = w.select(minus, kind, w.do("sub", kind, w.number(kind, 0), x[0]), result)
        return w.select(zero, kind, x[0] if by_zero is None else w.number(kind, by_zero), result)

    return write


def _whole_sign(w: Builder, kind: str, x: list[str], params: Any) -> str:
    zero = w.number(kind, 0)
    positive, negative = w.do("icmp sgt", kind, x[0], zero), w.do("icmp slt", kind, x[0], zero)
    return w.select(positive, kind, w.number(kind, 1), w.select(negative, kind, w.number(kind, -1), zero))


def _whole_clamp(w: Builder, kind: str, x: list[str], params: Any) -> str:
    low, value, high = x
    above = _extreme("max", "or")(w, kind, [low, value], params)
    return _extreme("min", "and")(w, kind, [above, high], params)


def _whole_power(w: Builder, kind: str, x: list[str], params: Any) -> str:
    """JAX has no negative powers of whole numbers."""
    return _product(w, ("mul", kind), x[0], params["y"]) or w.number(kind, 1)


INTEGERS: dict[str, Callable[[Builder, str, list[str], Any], str]] = {
    **{name: _whole(word) for name, word in _ARITHMETIC.items()},
    **{name: _whole(name) for name in ("and", "or", "xor")},
    "max": _extreme("max", "or"),
    "min": _extreme("min", "and"),
    "clamp": _whole_clamp,
    "div": _quotient("sdiv", -1),
    "rem": _quotient("srem", None),
    "neg": lambda w, kind, x, p: w.do("sub", kind, w.number(kind, 0), x[0]),
    "not": lambda w, kind, x, p: w.do("xor", kind, x[0], w.number(kind, 1 if kind == "i1" else -1)),
    "sign": _whole_sign,
    "abs": lambda w, kind, x, p: w.intrinsic("abs", kind, x[0], flag="false"),
    "integer_pow": _whole_power,
    "square": lambda w, kind, x, p: w.do("mul", kind, x[0], x[0]),
}
"""Operations on whole numbers and truth values."""


def convert(w: Builder, kind: str, to: str, x: str) -> str:
    """A conversion from one kind to another."""
    if kind == to:
        return x
    if kind == "double":
        # Conversions of other numbers must not be undefined.
        if to == "i1":
            return w.do("fcmp une", "double", x, w.number("double", 0.0))
        name = f"llvm.fptosi.sat.{w.suffix(to)}.{w.suffix('double')}"
        return w.call(name, w.of(to), (w.of("double"), x))
    if kind == "i1" and to == "double":
        return w.select(x, "double", w.number("double", 1.0), w.number("double", 0.0))
    if to == "i1":
        return w.do("icmp ne", kind, x, w.number(kind, 0))
    if to == "double":
        word = "sitofp"
    elif kind == "i1":
        word = "zext"
    else:
        word = "sext" if kind == "i32" else "trunc"
    return w.value(f"{word} {w.of(kind)} {x} to {w.of(to)}")
