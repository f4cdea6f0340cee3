"""Sums of values at fixed places, done by gathering: several times faster than scattering on every backend."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.known_places import add_entries, take

_GATHERS = 4
"""Places that receive more values than this get the rest scattered: a gather vectorises and a scatter does not, but
each gather reads all places where the scatter reads only the rest."""


class GatherSum:
    """Adds up `values[k]` at `targets[k]`, for places known beforehand.

    **Arguments:**

    - `targets`: integers; those outside 0 … size - 1 are dropped.
    - `size`: length of the result.
    """

    def __init__(self, targets: np.ndarray, size: int) -> None:
        self.size = size
        indices = np.flatnonzero((targets >= 0) & (targets < size))
        indices = indices[np.argsort(targets[indices], kind="stable")]
        sorted_targets = targets[indices]
        first = np.searchsorted(sorted_targets, sorted_targets)
        rank = np.arange(indices.size) - first
        nothing = targets.size
        self._gathered: list[np.ndarray] = []
        for turn in range(min(_GATHERS, rank.max(initial=-1) + 1)):
            sources = np.full(size, nothing, np.int32)
            sources[sorted_targets[rank == turn]] = indices[rank == turn]
            self._gathered.append(sources)
        self._scattered = indices[rank >= _GATHERS].astype(np.int32), sorted_targets[rank >= _GATHERS].astype(np.int32)

    def __call__(self, values: Sequence[Array]) -> Float[Array, " size"]:
        """The sums; `values` are arrays that follow each other, in C order."""
        flat = jnp.concatenate([*(v.reshape(-1) for v in values), jnp.zeros(1)])
        out = jnp.zeros(self.size)
        for sources in self._gathered:
            out = out + take(flat, sources)
        sources, targets = self._scattered
        return add_entries(out, take(flat, sources), targets)
