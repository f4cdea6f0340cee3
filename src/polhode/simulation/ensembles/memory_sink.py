"""In-memory sink of an ensemble's batches."""

from __future__ import annotations

import numpy as np

from polhode.simulation.ensembles.batch import PENDING, Batch


class MemorySink:
    """Arrays of all members.

    - `frames`: name → (count, …); empty unless frames are kept. - `ends`: name → (count,), result and end of each.
    """

    def __init__(self, count: int, like: Batch, keep: bool) -> None:
        self.frames = {
            name: np.full((count, *x.shape[1:]), np.nan if x.dtype.kind == "f" else 0, x.dtype)
            for name, x in (like.frames.items() if keep else ())
        }
        self.ends: dict[str, np.ndarray] = {
            "result": np.full(count, PENDING, np.int32),
            "steps": np.zeros(count, np.int64),
            "t_reached": np.full(count, np.nan),
        }

    def put(self, which: slice, batch: Batch) -> None:
        """The members of a batch."""
        for name in self.frames.keys() & batch.frames.keys():
            self.frames[name][which] = batch.frames[name]
        for name, target in self.ends.items():
            target[which] = getattr(batch, name)
