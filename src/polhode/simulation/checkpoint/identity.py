"""The identity of a run: what must be the same where another run continues it."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from polhode.compiler.fingerprint.persistent_keys import fingerprint
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.serialisation import serialise
from polhode.simulation.events.event_plan import EventPlan
from polhode.storage.documents import digest


@dataclasses.dataclass(frozen=True, eq=False)
class RunIdentity:
    """System, method, outputs and events of a run, with process-independent fingerprints.

    These take as long as hashing the model, so they are computed when a store or another run first needs them.
    """

    events: EventPlan
    integrator_name: str
    duration: float

    @property
    def integrator(self) -> AbstractIntegrator:
        """The method."""
        return self.events.integrator

    @functools.cached_property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of system, method, outputs and events."""
        method, run_system, events = serialise(self.integrator), self.events.run_system, self.events.events
        return {
            "problem": fingerprint(run_system.system),
            "method": fingerprint(self.integrator if method is None else method),
            "set of outputs": fingerprint([sorted(run_system.outputs.items()), sorted(run_system.invariants.items())]),
            **({"set of events": fingerprint(events)} if events else {}),
        }

    @functools.cached_property
    def event_names(self) -> tuple[str, ...]:
        """Fingerprints of the events."""
        return tuple(fingerprint(event) for event in self.events.events)

    @functools.cached_property
    def source(self) -> str:
        """The fingerprint of the user's system, which events may change."""
        return fingerprint(self.events.run_system.source)

    @functools.cached_property
    def start(self) -> str:
        """The digest of the bytes of the initial state."""
        leaves = jax.tree.leaves(self.events.state0)
        return digest(b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in leaves))

    def describe_events(self) -> dict[str, Any]:
        """Plain values about the events for a checkpoint, if there are any."""
        if not self.events.events:
            return {}
        return {"events": {"names": list(self.event_names), "source": self.source, "way": self.duration}}


def without_events(fingerprints: dict[str, str]) -> dict[str, str]:
    """The fingerprints of everything else."""
    return {what: name for what, name in fingerprints.items() if what != "set of events"}
