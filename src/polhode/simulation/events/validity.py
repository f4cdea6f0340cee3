"""Validity of what the functions of events return: states that keep the constraints, and systems of the same kind."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.systems.base import AbstractSystem, State

_SPARE = 1e-12
"""Increase of the violation of constraints that an action may cause."""


def violations(source: AbstractSystem, t: Array, state: State) -> Array:
    """The largest violation of each kind of constraint."""
    return jnp.stack([jnp.max(jnp.abs(x), initial=0.0) for x in source.residuals(t, state).values()])


def are_no_worse(before: Array, after: Array) -> Array:
    """Whether the violations after an action are those before, up to the method's."""
    return jnp.all(after <= 2 * before + _SPARE)


def differ_in_numbers(a: Any, b: Any) -> bool:
    """Whether two systems differ in numbers only."""
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.shape(x) == np.shape(y) if eqx.is_array_like(x) else x is y or x == y for x, y in pairs)
