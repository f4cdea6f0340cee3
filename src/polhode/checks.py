"""Checks of parameters. Concrete values are validated; values traced by JAX pass unchecked."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from polhode.compiler.numpy.eager import array_of

_LONGEST = 120
"""Characters of a value in a message."""

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 4, _LONGEST, _LONGEST
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = 12


def is_concrete(*values: Any) -> bool:
    """Whether no value is traced by JAX, so that its numbers can be read."""
    if all(isinstance(value, np.ndarray | float | int) for value in values):
        # The usual case, tested first for models with thousands of bodies.
        return True
    try:
        return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))
    except Exception:
        # No pytree: lists nested thousands deep, or dictionaries whose keys have no order.
        return True


def is_zero(value: Any) -> bool:
    """Whether a number, or None, is known to be zero, so that its term can be left out."""
    return value is None or (is_concrete(value) and not np.any(np.asarray(value)))


def short_repr(value: Any) -> str:
    """The `repr` of a value, shortened for messages; its type where `repr` fails."""
    try:
        text = _REPR.repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def numbers(name: str, value: Any, meaning: str) -> np.ndarray:
    """Concrete real numbers of any shape as float64, infinite ones included. `meaning` is for the error.

    Raises ValueError for strings, booleans, complex numbers, masked arrays, and numbers too large for a float.
    """
    try:
        array = np.asarray(value)
        kind = "masked" if isinstance(value, np.ma.MaskedArray) else array.dtype.kind
        if kind == "O" and all(type(x) is int for x in array.flat):
            # Whole numbers beyond 64 bits; those beyond 1e308 overflow.
            return array.astype(np.float64)
        if kind in "fiu":
            return array.astype(np.float64)
    except Exception as error:
        # Conversions of foreign objects may raise anything.
        raise ValueError(f"`{name}` must be numeric ({meaning}), got {short_repr(value)}.") from error
    raise ValueError(f"`{name}` must be numeric ({meaning}), got {short_repr(value)}.")


def finite(name: str, value: Any, meaning: str) -> Any:
    """Finite real numbers of any shape, NumPy's unless they are traced."""
    if not is_concrete(value):
        return jnp.asarray(value, dtype=float)
    result = numbers(name, value, meaning)
    if not np.isfinite(result).all():
        raise ValueError(f"`{name}` must be {meaning}, of finite real numbers, got {short_repr(value)}.")
    return result


def refuse_parameters(remedy: str, **values: Any) -> None:
    """For numbers that are computed with at once: what stands for an array that may change later would be frozen.

    Raises ValueError for a `Parameter` of a model and expressions of it, also in lists and tuples.
    """
    for name, value in values.items():
        if not isinstance(value, np.ndarray) and any(map(_stands_for_array, _leaves(value))):
            raise ValueError(
                f"`{name}` is computed with at once and would not see a Parameter change, got {short_repr(value)}. "
                f"{remedy}"
            )


def _stands_for_array(value: Any) -> bool:
    return hasattr(value, "__jax_array__") and not isinstance(value, jax.Array | Tracer)


def _leaves(value: Any) -> list[Any]:
    try:
        return jax.tree.leaves(value)
    except Exception:
        # No pytree, as in `is_concrete`.
        return []


def shape(name: str, value: Any, meaning: str) -> tuple[int, ...]:
    """The shape of numbers, which may be traced."""
    return numbers(name, value, meaning).shape if is_concrete(value) else np.shape(value)


def readable(values: Any) -> Any:
    """A tree with its leaves as NumPy arrays, which are faster in single operations, unless they are traced."""
    return jax.tree.map(np.asarray, values) if is_concrete(values) else values


def stack(values: Sequence[Any]) -> Array:
    """Arrays of one shape, stacked."""
    if is_concrete(values):
        return array_of(np.stack([np.asarray(value) for value in values]))
    return jnp.stack([jnp.asarray(value) for value in values])


