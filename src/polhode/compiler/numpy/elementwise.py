"""Elementwise primitives as functions of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.inexact):
        return a / b
    # Towards zero, including the least integer, which has no opposite; by zero as in XLA.
    divisor = np.where(b == 0, np.ones_like(b), b)
    below = a // divisor
    above = (below * divisor != a) & ((a < 0) != (b < 0))
    return np.where(b == 0, ~np.zeros_like(b), below + above.astype(below.dtype))


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.inexact):
        return np.fmod(a, b)
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b)))


def _clamp(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(x, low), high)


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _special(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function of SciPy's, which is loaded only when it is needed."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        from scipy import special

        return getattr(special, name)(x)

    return evaluate


NUMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1")},
    **{name: getattr(np, name) for name in ("log", "log1p", "sqrt", "floor", "ceil", "sign")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "atan2": np.arctan2,
    "abs": np.abs,
    "neg": np.negative,
    "not": np.invert,
    "is_finite": np.isfinite,
    "square": np.square,
    "cbrt": np.cbrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "real": np.real,
    "imag": np.imag,
    "erf": _special("erf"),
    "erfc": _special("erfc"),
    "lgamma": _special("gammaln"),
    "logistic": _special("expit"),
    "copy": _same,
    "copy_p": _same,
    "stop_gradient": _same,
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _quotient,
    "rem": _remainder,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "clamp": _clamp,
    "nextafter": np.nextafter,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
"""Elementwise primitives, by name."""
