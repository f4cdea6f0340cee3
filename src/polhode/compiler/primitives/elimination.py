"""Elimination of trees as a kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, final

import numpy as np

from polhode.compiler.primitives.kernel import AbstractKernel, in_memory

Paths = tuple[tuple[int, ...], ...]
"""For each unknown those that carry it, from the root on: the path of the last one, and that one."""


def eliminate(program: Callable[[Any], Any], a: Any, paths: Paths) -> Any:
    """`program(a)`, which factorises a matrix from the last unknown to the first.

    Entries of other pairs than those of an unknown with itself or with one of its path are zero. In the result there are
    reciprocal pivots on the diagonal, the rows of the pivots on their left, and above the pivots their columns times the
    reciprocals. From entries before it, the pivot subtracts products of column and row.
    """
    return in_memory(Elimination(paths), program, a)


@final
@dataclasses.dataclass(frozen=True)
class Elimination(AbstractKernel):
    """Elimination along paths, see `Paths`.

    In memory there are for each unknown its row, then its column, and all pivots at the end.
    """

    name = "elimination"

    paths: Paths

    @property
    def unknowns(self) -> int:
        return len(self.paths)

    @property
    def longest(self) -> int:
        return max(map(len, self.paths))

    @property
    def depths(self) -> np.ndarray:
        return np.array([len(path) for path in self.paths])

    @property
    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of all entries: on the diagonal, left of it and above it."""
        own, other = self._pairs
        diagonal = np.arange(self.unknowns)
        return np.concatenate((diagonal, own, other)), np.concatenate((diagonal, other, own))

    @property
    def count(self) -> int:
        return len(self.paths) + 2 * int(self.depths.sum())

    def operands(self, *arrays: np.ndarray) -> list[Any]:
        return arrays[0][self.entries].tolist()

    def result(self, values: list[Any], *arrays: np.ndarray) -> np.ndarray:
        a = arrays[0].copy()
        a[self.entries] = values
        return a

    def carriers(self, stride: int) -> np.ndarray:
        """The paths in rows of this length."""
        rows = np.zeros((self.unknowns, stride), np.int64)
        for row, path in zip(rows, self.paths, strict=True):
            row[: len(path)] = path
        return rows

    def places(self, stride: int) -> list[int]:
        """Where the entries are in memory, with rows and columns of this length."""
        own, _ = self._pairs
        rows = 2 * own * stride + np.concatenate([np.arange(len(path)) for path in self.paths])
        pivots = 2 * self.unknowns * stride + np.arange(self.unknowns)
        return np.concatenate((pivots, rows, rows + stride)).tolist()

    @property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        own = np.repeat(np.arange(self.unknowns), self.depths)
        return own, np.array([k for path in self.paths for k in path], int)
