"""Loops over rows for XLA on the host, with the body on scalars: compile time is that of one row.

On small arrays with the rows in front XLA's kernels spend their time on concatenations: Jacobians of 16 edges of a rod
take 20 µs, and 2 µs in such a loop. Only for what the library compiles itself and gives everything as arguments: XLA
aborts on such a function if a constant reaches it, which nobody can rule out in the programs of users.
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
from polhode.compiler.scalars.packing import join, split
from polhode.compiler.scalars.traced_function import TracedFunction
from polhode.compiler.xla.fused_call import hidden_one, in_one_function

_UNREAD = np.zeros(())
"""In the place of an element that the body doesn't read."""


def lower_rows(params: Any) -> Callable[..., list[Any]]:
    """A loop over rows (`rows.ROWS`) as a function of arrays; on arrays where the body can't be run on scalars."""
    avals = params["jaxpr"].in_avals
    if not on_processor():
        return on_arrays(params)
    body = TracedFunction(core.jaxpr_as_fun(params["jaxpr"]), *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
    used = _used(body)
    return on_arrays(params) if used is None else functools.partial(_loop, params, body, used)


def _used(program: TracedFunction) -> list[bool] | None:
    """The elements that a body reads; None if it is too large for scalars or holds what can't be done on them."""
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
    fixed, start = split(args[:n]), split(args[n : n + m])
    passed = [x for x in range(len(fixed)) if used[x]]
    read = {k: column for k, column in enumerate(columns) if used[len(fixed) + len(start) + k]}
    # XLA aborts on parameters of such a function that nothing in it reads.
    tables = list({id(table): table for table, _ in read.values()}.values())
    place = {id(table): number for number, table in enumerate(tables)}

    def loop(one: Array, fixed: list[Array], start: list[Array], tables: list[Array]) -> tuple[Any, list[Array]]:
        known = dict(zip(passed, fixed, strict=True))

        def step(number: Array, state: tuple[list[Array], list[Array]]) -> tuple[list[Array], list[Array]]:
            carried, out = state
            i = rows - 1 - number if params["reverse"] else number
            row = [
                _element(tables[place[id(columns[k][0])]], i, columns[k][1]) if k in read else _UNREAD
                for k in range(len(columns))
            ]
            values = body([*(known.get(k, _UNREAD) for k in range(count)), *carried, *row], one)
            return values[: len(carried)], _write_row(out, i, values[len(carried) :])

        return jax.lax.fori_loop(0, rows, step, (start, results))

    count = len(fixed)
    # Behind the barrier XLA can't see constants, on which it aborts in such a function.
    given = jax.lax.optimization_barrier((hidden_one(), [fixed[k] for k in passed], start, tables))
    leaves, structure = jax.tree.flatten(given)
    closed, shape = jax.make_jaxpr(jax.jit(lambda *x: loop(*jax.tree.unflatten(structure, x))), return_shape=True)(
        *leaves
    )
    carried, out = jax.tree.unflatten(jax.tree.structure(shape), in_one_function(closed, leaves))
    return [*join(carried, of_carry), *(x.reshape(rows, *a.shape) for x, a in zip(out, of_out, strict=True))]


def _element(table: Array, i: Array, k: int) -> Array:
    return jax.lax.dynamic_slice(table, (i, jnp.asarray(k, i.dtype)), (1, 1)).reshape(())


def _write_row(tables: Sequence[Array], i: Array, values: Sequence[Array]) -> list[Array]:
    """The tables with their row i set to the values, one after the other."""
    left = iter(values)
    written = []
    for table in tables:
        for k in range(table.shape[1]):
            value = jnp.asarray(next(left), table.dtype).reshape(1, 1)
            table = jax.lax.dynamic_update_slice(table, value, (i, jnp.asarray(k, i.dtype)))
        written.append(table)
    return written
