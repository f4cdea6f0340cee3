"""Frames that are saved in consecutive steps, at their ends or inside."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polhode.simulation.derivatives.checkpointed_run import CheckpointedRun
from polhode.simulation.derivatives.run_maps import Step
from polhode.simulation.stepping.stepper import Progress

_ON_STEP = 1e-9
"""Part of a step within which an instant is the end of it."""


class SavedFrames(NamedTuple):
    """Frames that are saved between two checkpoints.

    - `numbers`: of the frames in the run. - `at`: the carry that ends the step of each, 0 for that before all steps.
    - `s`: the fraction of the step. - `inside`: whether the state lies within the step, and not at its end.
    """

    numbers: np.ndarray
    at: np.ndarray
    s: np.ndarray
    inside: np.ndarray


def find_frames(run: CheckpointedRun, p: Progress, steps: Step) -> SavedFrames:
    """The frames in some steps of a run; `p`: stacked progress at both ends of all steps.

    The same instant is in one stretch of steps, in whatever order these are visited.
    """
    is_first, is_last = p.n[0] == 0, p.n[-1] == run.p.n
    if run.schedule.at is None:
        saved = run.saved_steps
        numbers = np.flatnonzero(((saved > p.n[0]) | is_first) & (saved <= p.n[-1]))
        return SavedFrames(numbers, saved[numbers] - p.n[0], np.ones(len(numbers)), np.zeros(len(numbers), bool))
    times = np.asarray(run.schedule.at)
    begun, over = _is_after(times, p.t[0], p.h[0]) | is_first, _is_after(times, p.t[-1], p.h[-1]) & ~is_last
    numbers = np.flatnonzero(begun & ~over)
    times = times[numbers]
    later = _is_after(times[:, None], p.t[1:], steps.h).sum(1)
    step = np.minimum(later, len(steps.t) - 1)
    s = np.clip((times - steps.t[step]) / steps.h[step], 0.0, 1.0)
    return SavedFrames(numbers, step + 1, s, np.abs(s - 1) >= _ON_STEP)


def _is_after(times: np.ndarray, t: Any, h: Any) -> np.ndarray:
    """Which times come after the instant t of a step of length h, in the direction of time."""
    return (times - t) * np.sign(h) > _ON_STEP * np.abs(h)
