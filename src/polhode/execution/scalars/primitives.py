"""Which primitives are arithmetic, element by element, and which hold a program of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax.extend import core

SUBCALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    # As JAX 0.11 calls it.
    "eval_jaxpr": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}

ELEMENTWISE = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "add_any",
        "and",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "ceil",
        "clamp",
        "convert_element_type",
        "copy",
        "copy_p",
        "cos",
        "cosh",
        "div",
        "eq",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "ge",
        "gt",
        "integer_pow",
        "is_finite",
        "le",
        "lgamma",
        "log",
        "log1p",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "nextafter",
        "not",
        "or",
        "pow",
        "real",
        "rem",
        "round",
        "rsqrt",
        "select_n",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "stop_gradient",
        "sub",
        "tan",
        "tanh",
        "xor",
    ]
)

REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "mul",
    "reduce_and": "and",
    "reduce_or": "or",
}

OF_NOTHING = {
    "reduce_sum": 0,
    "reduce_prod": 1,
    "reduce_max": -math.inf,
    "reduce_min": math.inf,
    "reduce_and": True,
    "reduce_or": False,
}
"""Reductions of no elements."""

SCATTERS = {
    "scatter-add": "add",
    "scatter-sub": "sub",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}


def opened(jaxpr: Any) -> tuple[core.Jaxpr, Sequence[Any]]:
    """A program and its constants, closed or not."""
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, core.ClosedJaxpr) else (jaxpr, ())


LINEAR_SOLVE = "custom_linear_solve"
"""The name of what holds a linear map and programs that solve with it."""


def solved(params: Any, inputs: Sequence[Any]) -> tuple[core.ClosedJaxpr, list[Any]]:
    """The program by which such an equation is solved, and its arguments."""
    lengths = params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    return params["jaxprs"].solve, [*inputs[before : before + lengths.solve], *inputs[sum(lengths) :]]
