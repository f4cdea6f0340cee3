"""Partial derivatives of scalar operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.scalars.backend import Kind, UnsupportedScalarOperation
from polhode.compiler.scalars.graph import Graph

FLOAT = np.dtype(np.float64)

Partial = Callable[["Terms", Sequence[Any], Any, Any], Sequence[Any]]
"""From operands, result and parameters to the derivatives with respect to the operands, None where there is none."""


class Terms:
    """Expressions of floats in a graph.

    **Arguments:**

    - `graph`: the graph of the expressions.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __call__(self, name: str, *operands: Any) -> Any:
        """An operation without parameters on floats."""
        return self.graph.operation(Kind(name, {}), FLOAT, [_scalar(x) for x in operands])

    def power(self, x: Any, exponent: int) -> Any:
        return self.graph.operation(Kind("integer_pow", {"y": exponent}), FLOAT, [x])

    def test(self, name: str, *operands: Any) -> Any:
        """A comparison, or a logical operation."""
        return self.graph.operation(Kind(name, {}), np.dtype(bool), [_scalar(x) for x in operands])

    def where(self, test: Any, yes: Any, no: Any) -> Any:
        return self.graph.operation(Kind("select_n", {}), FLOAT, [test, _scalar(no), _scalar(yes)])

    def times(self, c: Any, partial: Any) -> Any:
        """The product, without an operation for the factors 1 and -1."""
        if isinstance(partial, float) and partial == -1.0:
            return self("sub", 0.0, c)
        return self("mul", partial, c)


def _scalar(x: Any) -> Any:
    return np.float64(x) if isinstance(x, float | int) and not isinstance(x, np.generic) else x


def _quotient(f: Terms, x: Sequence[Any], y: Any, _: Any) -> Sequence[Any]:
    of_first = f("div", 1.0, x[1])
    return of_first, f("sub", 0.0, f("mul", y, of_first))


def _extremum(name: str) -> Partial:
    """Of a maximum or minimum; half for each operand where both are equal."""

    def partials(f: Terms, x: Sequence[Any], y: Any, _: Any) -> Sequence[Any]:
        tie = f.where(f.test("eq", *x), 0.5, 0.0)
        first = f.where(f.test(name, *x), 1.0, tie)
        return first, f.where(f.test(name, x[1], x[0]), 1.0, tie)

    return partials


def _clamp(f: Terms, x: Sequence[Any], y: Any, _: Any) -> Sequence[Any]:
    low, value, high = x
    below = f.test("and", f.test("gt", low, value), f.test("lt", low, high))
    within = f.test("and", f.test("gt", value, low), f.test("lt", value, high))
    return tuple(f.where(test, 1.0, 0.0) for test in (below, within, f.test("lt", high, value)))


def _power(f: Terms, x: Sequence[Any], y: Any, _: Any) -> Sequence[Any]:
    base, exponent = x
    if exponent.dtype.kind != "f":
        exponent = f.graph.operation(Kind("convert_element_type", {}), FLOAT, [exponent])
    none = f.test("eq", exponent, 0.0)
    below = f("pow", base, f.where(none, 1.0, f("sub", exponent, 1.0)))
    log = f("log", f.where(f.test("eq", base, 0.0), 1.0, base))
    return f.where(none, 0.0, f("mul", exponent, below)), f("mul", log, y)


def _integer_power(f: Terms, x: Sequence[Any], y: Any, params: Any) -> Sequence[Any]:
    n = params["y"]
    return [None if n == 0 else f("mul", float(n), f.power(x[0], n - 1))]


def _remainder(f: Terms, x: Sequence[Any], y: Any, _: Any) -> Sequence[Any]:
    quotient = f("div", *x)
    return 1.0, f("sub", 0.0, f("mul", f("sign", quotient), f("floor", f("abs", quotient))))


def _angle(f: Terms, x: Sequence[Any], y: Any, _: Any) -> Sequence[Any]:
    square = f("add", f("mul", x[0], x[0]), f("mul", x[1], x[1]))
    return f("div", x[1], square), f("div", f("sub", 0.0, x[0]), square)


def _unary(function: Callable[[Terms, Any, Any], Any]) -> Partial:
    """Rule of an operation with one operand."""
    return lambda f, x, y, _: [function(f, x[0], y)]


