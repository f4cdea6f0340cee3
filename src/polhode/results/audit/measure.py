"""Violations of the laws of contact in all frames of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Measure(NamedTuple):
    """A violation in all frames, n of them, with its size.

    - `values`: in their own unit. - `relative`: to sizes. - `imposed`: whether the equations of a step keep it.
    - `fault`: what a violation means, in words. - `where`: names of the worst contact in each frame, if it has one.
    """

    values: Float[np.ndarray, " n"]
    relative: Float[np.ndarray, " n"]
    imposed: bool
    fault: str
    where: tuple[str, ...] | None = None


def worst(values: np.ndarray, relative: np.ndarray, imposed: bool, fault: str, names: Sequence[str]) -> Measure:
    """The worst of all contacts in each frame."""
    numbers = np.argmax(np.where(np.isfinite(relative), relative, np.inf), axis=-1)
    rows = np.arange(len(numbers))
    where = tuple(str(names[k]) for k in numbers)
    return Measure(values[rows, numbers], relative[rows, numbers], imposed, fault, where)


def over(values: np.ndarray, size: np.ndarray | float) -> np.ndarray:
    """A ratio that is 0 where nothing is violated, also of nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, values / size, 0.0)
