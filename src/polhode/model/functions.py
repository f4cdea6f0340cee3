"""Functions that users give, as parts of elements that can be stacked, compiled and differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array


class Function(eqx.Module):
    """A callable whose numbers are leaves and whose rest is hashable.

    Numbers in fields of an `equinox.Module` stay visible to JAX, so that runs can be differentiated and batched with
    respect to them and elements with equal functions are evaluated together; a plain function or a closure is a
    constant, told from others by its identity.

    **Arguments:**

    - `function`: any callable.
    """

    numbers: tuple[Array, ...]
    rest: tuple[Any, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any]) -> None:
        leaves, self.structure = jax.tree.flatten(function)
        numeric = [eqx.is_array_like(leaf) for leaf in leaves]
        self.numbers = tuple(jnp.asarray(leaf) for leaf, yes in zip(leaves, numeric, strict=True) if yes)
        self.rest = tuple(_NUMBER if yes else leaf for leaf, yes in zip(leaves, numeric, strict=True))
        try:
            hash((self.rest, self.structure))
        except TypeError as error:
            raise ValueError(
                f"{function!r} can't be compiled: its static parts must be hashable ({error}). Keep arrays in ordinary "
                "fields of an `equinox.Module` instead of static ones."
            ) from error

    def __call__(self, *arguments: Any) -> Any:
        numbers = iter(self.numbers)
        leaves = [next(numbers) if leaf == _NUMBER else leaf for leaf in self.rest]
        return jax.tree.unflatten(self.structure, leaves)(*arguments)


_NUMBER = "a number"


class Constant(eqx.Module):
    """A function of time that doesn't change.

    **Arguments:**

    - `value`: what it returns.
    """

    value: Array

    def __call__(self, t: Array) -> Array:
        del t
        return self.value


def of_time(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Function:
    """A function of time with values of the given shape. Raises ValueError for anything else."""
    if not callable(value):
        raise ValueError(f"`{name}` must be a function of time ({meaning}), got {value!r}.")
    function = Function(value)
    check_shape(name, jax.eval_shape(function, jnp.zeros(())), shape, meaning)
    return function


def check_shape(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> None:
    """Raises ValueError unless a function returned one array, or number, of that shape."""
    found = [jnp.shape(leaf) for leaf in jax.tree.leaves(value)]
    if found != [shape] or not hasattr(value, "dtype"):
        wanted = "a number" if shape == () else f"an array of shape {shape}"
        raise ValueError(f"`{name}` must return {wanted} ({meaning}), it returns {value!r}.")
