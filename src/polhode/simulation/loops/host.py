"""The loop on the host: compiled blocks of steps, with control in between for progress, stores and Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.compiler.compile_report import CompileReport
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.numpy_jit import numpy_jit
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator
from polhode.result_codes import Result
from polhode.results.observer import BatchedObserver, Observer
from polhode.simulation.events.detection import EventDetectingStepper
from polhode.simulation.events.handler import EventHandler
from polhode.simulation.loops import native
from polhode.simulation.loops.signals import Interrupts
from polhode.simulation.loops.xla import Buffer, run_block
from polhode.simulation.progress_display import ProgressDisplay
from polhode.simulation.run_types import Checkpoint, Outcome, Sink, Start
from polhode.simulation.save_schedule import SaveSchedule, capacity
from polhode.simulation.stepping import counted_angles
from polhode.simulation.stepping.segments import Segment
from polhode.simulation.stepping.stepper import AbstractStepper, Progress, dense_output
from polhode.systems.base import AbstractSystem, State

_BLOCK_SECONDS = 0.2
_STORED_BLOCK_SECONDS = 0.1
_FIRST_BLOCK = 1

_OBSERVED_ROWS = 512


@numpy_jit
def begin(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep: bool
) -> Progress:
    """The progress at the beginning of a run; `keep`: with the beginning of the last step, for interpolation."""
    return stepper.start(system, integrator, state, keep)


@numpy_jit
def restart(stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
    """The progress after a breakpoint, where loads may have jumped."""
    return stepper.restart(system, integrator, p)


@numpy_jit
def with_event_state(
    stepper: EventDetectingStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress
) -> Progress:
    """The progress of a run without events, with an event state."""
    return stepper.with_event_state(system, integrator, p)


@numpy_jit
def after_event(
    stepper: EventDetectingStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, state: State
) -> Progress:
    """The progress after an event."""
    return stepper.after_event(system, integrator, p, state)


@numpy_jit
def reinitialise(system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
    """The progress with the method initialised again, for a system with other constraints."""
    carry = counted_angles.init(integrator, system, p.t, p.h, p.carry.state)._replace(state=p.carry.state)
    return p._replace(carry=carry) if p.before is None else p._replace(carry=carry, t_before=p.t, before=carry)


@numpy_jit
def interpolate_last_step(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress, target: Array
) -> State:
    """The state at `target`, within the last step."""
    return dense_output(stepper, system, integrator, p, target)


_BY_XLA = CompileReport(None, "xla", kept=False)


def run(
    segments: Sequence[Segment],
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: Start,
    observer: Observer,
    schedule: SaveSchedule,
    sink: Sink | None,
    show: ProgressDisplay,
    interrupts: Interrupts,
    events: EventHandler | None = None,
) -> Outcome:
    """The whole run.

    `sink` receives each block of frames and may stop the run with a code; without one frames stay in memory. The run
    stops after the block in which `interrupts` are set.
    """
    began = time.perf_counter()
    driver = _Run(segments, system, integrator, start, observer, schedule, sink, show, interrupts, events)
    return driver.all(time.perf_counter() - began)


class _Run:
    """The state of a run in progress."""

    @eager_numpy()
    def __init__(
        self,
        segments: Sequence[Segment],
        system: AbstractSystem,
        integrator: AbstractIntegrator,
        start: Start,
        observer: Observer,
        schedule: SaveSchedule,
        sink: Sink | None,
        show: ProgressDisplay,
        interrupts: Interrupts,
        events: EventHandler | None,
    ) -> None:
        self.interrupts, self.show, self.events = interrupts, show, events
        self.native: Any = None
        self.compiled_here = False
        self.segments, self.integrator, self.sink = segments, integrator, sink
        if events is not None and start.checkpoint is None:
            start = start._replace(state=events.begin(float(segments[0].stepper.t0), start.state))
        self.system = system if events is None else events.system
        own = events is not None and (events.changed or events.contacts is not None)
        observer = events.observer if events is not None and own else observer
        self.every = jnp.asarray(schedule.every or np.iinfo(np.int64).max)
        end = float(segments[-1].stepper.t1)
        self.targets = None if schedule.at is None else jnp.asarray(np.append(schedule.at, end))
        self.frames: list[Frames] = []
        self.stop = Result.successful
        self.continues = start.continues
        if start.checkpoint is not None:
            progress, self.segment, self.saved_count, _ = start.checkpoint
            self.p = _with_previous(jax.tree.map(jnp.asarray, progress), schedule.at is not None)
            if not start.continues and segments[0].after_jump:
                self.p = restart(self.stepper, self.system, integrator, self.p)
            needs_event_state = self.p.events is None
            if isinstance(self.stepper, EventDetectingStepper) and needs_event_state:
                self.p = with_event_state(self.stepper, self.system, integrator, self.p)
        else:
            self.segment, self.saved_count, needs_event_state = 0, 0, True
            self.p = begin(self.stepper, self.system, integrator, start.state, schedule.at is not None)
        if isinstance(self.stepper, EventDetectingStepper) and needs_event_state:
            assert events is not None
            self.p = self.stepper.with_aftermath(self.p, start.aftermath)
            events.check_gaps(self.p.events)
        self.capacity = capacity(self.p.carry.state, segments, schedule)
        self.batched_observer = BatchedObserver(observer, min(self.capacity, _OBSERVED_ROWS))

    @property
    def stepper(self) -> AbstractStepper:
        inner = self.segments[self.segment].stepper
        return inner if self.events is None else self.events.stepper(inner)

    def all(self, start_time: float) -> Outcome:
        began = time.perf_counter()
        self.show.stage("recording a step")
        jax.block_until_ready(self.block(0))
        if self.targets is None and not self.continues:
            self.save(*row(self.p))
        else:
            # So that the program of the observer is compiled before time is measured.
            self._no_frames()
        compile_time, began = time.perf_counter() - began, time.perf_counter()
        error: BaseException | None = None
        try:
            self._run_steps()
        except KeyboardInterrupt as pressed:
            error, self.stop = pressed, Result.interrupted
        except Exception as unforeseen:
            # Whatever it was, hours of frames must not go with it.
            error, self.stop = unforeseen, Result.unexpected_error
        code = Result(int(self.p.result)) if int(self.p.result) else self.stop
        none = self._no_frames()
        frames = jax.tree.map(lambda *parts: np.concatenate(parts), *self.frames) if self.frames else none
        p = self.p._replace(result=np.int32(code))
        wall_time = time.perf_counter() - began
        return Outcome(frames, p, self.checkpoint, start_time, compile_time, wall_time, self.compile_report, error)

    @property
    def checkpoint(self) -> Checkpoint:
        event_arrays = None if self.events is None else self.events.arrays()
        # The effects of an event at the end are left to the run that resumes.
        code = Result.event_reached if int(self.p.result) == Result.event_reached else Result.successful
        return Checkpoint(self.p._replace(result=np.int32(code)), self.segment, self.saved_count, event_arrays)

    @property
    def compile_report(self) -> CompileReport:
        """The report of the compilation of steps."""
        step_loop = None if self.native is None else self.native[0]
        return _BY_XLA if step_loop is None else step_loop.code.report._replace(kept=not self.compiled_here)

    def _report_compilation(self, form: CompileReport) -> None:
        self.compiled_here = True
        self.show.stage(form.activity)

    def block(self, steps: int) -> tuple[Progress, Buffer]:
        if self.native is None:
            self.native = native.steps(self.stepper, self.system, self.integrator, self.p, self._report_compilation)
            if self.native[0] is None:
                self._report_compilation(_BY_XLA)
        step_loop, arguments = self.native
        if step_loop is not None:
            p, count, (t, state, multipliers) = step_loop(
                arguments,
                self.p,
                int(self.p.n) + steps,
                int(self.every),
                self.segment == len(self.segments) - 1,
                self.targets,
                self.saved_count,
                self.capacity,
            )
            return p, Buffer(count, t, state, multipliers)
        return run_block(
            self.stepper,
            self.system,
            self.integrator,
            self.p,
            jnp.asarray(int(self.p.n) + steps),
            self.every,
            self.targets,
            jnp.asarray(self.saved_count),
            jnp.asarray(self.segment == len(self.segments) - 1),
            self.capacity,
        )

    def _run_steps(self) -> None:
        steps, t_saved = _FIRST_BLOCK, float(self.p.t)
        while self.stop == Result.successful:
            if int(self.p.result) == Result.event_reached:
                self.apply_event()
                continue
            if self.is_over():
                break
            if self.interrupts.is_set():
                self.stop = Result.interrupted
                break
            if self.is_segment_over():
                self.next_segment()
                continue
            block_began, before = time.perf_counter(), int(self.p.n)
            self.p, buffer = jax.block_until_ready(self.block(steps))
            elapsed, count = time.perf_counter() - block_began, int(buffer.count)
            self.saved_count += count
            if count:
                self.save(*_head(buffer, count))
                t_saved = float(buffer.t[count - 1])
            else:
                self.report_position()
            self.show.update(float(self.p.t))
            target_seconds = _BLOCK_SECONDS if self.sink is None else _STORED_BLOCK_SECONDS
            steps = _next_block(int(self.p.n) - before, elapsed, target_seconds)
        failed = int(self.p.result) not in (Result.successful, Result.max_steps_reached)
        if failed and self.targets is None and float(self.p.t) != t_saved:
            # The last state, to diagnose the failure. Runs that can be resumed have only their own frames.
            self.save(*row(self.p), further=False)

    def apply_event(self) -> None:
        """Carries out the event at which the steps have stopped."""
        assert self.events is not None
        stepper, system = self.stepper, self.system
        assert isinstance(stepper, EventDetectingStepper)
        # Frames show the state before, whether they lie in the step that ends here or at its end.
        at = self.p = self.p._replace(result=np.int32(0))
        frames = self.frames_until(at)
        former_observer = self.batched_observer
        state, ends = self.events.act(float(at.t), at.carry.state, at.events)
        if ends:
            self.stop = Result.event_reached
        elif self.events.accumulate(float(at.t)):
            self.stop = Result.events_accumulate
        if self.events.system is not system:
            self.system, self.native = self.events.system, None
            if jax.tree.structure(self.system) != jax.tree.structure(system):
                at = reinitialise(self.system, self.integrator, at)
            self.batched_observer = BatchedObserver(self.events.observer, min(self.capacity, _OBSERVED_ROWS))
        then = self.stepper
        assert isinstance(then, EventDetectingStepper)
        # After a terminal event, too: another run may continue from there.
        self.p = after_event(then, self.system, self.integrator, at, state)
        if self.stop == Result.event_reached and self.targets is None and not frames:
            # A run with too many events has no frame here, as one with a larger limit has none either.
            frames = [row(at)]
        for frame in frames:
            # They show the state before, with the contacts that were closed then.
            self.append(former_observer.frames(*self._without_contacts(*frame)))

    def frames_until(self, at: Progress) -> list[Any]:
        """Frames that are due in the last step, which an event has ended."""
        if self.targets is None:
            last = self.segment == len(self.segments) - 1 and bool(self.stepper.is_finished(at))
            due = not bool(at.events.cut) and (int(at.n) % int(self.every) == 0 or last)
            return [row(at)] if due else []
        frames = []
        while self.saved_count < len(self.targets) - 1 and bool(
            self.stepper.has_passed(at, self.targets[self.saved_count])
        ):
            target = self.targets[self.saved_count]
            state = interpolate_last_step(self.stepper, self.system, self.integrator, at, target)
            frames.append(jax.tree.map(lambda x: np.asarray(x)[None], (target, state, at.carry.multipliers)))
            self.saved_count += 1
        return frames

    def is_over(self) -> bool:
        if int(self.p.result):
            return True
        return self.segment == len(self.segments) - 1 and self.is_segment_over()

    @eager_numpy()
    def is_segment_over(self) -> bool:
        """Whether the segment's end is reached and all save times up to there are saved."""
        if not bool(self.stepper.is_finished(self.p)):
            return False
        if self.targets is None or self.saved_count >= self.targets.shape[0] - 1:
            return True
        return not bool(self.stepper.has_passed(self.p, self.targets[self.saved_count]))

    def next_segment(self) -> None:
        self.segment += 1
        self.native = None
        if self.segments[self.segment].after_jump:
            self.p = restart(self.stepper, self.system, self.integrator, self.p)

    def save(self, t: Any, state: Any, multipliers: Any, further: bool = True) -> None:
        """Observes frames and passes them on."""
        self.append(self.batched_observer.frames(*self._without_contacts(t, state, multipliers)), further)

    def _without_contacts(self, t: Any, state: Any, multipliers: Any) -> tuple[Any, Any, Any]:
        """A frame without the multipliers of contacts, which are outputs of their own."""
        return t, state, multipliers if self.events is None else self.events.joint_multipliers(multipliers)

    def append(self, frames: Frames, further: bool = True) -> None:
        """Passes observed frames on."""
        if self.sink is None:
            self.frames.append(frames)
            return
        code = self.sink.append(frames, self.checkpoint, self.interrupts.is_set)
        if further and self.stop == Result.successful:
            self.stop = code

    def report_position(self) -> None:
        """Passes a checkpoint to the sink after a block without frames."""
        if self.sink is not None:
            self.stop = self.sink.append(self._no_frames(), self.checkpoint, self.interrupts.is_set)

    def _no_frames(self) -> Frames:
        """An empty block of frames, with the shapes of others."""
        p = self.p
        multipliers = p.carry.multipliers if self.events is None else self.events.joint_multipliers(p.carry.multipliers)
        return self.batched_observer.empty(p.carry.state, multipliers)


def _with_previous(p: Progress, keep: bool) -> Progress:
    """The progress with the beginning of the last step, which interpolation needs, or without."""
    if not keep:
        return p._replace(t_before=None, before=None)
    return p if p.before is not None else p._replace(t_before=p.t, before=p.carry)


def _next_block(steps: int, seconds: float, target_seconds: float = _BLOCK_SECONDS) -> int:
    """Steps of the next block, for about so many seconds, from the duration of the last one.

    It counts the steps that were made, not those that were allowed: full buffers end blocks early.
    """
    return int(steps * np.clip(target_seconds / max(seconds, 1e-6), 0.1, 10.0)) + 1


def row(p: Progress) -> Any:
    """Time, state and multipliers as stacks of one frame."""
    return jax.tree.map(lambda x: np.asarray(x)[None], (p.t, p.carry.state, p.carry.multipliers))


def _head(buffer: Buffer, count: int) -> tuple[Any, Any, Any]:
    t, state, multipliers = jax.tree.map(lambda x: np.asarray(x)[:count], (buffer.t, buffer.state, buffer.multipliers))
    return t, state, multipliers
