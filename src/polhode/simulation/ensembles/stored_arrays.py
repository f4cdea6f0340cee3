"""Lazy xarray arrays, read from the store of an ensemble on access."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing


class Rows(Protocol):
    """An array, of which rows can be read."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...
    def read(self, start: int, stop: int) -> np.ndarray: ...


class StoredArray(BackendArray):
    """Such an array for xarray."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        first, *others = key
        if not isinstance(first, slice):
            return self._rows.read(first, first + 1)[(0, *others)]
        numbers = range(*first.indices(self.shape[0]))
        if not numbers:
            return self._rows.read(0, 0)[(slice(None), *others)]
        low, high = min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1]) + 1
        stop = numbers[-1] - low + numbers.step
        step = slice(numbers[0] - low, stop if stop >= 0 else None, numbers.step)
        return self._rows.read(low, high)[(step, *others)]


def lazy(rows: Rows) -> Any:
    """The data of a variable, read on access."""
    return indexing.LazilyIndexedArray(StoredArray(rows))
