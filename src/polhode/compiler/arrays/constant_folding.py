"""Operations whose operands are known are carried out while a program is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode.compiler.numpy.interpreter import Equation, UnsupportedNumPyOperation


def fold(eqn: Any, inputs: Sequence[Any]) -> list[np.ndarray] | None:
    """The results, if all operands are known and NumPy knows the operation."""
    if not all(isinstance(x, np.ndarray) for x in inputs) or any(v.aval.dtype == np.uint32 for v in eqn.outvars):
        return None
    try:
        equation = Equation(eqn, [], [])
    except UnsupportedNumPyOperation:
        return None
    if not equation.is_known:
        return None
    # As compiled: infinite or NaN, without a word; it may be what nobody selects.
    with np.errstate(all="ignore"):
        results = equation(list(inputs))
    return [np.asarray(x, like.dtype) for x, like in zip(results, equation.outs, strict=True)]
