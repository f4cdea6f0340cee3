"""Parts of runs inside jit, grad and vmap, with events and without: steps are determined first, then replayed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.frames import Frames
from polhode.results.observer import Observer


def without_derivatives(tree: Any) -> Any:
    """The same arrays as constants of differentiation."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if isinstance(x, jax.Array | np.ndarray) else x, tree)


def put_row(rows: Any, index: Array, row: Any) -> Any:
    """Stacked rows with one of them; with an index beyond the last one, as they are."""
    return jax.tree.map(lambda a, x: a.at[index].set(x, mode="drop"), rows, row)


def nan_where_missing(there: Array, rows: Any) -> Any:
    """Frames, which are NaN where a run that stopped early has no state; its result code says why."""
    keep = jax.vmap(lambda k, row: jnp.where(k, row, jnp.nan))
    return jax.tree.map(lambda x: keep(there, x), rows)


def observe(observer: Observer, t: Array, state: Any, multipliers: Any) -> Frames:
    """Frames of stacked states."""
    observation = jax.vmap(observer)(t, state)
    return Frames(t, state, observation.outputs, observation.invariants, observation.residuals, multipliers)
