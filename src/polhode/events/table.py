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
    """Events of a run, in order of time; every array has leading axis n.

    - `t`: (n,), instants. - `number`: (n,), which of the events given. - `name`: their names.
    - `before`, `after`: states, with the same structure as those of frames.
    """

    t: np.ndarray
    number: np.ndarray
    name: list[str]
    before: State
    after: State

    @classmethod
    def of(cls, stats: Mapping[str, Any], meta: Mapping[str, Any], states: State) -> Events:
        """From the stats and meta of a run, whose states are like those stacked in `states`."""
        leaves, structure = jax.tree.flatten(states)
        found = stats.get(
            "events", {"t": [], "number": [], "before": [[] for _ in leaves], "after": [[] for _ in leaves]}
        )
        numbers = np.asarray(found["number"], int)
        if numbers.ndim != 1:
            raise ValueError("A batch of runs has many tables of events; take one: jax.tree.map(lambda x: x[k], run).")
        # Runs inside JAX's transformations have room for more events than came.
        there = numbers >= 0

        def stacked(parts: Any) -> State:
            pairs = zip(parts, leaves, strict=True)
            rows = [np.asarray(value, x.dtype).reshape(len(numbers), *np.shape(x)[1:])[there] for value, x in pairs]
            return jax.tree.unflatten(structure, rows)

        names = [meta["events"][k]["name"] for k in numbers[there]]
        times = np.asarray(found["t"], float)[there]
        return cls(times, numbers[there], names, stacked(found["before"]), stacked(found["after"]))

    def __len__(self) -> int:
        return len(self.t)

    def __str__(self) -> str:
        rows = [f"{name}  t = {t:.15g}" for t, name in zip(self.t, self.name, strict=True)]
        return "\n".join(rows) or "no events"
