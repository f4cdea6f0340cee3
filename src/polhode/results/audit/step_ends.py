"""Which frames of a run are ends of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def step_end_test(meta: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Predicate of the frames at ends of steps, where the method solves its equations; others are interpolated."""
    if not meta.get("between_steps", False):
        return lambda t: np.ones(len(t), bool)
    t0, t1 = meta["t0"], meta["t1"]
    if "h" not in meta:
        # Of controlled steps only the first start and the last end are known afterwards.
        return lambda t: (t == t0) | (t == t1)
    grids = meta.get("legs", [[t0, meta["h"], np.inf]])
    return lambda t: np.any([_on(t, *grid) for grid in grids], axis=0)


def _on(t: np.ndarray, t0: float, h: float, count: float) -> np.ndarray:
    """Whether times lie on a grid."""
    steps = (t - t0) / h
    return (np.abs(steps - np.round(steps)) < 1e-9) & (steps > -0.5) & (steps < count + 0.5)


def last_step_ends(t: np.ndarray, meta: Mapping[str, Any]) -> np.ndarray:
    """For each frame the number of the last end of a step up to it; before all of these, that of the first."""
    is_end = step_end_test(meta)(t)
    first = int(np.argmax(is_end))
    return np.maximum.accumulate(np.where(is_end, np.arange(len(t)), first))
