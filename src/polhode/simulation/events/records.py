"""Records of the events of a run, and their state at its end, for another one that begins there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from polhode.systems.base import State


class EventRecord(NamedTuple):
    """One event: its time, its number among those of the run, and the leaves of the states before and after.

    - `impulse`: of a contact, along its gap; NaN for events of other kinds.
    """

    t: float
    number: int
    before: list[np.ndarray]
    after: list[np.ndarray]
    impulse: float = float("nan")

    @classmethod
    def of(cls, t: float, number: int, before: State, after: State, impulse: float = float("nan")) -> Self:
        """From the states before and after."""
        return cls(t, number, _leaves(before), _leaves(after), impulse)


def stack_records(rows: list[EventRecord], example: State) -> dict[str, Any]:
    """All records as plain arrays; `example` is a state like theirs."""

    def stack(parts: list[list[np.ndarray]]) -> list[np.ndarray]:
        return [
            np.array([part[k] for part in parts], x.dtype).reshape(len(parts), *x.shape)
            for k, x in enumerate(_leaves(example))
        ]

    return {
        "t": np.array([row.t for row in rows], float),
        "number": np.array([row.number for row in rows], int),
        "impulse": np.array([row.impulse for row in rows], float),
        "before": stack([row.before for row in rows]),
        "after": stack([row.after for row in rows]),
    }


def pack_records(rows: list[EventRecord], example: State) -> dict[str, np.ndarray]:
    """Arrays of a checkpoint."""
    records = stack_records(rows, example)
    arrays = {f"events-{name}": records[name] for name in ("t", "number", "impulse")}
    for part in ("before", "after"):
        arrays |= {f"events-{part}-{k}": leaf for k, leaf in enumerate(records[part])}
    return arrays


def unpack_records(arrays: Mapping[str, np.ndarray], example: State) -> list[EventRecord]:
    """The records from the arrays of a checkpoint."""
    count = len(jax.tree.leaves(example))
    parts = [[arrays[f"events-{part}-{k}"] for k in range(count)] for part in ("before", "after")]
    records = []
    rows = zip(arrays["events-t"], arrays["events-number"], arrays["events-impulse"], strict=True)
    for k, (t, number, impulse) in enumerate(rows):
        before, after = ([leaf[k] for leaf in part] for part in parts)
        records.append(EventRecord(float(t), int(number), before, after, float(impulse)))
    return records


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


def _leaves(state: State) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(state)]
