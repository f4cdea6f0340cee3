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


class CompiledExecutor(AbstractExecutor):
    """Members whose starts, steps and outputs are machine code that is compiled once for them all.

    Several members are run at a time in the lanes of vectors; where lanes can't take their steps, one after the other.

    **Arguments:**

    - `program`, `request`: of all members.
    """

    def __init__(self, program: Program, request: MemberRequest) -> None:
        self._program, self._every = program, request.schedule.every or np.iinfo(np.int64).max
        self._at = request.schedule.at
        self._targets = np.zeros(1) if self._at is None else np.append(self._at, program.first.t1)

    def report(self) -> dict[str, Any]:
        steps = self._program.steps
        starts = "machine code" if self._program.starts_compiled else "one after the other"
        common = {"operations": steps.code.report.operations, "starts": starts}
        if isinstance(steps, SimdStepLoop):
            return {"by": "lanes", "lanes": steps.width, **common}
        because = f"lanes can't take it: {self._program.why_no_lanes}"
        return {"by": "steps of single runs", "because": because, **common}

    def like(self, is_interrupted: Callable[[], bool]) -> Batch:
        return self.batch(slice(0, 1), is_interrupted)

    def batch(self, which: slice, is_interrupted: Callable[[], bool]) -> Batch:
        arrays, layouts = self._program.starts(which), self._program.steps
        args, slots = layouts.args.pack_rows(arrays.args), layouts.progress.pack_rows(arrays.progress)
        steps, count = self._program.steps_for(args), len(slots)
        width = steps.width if isinstance(steps, SimdStepLoop) else 1
        rows = np.full((-(-count // width) * width, self._program.frames, steps.row.size), _NAN_BITS, np.int64)
        if isinstance(steps, SimdStepLoop):
            was_interrupted = self._advance_lanes(steps, args, slots, rows, is_interrupted)
        else:
            members = zip(args, slots, rows, strict=True)
            was_interrupted = np.array([self._advance_member(steps, *x, is_interrupted) for x in members], bool)
        return self._collect(arrays, steps.progress.unpack(slots), steps.row.unpack(rows[:count]), was_interrupted)

    def _advance_lanes(
        self,
        lanes: SimdStepLoop,
        args: np.ndarray,
        slots: np.ndarray,
        rows: np.ndarray,
        is_interrupted: Callable[[], bool],
    ) -> np.ndarray:
        """All steps of members, block by block, in slots and frames, one for each lane. Returns who was interrupted."""
        count, block = len(slots), _Block(_FIRST_STEPS)
        args, now = lanes.interleave(args), lanes.interleave(slots)
        saved_counts, n = np.zeros(count, np.int64), np.zeros(count, np.int64)
        is_active = np.ones(count, bool)
        while is_active.any() and not is_interrupted():
            limits = n + block.begin()
            controls = [
                LaneControl(limit, self._every, True, saved, len(self._targets) - 1, rows.shape[1])
                for limit, saved in zip(limits.tolist(), saved_counts.tolist(), strict=True)
            ]
            saved_counts += lanes.advance(args, now, controls, self._targets, rows)
            then: Progress = lanes.progress.unpack(lanes.deinterleave(now, count))
            n = np.asarray(then.n)
            is_active = (n == limits) & (np.asarray(then.result) == 0)
            block.end()
        slots[:] = lanes.deinterleave(now, count)
        return is_active

    def _advance_member(
        self,
        loop: StepLoop,
        args: np.ndarray,
        now: np.ndarray,
        rows: np.ndarray,
        is_interrupted: Callable[[], bool],
    ) -> bool:
        """All steps of a member, block by block, in its slots and frames. Returns whether it was interrupted."""
        saved, n, block = 0, 0, _Block(1)
        while not is_interrupted():
            limit = n + block.begin()
            frames = loop.advance(args, now, limit, self._every, True, self._targets, saved, len(rows) - saved)
            rows[saved : saved + len(frames)] = frames
            saved += len(frames)
            then: Progress = loop.unpack(now)
            n = int(then.n)
            if n < limit or then.result != 0:
                return False
            block.end()
        return True

    def _collect(self, arrays: MemberArrays, ends: Progress, saved: Any, was_interrupted: np.ndarray) -> Batch:
        t, state, multipliers = saved
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


class _Block:
    """So many steps without a look at interruptions that they take a fifth of a second."""

    def __init__(self, steps: int) -> None:
        self._steps, self._began = steps, 0.0

    def begin(self) -> int:
        """How many steps are next."""
        self._began = time.perf_counter()
        return self._steps

    def end(self) -> None:
        """The steps are done."""
        ratio = _BLOCK_SECONDS / max(time.perf_counter() - self._began, 1e-6)
        self._steps = int(self._steps * np.clip(ratio, 0.1, 1000.0)) + 1


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
        self._first: dict[str, np.ndarray] | None = None

    def report(self) -> dict[str, Any]:
        return {"by": "single runs", "because": self._reason}

    def like(self, is_interrupted: Callable[[], bool]) -> Batch:
        result = self._stack([self._run(0, is_interrupted)])
        self._first = {name: x[0] for name, x in result.frames.items()}
        return result

    def batch(self, which: slice, is_interrupted: Callable[[], bool]) -> Batch:
        numbers = range(*which.indices(self._members.count))
        return self._stack([_NOT_RUN if is_interrupted() else self._run(k, is_interrupted) for k in numbers])

    def _stack(self, runs: list[_MemberEnd]) -> Batch:
        # Symmetric bodies, say, have invariants that others lack: NaN there. What the first member lacks is left out.
        like = self._first or next((frames for frames, *_ in runs if frames is not None), {})
        arrays = {
            name: np.stack([_pad((frames or {}).get(name), self._frames, x) for frames, *_ in runs])
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
