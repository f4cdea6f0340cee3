"""The end of a run, in memory or from a store, from which it or another run continues."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from polhode.compiler.numpy.eager import eager_numpy
from polhode.integrators.serialisation import deserialise, serialise
from polhode.simulation import run_types
from polhode.simulation.checkpoint.identity import RunIdentity, without_events
from polhode.simulation.events.handler import EventHandler
from polhode.simulation.events.records import Aftermath
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping.controlled import ControlledSteps
from polhode.simulation.stepping.grid_steps import grid_steps
from polhode.simulation.stepping.segments import Segment
from polhode.simulation.stepping.step_control import StepControl
from polhode.simulation.stepping.stepper import Progress


@dataclasses.dataclass(frozen=True, eq=False)
class InMemoryCheckpoint:
    """The end of a run in memory."""

    checkpoint: run_types.Checkpoint
    segments: list[Segment]
    identity: RunIdentity

    @property
    def segment(self) -> Segment:
        """The segment in which the run ended."""
        return self.segments[self.checkpoint.segment]

    def progress_for(self, identity: RunIdentity) -> Progress | None:
        """The progress, for another run whose method and system are the same; otherwise None."""
        same = without_events(self.identity.fingerprints) == without_events(identity.fingerprints)
        return self.checkpoint.progress if same else None

    def aftermath_at(self, t: float) -> Aftermath | None:
        """The state of the events, if there were any and the run has ended at t."""
        p, identity = self.checkpoint.progress, self.identity
        arrays = dict(self.checkpoint.event_arrays or {})
        arrays |= {} if p.events is None else {"sides": p.events.signs}
        if float(p.t) != t or not arrays:
            return None
        return Aftermath.of(identity.event_names, identity.source, arrays, identity.duration)


@dataclasses.dataclass(frozen=True, eq=False)
class StoredCheckpoint:
    """The end of a run in a store: arrays by name, and facts as plain values. For other runs like one in memory."""

    arrays: dict[str, Any]
    facts: dict[str, Any]

    @classmethod
    def of(cls, contents: dict[str, Any]) -> Self:
        """From what a store returns: the arrays, and the facts among them."""
        return cls({name: x for name, x in contents.items() if name != "facts"}, contents["facts"])

    @property
    def control(self) -> StepControl | None:
        """The step size control; None where steps are constant."""
        return deserialise(self.facts["control"])

    @functools.cached_property
    def segments(self) -> list[Segment]:
        """The segments of the run."""
        control, rows = self.control, self.arrays["legs"]
        steps = grid_steps if control is None else lambda row: ControlledSteps.of_numbers(row, control)
        return [Segment(steps(numbers), bool(after_jump)) for after_jump, *numbers in rows]

    @property
    def number(self) -> int:
        """The number of the segment in which the run ended."""
        return int(self.arrays["stand"][0])

    @property
    def saved_count(self) -> int:
        """The number of prescribed times that were saved."""
        return int(self.arrays["stand"][1])

    @property
    def schedule(self) -> SaveSchedule:
        """The save schedule of the run."""
        return SaveSchedule(self.facts["every"], self.arrays.get("targets"))

    @property
    def event_arrays(self) -> dict[str, np.ndarray] | None:
        """Those of `EventHandler.arrays`; None without events."""
        return {name: x for name, x in self.arrays.items() if name.startswith(("events-", "system-"))} or None

    @property
    def segment(self) -> Segment:
        return self.segments[self.number]

    def progress_for(self, identity: RunIdentity) -> Progress | None:
        fingerprints = self.facts["signatures"]
        # The method's memory of a closed contact is not for another run, which closes it itself.
        if "events-closed" in self.arrays or without_events(fingerprints) != without_events(identity.fingerprints):
            return None
        return self.progress(identity, self.facts["at_times"], with_events=fingerprints == identity.fingerprints)

    def aftermath_at(self, t: float) -> Aftermath | None:
        if "events" not in self.facts or float(self.arrays["reached"]) != t:
            return None
        metadata = self.facts["events"]
        return Aftermath.of(metadata["names"], metadata["source"], self.arrays, metadata["way"])

    @eager_numpy()
    def progress(self, identity: RunIdentity, at_times: bool, with_events: bool = True) -> Progress | None:
        """The progress of the run with that identity; without the event state unless `with_events`.

        None where the method of this version remembers other things.
        """
        stepper, system = self.segment.stepper, identity.events.run_system.system
        if with_events and identity.events.events:
            events = EventHandler(identity.events)
            events.restore_contacts(self.arrays)
            stepper, system = events.stepper(stepper), events.system
        start = eqx.filter_eval_shape(stepper.start, system, identity.integrator, identity.events.state0, at_times)
        templates, structure = jax.tree.flatten(start)
        names = [f"progress-{k}" for k in range(len(templates))]
        leaves = [self.arrays[name] for name in names if name in self.arrays]
        # The event state comes last.
        stored_count = sum(name.startswith("progress-") for name in self.arrays)
        fits = len(leaves) == len(templates) and (
            stored_count == len(templates) if with_events else stored_count >= len(templates)
        )
        if not fits or any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(leaves, templates, strict=True)):
            return None
        return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])


class CheckpointWriter:
    """Checkpoints of one run for its store; what all of them share is computed for the first."""

    def __init__(self, identity: RunIdentity, segments: list[Segment], schedule: SaveSchedule) -> None:
        self._identity, self._segments, self._schedule = identity, segments, schedule

    @functools.cached_property
    def facts(self) -> dict[str, Any]:
        """Metadata of the run, which a store keeps beside the arrays of a checkpoint."""
        identity, method = self._identity, serialise(self._identity.integrator)
        return {
            "signatures": identity.fingerprints,
            "start": identity.start,
            "method": method,
            "method_name": identity.integrator_name,
            "control": serialise(self._segments[0].stepper.control),
            "every": self._schedule.every,
            "at_times": self._schedule.at is not None,
            **identity.describe_events(),
        }

    def arrays(self, checkpoint: run_types.Checkpoint) -> dict[str, np.ndarray]:
        """Arrays of a checkpoint: the progress, the segments of its run and the save times."""
        p, at = checkpoint.progress, self._schedule.at
        arrays = {f"progress-{k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(p))}
        arrays |= {} if at is None else {"targets": at}
        arrays |= checkpoint.event_arrays or {}
        arrays |= {"reached": np.asarray(p.t)} | ({} if p.events is None else {"sides": p.events.signs})
        return {**arrays, "legs": self._rows, "stand": np.array([checkpoint.segment, checkpoint.saved_count])}

    @functools.cached_property
    def _rows(self) -> np.ndarray:
        """Whether each segment begins after a jump, and the numbers of its steps; rows end with NaN where shorter."""
        rows = [[float(after_jump), *map(float, stepper.numbers())] for stepper, after_jump in self._segments]
        width = max(map(len, rows))
        return np.array([[*row, *[np.nan] * (width - len(row))] for row in rows])
