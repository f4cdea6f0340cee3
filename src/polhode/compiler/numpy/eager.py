"""Single operations outside compiled programs, evaluated with NumPy.

JAX compiles a small program for each operation and shape that it meets outside `jit`. Building a model meets a hundred
of them, each once.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend import core

from polhode.compiler.numpy.interpreter import Interpreter, UnsupportedNumPyOperation, from_jaxpr
from polhode.compiler.placement import default_device_for, device_array, on_processor
from polhode.compiler.primitives.row_loop import ROWS, on_arrays
from polhode.jax_context import (
    IS_KNOWN,
    EvaluatingTrace,
    in_reverse_mode,
    inside_transformation,
    known_values_by,
    outside_trace,
)


class _ByNumpy(EvaluatingTrace):
    """Evaluates operations on arrays, including those that remain of JAX's transformations."""

    __slots__ = ()

    def stage_value(self, value: Any) -> Any:
        if isinstance(value, jax.Array):
            return value
        return device_array(_snapshot(value), bool(getattr(jax.typeof(value), "weak_type", False)))

    def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
        if primitive is ROWS:
            with core.set_current_trace(self):
                return on_arrays(params)(*args)
        # While an operation is bound JAX has no trace or the evaluating one, depending on the version.
        with outside_trace():
            results = _evaluate(primitive, args, params)
            if results is None:
                return primitive.impl(*args, **params)
        return results if primitive.multiple_results else results[0]

    def process_call(self, primitive: Any, f: Any, args: Any, params: Any, /) -> Any:
        with core.set_current_trace(self):
            return f.call_wrapped(*args)

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, args: Any, /, **_: Any) -> Any:
        with core.set_current_trace(self):
            return fun.call_wrapped(*args)

    def process_custom_vjp_call(self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Any, /, **_: Any) -> Any:
        with core.set_current_trace(self):
            return fun.call_wrapped(*args)


def _evaluate(primitive: Any, args: Any, params: Any) -> list[jax.Array] | None:
    """The results of one operation; None where JAX evaluates it."""
    if not all(map(_is_here, args)):
        return None
    try:
        program = _program(primitive, tuple(params.items()), tuple(map(jax.typeof, args)))
    except TypeError:
        # Some parameters are not hashable.
        return None
    if program is None:
        return None
    with np.errstate(all="ignore"):
        outs = program([_snapshot(x) for x in args])
    return [device_array(out, weak) for out, weak in zip(outs, program.weak, strict=True)]


def array_of(x: np.ndarray) -> jax.Array:
    """`jnp.asarray(x)` of values that won't change, without JAX's dispatch, which compiles a program for each shape."""
    return jnp.asarray(x) if inside_transformation() else device_array(x)


def _is_here(x: Any) -> bool:
    """Whether a value is on the host, unsharded."""
    if isinstance(x, jax.Array):
        if isinstance(x, Tracer) or jnp.issubdtype(x.dtype, jax.dtypes.extended):
            return False
        return len(x.sharding.device_set) == 1
    return isinstance(x, np.ndarray | np.generic | int | float)


def _snapshot(x: Any) -> np.ndarray:
    """The values of `x`, copied unless they are JAX's, since their owner may change them."""
    return np.asarray(x) if isinstance(x, jax.Array) else np.array(x)


@functools.lru_cache(maxsize=2048)
def _program(primitive: Any, params: Any, types: Any) -> Interpreter | None:
    """The operation as a program, with the types of its results; None if NumPy can't evaluate it."""
    try:
        return from_jaxpr(jax.make_jaxpr(functools.partial(primitive.bind, **dict(params)))(*types))
    except UnsupportedNumPyOperation:
        return None


_TRACE = _ByNumpy()


@contextlib.contextmanager
def eager_numpy() -> Generator[None]:
    """Context in which operations on arrays are evaluated with NumPy, on the host and outside traces.

    Also a decorator. Values are those of JAX up to rounding, and arrays are arrays of JAX. The same holds for known
    values under `jax.grad`, where JAX differentiates.
    """
    with default_device_for():
        if not IS_KNOWN or not on_processor() or (inside_transformation() and not in_reverse_mode()):
            yield
            return
        way = known_values_by(_TRACE) if in_reverse_mode() else core.set_current_trace(_TRACE)
        with way:
            yield
