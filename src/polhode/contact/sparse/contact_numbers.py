"""Numbers of contacts between many shapes: of the pair of shapes, and of the point of the pair."""

from __future__ import annotations

import numpy as np
from jaxtyping import Array, Int

POINTS = 4
"""Most points of a pair."""


def number(first: Array, second: Array, point: Array, count: int) -> Array:
    """The number of a contact; `count`: of shapes."""
    return POINTS * (first * count + second) + point


def pairs_of_numbers(numbers: np.ndarray, kinds: Int[np.ndarray, " s"]) -> Int[np.ndarray, "p 2"]:
    """The pairs of shapes that have contacts among these, once, in the order of their kinds; -1 is none."""
    codes = np.unique(np.asarray(numbers).astype(np.int64)) // POINTS
    codes = np.unique(codes[codes >= 0])
    pairs = np.stack((codes // len(kinds), codes % len(kinds)), axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0], kinds[pairs[:, 1]], kinds[pairs[:, 0]]))]
