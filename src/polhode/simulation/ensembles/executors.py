"""Executors of batches of members: several at a time in SIMD lanes, or one after the other."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from polhode.compiler.loops.simd_step_loop import LaneControl, SimdStepLoop
from polhode.compiler.loops.step_loop import StepLoop
from polhode.compiler.placement import with_default_device
from polhode.frames import Frames
from polhode.result_codes import Result
from polhode.simulation.ensembles.batch import Batch
from polhode.simulation.ensembles.compiled_members import MemberArrays, MemberRequest, Program
from polhode.simulation.ensembles.members import Members
from polhode.simulation.simulate import simulate, simulate_stoppable
from polhode.simulation.stepping.stepper import Progress
from polhode.solution.solution import Solution
from polhode.storage import frame_layout

_BLOCK_SECONDS, _FIRST_STEPS = 0.2, 64


class AbstractExecutor(abc.ABC):
    """Runs batches of members."""

    @abc.abstractmethod
    def batch(self, which: slice, is_interrupted: Callable[[], bool]) -> Batch:
        """Some members from start to end."""

    @abc.abstractmethod
    def like(self, is_interrupted: Callable[[], bool]) -> Batch:
        """A batch of one member, for shapes and types."""

    @abc.abstractmethod
    def report(self) -> dict[str, Any]:
        """Entries for the statistics of an ensemble."""

    def room(self) -> tuple[int, int] | None:
        """Bytes of frames and number of members that a batch may have, where the usual ones are not what serves."""
        return None


class AbstractCompiledExecutor(AbstractExecutor):
    """Members whose starts, steps and outputs are machine code that is compiled once for them all.

    **Arguments:**

    - `program`, `request`: of all members.
    """

    def __init__(self, program: Program, request: MemberRequest) -> None:
        self._program, self._every, self._at = program, request.schedule.every, request.schedule.at
        end = program.first.t1
        self._targets = np.zeros(1) if self._at is None else np.append(self._at, end)

    def like(self, is_interrupted: Callable[[], bool]) -> Batch:
        return self.batch(slice(0, 1), is_interrupted)

    def batch(self, which: slice, is_interrupted: Callable[[], bool]) -> Batch:
        steps, arrays = self._program.steps, self._program.starts(which)
        args, slots = steps.args.pack_rows(arrays.args), steps.progress.pack_rows(arrays.progress)
        ends, rows, was_interrupted = self._advance(args, slots, is_interrupted)
        return self._collect(arrays, steps.progress.unpack(ends), rows, was_interrupted)

    @abc.abstractmethod
    def _advance(
        self, args: np.ndarray, slots: np.ndarray, is_interrupted: Callable[[], bool]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All steps of members with these packed arguments and starts.

        Their ends in slots, frames (members, frames, slots), and which of them were interrupted.
        """

    def _report_starts(self) -> str:
        return "machine code" if self._program.starts_compiled else "one after the other"

    def _empty_rows(self, count: int) -> np.ndarray:
        """Frames of so many members before any is saved."""
        return np.full((count, self._program.frames, self._program.steps.row.size), _NAN_BITS, np.int64)

    def _collect(self, arrays: MemberArrays, ends: Progress, rows: np.ndarray, was_interrupted: np.ndarray) -> Batch:
        t, state, multipliers = self._program.steps.row.unpack(rows)
        if self._at is None:
            first = arrays.progress.t, arrays.progress.carry.state, arrays.progress.carry.multipliers
            t, state, multipliers = jax.tree.map(
                lambda a, b: np.concatenate([np.asarray(a)[:, None], b], axis=1), first, (t, state, multipliers)
            )
        n = t.shape[:2]
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (t, state, multipliers))
        observers = jax.tree.map(lambda x: np.repeat(np.asarray(x), n[1], axis=0), arrays.observer)
        observation = self._program.observe(observers, *flat[:2])
        parts = Frames(flat[0], flat[1], observation.outputs, observation.invariants, observation.residuals, flat[2])
        _, leaves = frame_layout.flatten(parts)
        is_missing = np.isnan(flat[0])
        frames = {name: fill_missing(np.asarray(x), is_missing).reshape(*n, *x.shape[1:]) for name, x in leaves.items()}
        result = np.where(was_interrupted, int(Result.interrupted), ends.result)
        return Batch(frames, result.astype(np.int32), np.asarray(ends.n), np.asarray(ends.t))


