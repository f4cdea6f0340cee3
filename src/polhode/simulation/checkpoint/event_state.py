"""State of the events of a run, for another one that begins at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from polhode.compiler.fingerprint.persistent_keys import fingerprint
from polhode.events.event import Event
from polhode.systems.base import AbstractSystem, State


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

    def for_run(self, events: Sequence[Event], source: AbstractSystem, way: float) -> Aftermath:
        """The same for a run with these events: unknown signs are NaN, changes are those of its system."""
        signs_by_name = dict(zip(self.names, self.signs, strict=False)) if np.sign(way) == self.way else {}
        names = event_signatures(events)
        signs = np.array([signs_by_name.get(name, np.nan) for name in names])
        now = fingerprint(source) if self.changes else ""
        return Aftermath(names, now, signs, int(np.sign(way)), self.changes if now == self.source else {})


def event_signatures(events: Sequence[Event]) -> tuple[str, ...]:
    """Fingerprints of events."""
    return tuple(fingerprint(event) for event in events)


def describe(events: Sequence[Event], source: AbstractSystem) -> dict[str, Any]:
    """Metadata of events, and of the system that they may have changed, for a checkpoint."""
    return {"names": list(event_signatures(events)), "source": fingerprint(source)}


def state_after(stats: Mapping[str, Any], t: float, state: State) -> State:
    """The state in which a run continues from a frame: after the events at that instant, where the frame is before."""
    table = stats.get("events")
    if table is None or isinstance(table["t"], Tracer):
        return state
    at = np.flatnonzero(np.asarray(table["t"], float) == t)
    if not len(at):
        return state
    leaves, structure = jax.tree.flatten(state)
    after = [jnp.asarray(np.asarray(x)[at[-1]], leaf.dtype) for x, leaf in zip(table["after"], leaves, strict=True)]
    return jax.tree.unflatten(structure, after)


def check_unchanged(stats: Mapping[str, Any], meta: Mapping[str, Any], t: float, way: float) -> None:
    """Raises ValueError where events have changed the system before a frame, which has no record of the changes."""
    table, events = stats.get("events"), meta.get("events", ())
    numbers = [k for k, event in enumerate(events) if event.get("changes")]
    times = [] if table is None or not numbers else np.asarray(table["t"], float)[np.isin(table["number"], numbers)]
    if meta.get("changed_by_events") or any((time - t) * way <= 0 for time in times):
        raise ValueError(
            f"Events have changed the system before t = {t:.6g}, and this frame alone doesn't tell how. Begin in the "
            "end of the whole run, which knows: `initial=run`; or in this state with the system as it is given, by "
            "`t0` and `state0`."
        )
