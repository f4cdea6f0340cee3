"""Conversion between pytrees of arrays and flat lists of scalars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def split(tree: Any) -> list[jax.Array]:
    """All elements of a pytree of arrays as one flat list of JAX scalars."""
    leaves = [jnp.asarray(x) for x in jax.tree.leaves(tree)]
    return [x[index] if x.shape else x for x in leaves for index in np.ndindex(x.shape)]


def join(flat: Sequence[Any], like: Any) -> Any:
    """Inverse of `split` for a pytree of the structure of `like`."""
    leaves, structure = jax.tree.flatten(like)
    arrays, at = [], 0
    for leaf in leaves:
        size = math.prod(leaf.shape)
        arrays.append(stack(flat[at : at + size], leaf))
        at += size
    return jax.tree.unflatten(structure, arrays)


def stack(scalars: Sequence[Any], aval: Any) -> jax.Array:
    """The array of a shape and dtype with these elements."""
    if aval.shape == ():
        return jnp.asarray(scalars[0], dtype=aval.dtype)
    if len(scalars) == 0:
        return jnp.zeros(aval.shape, aval.dtype)
    return jnp.stack([jnp.asarray(x, dtype=aval.dtype) for x in scalars]).reshape(aval.shape)
