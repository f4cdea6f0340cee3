"""Scalar products of rows of two arrays as a kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, final

import numpy as np

from polhode.compiler.primitives.kernel import AbstractKernel, in_memory


def row_products(program: Callable[[Any, Any], Any], a: Any, b: Any, i: np.ndarray, j: np.ndarray) -> Any:
    """`program(a, b)`, the products a[i]·b[j] for all pairs of numbers of rows."""
    return in_memory(RowProducts(a.shape[1], tuple(i.tolist()), tuple(j.tolist())), program, a, b)


@final
@dataclasses.dataclass(frozen=True)
class RowProducts(AbstractKernel):
    """Products of rows of a length, with numbers `i` of the first array and `j` of the second."""

    name = "row products"

    length: int
    i: tuple[int, ...]
    j: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.i)

    @property
    def rows(self) -> int:
        """Of the first array."""
        return max(self.i) + 1

    def operands(self, *arrays: np.ndarray) -> list[Any]:
        a, b = arrays
        return [*a[: self.rows].flat, *b.flat]

    def result(self, values: list[Any], *arrays: np.ndarray) -> np.ndarray:
        out = np.empty(len(values), object)
        out[:] = values
        return out