class SimdExecutor(AbstractCompiledExecutor):
    """Several members at a time in the lanes of vectors.

    **Arguments:**

    - `program`, `request`: of all members. - `lanes`: its steps.
    """

    def __init__(self, program: Program, request: MemberRequest, lanes: SimdStepLoop) -> None:
        super().__init__(program, request)
        self._lanes = lanes

    def report(self) -> dict[str, Any]:
        operations = self._lanes.code.report.operations
        return {
            "by": "lanes", "lanes": self._lanes.width, "operations": operations, "starts": self._report_starts()
        }  # fmt: skip

    def _advance(
        self, args: np.ndarray, slots: np.ndarray, is_interrupted: Callable[[], bool]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lanes, count = self._lanes, len(slots)
        args, now = lanes.interleave(args), lanes.interleave(slots)
        rows = self._empty_rows(len(now) * lanes.width)
        saved_counts, n, steps = np.zeros(count, np.int64), np.zeros(count, np.int64), _FIRST_STEPS
        is_active, every = np.ones(count, bool), self._every or np.iinfo(np.int64).max
        while is_active.any() and not is_interrupted():
            began, limits = time.perf_counter(), n + steps
            controls = [
                LaneControl(limit, every, True, saved, len(self._targets) - 1, rows.shape[1])
                for limit, saved in zip(limits.tolist(), saved_counts.tolist(), strict=True)
            ]
            saved_counts += lanes.advance(args, now, controls, self._targets, rows)
            then: Progress = lanes.progress.unpack(lanes.deinterleave(now, count))
            n = np.asarray(then.n)
            is_active = (n == limits) & (np.asarray(then.result) == 0)
            ratio = _BLOCK_SECONDS / max(time.perf_counter() - began, 1e-6)
            steps = int(steps * np.clip(ratio, 0.1, 1000.0)) + 1
        return lanes.deinterleave(now, count), rows[:count], is_active


class StepLoopExecutor(AbstractCompiledExecutor):
    """One member after the other by the steps of single runs, where lanes can't take these.

    **Arguments:**

    - `program`, `request`: of all members. - `loop`: its steps. - `reason`: why there are no lanes.
    """

    def __init__(self, program: Program, request: MemberRequest, loop: StepLoop, reason: str) -> None:
        super().__init__(program, request)
        self._loop, self._reason, self._steps = loop, reason, 1

    def report(self) -> dict[str, Any]:
        operations = self._loop.code.report.operations
        return {
            "by": "steps of single runs", "because": self._reason, "operations": operations,
            "starts": self._report_starts(),
        }  # fmt: skip

    def _advance(
        self, args: np.ndarray, slots: np.ndarray, is_interrupted: Callable[[], bool]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows, ends = self._empty_rows(len(slots)), slots.copy()
        goes_on = [self._advance_member(*member, is_interrupted) for member in zip(args, ends, rows, strict=True)]
        return ends, rows, np.array(goes_on, bool)

    def _advance_member(
        self, args: np.ndarray, now: np.ndarray, rows: np.ndarray, is_interrupted: Callable[[], bool]
    ) -> bool:
        """All steps of a member, block by block. Returns whether it was interrupted."""
        loop, every = self._loop, self._every or np.iinfo(np.int64).max
        saved, n = 0, 0
        while not is_interrupted():
            began, limit = time.perf_counter(), n + self._steps
            frames = loop.advance(args, now, limit, every, True, self._targets, saved, len(rows) - saved)
            rows[saved : saved + len(frames)] = frames
            saved += len(frames)
            then: Progress = loop.unpack(now)
            n = int(then.n)
            if n < limit or then.result != 0:
                return False
            ratio = _BLOCK_SECONDS / max(time.perf_counter() - began, 1e-6)
            self._steps = int(self._steps * np.clip(ratio, 0.1, 1000.0)) + 1
        return True


_NAN_BITS = np.array(np.nan).view(np.int64)[()]
"""Bits of the slots of frames that a failed member has not reached."""


def fill_missing(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """An array with NaN where frames are missing."""
    if mask.any() and x.dtype.kind == "f":
        x = x.copy()
        x[mask] = np.nan
    return x


class SerialExecutor(AbstractExecutor):
    """One member after the other; in several threads, if several batches are run at a time.

    **Arguments:**

    - `reason`: why there are no lanes. - `frames`: of every member.
    """

    def __init__(self, request: MemberRequest, members: Members, reason: str, frames: int) -> None:
        self._request, self._members, self._reason, self._frames = request, members, reason, frames

    def report(self) -> dict[str, Any]:
        return {"by": "single runs", "because": self._reason}

    def like(self, is_interrupted: Callable[[], bool]) -> Batch:
        return self._stack([self._run(0, is_interrupted)])

    def batch(self, which: slice, is_interrupted: Callable[[], bool]) -> Batch:
        numbers = range(*which.indices(self._members.count))
        return self._stack([_NOT_RUN if is_interrupted() else self._run(k, is_interrupted) for k in numbers])

    def _stack(self, runs: list[_MemberEnd]) -> Batch:
        like = next((frames for frames, *_ in runs if frames is not None), {})
        arrays = {
            name: np.stack([_pad(None if f is None else f[name], self._frames, x) for f, *_ in runs])
            for name, x in like.items()
        }
        _, result, steps, t_reached = zip(*runs, strict=True)
        return Batch(arrays, np.array(result, np.int32), np.array(steps), np.array(t_reached))

    def _run(self, k: int, is_interrupted: Callable[[], bool]) -> _MemberEnd:
        solution = _run_stoppable(self._request, *self._members.of_members(k), is_interrupted)
        _, leaves = frame_layout.flatten(solution.frames)
        stats = solution.stats
        frames = {name: np.asarray(x) for name, x in leaves.items()}
        return frames, int(stats["result"]), int(stats["steps"]), float(stats["t_reached"])


_MemberEnd = tuple[dict[str, np.ndarray] | None, int, int, float]
"""Of a member: frames by name, result, steps, the time reached."""

_NOT_RUN: _MemberEnd = (None, int(Result.interrupted), 0, np.nan)


@with_default_device
def _run_stoppable(
    request: MemberRequest, parameters: dict[str, Any], state: Any, stop: Callable[[], bool]
) -> Solution:
    """The run of one member in any thread, ended where `stop` says so."""
    return simulate_stoppable(request.prepare(parameters, state), request.steps, request.schedule, stop)


def run_member(request: MemberRequest, parameters: dict[str, Any], state: Any) -> Solution:
    """The run of one member."""
    return simulate(
        request.problem.replace(**parameters) if parameters else request.problem,
        request.integrator,
        h=request.steps.h,
        rtol=request.steps.rtol,
        atol=request.steps.atol,
        t0=request.t0,
        t1=request.t1,
        state0=state,
        save_every=request.schedule.every,
        save_at=request.schedule.at,
        throw=False,
    )


def _pad(x: np.ndarray | None, length: int, like: np.ndarray) -> np.ndarray:
    """Frames of a member, with NaN for those that it has not reached."""
    out = np.full((length, *like.shape[1:]), np.nan if like.dtype.kind == "f" else 0, like.dtype)
    if x is not None:
        out[: len(x)] = x
    return out
