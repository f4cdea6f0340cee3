"""Primitive of loops over the rows of arrays, which each back end lowers in its own way.

In machine code it is a loop whose body is that of one row. NumPy and XLA batch the rows where there is no carry, and
scan them otherwise.
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
"""It has the parameters of a scan: `jaxpr`, `num_consts`, `num_carry`, `length`, `reverse`."""

ROWS.multiple_results = True


def map_rows(function: Callable[..., Tree], consts: Tree, *rows: Tree, loop: bool = True) -> Tree:
    """`function(consts, *row)` of all rows, like `jax.vmap`; with `loop` as a row loop, where the back end has them.

    Small systems are faster without: their steps run entirely on scalars.
    """
    if not loop:
        return jax.vmap(lambda *row: function(consts, *row))(*rows)
    return scan_rows(lambda s, carry, row: ((), function(s, *row)), consts, (), rows)[1]


def scan_rows(body: Body, consts: Tree, carry: Tree, rows: Tree, reverse: bool = False) -> tuple[Tree, Tree]:
    """Like `jax.lax.scan` for `body(consts, carry, row) -> (carry, row)`."""
    row = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), rows)
    body_jaxpr, (carry_shape, row_shape) = jax.make_jaxpr(body, return_shape=True)(consts, carry, row)
    # Values that the body closes over are constants, too.
    jaxpr = body_jaxpr.jaxpr.replace(constvars=[], invars=[*body_jaxpr.jaxpr.constvars, *body_jaxpr.jaxpr.invars])
    const_leaves, start, tables = map(jax.tree.leaves, (consts, carry, rows))
    params = {
        "jaxpr": core.ClosedJaxpr(jaxpr, []),
        "num_consts": len(body_jaxpr.consts) + len(const_leaves),
        "num_carry": len(start),
        "length": tables[0].shape[0],
        "reverse": reverse,
    }
    call = jax.custom_jvp(lambda *args: ROWS.bind(*args, **params))
    call.defjvp(lambda primals, tangents: jax.jvp(on_arrays(params), primals, tangents))
    outs = call(*body_jaxpr.consts, *const_leaves, *start, *tables)
    return (
        jax.tree.unflatten(jax.tree.structure(carry_shape), outs[: len(start)]),
        jax.tree.unflatten(jax.tree.structure(row_shape), outs[len(start) :]),
    )


def on_arrays(params: Any) -> Callable[..., list[Any]]:
    """The operation on arrays: `vmap` over rows where there is no carry, otherwise a scan."""
    body, n, m = core.jaxpr_as_fun(params["jaxpr"]), params["num_consts"], params["num_carry"]

    def at_once(*args: Any) -> list[Any]:
        return jax.vmap(lambda *row: body(*args[:n], *row))(*args[n:])

    def scan(*args: Any) -> list[Any]:
        def step(carry: list[Any], row: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            outs = body(*args[:n], *carry, *row)
            return outs[:m], outs[m:]

        carry, out = jax.lax.scan(step, list(args[n : n + m]), args[n + m :], params["length"], params["reverse"])
        return [*carry, *out]

    return scan if m else at_once


def with_remat(params: Any) -> Callable[..., list[Any]]:
    """The operation as a scan that rematerialises each row in reverse mode."""
    body, n, m = core.jaxpr_as_fun(params["jaxpr"]), params["num_consts"], params["num_carry"]
    remat_body = jax.checkpoint(lambda *args: body(*args))

    def scan(*args: Any) -> list[Any]:
        def step(carry: list[Any], row: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            outs = remat_body(*args[:n], *carry, *row)
            return outs[:m], outs[m:]

        carry, out = jax.lax.scan(step, list(args[n : n + m]), args[n + m :], params["length"], params["reverse"])
        return [*carry, *out]

    return scan


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
    """Transpose of a loop that is linear in some operands."""
    linear = [k for k, x in enumerate(args) if ad.is_undefined_primal(x)]
    avals = [args[k].aval for k in linear]

    def linear_map(*operands: Any) -> list[Any]:
        by_place = dict(zip(linear, operands, strict=True))
        return on_arrays(params)(*(by_place.get(k, x) for k, x in enumerate(args)))

    transpose = jax.linear_transpose(linear_map, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
    back = dict(zip(linear, transpose([ad.instantiate_zeros(c) for c in cotangents]), strict=True))
    return [back.get(k) for k in range(len(args))]


ROWS.def_impl(_evaluate)
ROWS.def_abstract_eval(_types)
ad.primitive_transposes[ROWS] = _transpose_rule
batching.primitive_batchers[ROWS] = _batching_rule
mlir.register_lowering(ROWS, mlir.lower_fun(_evaluate, multiple_results=True))