def _reciprocal_root(f: Terms, x: Any) -> Any:
    return f("div", 1.0, f("sqrt", x))


def _gaussian(f: Terms, x: Any) -> Any:
    return f("mul", 2 / math.sqrt(math.pi), f("exp", f("sub", 0.0, f("mul", x, x))))


def _one_pm_square(f: Terms, x: Any, sign: str) -> Any:
    """1 ± x²."""
    return f(sign, 1.0, f("mul", x, x))


_PARTIALS: dict[str, Partial] = {
    "add": lambda f, x, y, _: (1.0, 1.0),
    "add_any": lambda f, x, y, _: (1.0, 1.0),
    "sub": lambda f, x, y, _: (1.0, -1.0),
    "mul": lambda f, x, y, _: (x[1], x[0]),
    "div": _quotient,
    "neg": lambda f, x, y, _: [-1.0],
    "max": _extremum("gt"),
    "min": _extremum("lt"),
    "clamp": _clamp,
    "pow": _power,
    "integer_pow": _integer_power,
    "rem": _remainder,
    "atan2": _angle,
    "abs": _unary(lambda f, x, y: f("sign", x)),
    "square": _unary(lambda f, x, y: f("mul", 2.0, x)),
    "sqrt": _unary(lambda f, x, y: f("div", 0.5, y)),
    "rsqrt": _unary(lambda f, x, y: f("div", f("mul", -0.5, y), x)),
    "cbrt": _unary(lambda f, x, y: f("div", f("mul", 1 / 3, y), x)),
    "exp": _unary(lambda f, x, y: y),
    "exp2": _unary(lambda f, x, y: f("mul", math.log(2), y)),
    "expm1": _unary(lambda f, x, y: f("add", y, 1.0)),
    "log": _unary(lambda f, x, y: f("div", 1.0, x)),
    "log1p": _unary(lambda f, x, y: f("div", 1.0, f("add", x, 1.0))),
    "sin": _unary(lambda f, x, y: f("cos", x)),
    "cos": _unary(lambda f, x, y: f("sub", 0.0, f("sin", x))),
    "tan": _unary(lambda f, x, y: _one_pm_square(f, y, "add")),
    "asin": _unary(lambda f, x, y: _reciprocal_root(f, _one_pm_square(f, x, "sub"))),
    "acos": _unary(lambda f, x, y: f("sub", 0.0, _reciprocal_root(f, _one_pm_square(f, x, "sub")))),
    "atan": _unary(lambda f, x, y: f("div", 1.0, _one_pm_square(f, x, "add"))),
    "sinh": _unary(lambda f, x, y: f("cosh", x)),
    "cosh": _unary(lambda f, x, y: f("sinh", x)),
    "tanh": _unary(lambda f, x, y: _one_pm_square(f, y, "sub")),
    "asinh": _unary(lambda f, x, y: _reciprocal_root(f, _one_pm_square(f, x, "add"))),
    "acosh": _unary(lambda f, x, y: _reciprocal_root(f, f("mul", f("sub", x, 1.0), f("add", x, 1.0)))),
    "atanh": _unary(lambda f, x, y: f("div", 1.0, _one_pm_square(f, x, "sub"))),
    "logistic": _unary(lambda f, x, y: f("mul", y, f("sub", 1.0, y))),
    "erf": _unary(lambda f, x, y: _gaussian(f, x)),
    "erfc": _unary(lambda f, x, y: f("sub", 0.0, _gaussian(f, x))),
    "convert_element_type": lambda f, x, y, _: [1.0],
    "copy": lambda f, x, y, _: [1.0],
    "copy_p": lambda f, x, y, _: [1.0],
    "real": lambda f, x, y, _: [1.0],
}

NO_DERIVATIVE = frozenset(["stop_gradient", "sign", "floor", "ceil", "round", "nextafter"])
"""Operations with float results whose derivative is taken as zero."""


def partials(f: Terms, name: str, operands: Sequence[Any], result: Any, params: Any) -> Sequence[Any]:
    """Derivatives of an operation's result: expressions, numbers, or None.

    Raises `UnsupportedScalarOperation` where there is no rule.
    """
    rule = _PARTIALS.get(name)
    if rule is None:
        raise UnsupportedScalarOperation(f"the derivative of {name}")
    return rule(f, operands, result, params)
