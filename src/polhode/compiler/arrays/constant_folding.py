"""Constant folding: operations with constant operands are evaluated by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode.compiler.numpy.interpreter import Equation, UnsupportedNumPyOperation


def fold(eqn: Any, inputs: Sequence[Any]) -> list[np.ndarray] | None:
    """The results if all operands are constants and NumPy has the operation, else None."""
    if not all(isinstance(x, np.ndarray) for x in inputs) or any(v.aval.dtype == np.uint32 for v in eqn.outvars):
        return None
    try:
        equation = Equation(eqn, [], [])
    except UnsupportedNumPyOperation:
        return None
    if not equation.is_known:
        return None
    # Infinite or NaN without a warning, as in compiled code; it may belong to an unselected branch.
    with np.errstate(all="ignore"):
        results = equation(list(inputs))
    return [np.asarray(x, like.dtype) for x, like in zip(results, equation.outs, strict=True)]
