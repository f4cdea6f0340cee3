"""A function mapped over the rows of stacked arrays, by the fastest back end that supports it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from polhode.compiler.cache.program_cache import find_program, xla_jit
from polhode.compiler.loops.row_map import RowMapResult, row_map_serialiser, try_row_map
from polhode.compiler.numpy_jit import numpy_jit
from polhode.compiler.placement import on_host
from polhode.compiler.size_limits import is_long


class BatchedFunction:
    """`function(*row)` of all rows, with the values that users' functions capture at the first call.

    Without machine code, blocks of `rows` rows are evaluated, so that only one size is compiled: by XLA, or by NumPy
    for long rows, since the compile time grows with them, and where it is only called `once`.
    """

    def __init__(self, function: eqx.Module, rows: int, *, once: bool = False) -> None:
        self._function, self._rows, self._once = function, rows, once
        self._call: Callable[[Any], Any] | None = None

    def __call__(self, *batch: Any) -> Any:
        """The results as NumPy arrays, stacked like the arguments."""
        batch = jax.tree.map(np.asarray, batch)
        if self._call is None:
            self._call = _native(self._function, batch) or self._by_rows(batch)
        return self._call(batch)

    def _by_rows(self, batch: Any) -> Callable[[Any], Any]:
        long = self._once or is_long(jax.tree.map(lambda x: x[0], batch))
        if long and on_host(self._function):
            return lambda rows: self._in_parts(_by_numpy, rows, self._rows if len(rows[0]) > 1 else 1)
        return lambda rows: self._in_parts(_by_xla, rows, self._rows)

    def _in_parts(self, evaluate: Callable[..., Any], batch: Any, rows: int) -> Any:
        count = len(batch[0])
        whole = -(-count // rows) * rows
        whole_blocks = jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[-1:], whole - count, axis=0)]), batch)
        parts = [
            evaluate(self._function, *jax.tree.map(lambda x, k=k: x[k : k + rows], whole_blocks))
            for k in range(0, whole, rows)
        ]
        return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)


def _native(function: eqx.Module, batch: Any) -> Callable[[Any], Any] | None:
    """Machine code for rows of these shapes; None where there is none."""
    if not on_host(function):
        return None
    examples = function, jax.tree.map(lambda x: x[0], batch)
    (mapping, _), (inputs, _) = find_program(_compile, *examples, serialiser=_SERIALISER)
    return None if mapping is None else functools.partial(mapping.rows, mapping.arguments(inputs))


def _compile(inputs: Any, rest: Any) -> RowMapResult:
    """The function as machine code, or why there is none."""
    return try_row_map(lambda arrays, row: eqx.combine(arrays, rest[0])(*row), *inputs)


_SERIALISER = row_map_serialiser(lambda inputs: inputs)


def _all(function: Any, *batch: Any) -> Any:
    # Of a module JAX would write the whole `repr`, for messages.
    return jax.vmap(lambda *row: function(*row))(*batch)


_by_xla = xla_jit(_all)
_by_numpy = numpy_jit(_all)
