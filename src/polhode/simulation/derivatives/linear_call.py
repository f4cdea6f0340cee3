"""Host callback for linear functions of concrete values, with a batching rule for `jax.jacrev` and `jax.jacfwd`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core
from jax.interpreters import batching

from polhode.compiler.placement import device_array
from polhode.jax_context import outside_trace

Function = Callable[[list[Any]], list[Any]]

_LINEAR_CALL = core.Primitive("polhode_linear")
_LINEAR_CALL.multiple_results = True


def call_linear(function: Function, values: Sequence[Any]) -> list[Any]:
    """`function(values)`, in a batch of each of its rows; see `jax_context.are_known` for the values it takes."""
    return _LINEAR_CALL.bind(*values, function=function)


@_LINEAR_CALL.def_impl
def _implementation(*values: Any, function: Function) -> list[Any]:
    with outside_trace():
        return [device_array(np.asarray(x)) for x in function(list(map(np.asarray, values)))]


def _batching_rule(values: Sequence[Any], dims: Sequence[Any], *, function: Function) -> tuple[list[Any], list[int]]:
    """One row after the other: a run in machine code takes less time than compiling one for all."""
    with outside_trace():
        size = next(np.shape(x)[d] for x, d in zip(values, dims, strict=True) if d is not None)
        columns = [
            [np.asarray(x)] * size if d is None else list(np.moveaxis(np.asarray(x), d, 0))
            for x, d in zip(values, dims, strict=True)
        ]
        rows = list(map(list, zip(*columns, strict=True)))
        outs = [np.stack(parts) for parts in zip(*map(function, rows), strict=True)]
        return list(map(device_array, outs)), [0] * len(outs)


batching.primitive_batchers[_LINEAR_CALL] = _batching_rule
