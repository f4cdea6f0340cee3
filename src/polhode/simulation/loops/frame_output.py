"""Frames of a host run on their way from the steps to memory or a sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from polhode.frames import Frames
from polhode.result_codes import Result
from polhode.results.observer import BatchedObserver, Observer
from polhode.simulation.events.handler import EventHandler
from polhode.simulation.run_types import Checkpoint, Sink
from polhode.simulation.stepping.stepper import Progress

_OBSERVED_ROWS = 512

Rows = tuple[Any, Any, Any]
"""Times, states and multipliers, stacked."""


class FrameOutput:
    """Observes stacked states, and passes the frames to a sink; without one they stay in memory."""

    def __init__(
        self,
        observer: Observer,
        capacity: int,
        sink: Sink | None,
        events: EventHandler | None,
        stop: Callable[[], bool],
    ) -> None:
        self._rows, self._sink, self._events, self._stop = min(capacity, _OBSERVED_ROWS), sink, events, stop
        self._frames: list[Frames] = []
        self.observe(observer)

    def observe(self, observer: Observer) -> None:
        """Sets the observer of the states from now on."""
        self.observer = BatchedObserver(observer, self._rows)

    def frames(self, rows: Rows, observer: BatchedObserver | None = None) -> Frames:
        """Frames with outputs, by the present observer or another one."""
        t, state, multipliers = rows
        return (observer or self.observer).frames(t, state, self._of_joints(multipliers))

    def append(self, frames: Frames, checkpoint: Callable[[], Checkpoint]) -> Result:
        """Passes frames on with the checkpoint after them. Returns the sink's code, which may end the run."""
        if self._sink is None:
            self._frames.append(frames)
            return Result.successful
        return self._sink.append(frames, checkpoint(), self._stop)

    def append_none(self, p: Progress, checkpoint: Callable[[], Checkpoint]) -> Result:
        """Passes on a checkpoint after a block without frames."""
        return Result.successful if self._sink is None else self.append(self.empty(p), checkpoint)

    def empty(self, p: Progress) -> Frames:
        """An empty block of frames, with the shapes of others."""
        return self.observer.empty(p.carry.state, self._of_joints(p.carry.multipliers))

    def in_memory(self, p: Progress) -> Frames:
        """All frames that no sink has taken."""
        none = self.empty(p)
        return jax.tree.map(lambda *parts: np.concatenate(parts), *self._frames) if self._frames else none

    @property
    def has_sink(self) -> bool:
        """Whether frames go to a sink."""
        return self._sink is not None

    def _of_joints(self, multipliers: Any) -> Any:
        """Multipliers without those of contacts, which are outputs of their own."""
        return multipliers if self._events is None else self._events.joint_multipliers(multipliers)


def row(p: Progress) -> Rows:
    """Time, state and multipliers as stacks of one frame."""
    return jax.tree.map(lambda x: np.asarray(x)[None], (p.t, p.carry.state, p.carry.multipliers))
