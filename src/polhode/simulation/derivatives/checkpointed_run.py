"""Host runs with O(√n) step checkpoints for the adjoint sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from polhode.compiler.loops.step_loop import StepLoop
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import relaxed_gc
from polhode.results.observer import BatchedObserver, Observer
from polhode.simulation.loops import host, native
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping.segments import Segment
from polhode.simulation.stepping.stepper import AbstractStepper, Progress
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

    def __init__(
        self,
        segments: Sequence[Segment],
        integrator: AbstractIntegrator,
        schedule: SaveSchedule,
        system: AbstractSystem,
        state0: Any,
        observer: Observer,
    ) -> None:
        self.segments, self.system, self.integrator = segments, system, integrator
        self.state0, self.observer, self.schedule = state0, observer, schedule
        self.checkpoints: list[StepCheckpoint] = []
        self.before: dict[int, Progress] = {}
        self._step_loops: list[tuple[StepLoop, Any]] = []
        self._end = None if schedule.at is None else np.array([float(segments[-1].stepper.t1)])
        self._targets = None if schedule.at is None or self._end is None else np.append(schedule.at, self._end)
        self.p = host.begin(segments[0].stepper, system, integrator, state0, schedule.at is not None)
        self._rows: list[Any] = []
        if schedule.at is None:
            self._rows.append(host.row(self.p))
        self.frames: Frames = cast(Any, None)

    @classmethod
    @relaxed_gc()
    def of(cls, *parts: Any) -> CheckpointedRun | None:
        """The run, if it can be machine code and goes well; otherwise None."""
        run = cls(*parts)
        for number, segment in enumerate(run.segments):
            if number and segment.after_jump:
                run.before[number] = run.p
                run.p = host.restart(segment.stepper, run.system, run.integrator, run.p)
            if not run._run_segment(number, segment.stepper):
                return None
        t, state, multipliers = jax.tree.map(lambda *x: np.concatenate(x), *run._rows)
        run.frames = BatchedObserver(run.observer, len(t)).frames(t, state, multipliers)
        return run

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

    def _run_segment(self, number: int, stepper: AbstractStepper) -> bool:
        """Runs the steps of a segment. Returns whether it succeeded."""
        step_loop, arguments = native.steps(stepper, self.system, self.integrator, self.p)
        if step_loop is None:
            return False
        self._step_loops.append((step_loop, arguments))
        every = self.schedule.every or _MAX_STEPS
        slots, last = step_loop.pack(self.p), number == len(self.segments) - 1
        checkpoints: list[StepCheckpoint] = []
        spacing, saved_count = (
            max(1, min(_FIRST_STEPS, _FIRST_BYTES // slots.nbytes)),
            sum(len(t) for t, *_ in self._rows),
        )
        while not int(self.p.result) and not self._is_over(stepper, saved_count):
            n = int(self.p.n)
            if not checkpoints or n - checkpoints[-1].n >= spacing:
                checkpoints.append(StepCheckpoint(number, n, slots.copy()))
            if len(checkpoints) > 2 * spacing:
                checkpoints, spacing = checkpoints[::2], 2 * spacing
            room = spacing + 1 if self._targets is None else len(self._targets)
            rows = step_loop.advance(arguments, slots, n + spacing, every, last, self._targets, saved_count, room)
            self.p = step_loop.unpack(slots)
            if len(rows):
                self._rows.append(step_loop.frames(rows))
                saved_count += len(rows)
        self.checkpoints += [checkpoint for checkpoint in checkpoints if checkpoint.n < int(self.p.n)]
        return not int(self.p.result)

    def _is_over(self, stepper: AbstractStepper, saved_count: int) -> bool:
        """Whether the segment's end is reached and all save times up to there are saved."""
        if not bool(stepper.is_finished(self.p)):
            return False
        if self._targets is None or saved_count >= len(self._targets) - 1:
            return True
        return not bool(stepper.has_passed(self.p, self._targets[saved_count]))


_MAX_STEPS = np.iinfo(np.int64).max
_FIRST_STEPS, _FIRST_BYTES = 1024, 2**22
"""Smallest distance of checkpoints, in steps and in bytes of their progress: recomputing it takes milliseconds."""
