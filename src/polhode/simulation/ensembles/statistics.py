"""Statistics of an ensemble, gathered from batch to batch without keeping any frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode import checks

_FAR = 2.0**1000
"""Numbers beyond it are counted in the outermost bin, so that a range can double without an overflow."""


class Moments:
    """Number, mean, deviation and extremes at every place of an array, of members that have a finite number there.

    Means and squares of batches are put together by the formulas of T. F. Chan, G. H. Golub and R. J. LeVeque (1979).
    Nothing but the variance overflows, however large the numbers are: sums are of parts of the largest one, and kept is
    the root of the mean square.

    **Arguments:**

    - `shape`: of one member's array.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = np.zeros(shape, np.int64)
        self.mean, self._root = np.zeros(shape), np.zeros(shape)
        self.least, self.largest = np.full(shape, np.inf), np.full(shape, -np.inf)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviation, with n - 1 in the denominator; NaN where there are fewer than two."""
        less = np.maximum(self.count - 1, 1)
        with np.errstate(over="ignore"):
            return np.where(self.count > 1, self._root * np.sqrt(self.count / less), np.nan)

    @property
    def variance(self) -> np.ndarray:
        """The square of the deviation; infinite where that is more than the largest number."""
        with np.errstate(over="ignore"):
            return self.deviation**2

    def add(self, x: np.ndarray) -> None:
        """Another batch, of shape (members, …)."""
        there = np.isfinite(x)
        n = there.sum(axis=0)
        x = np.where(there, x, 0.0)
        # A power of two: dividing by it is exact.
        unit = np.ldexp(1.0, np.frexp(np.abs(x).max(axis=0))[1] - 1)
        mean = (x / unit).sum(axis=0) / np.maximum(n, 1)
        root = np.sqrt((np.where(there, x / unit - mean, 0.0) ** 2).sum(axis=0) / np.maximum(n, 1))
        self._join(n, mean * unit, root * unit)
        self.least = np.minimum(self.least, np.where(there, x, np.inf).min(axis=0))
        self.largest = np.maximum(self.largest, np.where(there, x, -np.inf).max(axis=0))

    def _join(self, n: np.ndarray, mean: np.ndarray, root: np.ndarray) -> None:
        total = self.count + n
        old, new = self.count / np.maximum(total, 1), n / np.maximum(total, 1)
        half_apart = mean / 2 - self.mean / 2
        within = np.hypot(self._root * np.sqrt(old), root * np.sqrt(new))
        self._root = np.hypot(within, half_apart * (2 * np.sqrt(old * new)))
        self.mean = self.mean * old + mean * new
        self.count = total


class Histogram:
    """A histogram at every place of an array, whose range doubles when something lies outside.

    Quantiles are right to the width of the bin that contains them.

    **Arguments:**

    - `shape`: of one member's array. - `bins`: an even number of bins.
    """

    def __init__(self, shape: tuple[int, ...], bins: int) -> None:
        self._shape, self.bins = shape, bins
        self.counts = np.zeros((int(np.prod(shape)), bins), np.int64)
        self.low: np.ndarray | None = None
        self.width = np.zeros(len(self.counts))

    def add(self, x: np.ndarray) -> None:
        """Another batch, of shape (members, …)."""
        flat = x.reshape(len(x), -1)
        there = np.isfinite(flat)
        flat = np.clip(flat, -_FAR, _FAR)
        least, largest = np.where(there, flat, np.inf).min(axis=0), np.where(there, flat, -np.inf).max(axis=0)
        if self.low is None:
            self.low = np.full(len(self.counts), np.nan)
        new = np.isnan(self.low) & there.any(axis=0)
        reach = np.maximum(largest - least, 1e-12 * np.maximum(np.abs(least), 1e-290))
        self.width = np.where(new, 1.0001 * reach / self.bins, self.width)
        self.low = np.where(new, least, self.low)
        self._widen(least, largest)
        with np.errstate(invalid="ignore", divide="ignore"):
            places = np.clip((flat - self.low) / self.width, 0, self.bins - 1)
        row, column = np.nonzero(there)
        np.add.at(self.counts, (column, places[row, column].astype(np.int64)), 1)

    def edges(self) -> np.ndarray:
        """The edges of the bins, shape (…, bins + 1)."""
        low = np.full(len(self.counts), np.nan) if self.low is None else self.low
        return (low[:, None] + self.width[:, None] * np.arange(self.bins + 1)).reshape(*self._shape, -1)

    def quantile(self, q: float) -> np.ndarray:
        """The quantile q, interpolated linearly within its bin."""
        total = self.counts.sum(axis=1)
        below = np.cumsum(self.counts, axis=1)
        target = q * total
        k = np.minimum((below < target[:, None]).sum(axis=1), self.bins - 1)
        here = np.arange(len(k))
        inside = self.counts[here, k]
        part = (target - (below[here, k] - inside)) / np.maximum(inside, 1)
        low = np.full(len(self.counts), np.nan) if self.low is None else self.low
        return np.where(total > 0, low + (k + part) * self.width, np.nan).reshape(self._shape)

    def _widen(self, least: np.ndarray, largest: np.ndarray) -> None:
        """Doubles ranges until all lies inside, two bins becoming one."""
        assert self.low is not None
        half = self.bins // 2
        while True:
            up = largest >= self.low + self.bins * self.width
            down = least < self.low
            if not (up | down).any():
                return
            pairs = self.counts.reshape(len(self.counts), half, 2).sum(axis=2)
            none = np.zeros_like(pairs)
            # Downwards where nothing lies above, so that a range may grow to both sides in turn.
            falling, rising = down, up & ~down
            self.counts[falling] = np.concatenate([none, pairs], axis=1)[falling]
            self.counts[rising] = np.concatenate([pairs, none], axis=1)[rising]
            self.low = np.where(falling, self.low - self.bins * self.width, self.low)
            self.width = np.where(falling | rising, 2 * self.width, self.width)


class Summary:
    """Statistics of all variables.

    **Arguments:**

    - `quantiles`: which of them; none: there are no histograms. - `bins`: of the histograms.
    """

    def __init__(self, quantiles: Sequence[float], bins: int) -> None:
        values = checks.as_list("quantiles", quantiles, "parts of the members")
        self._quantiles = [checks.number("quantiles", q, "part of the members") for q in values]
        if any(not 0 <= q <= 1 for q in self._quantiles):
            raise ValueError(f"`quantiles` must lie between 0 and 1, got {list(quantiles)}.")
        self._bins = checks.count("bins", bins, "bins of a histogram")
        if self._bins % 2:
            raise ValueError(f"`bins` must be even, so that two can become one, got {bins}.")
        self._moments: dict[str, Moments] = {}
        self._histograms: dict[str, Histogram] = {}

    def add(self, frames: dict[str, np.ndarray]) -> None:
        """Another batch."""
        for name, x in frames.items():
            if x.dtype.kind != "f" or name == "time":
                continue
            shape = x.shape[1:]
            self._moments.setdefault(name, Moments(shape)).add(x)
            if self._quantiles:
                self._histograms.setdefault(name, Histogram(shape, self._bins)).add(x)

    def variables(self, labels: dict[str, tuple[str, ...]]) -> dict[str, tuple[tuple[str, ...], Any]]:
        """All of them with their dimensions, for a data set; `labels` are those of the frames."""
        result: dict[str, tuple[tuple[str, ...], Any]] = {}
        for name, m in self._moments.items():
            dims = labels[name]
            for word, x in (("count", m.count), ("mean", m.mean), ("deviation", m.deviation), ("variance", m.variance)):
                result[f"{name}.{word}"] = (dims, x)
            there = m.count > 0
            result[f"{name}.min"] = (dims, np.where(there, m.least, np.nan))
            result[f"{name}.max"] = (dims, np.where(there, m.largest, np.nan))
        for name, h in self._histograms.items():
            dims = labels[name]
            quantiles = np.stack([h.quantile(q) for q in self._quantiles])
            result[f"{name}.quantiles"] = (("quantile", *dims), quantiles)
            result[f"{name}.histogram"] = ((*dims, "bin"), h.counts.reshape(*self._moments[name].mean.shape, -1))
            result[f"{name}.edges"] = ((*dims, "edge"), h.edges())
        if self._histograms:
            result["quantile"] = (("quantile",), np.array(self._quantiles))
        return result
