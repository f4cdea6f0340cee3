"""A run on disk as its readers see it: its description, and arrays whose rows are read when they are used."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from polhode.storage import frame_layout
from polhode.storage.documents import RUN


class StoredArray(Protocol):
    """One array of the frames on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row."""
        ...

    @property
    def row_bytes(self) -> int:
        """Size of one row."""
        ...

    def read(self, start: int, stop: int, room: int = 0) -> np.ndarray:
        """Rows from `start` to `stop`, then `room` uninitialised ones. Raises DamageError."""
        ...


StoredArrays = Mapping[str, StoredArray]
"""The arrays of the frames by the names of their leaves."""


class AbstractStoredRun(abc.ABC):
    """The root of a store.

    - `path`: of the store; `run`: the run that wrote it, a name that no other run has.
    - `meta`, `stats`: description and statistics. - `frames`: number of published frames.
    - `structure`: that of their pytree.
    """

    path: Path
    run: str
    meta: dict[str, Any]
    stats: dict[str, Any]
    frames: int
    structure: frame_layout.Structure

    @abc.abstractmethod
    def inspect(self, arrays: StoredArrays) -> tuple[int, list[str]]:
        """The number of frames before the first damage, and all damage in words, after comparing all checksums."""

    @property
    @abc.abstractmethod
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint of the method."""

    @abc.abstractmethod
    def read_checkpoint(self) -> dict[str, Any]:
        """The checkpoint: arrays by name, and "facts". Raises StoreError without one, or for a damaged one."""

    def check(self, arrays: StoredArrays) -> None:
        """Compares all checksums. Raises StoreError, which says what is damaged."""
        count, problems = self.inspect(arrays)
        if problems:
            raise RUN.damage_error(self.path, f"{problems[0]}. Its first {count} frames are whole")
