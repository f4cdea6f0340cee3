"""State of the events of a run at its end, for another one that begins there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Aftermath(NamedTuple):
    """State of events at the end of a run, besides the state of the system.

    - `names`: fingerprints of the events; `source`: that of the system which they may have changed.
    - `signs`: last nonzero sign of each event function. - `way`: 1 or -1, the direction of time.
    - `changes`: numbers of the system, as `EventHandler.arrays` returns them, if they have changed since the start.
    """

    names: tuple[str, ...] = ()
    source: str = ""
    signs: Any = ()
    way: int = 1
    changes: Mapping[str, np.ndarray] = {}

    @classmethod
    def of(cls, names: Sequence[str], source: str, arrays: Mapping[str, Any], way: float) -> Aftermath:
        """From the arrays of a checkpoint."""
        changes = {name: x for name, x in arrays.items() if name.startswith("system-")}
        return cls(tuple(names), source, np.asarray(arrays.get("sides", ())), int(np.sign(way)), changes)

    def for_run(self, names: Sequence[str], source: str, way: float) -> Aftermath:
        """The same for a run with other events and system, given by their fingerprints; unknown signs are NaN."""
        signs_by_name = dict(zip(self.names, self.signs, strict=False)) if np.sign(way) == self.way else {}
        signs = np.array([signs_by_name.get(name, np.nan) for name in names])
        changes = self.changes if source == self.source else {}
        return Aftermath(tuple(names), source, signs, int(np.sign(way)), changes)
