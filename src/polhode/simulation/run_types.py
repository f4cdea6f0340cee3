"""Values that a run passes on: its plan, checkpoints on the way, and the outcome of its loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from polhode.compiler.compile_report import CompileReport
from polhode.compiler.loops.step_loop import StepLoop
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator
from polhode.result_codes import Result
from polhode.results.observer import Observer
from polhode.simulation.events.event_plan import EventPlan
from polhode.simulation.events.records import Aftermath
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping.segments import Segment
from polhode.simulation.stepping.stepper import Progress
from polhode.systems.base import AbstractSystem


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


class Plan(NamedTuple):
    """All that a loop carries out: a system and a method, from a start along segments, and which frames are saved.

    - `system`: as the method takes it. - `observer`: of its states. - `events`: None if nothing can change the system.
    """

    segments: list[Segment]
    system: AbstractSystem
    integrator: AbstractIntegrator
    start: Start
    observer: Observer
    schedule: SaveSchedule
    events: EventPlan | None = None


class EventOutcome(NamedTuple):
    """Events of a run: their table, if there are any, whether they have changed the system, or closed a contact.

    `python_events`: at how many instants each of those was dealt with that compiled steps left to Python, by name.
    """

    table: dict[str, Any] | None
    changed: bool
    has_closed_contacts: bool
    python_events: dict[str, int]


class Outcome(NamedTuple):
    """The results of a run on the host.

    - `frames`: those that no sink has taken. - `checkpoint`: the data to resume from.
    - `start_time`, `compile_time`, `wall_time`: seconds of making the start, of compiling, of running.
    - `compiled`: how the steps were executed at the end.
    - `error`: the unforeseen exception that ended it, if any. - `events`: None where there could be none.
    """

    frames: Frames
    progress: Progress
    checkpoint: Checkpoint
    start_time: float
    compile_time: float
    wall_time: float
    compiled: CompileReport
    error: BaseException | None
    events: EventOutcome | None


class Sink(Protocol):
    """Receiver of the frames of a run."""

    def append(self, frames: Frames, checkpoint: Checkpoint, should_stop: Callable[[], bool]) -> Result:
        """Takes a block of frames and the checkpoint after it; any code but `successful` ends the run.

        `should_stop` returns whether the user has ended the run.
        """
        ...


class StepRecorder(Protocol):
    """Hook of a run whose steps are repeated later, for its derivatives: it has to be machine code."""

    def begin_segment(self, step_loop: StepLoop | None, arguments: Any) -> None:
        """Takes the steps of the next segment. Raises UnsupportedNativeOperation if they are no machine code."""
        ...

    def restart(self, segment: int, p: Progress) -> None:
        """Takes the progress before a segment that begins after a breakpoint."""
        ...

    def block_steps(self, segment: int, p: Progress) -> int:
        """Takes the progress before a block, and returns how many steps that is to have."""
        ...
