"""Host runs with O(√n) step checkpoints for the adjoint sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.step_loop import StepLoop
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import relaxed_gc
from polhode.results.observer import Observer
from polhode.simulation.loops import host
from polhode.simulation.loops.signals import Interrupts
from polhode.simulation.progress_display import NoProgress
from polhode.simulation.run_types import Outcome, Plan, Start
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping.segments import Segment
from polhode.simulation.stepping.stepper import Progress
from polhode.systems.base import AbstractSystem


class StepCheckpoint(NamedTuple):
    """A step checkpoint: number of the segment, number of the step, and the progress in packed slots."""

    segment: int
    n: int
    slots: np.ndarray


class CheckpointedRun:
    """A run in machine code, with checkpoints at about √n of its n steps.

    - `segments`, `integrator`, `schedule`, `system`, `state0`, `observer`: its parts.
    - `frames`: all saved frames. - `p`: progress at the end. - `checkpoints`: in order of steps.
    - `before`: progress before each segment that begins after a breakpoint, by number of the segment.
    """

    def __init__(self, plan: Plan, recorder: _Recorder, outcome: Outcome) -> None:
        self.segments, self.system, self.integrator = plan.segments, plan.system, plan.integrator
        self.state0, self.observer, self.schedule = plan.start.state, plan.observer, plan.schedule
        self.frames, self.p = outcome.frames, outcome.progress
        self.before, self._step_loops = recorder.before, recorder.step_loops
        ends = [*(checkpoint.n for checkpoint in recorder.checkpoints[1:]), int(self.p.n)]
        # Those at the end of a segment have no steps after them.
        self.checkpoints = [x for x, end in zip(recorder.checkpoints, ends, strict=True) if x.n < end]
        self._end = None if plan.schedule.at is None else np.array([float(plan.segments[-1].stepper.t1)])

    @classmethod
    @relaxed_gc()
    def of(
        cls,
        segments: Sequence[Segment],
        integrator: AbstractIntegrator,
        schedule: SaveSchedule,
        system: AbstractSystem,
        state0: Any,
        observer: Observer,
    ) -> CheckpointedRun | None:
        """The run, if it can be machine code and goes well; otherwise None."""
        plan, recorder = Plan([*segments], system, integrator, Start(state0), observer, schedule), _Recorder()
        try:
            outcome = host.run(plan, None, NoProgress(), Interrupts(), recorder)
            if outcome.error is not None:
                raise outcome.error
        except UnsupportedNativeOperation:
            return None
        return None if int(outcome.progress.result) else cls(plan, recorder, outcome)

    @property
    def saved_steps(self) -> np.ndarray:
        """Numbers of the steps whose ends are saved, with 0 for the start, where no times are prescribed."""
        count = int(self.p.n)
        return np.unique(np.append(np.arange(0, count + 1, self.schedule.every or count), count))

    def chunks(self, back: bool = True) -> Iterator[tuple[StepCheckpoint, Progress]]:
        """Each checkpoint with the stacked progress up to the next one; from the last to the first if `back`."""
        ends = [*(checkpoint.n for checkpoint in self.checkpoints[1:]), int(self.p.n)]
        for checkpoint, end in list(zip(self.checkpoints, ends, strict=True))[:: -1 if back else 1]:
            step_loop, arguments = self._step_loops[checkpoint.segment]
            progress = step_loop.states(arguments, checkpoint.slots, checkpoint.n, end, self._end)
            yield checkpoint, step_loop.unpack(progress)


class _Recorder:
    """Takes the checkpoints of a run: few steps apart at first, and further the longer a segment is."""

    def __init__(self) -> None:
        self.before: dict[int, Progress] = {}
        self.step_loops: list[tuple[StepLoop, Any]] = []
        self._former: list[StepCheckpoint] = []
        self._present: list[StepCheckpoint] = []
        self._spacing = 0

    @property
    def checkpoints(self) -> list[StepCheckpoint]:
        """All checkpoints so far."""
        return [*self._former, *self._present]

    def begin_segment(self, step_loop: StepLoop | None, arguments: Any) -> None:
        if step_loop is None:
            raise UnsupportedNativeOperation("steps that are to be repeated")
        self.step_loops.append((step_loop, arguments))
        self._former, self._present = self.checkpoints, []

    def restart(self, segment: int, p: Progress) -> None:
        self.before[segment] = p

    def block_steps(self, segment: int, p: Progress) -> int:
        n, present = int(p.n), self._present
        if not present:
            present.append(StepCheckpoint(segment, n, self.step_loops[segment][0].pack(p)))
            self._spacing = max(1, min(_FIRST_STEPS, _FIRST_BYTES // present[0].slots.nbytes))
        elif n - present[-1].n >= self._spacing:
            present.append(StepCheckpoint(segment, n, self.step_loops[segment][0].pack(p)))
        if len(present) > 2 * self._spacing:
            self._present = present = present[::2]
            self._spacing *= 2
        return present[-1].n + self._spacing - n


_FIRST_STEPS, _FIRST_BYTES = 1024, 2**22
"""Smallest distance of checkpoints, in steps and in bytes of their progress: recomputing it takes milliseconds."""
