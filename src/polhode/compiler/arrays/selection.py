"""Choice between unrolled scalars and fused array loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jax.extend import core

from polhode.compiler import size_limits
from polhode.compiler.jaxprs import callee, parameters
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.scalars.cost import count_operations
from polhode.compiler.scalars.look_up import VIEWS_OF_ARRAYS, looked_up
from polhode.compiler.scalars.primitives import SCATTERS

_READ_INDICES = {"gather": slice(1, None), "dynamic_slice": slice(1, None), "dynamic_update_slice": slice(2, None)}
_WRITE_INDICES = slice(1, 2)


def has_dynamic_indices(
    jaxpr: core.Jaxpr, is_constant: Sequence[bool] = (), is_read: Sequence[bool] = ()
) -> bool:
    """Whether a program has data-dependent indices, or sorts.

    `is_constant`: which arguments are constants; none by default. `is_read`: into which arguments indices don't count.
    """
    constants = set(jaxpr.constvars)
    constants.update(v for v, k in zip(jaxpr.invars, is_constant, strict=False) if k)
    arrays = {v for v, k in zip(jaxpr.invars, is_read, strict=False) if k}
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        constant_inputs = [isinstance(v, core.Literal) or v in constants for v in eqn.invars]
        read_inputs = [not isinstance(v, core.Literal) and v in arrays for v in eqn.invars]
        where = _WRITE_INDICES if name == "scatter" or name in SCATTERS else _READ_INDICES.get(name, slice(0, 0))
        if any(read_inputs[:1]) and name in (*_READ_INDICES, *VIEWS_OF_ARRAYS):
            arrays.update(eqn.outvars)
        elif not all(constant_inputs[where]) or (name == "sort" and not all(constant_inputs)):
            return True
        inside = zip(_subprograms(eqn, constant_inputs, False), _subprograms(eqn, read_inputs, True), strict=True)
        if any(has_dynamic_indices(inner, known, reads) for (inner, known), (_, reads) in inside):
            return True
        if all(constant_inputs):
            constants.update(eqn.outvars)
    return False


def compile_either(
    jaxpr: core.Jaxpr,
    on_arrays: Callable[[], CompiledFunction],
    on_scalars: Callable[[], CompiledFunction],
    cost: float = math.inf,
) -> CompiledFunction:
    """Machine code of a program: fused array loops for large programs and data-dependent indexing, else scalars.

    `cost` is an estimate of its operations on scalars, which are preferred as long as they compile faster. Raises
    `UnsupportedNativeOperation` where neither works.
    """
    first, second = (on_arrays, on_scalars) if _suits_arrays(jaxpr, cost) else (on_scalars, on_arrays)
    try:
        return first()
    except UnsupportedNativeOperation as reason:
        try:
            return second()
        except UnsupportedNativeOperation:
            # Report the error of the preferred choice.
            raise reason from None


def _suits_arrays(jaxpr: core.Jaxpr, cost: float) -> bool:
    """Whether array loops are expected to be faster to compile or run than unrolled scalars."""
    like: list[Any] = [v.aval for v in jaxpr.invars]
    reads = looked_up(jaxpr)
    numbers = sum(math.prod(aval.shape) for aval, is_read in zip(like, reads, strict=True) if not is_read)
    if numbers > size_limits.ON_ARRAYS:
        count = count_operations(jaxpr)
        return count <= size_limits.OPERATIONS_ON_ARRAYS and cost > size_limits.SCALARS_EACH * count
    return numbers > size_limits.SELECTED_NUMBERS and has_dynamic_indices(jaxpr, is_read=reads)


def _subprograms(eqn: Any, inputs: list[bool], rows: bool) -> list[tuple[core.Jaxpr, list[bool]]]:
    """Programs inside an operation, and which of their arguments are constants, or arrays that are only read.

    `rows`: whether parts of arrays in rows of loops are, too.
    """
    call = callee(eqn)
    if call is not None:
        return [(call[0], inputs)]
    name, p = eqn.primitive.name, parameters(eqn)
    if name == "while":
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        return [(p["cond_jaxpr"].jaxpr, inputs[:nc]), (p["body_jaxpr"].jaxpr, inputs[nc : nc + nb])]
    if name == "scan":
        of_rows = inputs[p["num_consts"] + p["num_carry"] :]
        # Rows differ from each other, even constant ones.
        of_body = [*inputs[: p["num_consts"]], *[False] * p["num_carry"], *(x and rows for x in of_rows)]
        return [(p["jaxpr"].jaxpr, of_body)]
    if name == "cond":
        return [(branch.jaxpr, inputs[1:]) for branch in p["branches"]]
    return []
