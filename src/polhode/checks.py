"""Checks of parameters that builders share. Concrete values are validated, traced ones pass unread."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array


def is_concrete(*values: Any) -> bool:
    """Whether no value is being traced by JAX, so that its numbers can be looked at."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def array(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    """`value` as a finite float64 array of exactly `shape`; `meaning` is said in the error."""
    try:
        # NumPy keeps concrete values readable even while a surrounding function is being traced.
        result = np.asarray(value, dtype=np.float64) if is_concrete(value) else jnp.asarray(value, dtype=jnp.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be numeric ({meaning}), got {value!r}.") from error
    if result.shape != shape:
        wanted = "a number" if shape == () else f"an array of shape {shape}"
        raise ValueError(
            f"`{name}` must be {wanted} ({meaning}), got shape {result.shape}. Batch problems with jax.vmap."
        )
    if isinstance(result, np.ndarray) and not np.all(np.isfinite(result)):
        raise ValueError(f"`{name}` must be finite ({meaning}), got {value!r}.")
    return jnp.asarray(result)


def positive(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    """`array` whose entries must all be greater than zero."""
    result = array(name, value, shape, meaning)
    if is_concrete(value) and not np.all(np.asarray(value) > 0):
        raise ValueError(f"`{name}` must be greater than zero ({meaning}), got {value!r}.")
    return result


def unit_vectors(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    """`array` whose rows along the last axis must have length one to 1e-8."""
    result = array(name, value, shape, meaning)
    if is_concrete(value):
        length = np.linalg.norm(np.asarray(value), axis=-1)
        if np.any(np.abs(length - 1) > 1e-8):
            raise ValueError(
                f"`{name}` must hold unit vectors ({meaning}), got lengths {length}. Divide each by its length."
            )
    return result


def tangent_vectors(name: str, value: Any, base: Any, meaning: str) -> Array:
    """`array` of the shape of `base` whose rows must be perpendicular to those of `base` to 1e-8."""
    result = array(name, value, np.shape(base), meaning)
    if is_concrete(value, base):
        along = np.sum(np.asarray(value) * np.asarray(base), axis=-1)
        if np.any(np.abs(along) > 1e-8 * (1 + np.linalg.norm(np.asarray(value), axis=-1))):
            raise ValueError(
                f"`{name}` must be perpendicular to its direction ({meaning}), got components {along} along it. "
                "Subtract them: omega - q (q·omega)."
            )
    return result


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """`value` if it is one of `options`; otherwise an error that lists them."""
    known = list(options)
    if value not in known:
        listed = ", ".join(f"`{k}`" for k in known)
        raise ValueError(f"`{name}` must be one of {listed}; got {value!r}.{nearest(value, known)}")
    return str(value)


def nearest(value: Any, options: Iterable[str]) -> str:
    """A sentence that names the nearest option, for the end of a message; empty if none is near."""
    near = get_close_matches(str(value), list(options), n=1)
    return f" Did you mean `{near[0]}`?" if near else ""


def count(name: str, value: Any, meaning: str) -> int:
    """`value` as an integer of at least one."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"`{name}` must be an integer of at least 1 ({meaning}), got {value!r}.")
    return int(value)
