"""Loops over rows of arrays, as one operation of a trace: each back end runs it in its own way.

Machine code has loops whose body is that of one row. NumPy and XLA take the rows all at once where nothing is carried
from one to the next, and scan the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.core import ShapedArray
from jax.extend import core
from jax.interpreters import ad, batching, mlir

Tree = Any
Body = Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]

ROWS = core.Primitive("rows")
"""Has the parameters of a scan: `jaxpr`, `num_consts`, `num_carry`, `length`, `reverse`."""

ROWS.multiple_results = True


def map_rows(function: Callable[..., Tree], shared: Tree, *stacked: Tree, loop: bool = True) -> Tree:
    """`function(shared, *row)` of all rows, like `jax.vmap`; with `loop` as one loop where that is worth it.

    Small systems are better off without: their steps are run on scalars altogether.
    """
    if not loop:
        return jax.vmap(lambda *row: function(shared, *row))(*stacked)
    return scan_rows(lambda s, carry, row: ((), function(s, *row)), shared, (), stacked)[1]


def scan_rows(body: Body, shared: Tree, carry: Tree, stacked: Tree, reverse: bool = False) -> tuple[Tree, Tree]:
    """Like `jax.lax.scan` for `body(shared, carry, row) -> (carry, row)`."""
    row = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), stacked)
    closed, (left, made) = jax.make_jaxpr(body, return_shape=True)(shared, carry, row)
    # What the body closes over is shared by all rows, too.
    jaxpr = closed.jaxpr.replace(constvars=[], invars=[*closed.jaxpr.constvars, *closed.jaxpr.invars])
    given, start, tables = map(jax.tree.leaves, (shared, carry, stacked))
    params = {
        "jaxpr": core.ClosedJaxpr(jaxpr, []),
        "num_consts": len(closed.consts) + len(given),
        "num_carry": len(start),
        "length": tables[0].shape[0],
        "reverse": reverse,
    }
    run = jax.custom_jvp(lambda *args: ROWS.bind(*args, **params))
    run.defjvp(lambda primals, tangents: jax.jvp(on_arrays(params), primals, tangents))
    outs = run(*closed.consts, *given, *start, *tables)
    return (
        jax.tree.unflatten(jax.tree.structure(left), outs[: len(start)]),
        jax.tree.unflatten(jax.tree.structure(made), outs[len(start) :]),
    )


def on_arrays(params: Any) -> Callable[..., list[Any]]:
    """The operation as one on arrays: all rows at once where nothing is carried, otherwise a scan."""
    run, n, m = core.jaxpr_as_fun(params["jaxpr"]), params["num_consts"], params["num_carry"]

    def at_once(*args: Any) -> list[Any]:
        return jax.vmap(lambda *row: run(*args[:n], *row))(*args[n:])

    def scanned(*args: Any) -> list[Any]:
        def step(carry: list[Any], row: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            outs = run(*args[:n], *carry, *row)
            return outs[:m], outs[m:]

        carry, out = jax.lax.scan(step, list(args[n : n + m]), args[n + m :], params["length"], params["reverse"])
        return [*carry, *out]

    return scanned if m else at_once


def with_remat(params: Any) -> Callable[..., list[Any]]:
    """The operation as a scan whose derivative in reverse mode makes each row again from what it began with."""
    run, n, m = core.jaxpr_as_fun(params["jaxpr"]), params["num_consts"], params["num_carry"]
    again = jax.checkpoint(lambda *args: run(*args))  # type: ignore[reportPrivateImportUsage]

    def scanned(*args: Any) -> list[Any]:
        def step(carry: list[Any], row: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            outs = again(*args[:n], *carry, *row)
            return outs[:m], outs[m:]

        carry, out = jax.lax.scan(step, list(args[n : n + m]), args[n + m :], params["length"], params["reverse"])
        return [*carry, *out]

    return scanned


def _evaluate(*args: Any, **params: Any) -> list[Any]:
    return on_arrays(params)(*args)


def _types(*avals: Any, jaxpr: core.ClosedJaxpr, num_carry: int, length: int, **_: Any) -> list[ShapedArray]:
    outs: list[Any] = list(jaxpr.out_avals)
    rows = [ShapedArray((length, *a.shape), a.dtype, weak_type=a.weak_type) for a in outs[num_carry:]]
    return [*outs[:num_carry], *rows]


def _batching_rule(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list[Any], list[int]]:
    outs = jax.vmap(on_arrays(params), in_axes=tuple(dims))(*args)
    return outs, [0] * len(outs)


def _transpose_rule(cotangents: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    """Through a loop that is linear in some operands."""
    linear = [k for k, x in enumerate(args) if ad.is_undefined_primal(x)]
    avals = [args[k].aval for k in linear]

    def run(*moving: Any) -> list[Any]:
        known = dict(zip(linear, moving, strict=True))
        return on_arrays(params)(*(known.get(k, x) for k, x in enumerate(args)))

    found = jax.linear_transpose(run, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
    back = dict(zip(linear, found([ad.instantiate_zeros(c) for c in cotangents]), strict=True))
    return [back.get(k) for k in range(len(args))]


ROWS.def_impl(_evaluate)
ROWS.def_abstract_eval(_types)
ad.primitive_transposes[ROWS] = _transpose_rule
batching.primitive_batchers[ROWS] = _batching_rule
mlir.register_lowering(ROWS, mlir.lower_fun(_evaluate, multiple_results=True))
