"""Frames: saved instants of a run."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array

from polhode.systems.base import State


class Frames(NamedTuple):
    """Saved instants of a run; every leaf has leading axis n. Blocks of frames are what stores append.

    - `t`: (n,)
    - `state`: pytree
    - `outputs`, `invariants`, `residuals`: name → (n, …), or a pytree of such arrays
    - `multipliers`: (n, m) or None
    """

    t: Array
    state: State
    outputs: dict[str, Array]
    invariants: dict[str, Array]
    residuals: dict[str, Array]
    multipliers: Array | None
