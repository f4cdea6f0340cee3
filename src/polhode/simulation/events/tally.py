"""Tally of the events of a run: events that accumulate, or exceed their limit, end it."""

from __future__ import annotations

from typing import NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

_CROWD = 20
"""Consecutive events at the time resolution after which Zeno behaviour is reported."""

_SOON = 1e6
"""Distance of two events, in units of the time resolution, up to which the later one keeps the count of a crowd."""


class EventTally(NamedTuple):
    """Time of the last event, NaN before the first; length of the present crowd; number of records."""

    last: Float[Array, ""]
    crowd: Int[Array, ""]
    count: Int[Array, ""]

    @classmethod
    def empty(cls, count: int = 0) -> Self:
        """Without an event, or without one of this run, after `count` records."""
        return cls(jnp.full((), jnp.nan), jnp.zeros((), jnp.int64), jnp.full((), count, jnp.int64))

    def add(self, t: Array, records: Array | int, tolerance: float) -> Self:
        """After an instant with events; `tolerance`: the shortest of theirs."""
        shortest = jnp.maximum(tolerance, 4 * jnp.finfo(float).eps * jnp.abs(t))
        since = jnp.abs(t - self.last)
        # At contacts that rounding opens and closes, some occur a little later.
        later = jnp.where(since <= _SOON * shortest, self.crowd, 0)
        crowd = jnp.where(since <= 4 * shortest, self.crowd + 1, later)
        return type(self)(t, crowd, self.count + records)

    def is_full(self, most: Array | int) -> Array:
        """Whether events accumulate, or there are as many as a run may have."""
        return (self.crowd >= _CROWD) | (self.count >= most)
