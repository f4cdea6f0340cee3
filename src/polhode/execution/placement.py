"""Where arrays are."""

from __future__ import annotations

from typing import Any

import jax


def on_host(tree: Any) -> bool:
    """Whether JAX computes on the CPU, and all arrays of a tree are there, each in one piece."""
    if jax.default_backend() != "cpu":
        return False
    return all(len(x.sharding.device_set) == 1 for x in jax.tree.leaves(tree) if isinstance(x, jax.Array))
