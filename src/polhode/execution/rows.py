"""Loops over rows of arrays whose body runs on scalars: costs linear in the rows, compile time that of one row."""

from __future__ import annotations

import contextlib
import contextvars
import enum
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata
from jaxtyping import Array

from polhode._ambient import inside_transformation
from polhode.execution.scalars.cost import PLAIN, calls_out, iterates
from polhode.execution.scalars.emission import NeedsArrays
from polhode.execution.scalars.packing import join, split
from polhode.execution.scalars.program import Program

_LARGEST_BODY = 200_000
"""Operations of one row above which compile time would grow too much."""

_UNREAD = np.zeros(())
"""In the place of an element that the body doesn't read."""

Tree = Any
Body = Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]


class _Form(enum.Enum):
    """What rows become in programs that are traced: side by side, loops for XLA, or scans.

    `DERIVED` are scans in programs of which derivatives are taken once they are recorded, which needs their rules.
    """

    SIDE_BY_SIDE = enum.auto()
    LOOPS = enum.auto()
    SCANS = enum.auto()
    DERIVED = enum.auto()


_FORM: contextvars.ContextVar[_Form] = contextvars.ContextVar("form", default=_Form.SIDE_BY_SIDE)


@contextlib.contextmanager
def in_loops() -> Iterator[None]:
    """While this is open, programs that are traced have their rows in loops, unless JAX is transforming already.

    For what the library compiles itself and passes everything as arguments: XLA aborts on such a function if a constant
    reaches it, which nobody can rule out in the programs of users.
    """
    with _rows_as(_Form.SIDE_BY_SIDE if inside_transformation() else _Form.LOOPS):
        yield


@contextlib.contextmanager
def all_at_once() -> Iterator[None]:
    """While this is open, programs that are traced have their rows side by side, as NumPy evaluates them best."""
    with _rows_as(_Form.SIDE_BY_SIDE):
        yield


@contextlib.contextmanager
def in_scans(derived: bool = False) -> Iterator[None]:
    """While this is open, programs that are traced have their rows in scans, which become loops of machine code.

    `derived`: whether derivatives are taken of what is recorded.
    """
    with _rows_as(_Form.DERIVED if derived else _Form.SCANS):
        yield


def recording() -> bool:
    """Whether what is traced becomes machine code."""
    return _FORM.get() in (_Form.SCANS, _Form.DERIVED)


def derived() -> bool:
    """Whether derivatives are taken of what is traced, once it is recorded: not by JAX."""
    return _FORM.get() is _Form.DERIVED


@contextlib.contextmanager
def _rows_as(form: _Form) -> Iterator[None]:
    token = _FORM.set(form)
    try:
        yield
    finally:
        _FORM.reset(token)


def each(function: Callable[..., Tree], shared: Tree, *stacked: Tree, loop: bool = True) -> Tree:
    """`function(shared, *row)` of all rows, like `jax.vmap`; with `loop` as one loop on the CPU.

    On small arrays with the rows in front XLA's kernels spend their time on concatenations: Jacobians of 16 edges of
    a rod take 20 µs, and 2 µs as a loop that compiles in a second. But what runs in such a loop can't be run on
    scalars together with the rest of a step, which is better for small systems. The function must not close over traced
    values.
    """
    form = _FORM.get()
    if not loop or form is _Form.SIDE_BY_SIDE or (form is _Form.LOOPS and jax.default_backend() != "cpu"):
        return jax.vmap(lambda *row: function(shared, *row))(*stacked)
    # Where derivatives are taken of what is recorded, rules of JAX would only be in the way.
    return _all(function, shared, stacked) if form is _Form.DERIVED else _each(function, shared, stacked)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _each(function: Callable[..., Tree], shared: Tree, stacked: Tree) -> Tree:
    return _all(function, shared, stacked)


def _all(function: Callable[..., Tree], shared: Tree, stacked: Tree) -> Tree:
    return sweep(lambda s, carry, row: ((), function(s, *row)), shared, (), stacked)[1]


@_each.defjvp
def _each_jvp(function: Callable[..., Tree], primals: Any, tangents: Any) -> tuple[Tree, Tree]:
    return jax.jvp(lambda shared, stacked: jax.vmap(lambda *row: function(shared, *row))(*stacked), primals, tangents)


