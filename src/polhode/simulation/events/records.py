"""Records of the events of a run, and their state at its end, for another one that begins there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from polhode.simulation.events.responses import EventRow
from polhode.systems.base import State


class RecordBlock(NamedTuple):
    """Some events: times, numbers among those of the run, and the leaves of the states before and after, stacked.

    - `impulse`: of contacts, along their gaps; NaN for events of other kinds.
    """

    t: np.ndarray
    number: np.ndarray
    impulse: np.ndarray
    before: list[np.ndarray]
    after: list[np.ndarray]


class EventRecords:
    """The events of a run; `example`: a state like theirs."""

    def __init__(self, example: State) -> None:
        leaves = [np.empty((0, *np.shape(x)), jnp.result_type(x)) for x in jax.tree.leaves(example)]
        self._blocks = [RecordBlock(np.empty(0), np.empty(0, int), np.empty(0), leaves, leaves)]

    def append(self, block: RecordBlock) -> None:
        """Appends stacked events."""
        self._blocks.append(block)

    def append_one(self, t: float, number: int, before: State, after: State, impulse: float = float("nan")) -> None:
        """Appends one event."""
        states = ([np.asarray(x)[None] for x in jax.tree.leaves(state)] for state in (before, after))
        self.append(RecordBlock(np.array([t]), np.array([number]), np.array([impulse]), *states))

    def append_rows(self, t: np.ndarray, before: State, rows: EventRow, acts: np.ndarray) -> None:
        """Appends the events of rows that compiled steps have saved; `acts`: which events have an action.

        At one instant at most one action, or the common one of contacts, leads from the state before to that after.
        """
        happened = np.asarray(rows.happened)
        acting = happened & acts
        first = np.where(acting.any(axis=1), acting.argmax(axis=1), happened.shape[1])
        k, number = np.nonzero(happened)
        states = [[np.asarray(x)[k] for x in jax.tree.leaves(state)] for state in (before, rows.after)]

        def choose(is_after: np.ndarray) -> list[np.ndarray]:
            return [np.where(is_after.reshape(-1, *(1,) * (x.ndim - 1)), y, x) for x, y in zip(*states, strict=True)]

        impulse = np.asarray(rows.impulses)[k, number]
        self.append(RecordBlock(t[k], number, impulse, choose(number > first[k]), choose(number >= first[k])))

    def stack(self) -> RecordBlock:
        """All events."""
        if len(self._blocks) > 1:
            self._blocks = [RecordBlock(*(_concatenate(parts) for parts in zip(*self._blocks, strict=True)))]
        return self._blocks[0]

    def __len__(self) -> int:
        return sum(len(block.t) for block in self._blocks)

    def pack(self) -> dict[str, np.ndarray]:
        """Arrays of a checkpoint."""
        records = self.stack()
        arrays = {f"events-{name}": getattr(records, name) for name in ("t", "number", "impulse")}
        for part in ("before", "after"):
            arrays |= {f"events-{part}-{k}": leaf for k, leaf in enumerate(getattr(records, part))}
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores what `pack` returned."""
        count = len(self._blocks[0].before)
        states = [[np.asarray(arrays[f"events-{part}-{k}"]) for k in range(count)] for part in ("before", "after")]
        t, number, impulse = (np.asarray(arrays[f"events-{name}"]) for name in ("t", "number", "impulse"))
        self.append(RecordBlock(t, number, impulse, *states))


def _concatenate(parts: Sequence[Any]) -> Any:
    """Arrays, or lists of them, joined."""
    if isinstance(parts[0], list):
        return [np.concatenate(leaves) for leaves in zip(*parts, strict=True)]
    return np.concatenate(parts)


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
