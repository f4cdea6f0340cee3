"""Which of many shapes may touch soon, and which bodies hang together by contacts. On the host.

Checks of starts use it where contacts are in lists; steps search by `contact.sparse.candidates`.

Boxes around shapes (`AbstractShape.bounds`) are compared, grown by a margin, so that a list of pairs lasts until a
box has left the place that it was made for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

FEW = 30
"""Shapes up to which all pairs are compared."""


class CandidatePairs(NamedTuple):
    """Pairs of shapes whose boxes come within a margin.

    - `pairs`: numbers of shapes, the smaller one first, in order; (p, 2).
    - `lower`, `upper`: the boxes that they belong to; (n, 3). - `margin`: a length.
    """

    pairs: Int[np.ndarray, "p 2"]
    lower: Float[np.ndarray, "n 3"]
    upper: Float[np.ndarray, "n 3"]
    margin: float

    def holds(self, lower: Float[np.ndarray, "n 3"], upper: Float[np.ndarray, "n 3"]) -> bool:
        """Whether no pair is missing for these boxes: each is within half a margin of the one at the search."""
        half = 0.5 * self.margin
        return bool(np.all(lower >= self.lower - half) and np.all(upper <= self.upper + half))


def find_pairs(lower: Float[np.ndarray, "n 3"], upper: Float[np.ndarray, "n 3"], margin: float) -> CandidatePairs:
    """Pairs of boxes that are no farther apart than a margin along any axis.

    Few are all compared; of many, those that overlap along the axis along which they are spread most, in sorted order.
    """
    lower, upper = np.asarray(lower, float), np.asarray(upper, float)
    first, second = _all_pairs(len(lower)) if len(lower) <= FEW else _sweep(lower, upper, margin)
    meets = np.all((lower[first] <= upper[second] + margin) & (lower[second] <= upper[first] + margin), axis=1)
    pairs = np.sort(np.stack((first[meets], second[meets]), axis=1), axis=1)
    return CandidatePairs(pairs[np.lexsort(pairs.T[::-1])], lower, upper, margin)


def _all_pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(count, 1)


def _sweep(lower: np.ndarray, upper: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of boxes that come within a margin along one axis."""
    bounded = np.all(np.isfinite(lower) & np.isfinite(upper), axis=1)
    axis = int(np.argmax(np.ptp(lower[bounded] + upper[bounded], axis=0))) if bounded.any() else 0
    order = np.argsort(lower[:, axis], kind="stable")
    starts = lower[order, axis]
    # Of each box those that begin after it, and before it ends.
    ends = np.searchsorted(starts, upper[order, axis] + margin, side="right")
    counts = np.maximum(ends - np.arange(1, len(order) + 1), 0)
    first = np.repeat(np.arange(len(order)), counts)
    offsets = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[first], order[first + 1 + offsets]


def label_islands(count: int, pairs: Int[np.ndarray, "c 2"], fixed: Int[np.ndarray, " f"]) -> Int[np.ndarray, " c"]:
    """The island of each contact: contacts have the same one where bodies that move connect them.

    - `count`: of bodies. - `pairs`: the two bodies of each contact. - `fixed`: bodies that connect none, as the ground.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = np.asarray(pairs, int).reshape(-1, 2)
    moves = np.ones(count, bool)
    moves[np.asarray(fixed, int)] = False
    edges = pairs[np.all(moves[pairs], axis=1)]
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count))
    labels = connected_components(graph, directed=False)[1]
    own = np.where(moves[pairs[:, 0]], labels[pairs[:, 0]], labels[pairs[:, 1]])
    return np.unique(own, return_inverse=True)[1].reshape(-1)
