"""Batches of frames that are written to a store together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from polhode.storage.checkpoint import Checkpoint

DiskState = TypeVar("DiskState")
"""The bookkeeping of a store about what it has written."""


class Batch(NamedTuple):
    """A batch to be written: blocks of frames, the checkpoint after them, and the function that made it."""

    blocks: list[dict[str, np.ndarray]]
    checkpoint: Checkpoint | None
    checkpoint_source: Callable[[], Checkpoint] | None

    @property
    def count(self) -> int:
        """The number of frames."""
        return sum(len(block["time"]) for block in self.blocks)


class WriteResult(NamedTuple, Generic[DiskState]):
    """The result of writing a batch: it, what the store remembers after it, and seconds of a processor."""

    batch: Batch
    disk_state: DiskState
    seconds: float