def array(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    """`value` as a finite float64 array of exactly `shape`; `meaning` is for the error."""
    result = values(name, value, shape, meaning)
    return array_of(result) if isinstance(result, np.ndarray) else result


def values(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Any:
    """Like `array`, but a NumPy array unless `value` is traced."""
    if is_concrete(value):
        # NumPy keeps concrete values readable even while a surrounding function is being traced.
        result: Any = numbers(name, value, meaning)
    else:
        try:
            result = jnp.asarray(value, dtype=jnp.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{name}` must be numeric ({meaning}), got {short_repr(value)}.") from error
    if result.shape != shape:
        form = "a number" if shape == () else f"an array of shape {shape}"
        raise ValueError(
            f"`{name}` must be {form} ({meaning}), got shape {result.shape}. Batch problems with jax.vmap."
        )
    if isinstance(result, np.ndarray) and not np.all(np.isfinite(result)):
        raise ValueError(f"`{name}` must be finite ({meaning}), got {short_repr(value)}.")
    return result


def number(name: str, value: Any, meaning: str) -> float:
    """`value` as one finite Python float; not for traced values."""
    result = numbers(name, value, meaning)
    if result.shape != ():
        raise ValueError(f"`{name}` must be one number ({meaning}), got shape {result.shape}.")
    if not np.isfinite(result):
        raise ValueError(f"`{name}` must be finite ({meaning}), got {short_repr(value)}.")
    return float(result)


def flag(name: str, value: Any) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}` must be True or False, got {short_repr(value)}.")
    return bool(value)


def as_list(name: str, value: Any, meaning: str) -> list[Any]:
    """`value` as a list, if it is iterable and neither a string nor a mapping."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"`{name}` must be a list ({meaning}), got {short_repr(value)}.")
    try:
        return list(value)
    except Exception as error:
        raise ValueError(f"`{name}` must be a list ({meaning}), got {short_repr(value)}.") from error


def sequence(name: str, value: Any, meaning: str) -> Sequence[Any]:
    """`value` if it is a sequence other than a string."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ValueError(f"`{name}` must be a list ({meaning}), got {short_repr(value)}.")
    return value


def path(name: str, value: Any) -> Path:
    """`value` as a path, if it is a path or a string."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ValueError(f"`{name}` must be a path, got {short_repr(value)}.")
    return Path(os.fsdecode(value))


def word(name: str, value: Any, meaning: str) -> str:
    """`value` if it is a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"`{name}` must be a word ({meaning}), got {short_repr(value)}.")
    return value


def extend_name(name: Any, suffix: str) -> str | None:
    """The name of a part of something named, None without a name. Raises ValueError for what is no word."""
    return None if name is None else f"{word('name', name, 'of a part of a model')}{suffix}"


def positive(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    """`array` whose entries must all be greater than zero."""
    result = array(name, value, shape, meaning)
    if is_concrete(value) and not np.all(numbers(name, value, meaning) > 0):
        raise ValueError(f"`{name}` must be greater than zero ({meaning}), got {short_repr(value)}.")
    return result


def not_negative(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    """`array` whose entries must all be at least zero."""
    result = array(name, value, shape, meaning)
    if is_concrete(value) and np.any(numbers(name, value, meaning) < 0):
        raise ValueError(f"`{name}` must not be negative ({meaning}), got {short_repr(value)}.")
    return result


def unit_vectors(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    """`array` whose rows along the last axis must have length one to 1e-8."""
    result = array(name, value, shape, meaning)
    if is_concrete(value):
        length = np.linalg.norm(numbers(name, value, meaning), axis=-1)
        if np.any(np.abs(length - 1) > 1e-8):
            raise ValueError(
                f"`{name}` must hold unit vectors ({meaning}), got lengths {length}. Divide each by its length."
            )
    return result


def tangent_vectors(name: str, value: Any, base: Any, meaning: str) -> Array:
    """`array` of the shape of `base` whose rows must be perpendicular to those of `base` to 1e-8."""
    result = array(name, value, np.shape(base), meaning)
    if is_concrete(value, base):
        vectors = numbers(name, value, meaning)
        along = np.sum(vectors * np.asarray(base), axis=-1)
        if np.any(np.abs(along) > 1e-8 * (1 + np.linalg.norm(vectors, axis=-1))):
            raise ValueError(
                f"`{name}` must be perpendicular to its direction ({meaning}), got components {along} along it. "
                "Subtract them: omega - q (q·omega)."
            )
    return result


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """`value` if it is one of `options`; otherwise an error that lists them."""
    names = list(options)
    if not isinstance(value, str) or value not in names:
        options_text = ", ".join(f"`{k}`" for k in names)
        raise ValueError(f"`{name}` must be one of {options_text}; got {short_repr(value)}.{nearest(value, names)}")
    return str(value)


def nearest(value: Any, options: Iterable[str]) -> str:
    """A sentence that suggests the closest option, for the end of a message; empty if none is close."""
    near = get_close_matches(value, list(options), n=1) if isinstance(value, str) else ()
    return f" Did you mean `{near[0]}`?" if near else ""


def count(name: str, value: Any, meaning: str, most: int = 10**9) -> int:
    """`value` as an integer of at least one."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"`{name}` must be an integer of at least 1 ({meaning}), got {short_repr(value)}.")
    if value > most:
        raise ValueError(f"`{name}` must be at most {most} ({meaning}), got {short_repr(value)}.")
    return int(value)


def not_a_problem(value: Any, requirement: str = "a Problem or a system") -> ValueError:
    """The error for a value that is not `requirement`, with how to get a problem from a name or a model."""
    remedy = ""
    if isinstance(value, str):
        remedy = f" For a name use `problems.get({short_repr(value)})`."
    elif callable(getattr(value, "problem", None)):
        remedy = " Pass `model.problem(...)`, a model in coordinates and with a span."
    return ValueError(f"`problem` must be {requirement}, got {type(value).__name__}.{remedy}")
