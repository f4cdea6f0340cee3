"""The loop on the host: compiled blocks of steps, with control in between for progress, stores and Ctrl-C."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from polhode.compiler.compile_report import CompileReport
from polhode.compiler.loops.step_loop import StepLoop
from polhode.compiler.numpy.eager import eager_numpy
from polhode.result_codes import Result
from polhode.results.observer import BatchedObserver
from polhode.simulation.events.detection import EventDetectingStepper
from polhode.simulation.events.handler import handler_at
from polhode.simulation.loops import native, transitions
from polhode.simulation.loops.frame_output import FrameOutput, Rows, row
from polhode.simulation.loops.signals import Interrupts
from polhode.simulation.loops.xla import Buffer, run_block
from polhode.simulation.progress_display import ProgressDisplay
from polhode.simulation.run_types import Checkpoint, EventOutcome, Outcome, Plan, Sink, StepRecorder
from polhode.simulation.save_schedule import capacity
from polhode.simulation.stepping.stepper import AbstractStepper, Progress

_BLOCK_SECONDS = 0.2
_STORED_BLOCK_SECONDS = 0.1
_FIRST_BLOCK = 1
_EVENT_ROWS = 256
"""Rows of a block in runs with events, at least: few save as many frames."""
_BY_XLA = CompileReport(None, "xla", kept=False)


def run(
    plan: Plan,
    sink: Sink | None,
    display: ProgressDisplay,
    interrupts: Interrupts,
    recorder: StepRecorder | None = None,
) -> Outcome:
    """The whole run.

    `sink` receives each block of frames and may stop the run with a code; without one frames stay in memory. The run
    stops after the block in which `interrupts` are set. `recorder` takes what repeating the steps needs.
    """
    began = time.perf_counter()
    loop = _Run(plan, sink, display, interrupts, recorder)
    return loop.all(time.perf_counter() - began)


class _Run:
    """The state of a run in progress."""

    @eager_numpy()
    def __init__(
        self,
        plan: Plan,
        sink: Sink | None,
        display: ProgressDisplay,
        interrupts: Interrupts,
        recorder: StepRecorder | None,
    ) -> None:
        self.plan, self.display, self.interrupts, self.recorder = plan, display, interrupts, recorder
        self.segments, self.integrator = plan.segments, plan.integrator
        self.events = events = handler_at(plan.start, plan.events)
        self.system = plan.system if events is None else events.system
        self.native: tuple[StepLoop | None, Any] | None = None
        self.compiled_here = False
        self.stop = Result.successful
        every, at = plan.schedule
        self.every = jnp.asarray(every or np.iinfo(np.int64).max)
        self.targets = None if at is None else jnp.asarray(np.append(at, float(plan.segments[-1].stepper.t1)))
        self.segment, self.saved_count, self.tries = 0, 0, False
        self.p = self._begin()
        self.capacity = capacity(self.p.carry.state, plan.segments, plan.schedule)
        own = events is not None and (events.changed or events.contacts is not None)
        observer = events.observer if events is not None and own else plan.observer
        self.output = FrameOutput(observer, self.capacity, sink, events, interrupts.is_set)

    def _begin(self) -> Progress:
        """The progress at the start."""
        start, events, keep = self.plan.start, self.events, self.targets is not None
        needs_event_state = True
        if start.checkpoint is None:
            state = start.state
            if events is not None:
                state = events.begin(float(self.segments[0].stepper.t0), state)
                self.system = events.system
            self.tries = self._is_tried()
            begin = transitions.begin_trial if self.tries else transitions.begin
            p = begin(self.stepper, self.system, self.integrator, state, keep)
        else:
            progress, self.segment, self.saved_count, _ = start.checkpoint
            p = transitions.with_previous(jax.tree.map(jnp.asarray, progress), keep)
            if not start.continues and self.segments[0].after_jump:
                p = transitions.restart(self.stepper, self.system, self.integrator, p)
            needs_event_state = p.events is None
            if isinstance(self.stepper, EventDetectingStepper) and needs_event_state:
                p = transitions.with_event_state(self.stepper, self.system, self.integrator, p)
        if isinstance(self.stepper, EventDetectingStepper) and needs_event_state:
            assert events is not None
            p = self.stepper.with_aftermath(p, start.aftermath)
            events.check_gaps(p.events)
        is_resumed = start.checkpoint is not None and start.checkpoint.event_arrays
        return p if is_resumed else transitions.with_empty_tally(p)

    def _is_tried(self) -> bool:
        """Whether the run starts by a trial step, of which the steps' own program is the fastest way.

        Trial steps of runs with events would be cut, and where loads jump at the start steps begin by trials anyway.
        """
        return self.integrator.starts_by_trial and self.events is None and not self.segments[0].after_jump

    def _try_step(self) -> None:
        """Completes the start by a trial step."""
        before, trial = self.p, self._advance(int(self.p.n) + 1)[0]
        self.p = start = self._after_trial(before, trial)
        if int(trial.result):
            # It has left impulses to begin with, but no forces: these are of the first step then.
            first = self._after_trial(before, self._advance(int(start.n) + 1)[0])
            carry = start.carry._replace(multipliers=first.carry.multipliers)
            self.p = start._replace(carry=carry, before=None if start.before is None else carry)

    def _after_trial(self, before: Progress, trial: Progress) -> Progress:
        return transitions.end_trial(self.stepper, self.system, self.integrator, before, trial.carry)

    @property
    def stepper(self) -> AbstractStepper:
        inner = self.segments[self.segment].stepper
        return inner if self.events is None else self.events.stepper(inner)

    @property
    def is_last_segment(self) -> bool:
        return self.segment == len(self.segments) - 1

    def all(self, start_time: float) -> Outcome:
        began = time.perf_counter()
        self.display.stage("recording a step")
        jax.block_until_ready(self.block(0))
        if self.tries:
            self._try_step()
        if self.targets is None and not self.plan.start.continues:
            self.save(row(self.p))
        else:
            # So that the program of the observer is compiled before time is measured.
            self.output.empty(self.p)
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
        frames = self.output.in_memory(self.p)
        p = self.p._replace(result=np.int32(code))
        times = start_time, compile_time, time.perf_counter() - began
        return Outcome(frames, p, self.checkpoint(), *times, self.compile_report, error, self._event_outcome())

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
        self.display.stage(form.activity)

    def _event_outcome(self) -> EventOutcome | None:
        events = self.events
        if events is None or self.plan.events is None:
            return None
        table = events.table() if self.plan.events.events else None
        return EventOutcome(table, events.changed, events.has_closed_contacts, dict(events.python_events))

    def block(self, steps: int) -> tuple[Progress, Buffer]:
        if self.native is None:
            self.native = native.steps(self.stepper, self.system, self.integrator, self.p, self._report_compilation)
            if self.recorder is not None:
                self.recorder.begin_segment(*self.native)
            if self.native[0] is None:
                self._report_compilation(_BY_XLA)
        if self.recorder is not None and steps:
            steps = self.recorder.block_steps(self.segment, self.p)
        return self._advance(int(self.p.n) + steps)

    def _advance(self, n_limit: int) -> tuple[Progress, Buffer]:
        """Steps until `n_limit`, by the program of this segment."""
        assert self.native is not None
        last, (step_loop, arguments) = self.is_last_segment, self.native
        if step_loop is not None:
            every, targets = int(self.every), self.targets
            rows = self.capacity if self.p.events is None else max(self.capacity, _EVENT_ROWS)
            block = step_loop(arguments, self.p, n_limit, every, last, targets, self.saved_count, rows)
            return block[0], Buffer(block[1], *block[2])
        limits = jnp.asarray(n_limit), self.every, self.targets, jnp.asarray(self.saved_count), jnp.asarray(last)
        p = transitions.without_responses(self.p)
        return run_block(self.stepper, self.system, self.integrator, p, *limits, self.capacity)

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
            buffer = self.record_events(buffer)
            elapsed, count = time.perf_counter() - block_began, int(buffer.count)
            self.saved_count += count
            if count:
                self.save(buffer.head())
                t_saved = float(buffer.t[count - 1])
            else:
                self.stop = self.output.append_none(self.p, self.checkpoint)
            self.display.update(float(self.p.t))
            target_seconds = _STORED_BLOCK_SECONDS if self.output.has_sink else _BLOCK_SECONDS
            steps = _next_block(int(self.p.n) - before, elapsed, target_seconds)
        failed = int(self.p.result) not in (Result.successful, Result.max_steps_reached)
        if failed and self.targets is None and float(self.p.t) != t_saved:
            # The last state, to diagnose the failure. Runs that can be resumed have only their own frames.
            self.output.append(self.output.frames(row(self.p)), self.checkpoint)

    def record_events(self, buffer: Buffer) -> Buffer:
        """Records events that compiled steps have dealt with, and returns the frames among the rows."""
        if buffer.events is None or self.events is None:
            return buffer
        t, state, _ = buffer.head()
        self.events.record(t, state, buffer.events)
        return buffer.select_frames()

    def apply_event(self) -> None:
        """Carries out the event at which the steps have stopped, and with which they can't deal themselves."""
        assert self.events is not None
        system = self.system
        # Frames show the state before, whether they lie in the step that ends here or at its end.
        at = self.p = self.p._replace(result=np.int32(0))
        rows = self.rows_until(at)
        state, ends = self.events.act(float(at.t), at.carry.state, at.events)
        event_state, full = self.events.count(float(at.t), at.events)
        at = at._replace(events=event_state)
        if ends or full:
            self.stop = Result.event_reached if ends else Result.events_accumulate
        if self.events.failure != Result.successful:
            self.stop = self.events.failure
        former_observer = self.output.observer
        if self.events.system is not system:
            self.system, self.native = self.events.system, None
            if jax.tree.structure(self.system) != jax.tree.structure(system):
                at = transitions.reinitialise(self.system, self.integrator, at)
            self.output.observe(self.events.observer)
        stepper = self.stepper
        assert isinstance(stepper, EventDetectingStepper)
        # After a terminal event, too: another run may continue from there.
        self.p = transitions.after_event(stepper, self.system, self.integrator, at, state)
        if self.stop == Result.event_reached and self.targets is None and not rows:
            # A run with too many events has no frame here, as one with a larger limit has none either.
            rows = [row(at)]
        for frame in rows:
            # They show the state before, with the contacts that were closed then.
            self.save(frame, former_observer)

    def rows_until(self, at: Progress) -> list[Rows]:
        """Frames that are due in the last step, which an event has ended."""
        if self.targets is None:
            last = self.is_last_segment and bool(self.stepper.is_finished(at))
            due = not bool(at.events.cut) and (int(at.n) % int(self.every) == 0 or last)
            return [row(at)] if due else []
        rows = []
        while self.saved_count < len(self.targets) - 1 and bool(
            self.stepper.has_passed(at, self.targets[self.saved_count])
        ):
            target = self.targets[self.saved_count]
            inside = transitions.interpolate_last_step(self.stepper, self.system, self.integrator, at, target)
            rows.append(jax.tree.map(lambda x: np.asarray(x)[None], (target, *inside)))
            self.saved_count += 1
        return rows

    def is_over(self) -> bool:
        if int(self.p.result):
            return True
        return self.is_last_segment and self.is_segment_over()

    @eager_numpy()
    def is_segment_over(self) -> bool:
        """Whether the segment's end is reached and all events and save times up to there are dealt with."""
        if not bool(self.stepper.is_finished(self.p)):
            return False
        if self.p.events is not None and np.any(self.p.events.fired):
            return False
        if self.targets is None or self.saved_count >= self.targets.shape[0] - 1:
            return True
        return not bool(self.stepper.has_passed(self.p, self.targets[self.saved_count]))

    def next_segment(self) -> None:
        self.segment += 1
        self.native = None
        if self.segments[self.segment].after_jump:
            if self.recorder is not None:
                self.recorder.restart(self.segment, self.p)
            self.p = transitions.restart(self.stepper, self.system, self.integrator, self.p)

    def save(self, rows: Rows, observer: BatchedObserver | None = None) -> None:
        """Observes frames and passes them on."""
        code = self.output.append(self.output.frames(rows, observer), self.checkpoint)
        if self.stop == Result.successful:
            self.stop = code


def _next_block(steps: int, seconds: float, target_seconds: float = _BLOCK_SECONDS) -> int:
    """Steps of the next block, for about so many seconds, from the duration of the last one.

    It counts the steps that were made, not those that were allowed: full buffers end blocks early.
    """
    return int(steps * np.clip(target_seconds / max(seconds, 1e-6), 0.1, 10.0)) + 1
