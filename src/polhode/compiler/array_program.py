"""Programs on arrays: flat lists of operations, as NumPy evaluates them and as machine code is made from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np


class Value:
    """An array that is computed at run time."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


Atom: TypeAlias = Value | np.ndarray
"""An operand: a value or a constant."""


class Equation:
    """One operation.

    - `name`, `params`: of its primitive. - `inputs`, `outputs`: operands and results.
    - `origin`: JAX's equation, in the process that traced it.
    """

    __slots__ = ("inputs", "name", "origin", "outputs", "params")

    def __init__(self, name: str, params: Any, inputs: list[Any], outputs: list[Value], origin: Any = None) -> None:
        self.name, self.params, self.inputs, self.outputs, self.origin = name, params, inputs, outputs, origin


class FlatProgram:
    """A program: inputs, operations in a valid order, and results."""

    __slots__ = ("equations", "inputs", "outputs")

    def __init__(self, inputs: list[Value], equations: list[Equation], outputs: Sequence[Any]) -> None:
        self.inputs, self.equations, self.outputs = inputs, equations, outputs