def sweep(body: Body, shared: Tree, carry: Tree, stacked: Tree, reverse: bool = False) -> tuple[Tree, Tree]:
    """Like `jax.lax.scan` for `body(shared, carry, row) -> (carry, row)`, with the body on scalars.

    Differentiable in both modes, as the scan. The body must not close over traced values.
    """
    if derived():
        return _scan(body, reverse, shared, carry, stacked)
    return _sweep(body, reverse, shared, carry, stacked)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _sweep(body: Body, reverse: bool, shared: Tree, carry: Tree, stacked: Tree) -> tuple[Tree, Tree]:
    if _FORM.get() is not _Form.LOOPS or jax.default_backend() != "cpu":
        return _scan(body, reverse, shared, carry, stacked)
    row = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), stacked)
    program = Program(body, shared, carry, row)
    used = _used(program)
    if used is None:
        return _scan(body, reverse, shared, carry, stacked)
    rows = _length(stacked)
    shape_carry, shape_out = program.out_shape
    results = [jnp.zeros((rows, math.prod(x.shape)), x.dtype) for x in jax.tree.leaves(shape_out)]
    tables = [jnp.asarray(x).reshape(rows, -1) for x in jax.tree.leaves(stacked)]
    columns = [(table, k) for table in tables for k in range(table.shape[1])]
    flat = [*split(shared), *split(carry), *columns]
    first, n_carry = len(flat) - len(columns), sum(math.prod(x.shape) for x in jax.tree.leaves(shape_carry))
    passed = [x for x in range(first - n_carry) if used[x]]
    read = {k: columns[k] for k in range(len(columns)) if used[first + k]}
    # XLA aborts on parameters of such a function that nothing in it reads.
    tables = list({id(table): table for table, _ in read.values()}.values())
    place = {id(table): number for number, table in enumerate(tables)}

    def loop(one: Array, fixed: list[Array], start: list[Array], tables: list[Array]) -> tuple[Any, list[Array]]:
        known = dict(zip(passed, fixed, strict=True))

        def step(n: Array, state: tuple[list[Array], list[Array]]) -> tuple[list[Array], list[Array]]:
            carried, out = state
            i = rows - 1 - n if reverse else n
            row = [
                _read(tables[place[id(columns[k][0])]], i, columns[k][1]) if k in read else _UNREAD
                for k in range(len(columns))
            ]
            values = program([*(known.get(k, _UNREAD) for k in range(first - n_carry)), *carried, *row], one)
            return values[:n_carry], _written(out, i, values[n_carry:])

        return jax.lax.fori_loop(0, rows, step, (start, results))

    # A one that XLA can't see: see `OnJax`.
    one = jax.lax.optimization_barrier(jnp.ones(()))
    start = flat[first - n_carry : first]
    carried, out = _as_one_function(loop, one, [flat[k] for k in passed], start, tables)
    outs = [x.reshape(rows, *s.shape) for s, x in zip(jax.tree.leaves(shape_out), out, strict=True)]
    return join(carried, shape_carry), jax.tree.unflatten(jax.tree.structure(shape_out), outs)


@_sweep.defjvp
def _sweep_jvp(body: Body, reverse: bool, primals: Any, tangents: Any) -> tuple[Tree, Tree]:
    return jax.jvp(functools.partial(_scan, body, reverse), primals, tangents)


def _scan(body: Body, reverse: bool, shared: Tree, carry: Tree, stacked: Tree) -> tuple[Tree, Tree]:
    return jax.lax.scan(lambda c, row: body(shared, c, row), carry, stacked, reverse=reverse)


def _as_one_function(function: Callable, *arguments: Any) -> Any:
    """Run a function so that XLA's CPU backend compiles it, loops included, into one machine function."""
    # Behind the barrier XLA can't see constants, on which it aborts in such a function.
    leaves, structure = jax.tree.flatten(jax.lax.optimization_barrier(arguments))
    closed, shape = jax.make_jaxpr(jax.jit(lambda *x: function(*jax.tree.unflatten(structure, x))), return_shape=True)(
        *leaves
    )
    (call,) = closed.eqns
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        known = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *leaves), strict=True))
        outs = call.primitive.bind(*(known[v] for v in call.invars), **call.params)
    return jax.tree.unflatten(jax.tree.structure(shape), outs)


def _used(program: Program) -> list[bool] | None:
    """The elements that a body reads; None if it is too large for scalars or holds what can't be done on them."""
    jaxpr = program.closed.jaxpr
    if program.cost > _LARGEST_BODY or calls_out(jaxpr, PLAIN) or iterates(jaxpr):
        return None
    try:
        return program.reads()
    except NeedsArrays:
        return None


def _read(table: Array, i: Array, k: int) -> Array:
    return jax.lax.dynamic_slice(table, (i, jnp.asarray(k, i.dtype)), (1, 1)).reshape(())


def _written(tables: list[Array], i: Array, values: list[Array]) -> list[Array]:
    """The tables with their row i set to the values, one after the other."""
    left = iter(values)
    written = []
    for table in tables:
        for k in range(table.shape[1]):
            value = jnp.asarray(next(left), table.dtype).reshape(1, 1)
            table = jax.lax.dynamic_update_slice(table, value, (i, jnp.asarray(k, i.dtype)))
        written.append(table)
    return written


def _length(stacked: Tree) -> int:
    return jax.tree.leaves(stacked)[0].shape[0]
