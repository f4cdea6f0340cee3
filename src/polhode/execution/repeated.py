"""Functions that are called again and again, with other numbers: machine code where it can be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from polhode._ambient import inside_transformation
from polhode.captured import compiled, found
from polhode.execution.mapping import KEEPING, RowMap
from polhode.execution.once import interpreted
from polhode.execution.placement import on_host
from polhode.execution.writer import NotNative

T = TypeVar("T")


def repeated(function: Callable[..., T], *fixed: Any) -> Callable[..., T]:
    """`function(*fixed, *others)`, one of this library that captures nothing, as a function of the others.

    These must be alike in all calls, up to their numbers: the program is looked up at the first one, which takes longer
    than all the rest. On the host that is machine code, which returns NumPy arrays, or, where it can't be, evaluation
    with NumPy; it is kept like other programs. Inside JAX's transformations the function is called as it is.
    """
    if inside_transformation():
        return functools.partial(function, *fixed)
    ready: Callable[..., T] | None = None

    def call(*others: Any) -> T:
        nonlocal ready
        if ready is None:
            ready = _ready(function, fixed, others)
        return ready(*others)

    return call


def _ready(function: Callable[..., T], fixed: tuple[Any, ...], others: tuple[Any, ...]) -> Callable[..., T]:
    if not on_host((fixed, others)):
        return functools.partial(_compiled(function), *fixed)
    (mapping,), (shared, _) = found(_native, (function, fixed), others, keeping=KEEPING)
    if mapping is None:
        return functools.partial(_interpreted(function), *fixed)
    arguments = mapping.arguments(shared)

    def run(*others: Any) -> T:
        row = jax.tree.map(lambda x: np.asarray(x)[None], eqx.filter(others, eqx.is_array))
        return jax.tree.map(lambda x: x[0], mapping.rows(arguments, row))

    return run


_compiled = functools.cache(compiled)
_interpreted = functools.cache(interpreted)


def _native(inputs: Any, rest: Any) -> tuple[RowMap | None]:
    def run(shared: Any, row: Any) -> Any:
        (function, fixed), others = eqx.combine((shared, row), rest)
        return function(*fixed, *others)

    try:
        return (RowMap.of(run, *inputs),)
    except NotNative:
        return (None,)
