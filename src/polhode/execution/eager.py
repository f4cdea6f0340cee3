"""Single operations outside compiled programs, evaluated with NumPy.

JAX compiles a small program for each operation and shape that it meets outside `jit`. Building a model meets a hundred
of them, each once.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.extend import core

from polhode._ambient import EvaluatingTrace, inside_transformation
from polhode._scalar.rows import all_at_once
from polhode.execution.once import evaluated, is_plain
from polhode.execution.placement import on_host


class _ByNumpy(EvaluatingTrace):
    """Meets operations on arrays, also those that JAX's transformations leave, and evaluates them."""

    __slots__ = ()

    def stage_value(self, value: Any) -> Any:
        return value if isinstance(value, jax.Array) else jax.device_put(np.asarray(value))

    def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
        found = _evaluated(primitive, args, params)
        if found is None:
            return primitive.impl(*args, **params)
        outs = [jax.device_put(np.asarray(out)) for out in found]
        return outs if primitive.multiple_results else outs[0]

    def process_call(self, primitive: Any, f: Any, args: Any, params: Any, /) -> Any:
        with core.set_current_trace(self):
            return f.call_wrapped(*args)

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, args: Any, /, **_: Any) -> Any:
        with core.set_current_trace(self):
            return fun.call_wrapped(*args)

    def process_custom_vjp_call(self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Any, /, **_: Any) -> Any:
        with core.set_current_trace(self):
            return fun.call_wrapped(*args)


def _evaluated(primitive: Any, args: Any, params: Any) -> list[Any] | None:
    """The results of one operation; None where it is left to JAX."""
    if not on_host(args) or any(not isinstance(x, jax.Array | np.ndarray | np.generic | int | float) for x in args):
        return None
    try:
        closed = _program(primitive, tuple(sorted(params.items())), tuple(map(jax.typeof, args)))
    except TypeError:
        # Some parameters can't be compared.
        return None
    if closed is None:
        return None
    with np.errstate(all="ignore"):
        return evaluated(closed, [np.asarray(x) for x in args])


@functools.lru_cache(maxsize=2048)
def _program(primitive: Any, params: Any, types: Any) -> core.ClosedJaxpr | None:
    """The operation as a program, which knows the types of what it gives; None if NumPy can't evaluate it."""
    closed = jax.make_jaxpr(functools.partial(primitive.bind, **dict(params)))(*types)
    return closed if is_plain(closed.jaxpr) else None


_TRACE = _ByNumpy()


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Operations on arrays are evaluated with NumPy, where JAX computes on the host and nothing is being traced.

    Also a decorator. Values are those of JAX up to rounding, and arrays are arrays of JAX.
    """
    if inside_transformation() or jax.default_backend() != "cpu":
        yield
        return
    with all_at_once(), core.set_current_trace(_TRACE):
        yield
