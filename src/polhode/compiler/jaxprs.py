"""JAX's programs in one form: under which names its operations keep their parts differs from version to version.

What this library reads of them besides operands and results, it reads here: the programs that operations call, and the
parameters of those that repeat or choose. `tests/compiler/test_jaxprs.py` names each assumption.
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
    # As JAX calls it since 0.11.
    "eval_jaxpr": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}
"""Operations that call a program, and the parameter that holds it."""

_TO_LOWER = "call_hi_primitive"
"""The name of an operation that JAX writes in terms of others when it compiles; since 0.11."""

LINEAR_SOLVE = "custom_linear_solve"
"""The name of what holds a linear map and programs that solve with it."""

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
    """Whether an operation is one that JAX writes in terms of others only when it compiles."""
    return eqn.primitive.name == _TO_LOWER


def lower_equation(eqn: Any) -> core.ClosedJaxpr:
    """Such an operation in terms of others."""
    primitive: Any = eqn.primitive
    return jax.make_jaxpr(lambda *x: primitive.to_lojax(*x, **eqn.params))(*(v.aval for v in eqn.invars))


def parameters(eqn: Any) -> Mapping[str, Any]:
    """The parameters of an operation; those of a loop over rows as `rows.ROWS` has them, in all versions of JAX."""
    params = eqn.params
    if eqn.primitive.name != "scan" or "ft_in" not in params:
        return params
    consts, carry, _ = params["ft_in"].unpack()
    common = {key: params[key] for key in ("jaxpr", "length", "reverse")}
    return {**common, "num_consts": len(consts), "num_carry": len(carry)}


def scan(eqn: Any) -> Any:
    """A loop over rows, `rows.ROWS`, as JAX's own."""
    params = eqn.params
    counts = params["num_consts"], params["num_carry"]
    alike = _scan(*counts, len(eqn.invars) - sum(counts), len(eqn.outvars) - counts[1])
    common = {key: params[key] for key in ("jaxpr", "length", "reverse")}
    return eqn.replace(primitive=core.primitives.scan_p, params={**alike, **common})


@functools.cache
def _scan(consts: int, carry: int, rows: int, outs: int) -> dict[str, Any]:
    """The parameters of a scan of so many numbers: JAX writes down their counts, itself knows how."""

    def scan_all(consts_: list[Any], start: list[Any], tables: list[Any]) -> Any:
        def step(carry_: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            # Everything depends on everything: what does not would be taken out of the loop.
            total = sum((*consts_, *carry_, *row))
            return [x + total for x in carry_], [total * (2 + k) for k in range(outs)]

        return jax.lax.scan(step, start, tables)

    numbers = [np.zeros(())] * consts, [np.zeros(())] * carry, [np.zeros(1)] * rows
    return next(
        eqn for eqn in jax.make_jaxpr(scan_all)(*numbers).eqns if eqn.primitive is core.primitives.scan_p
    ).params


def solve_program(params: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The program by which a linear system is solved, and its arguments."""
    lengths = params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    return params["jaxprs"].solve, [*inputs[before : before + lengths.solve], *inputs[sum(lengths) :]]


def linear_map(params: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The program of the linear map of such a system, and what it takes besides a vector."""
    return params["jaxprs"].matvec, list(inputs[: params["const_lengths"].matvec])
