"""Types of host runs: start, checkpoint, sink of frames, and outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from polhode.compiler.compile_report import CompileReport
from polhode.frames import Frames
from polhode.result_codes import Result
from polhode.simulation.checkpoint.event_state import Aftermath
from polhode.simulation.stepping.stepper import Progress


class Outcome(NamedTuple):
    """The results of a run on the host.

    - `frames`: those that no sink has taken. - `checkpoint`: the data to resume from.
    - `start_time`, `compile_time`, `wall_time`: seconds of making the start, of compiling, of running.
    - `compiled`: how the steps were executed at the end.
    - `error`: the unforeseen exception that ended it, if any.
    """

    frames: Frames
    progress: Progress
    checkpoint: Checkpoint
    start_time: float
    compile_time: float
    wall_time: float
    compiled: CompileReport
    error: BaseException | None


class Checkpoint(NamedTuple):
    """The state of a run between two blocks: progress, number of the segment, and number of saved frames.

    - `event_arrays`: those of `EventHandler.arrays`; None without events.
    """

    progress: Progress
    segment: int
    saved_count: int
    event_arrays: dict[str, np.ndarray] | None = None


class Start(NamedTuple):
    """The start of a run: a state; or a checkpoint, whose frame is saved unless the run `continues`.

    - `aftermath`: the state of events before the start.
    """

    state: Any
    checkpoint: Checkpoint | None = None
    continues: bool = False
    aftermath: Aftermath | None = None


class Sink(Protocol):
    """Receiver of the frames of a run."""

    def append(self, frames: Frames, checkpoint: Checkpoint, should_stop: Callable[[], bool]) -> Result:
        """Takes a block of frames and the checkpoint after it; any code but `successful` ends the run.

        `should_stop` returns whether the user has ended the run.
        """
        ...
