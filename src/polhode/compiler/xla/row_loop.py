"""Loops over rows for XLA on the host, with the body on scalars: compile time is that of one row.

On small arrays with the rows in front XLA's kernels spend their time on concatenations: Jacobians of 16 edges of a rod
take 20 µs, and 2 µs in such a loop. Only for functions that the library compiles itself, with all values as
arguments: XLA aborts on such a function if a constant reaches it, which can't be ruled out in programs of users.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array

from polhode.compiler import size_limits
from polhode.compiler.placement import on_processor
from polhode.compiler.primitives.row_loop import on_arrays
from polhode.compiler.scalars.backend import UnsupportedScalarOperation
from polhode.compiler.scalars.cost import NO_LIBRARY, calls_out, iterates
from polhode.compiler.scalars.flat_lists import join, split
from polhode.compiler.scalars.traced_function import TracedFunction
from polhode.compiler.xla.fused_call import hidden_one, in_one_function

_UNREAD = np.zeros(())
"""Stands for an element that the body doesn't read."""


def lower_rows(params: Any) -> Callable[..., list[Any]]:
    """A loop over rows (`row_loop.ROWS`) as a function of arrays; on arrays where the body can't run on scalars."""
    avals = params["jaxpr"].in_avals
    if not on_processor():
        return on_arrays(params)
    body = TracedFunction(core.jaxpr_as_fun(params["jaxpr"]), *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
    used = _used_outputs(body)
    return on_arrays(params) if used is None else functools.partial(_loop, params, body, used)


def _used_outputs(program: TracedFunction) -> list[bool] | None:
    """The elements that a body reads; None if it is too large for scalars or has operations that need arrays."""
    jaxpr = program.closed_jaxpr.jaxpr
    if program.cost > size_limits.XLA_ROW or calls_out(jaxpr, NO_LIBRARY) or iterates(jaxpr):
        return None
    try:
        return program.used_inputs()
    except UnsupportedScalarOperation:
        return None


def _loop(params: Any, body: TracedFunction, used: list[bool], *args: Any) -> list[Any]:
    n, m, rows = params["num_consts"], params["num_carry"], params["length"]
    of_carry, of_out = params["jaxpr"].out_avals[:m], params["jaxpr"].out_avals[m:]
    results = [jnp.zeros((rows, math.prod(a.shape)), a.dtype) for a in of_out]
    tables = [jnp.asarray(x).reshape(rows, -1) for x in args[n + m :]]
    columns = [(table, k) for table in tables for k in range(table.shape[1])]
    consts, start = split(args[:n]), split(args[n : n + m])
    used_consts = [x for x in range(len(consts)) if used[x]]
    used_columns = {k: column for k, column in enumerate(columns) if used[len(consts) + len(start) + k]}
    # XLA aborts on parameters of such a function that nothing in it reads.
    tables = list({id(table): table for table, _ in used_columns.values()}.values())
    place = {id(table): number for number, table in enumerate(tables)}

    def loop(one: Array, consts: list[Array], start: list[Array], tables: list[Array]) -> tuple[Any, list[Array]]:
        const_values = dict(zip(used_consts, consts, strict=True))

        def step(number: Array, state: tuple[list[Array], list[Array]]) -> tuple[list[Array], list[Array]]:
            carry, out = state
            i = rows - 1 - number if params["reverse"] else number
            row = [
                _element(tables[place[id(columns[k][0])]], i, columns[k][1]) if k in used_columns else _UNREAD
                for k in range(len(columns))
            ]
            values = body([*(const_values.get(k, _UNREAD) for k in range(count)), *carry, *row], one)
            return values[: len(carry)], _write_row(out, i, values[len(carry) :])

        return jax.lax.fori_loop(0, rows, step, (start, results))

    count = len(consts)
    # The barrier hides constants from XLA, on which it aborts in such a function.
    inputs = jax.lax.optimization_barrier((hidden_one(), [consts[k] for k in used_consts], start, tables))
    leaves, structure = jax.tree.flatten(inputs)
    jaxpr, shape = jax.make_jaxpr(jax.jit(lambda *x: loop(*jax.tree.unflatten(structure, x))), return_shape=True)(
        *leaves
    )
    carry, out = jax.tree.unflatten(jax.tree.structure(shape), in_one_function(jaxpr, leaves))
    return [*join(carry, of_carry), *(x.reshape(rows, *a.shape) for x, a in zip(out, of_out, strict=True))]


def _element(table: Array, i: Array, k: int) -> Array:
    return jax.lax.dynamic_slice(table, (i, jnp.asarray(k, i.dtype)), (1, 1)).reshape(())


def _write_row(tables: Sequence[Array], i: Array, values: Sequence[Array]) -> list[Array]:
    """The tables with row i set to the values, one after the other."""
    values_left = iter(values)
    updated_tables = []
    for table in tables:
        for k in range(table.shape[1]):
            value = jnp.asarray(next(values_left), table.dtype).reshape(1, 1)
            table = jax.lax.dynamic_update_slice(table, value, (i, jnp.asarray(k, i.dtype)))
        updated_tables.append(table)
    return updated_tables
