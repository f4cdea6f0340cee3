"""Results of some members of an ensemble."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polhode.result_codes import Result

PENDING = -1
"""The result of a member that has not been run."""

ENDS = ("steps", "t_reached", "result")
"""Names of the data of every member besides its frames."""


class Batch(NamedTuple):
    """Results of some members.

    - `frames`: name → (members, frames, …), NaN beyond the end of those that failed; without any, they are not kept.
    - `result`, `steps`, `t_reached`: (members,).
    """

    frames: dict[str, np.ndarray]
    result: np.ndarray
    steps: np.ndarray
    t_reached: np.ndarray

    @classmethod
    def interrupted(cls, count: int) -> Batch:
        """Members that were not run."""
        return cls(
            {}, np.full(count, int(Result.interrupted), np.int32), np.zeros(count, np.int64), np.full(count, np.nan)
        )

    def without_frames(self) -> Batch:
        """The ends only."""
        return self._replace(frames={})
