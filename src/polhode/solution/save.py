"""Saving of solutions in memory as stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from polhode.storage.store_choice import store_class

if TYPE_CHECKING:
    from polhode.results.protocols import Run


def save(solution: Run, path: str | Path, *, overwrite: bool = False) -> None:
    """Writes a solution as a run store; the suffix says of which kind. Raises ValueError for a batch of solutions."""
    if np.ndim(solution.t) != 1:
        raise ValueError(
            f"`t` of this solution has {np.ndim(solution.t)} axes, so it is not one run; a store holds one. Of a "
            "batch, as `jax.vmap` makes them, save each case: `jax.tree.map(lambda x: x[k], solution).save(…)`."
        )
    store = store_class(path).create(path, dict(solution.meta), overwrite=overwrite, expected=len(solution.t))
    try:
        for frames in solution.blocks():
            store.append(frames, None)
        store.close(solution.stats)
    finally:
        store.release()
