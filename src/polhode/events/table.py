"""The events of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from polhode.systems.base import State


@dataclasses.dataclass(frozen=True, eq=False)
class Events:
    """What has happened at events of a run, in order of time; every array has leading axis n.

    - `t`: (n,), instants. - `number`: (n,), which of the events given. - `name`: their names.
    - `before`, `after`: states, with the same structure as those of frames.
    """

    t: np.ndarray
    number: np.ndarray
    name: list[str]
    before: State
    after: State

    @classmethod
    def of(cls, stats: Mapping[str, Any], states: State) -> Events:
        """From the stats of a run, whose states are like those stacked in `states`."""
        found = stats.get("events", {"t": [], "number": [], "name": [], "before": None, "after": None})
        times, numbers = np.asarray(found["t"], float), np.asarray(found["number"], int)
        leaves, structure = jax.tree.flatten(states)

        def stacked(parts: Any) -> State:
            values = [[] for _ in leaves] if parts is None else parts
            pairs = zip(values, leaves, strict=True)
            rows = [np.asarray(value, x.dtype).reshape(len(times), *np.shape(x)[1:]) for value, x in pairs]
            return jax.tree.unflatten(structure, rows)

        return cls(times, numbers, list(found["name"]), stacked(found["before"]), stacked(found["after"]))

    def __len__(self) -> int:
        return len(self.t)

    def __str__(self) -> str:
        rows = [f"{name}  t = {t:.15g}" for t, name in zip(self.t, self.name, strict=True)]
        return "\n".join(rows) or "no events"
