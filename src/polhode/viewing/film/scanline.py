"""Scanline rasterisation of triangles and discs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

_MOST = 3_000_000
"""Pixels that are processed together."""


class Scanlines(NamedTuple):
    """Runs of adjacent pixels in a row that shapes cover, several for each triangle or disc.

    - `which`: number of the triangle or disc, (n,). - `row`, `first`, `count`: where the pixels are, (n,) each.
    """

    which: np.ndarray
    row: np.ndarray
    first: np.ndarray
    count: np.ndarray

    def pixels(self, width: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Number of the span, number in its row and number in the picture of all pixels, some spans at a time."""
        ends = np.cumsum(self.count)
        start = 0
        while start < len(ends):
            offset = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, offset + _MOST, side="right")))
            count, first = self.count[start:stop], self.first[start:stop]
            span = np.repeat(np.arange(start, stop), count)
            x = np.arange(len(span)) - np.repeat(ends[start:stop] - count - offset - first, count)
            yield span, x, self.row[span] * width + x
            start = stop

    def covered_pixels(self, width: int) -> np.ndarray:
        """Numbers of the pixels that lie in some span, in order."""
        starts = self.row * width + self.first
        if not len(starts):
            return starts
        first = starts.min()
        starts, ends = starts - first, starts + self.count - first
        changes = np.bincount(starts, minlength=ends.max() + 1) - np.bincount(ends)
        return first + np.flatnonzero(np.cumsum(changes))


def of_triangles(corners: np.ndarray, size: tuple[int, int]) -> Scanlines:
    """Pixels whose centres lie in triangles (m, 3, 2), those on their edges among them.

    A side that two triangles share gets the same numbers in both, so there are no gaps between them.
    """
    width, height = size
    x, y = corners[..., 0], corners[..., 1]
    which, row = _rows(y.min(axis=1), y.max(axis=1), height)
    low, high = np.full(len(which), -np.inf), np.full(len(which), np.inf)
    turn = np.sign((x[:, 1] - x[:, 0]) * (y[:, 2] - y[:, 0]) - (y[:, 1] - y[:, 0]) * (x[:, 2] - x[:, 0]))
    for i in range(3):
        j = (i + 1) % 3
        # (a x + b y + c) > 0 on the side of the triangle.
        a, b = turn * (y[:, i] - y[:, j]), turn * (x[:, j] - x[:, i])
        c = turn * (x[:, i] * y[:, j] - x[:, j] * y[:, i])
        rest = b[which] * (row + 0.5) + c[which]
        slope = a[which]
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = -rest / slope
        low = np.where(slope > 0, np.maximum(low, meets), low)
        high = np.where(slope < 0, np.minimum(high, meets), high)
        high = np.where((slope == 0) & (rest < 0), -np.inf, high)
    high = np.where(turn[which] == 0, -np.inf, high)
    return _clip(which, row, low, high, width)


def of_discs(centres: np.ndarray, radii: np.ndarray, size: tuple[int, int]) -> Scanlines:
    """Pixels whose centres lie in discs with centres (n, 2) and radii (n,)."""
    width, height = size
    which, row = _rows(centres[:, 1] - radii, centres[:, 1] + radii, height)
    reach = np.sqrt(np.maximum(radii[which] ** 2 - (row + 0.5 - centres[which, 1]) ** 2, 0.0))
    return _clip(which, row, centres[which, 0] - reach, centres[which, 0] + reach, width)


def _rows(low: np.ndarray, high: np.ndarray, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of shapes, and of rows whose middles lie between two heights of each."""
    first = np.ceil(np.clip(low - 0.5, 0, height)).astype(int)
    count = np.maximum(np.floor(np.clip(high - 0.5, -1, height - 1)).astype(int) + 1 - first, 0)
    which = np.repeat(np.arange(len(first)), count)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(count) - count - first, count)


def _clip(which: np.ndarray, row: np.ndarray, low: np.ndarray, high: np.ndarray, width: int) -> Scanlines:
    """Runs of pixels between two positions of each row, without empty ones."""
    first = np.ceil(np.clip(low - 0.5, 0, width)).astype(int)
    count = np.floor(np.clip(high - 0.5, -1, width - 1)).astype(int) + 1 - first
    indices = np.flatnonzero(count > 0)
    return Scanlines(which[indices], row[indices], first[indices], count[indices])
