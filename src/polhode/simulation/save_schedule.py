"""Save schedule of a run: which frames are saved, how many there will be, and the size of a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from polhode import checks
from polhode.checks import short_repr
from polhode.simulation.stepping.grid_steps import AbstractGridSteps
from polhode.simulation.stepping.segments import Segment

_BUFFER_FLOATS = 2_000_000
_BUFFER_SIZES = (1, 256, 4096)


class SaveSchedule(NamedTuple):
    """Which frames are saved: every `every`-th step (None: only the ends), or the times `at`."""

    every: int | None
    at: np.ndarray | None


def save_schedule(every: int | None, at: Any, t0: float, t1: float) -> SaveSchedule:
    """The schedule of `save_every` or `save_at`. Raises ValueError for times that don't fit the span."""
    if at is not None:
        if isinstance(at, Tracer):
            raise ValueError("`save_at` is traced by JAX; give plain numbers or a NumPy array.")
        times = np.atleast_1d(checks.numbers("save_at", at, "times"))
        low, high = min(t0, t1), max(t0, t1)
        if times.ndim != 1 or len(times) == 0 or not np.isfinite(times).all():
            raise ValueError(f"`save_at` must be a non-empty list of finite times, got {short_repr(at)}.")
        if (np.diff(times) * np.sign(t1 - t0) <= 0).any():
            raise ValueError("`save_at` must run strictly from t0 towards t1; sort it and drop repeated times.")
        if times.min() < low - 1e-12 * (high - low) or times.max() > high + 1e-12 * (high - low):
            raise ValueError(
                f"`save_at` holds {times.min():g} … {times.max():g}, outside the span [{low:g}, {high:g}]."
            )
        return SaveSchedule(None, np.clip(times, low, high))
    return SaveSchedule(None if every is None else checks.count("save_every", every, "steps, or None", 2**62), None)


def frame_count(segments: Sequence[Segment], schedule: SaveSchedule) -> int | None:
    """The number of frames that a run saves after its start; None where it isn't known beforehand."""
    if schedule.at is not None:
        return len(schedule.at)
    if schedule.every is None:
        return 1
    return -(-_steps(segments) // schedule.every) if segments[-1].stepper.on_grid else None


def frame_times(segments: Sequence[Segment], schedule: SaveSchedule) -> np.ndarray:
    """The instants of all frames, to the last bit; the steps must be known beforehand, or only the ends be saved."""
    if schedule.at is not None:
        return schedule.at
    first, last = segments[0].stepper, segments[-1].stepper
    if not first.on_grid:
        return np.array([float(first.t0), float(last.t1)])
    times, n = [float(first.t0)], int(first.first)
    for stepper, _ in segments:
        assert isinstance(stepper, AbstractGridSteps)
        # A segment may count from the beginning of a grid of which the first steps are others.
        numbers, n = np.arange(n + 1, int(stepper.last) + 1), int(stepper.last)
        is_due = numbers == int(last.last)
        if schedule.every is not None:
            is_due |= numbers % schedule.every == 0
        times += stepper.instants(numbers[is_due]).tolist()
    return np.array(times)


def _steps(segments: Sequence[Segment]) -> int:
    """The number of steps, where it is known."""
    return int(segments[-1].stepper.last) - int(segments[0].stepper.first)


def capacity(state0: Any, segments: Sequence[Segment], schedule: SaveSchedule) -> int:
    """Frames in one buffer: no more than are saved, and within a bounded memory."""
    floats = sum(np.size(x) for x in jax.tree.leaves(state0)) + 1
    count = frame_count(segments, schedule)
    # Few sizes, so that runs of other lengths find their program compiled.
    size = next((s for s in _BUFFER_SIZES if count is not None and s >= count), _BUFFER_SIZES[-1])
    return max(1, min(size, _BUFFER_FLOATS // floats))
