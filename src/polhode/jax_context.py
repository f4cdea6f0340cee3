"""Context of a call: JAX's transformations, its settings, and the process."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import types
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from typing import Any

import jax
from jax.core import Tracer
from jax.extend import core

from polhode.printable import printable

NEWEST = 0, 12
"""The newest series of JAX with which this library is tested."""

try:
    from jax._src.core import Trace, eval_trace, set_current_trace, trace_ctx, trace_state_clean

    IS_KNOWN = jax.__version_info__[:2] <= NEWEST
except ImportError:
    IS_KNOWN = False
    base: Any = object
    absent: Any = None
    Trace, eval_trace, set_current_trace, trace_ctx, trace_state_clean = base, absent, absent, absent, absent
"""Whether this JAX has the internals on which machine code and evaluation with NumPy depend.

With another one XLA runs everything, through JAX's public interface.
"""

try:
    from jax._src.interpreters.ad import JVPTrace, JVPTracer, LinearizeTrace, LinearizeTracer
except ImportError:
    JVPTrace = JVPTracer = LinearizeTrace = LinearizeTracer = None

try:
    from jax._src.interpreters.batching import BatchTrace, BatchTracer
except ImportError:
    BatchTrace = BatchTracer = None

try:
    from jax._src.interpreters.pxla import batched_device_put
except ImportError:
    batched_device_put = None

try:
    from jax._src.core import pytype_aval_mappings
except ImportError:
    pytype_aval_mappings = {}

_IS_FORKED = False


class EvaluatingTrace(Trace):
    """A trace that evaluates operations at once, as JAX does outside its transformations."""

    __slots__ = ()


def inside_transformation() -> bool:
    """Whether this code runs inside `jit`, `grad`, `jvp`, `vmap` or the like.

    Values closed over by a user's function can be traced there although none of the arguments is.
    """
    if not IS_KNOWN:
        return core.get_opaque_trace_state(convention="nnx") != _OUTSIDE
    return not (trace_state_clean() or isinstance(trace_ctx.trace, EvaluatingTrace))


_OUTSIDE = None if IS_KNOWN else core.get_opaque_trace_state(convention="nnx")


def in_reverse_mode() -> bool:
    """Whether values are known, and only their derivatives are traced, in reverse mode.

    This is so in functions under `jax.grad`, `jax.vjp` and `jax.jacrev`, as long as nothing else transforms them.
    """
    trace: Any = trace_ctx.trace if IS_KNOWN else None
    if LinearizeTrace is None or not isinstance(trace, LinearizeTrace) or not getattr(trace, "is_vjp", False):
        return False
    return _evaluates(trace.parent_trace)


def in_forward_mode() -> bool:
    """The same in forward mode, along one direction or several at once: under `jax.jvp` and `jax.jacfwd`."""
    trace: Any = trace_ctx.trace if IS_KNOWN else None
    if JVPTrace is None or BatchTrace is None or not isinstance(trace, JVPTrace):
        return False
    parent: Any = trace.parent_trace
    return _evaluates(parent.parent_trace if isinstance(parent, BatchTrace) else parent)


def in_derivative() -> bool:
    """Whether JAX differentiates what is computed here, inside other transformations too."""
    kinds = tuple(kind for kind in (JVPTrace, LinearizeTrace) if kind is not None)
    return IS_KNOWN and isinstance(trace_ctx.trace, kinds)


def _evaluates(trace: Any) -> bool:
    # While an operation is bound there is no trace: it is evaluated below.
    return trace is None or trace is eval_trace or isinstance(trace, EvaluatingTrace)


@contextlib.contextmanager
def known_values_by(trace: EvaluatingTrace) -> Generator[None]:
    """Context in which that trace evaluates known values under `jax.grad` and the like: in `in_reverse_mode`."""
    derivative_trace: Any = trace_ctx.trace
    before = derivative_trace.parent_trace
    derivative_trace.parent_trace = trace
    try:
        yield
    finally:
        derivative_trace.parent_trace = before


def outside_trace() -> AbstractContextManager[Any]:
    """Context in which operations on known values are evaluated, outside of transformations."""
    return set_current_trace(eval_trace) if IS_KNOWN else jax.ensure_compile_time_eval()


def are_known(values: Iterable[Any]) -> bool:
    """Whether values are known: numbers and arrays, or batches of such under one `jax.vmap`."""
    plain = (x.val if BatchTracer is not None and isinstance(x, BatchTracer) else x for x in values)
    return not any(isinstance(x, Tracer) for x in plain)


def primal_of(value: Any) -> Any:
    """The primal value, of values that JAX differentiates."""
    kinds = tuple(kind for kind in (LinearizeTracer, JVPTracer) if kind is not None)
    return value.primal if isinstance(value, kinds) else value


def refuse_as_array(kind: type, refuse: Callable[[Any], Any]) -> None:
    """Makes JAX call `refuse`, which raises, for arguments of that class.

    JAX's own message for arguments without an abstract value is about `jit` and static arguments.
    """
    pytype_aval_mappings[kind] = refuse


@contextlib.contextmanager
def relaxed_gc() -> Generator[None]:
    """Context in which Python's cyclic garbage collection runs rarely.

    A program under construction is up to a million small objects, hardly any of them garbage: collection would take a
    quarter of the time. Without any, memory would grow.
    """
    usual = gc.get_threshold()
    if not usual[0]:
        # The user has switched it off.
        yield
        return
    gc.set_threshold(max(usual[0], _OBJECTS), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


_OBJECTS = 500_000
"""Net allocations between collections while programs are built."""


def _is_enabled(name: str) -> bool:
    """Whether a setting of JAX is on, inside its context managers too."""
    return bool(getattr(jax.config, name))


def check_environment() -> None:
    """Raises RuntimeError in environments where computation can't be correct."""
    if not _is_enabled("jax_enable_x64"):
        raise RuntimeError(
            "JAX computes in single precision: `jax_enable_x64` was switched off after polhode was imported, which "
            "would leave seven of sixteen digits. Switch it on again: jax.config.update('jax_enable_x64', True)."
        )
    if _is_enabled("jax_disable_jit"):
        raise RuntimeError(
            "`jax_disable_jit` is on, with which every step would be interpreted operation by operation. Call "
            "functions of your own under `jax.disable_jit()` to look into them, and runs outside."
        )
    if _IS_FORKED:
        raise RuntimeError(
            "This process was forked from one in which JAX had already computed; its threads are missing here, and the "
            "first computation would hang. Start processes by 'spawn': multiprocessing.get_context('spawn')."
        )


def warn(message: str, category: type[Warning]) -> None:
    """Warns, at the line of the user's program that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _root_of(frame) in ("polhode", "contextlib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(message), category, stacklevel=level)


def _root_of(frame: types.FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]


def _note_fork() -> None:
    global _IS_FORKED
    # A process in which nothing was computed yet may be forked.
    from jax._src import xla_bridge

    _IS_FORKED = _IS_FORKED or xla_bridge.backends_are_initialized()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
