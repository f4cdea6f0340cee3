"""JAX's programs in one form for all versions of JAX, which differ in the names of parameters.

Everything that this library reads of them besides operands and results is read here: the programs that operations
call, and the parameters of loops and branches. `tests/compiler/test_jaxprs.py` names each assumption.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    # The name since JAX 0.11.
    "eval_jaxpr": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    # A primitive of this package.
    "elimination": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}
"""By operations that call a program, the parameter that holds it."""

_TO_LOWER = "call_hi_primitive"
"""The name of operations that JAX lowers to others when it compiles; since 0.11."""

_TILE = "tile"
"""The name of repetition along axes, an operation of its own since 0.12."""

LINEAR_SOLVE = "custom_linear_solve"
"""The name of the operation that holds a linear map and programs that solve with it."""

Callee = tuple[core.Jaxpr, Sequence[Any]]
"""A program and its constants."""


def open_jaxpr(jaxpr: Any) -> Callee:
    """A program and its constants, closed or not."""
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, core.ClosedJaxpr) else (jaxpr, ())


def callee(eqn: Any) -> Callee | None:
    """The program that an operation calls with its operands; None if it calls none."""
    name = eqn.primitive.name
    if name in _CALLS:
        return open_jaxpr(eqn.params[_CALLS[name]])
    return open_jaxpr(lower_equation(eqn)) if is_high_level(eqn) else None


def is_high_level(eqn: Any) -> bool:
    """Whether JAX lowers an operation to others only when it compiles."""
    return eqn.primitive.name in (_TO_LOWER, _TILE)


def lower_equation(eqn: Any) -> core.ClosedJaxpr:
    """The lowered form of such an operation."""
    primitive: Any = eqn.primitive
    lower = functools.partial(_tile if primitive.name == _TILE else primitive.to_lojax, **eqn.params)
    return jax.make_jaxpr(lower)(*(v.aval for v in eqn.invars))


def _tile(x: jax.Array, reps: Sequence[int]) -> jax.Array:
    """The array repeated along its axes, by operations of all versions of JAX."""
    pairs = [size for pair in zip(reps, x.shape, strict=True) for size in pair]
    repeated = jax.lax.broadcast_in_dim(x, pairs, range(1, len(pairs), 2))
    return repeated.reshape([n * size for n, size in zip(reps, x.shape, strict=True)])


def parameters(eqn: Any) -> Mapping[str, Any]:
    """The parameters of an operation; of a scan those that `row_loop.ROWS` has, in all versions of JAX."""
    params = eqn.params
    if eqn.primitive.name != "scan" or "ft_in" not in params:
        return params
    consts, carry, _ = params["ft_in"].unpack()
    common = {key: params[key] for key in ("jaxpr", "length", "reverse")}
    return {**common, "num_consts": len(consts), "num_carry": len(carry)}


def scan(eqn: Any) -> Any:
    """A loop over rows, `row_loop.ROWS`, as JAX's scan."""
    params = eqn.params
    counts = params["num_consts"], params["num_carry"]
    alike = _scan(*counts, len(eqn.invars) - sum(counts), len(eqn.outvars) - counts[1])
    common = {key: params[key] for key in ("jaxpr", "length", "reverse")}
    return eqn.replace(primitive=core.primitives.scan_p, params={**alike, **common})


@functools.cache
def _scan(consts: int, carry: int, rows: int, outs: int) -> dict[str, Any]:
    """The remaining parameters of a scan with these counts of operands, taken from a trace by JAX."""

    def scan_all(consts_: list[Any], start: list[Any], tables: list[Any]) -> Any:
        def step(carry_: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            # Everything depends on everything: JAX moves the rest out of the loop.
            total = sum((*consts_, *carry_, *row))
            return [x + total for x in carry_], [total * (2 + k) for k in range(outs)]

        return jax.lax.scan(step, start, tables)

    numbers = [np.zeros(())] * consts, [np.zeros(())] * carry, [np.zeros(1)] * rows
    return next(
        eqn for eqn in jax.make_jaxpr(scan_all)(*numbers).eqns if eqn.primitive is core.primitives.scan_p
    ).params


def solve_program(params: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The program that solves a linear system, and its arguments."""
    lengths = params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    return params["jaxprs"].solve, [*inputs[before : before + lengths.solve], *inputs[sum(lengths) :]]


def linear_map(params: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The program of the linear map of such a system, and its arguments besides the vector."""
    return params["jaxprs"].matvec, list(inputs[: params["const_lengths"].matvec])
