"""Invariants without their jumps at events."""

from __future__ import annotations

from typing import Any

import numpy as np


def are_of_user(run: Any) -> np.ndarray:
    """Which events of a run are the user's; those of contacts are a part of the motion."""
    numbers = np.asarray(run.stats.get("events", {}).get("number", ()), int)
    events = run.meta.get("events", ())
    return np.array([not events[k].get("of_contacts", False) for k in numbers], bool)


class WithoutJumps:
    """A column of numbers, read slice by slice, minus its jumps at some instants.

    **Arguments:**

    - `column`: of shape (n, …). - `time`: of its rows. - `at`: instants, in order of the run, shape (k,).
    - `jumps`: shape (k, …). A row at an instant has the value before the jump.
    """

    def __init__(self, column: Any, time: Any, at: np.ndarray, jumps: np.ndarray) -> None:
        self._column, self._time, self._at = column, time, at
        self._sums = np.concatenate([np.zeros((1, *column.shape[1:])), np.cumsum(jumps, axis=0)])
        self.shape = column.shape
        first, last = np.asarray(time[0:1]), np.asarray(time[len(time) - 1 : len(time)])
        self._way = -1.0 if (last < first).any() else 1.0

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, rows: slice) -> np.ndarray:
        counts = np.searchsorted(self._way * self._at, self._way * np.asarray(self._time[rows]), side="left")
        return np.asarray(self._column[rows], float) - self._sums[counts]
