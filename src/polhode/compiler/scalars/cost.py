"""Number of scalar operations of a program, before and after unrolling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from polhode.compiler.jaxprs import LINEAR_SOLVE, callee, open_jaxpr, solve_program
from polhode.compiler.primitives.implicit_solution import SOLUTION
from polhode.compiler.primitives.row_loop import ROWS
from polhode.compiler.scalars.data_movement import MOVES
from polhode.compiler.scalars.decompositions import DECOMPOSITIONS, decompose
from polhode.compiler.scalars.primitives import ELEMENTWISE, REDUCTIONS, SCATTERS

NO_LIBRARY = frozenset((*ELEMENTWISE, *MOVES, *REDUCTIONS, *SCATTERS, *DECOMPOSITIONS, "dot_general"))
"""Primitives that need no library."""

ONE_FUNCTION = NO_LIBRARY - {"scatter", *SCATTERS}
"""Primitives that one machine function may contain: a data-dependent scatter becomes a loop of its own."""


def cost(jaxpr: Any, is_constant: Sequence[bool] = (), scans: bool = False) -> float:
    """Number of scalar operations that `jaxpr` unrolls to; infinite if something in it must stay on arrays.

    Arithmetic of constant indices is free. `is_constant`: which arguments are such constants; none by default. `scans`:
    whether a scan is a loop, whose body counts once, as do its inputs and outputs, or must stay on arrays.
    """
    return _Cost(scans, {}).of(jaxpr, tuple(is_constant))


def cost_of_code(jaxpr: Any) -> float:
    """The same where scans are loops and later calls of the same program are free, as those of procedures are."""
    return _Cost(True, {}, free_calls=True).of(jaxpr)


class _Cost(NamedTuple):
    """The count; `earlier`: results of programs that are called several times. `free_calls`: whether these are zero."""

    scans: bool
    earlier: dict[Any, float]
    free_calls: bool = False

    def of(self, jaxpr: Any, is_constant: tuple[bool, ...] = ()) -> float:
        key = jaxpr, is_constant
        if key in self.earlier:
            return 0.0 if self.free_calls else self.earlier[key]
        self.earlier[key] = _sum_of_costs(jaxpr, is_constant, self.scans, self.of)
        return self.earlier[key]


def _sum_of_costs(jaxpr: Any, is_constant: tuple[bool, ...], scans: bool, of: Callable[..., float]) -> float:
    constants = {v for v in jaxpr.constvars if not np.issubdtype(v.aval.dtype, np.inexact)}
    constants.update(v for v, k in zip(jaxpr.invars, is_constant, strict=False) if k)
    total = 0.0
    for eqn in jaxpr.eqns:
        size = sum(math.prod(v.aval.shape) for v in eqn.outvars)
        name = eqn.primitive.name
        constant_inputs = tuple(isinstance(v, core.Literal) or v in constants for v in eqn.invars)
        if all(constant_inputs) and name in NO_LIBRARY:
            constants.update(eqn.outvars)
        elif (call := callee(eqn)) is not None:
            total += of(call[0], constant_inputs)
        elif name == SOLUTION:
            total += sum(of(open_jaxpr(eqn.params[part])[0]) for part in ("equation", "precondition"))
        elif name == LINEAR_SOLVE and scans:
            total += of(solve_program(eqn.params, [])[0].jaxpr)
        elif name == "while":
            parts = eqn.params["body_jaxpr"], eqn.params["cond_jaxpr"]
            total += sum(of(part.jaxpr) for part in parts)
        elif name == "cond":
            total += sum(of(b.jaxpr) for b in eqn.params["branches"])
        elif name == "scan" or eqn.primitive is ROWS:
            if not scans:
                return math.inf
            total += of(eqn.params["jaxpr"].jaxpr)
            total += size + sum(math.prod(v.aval.shape) for v in eqn.invars)
        elif name == "dot_general":
            (lhs, _), _ = eqn.params["dimension_numbers"]
            total += 2 * size * math.prod(eqn.invars[0].aval.shape[d] for d in lhs)
        elif name in REDUCTIONS:
            total += math.prod(eqn.invars[0].aval.shape)
        elif name in SCATTERS:
            total += math.prod(eqn.invars[2].aval.shape)
        elif name in DECOMPOSITIONS:
            total += of(decompose(eqn).jaxpr)
        elif name in ELEMENTWISE:
            total += size
        elif name not in MOVES:
            # Packing and unpacking around a foreign primitive.
            total += size + sum(math.prod(v.aval.shape) for v in eqn.invars)
    return total


def count_operations(jaxpr: Any, earlier: dict[int, int] | None = None) -> int:
    """Number of equations of a program on scalars, loops and branches included once.

    `earlier`: results of programs that are called several times, by their addresses.
    """
    earlier = {} if earlier is None else earlier
    if id(jaxpr) not in earlier:
        total = 0
        for eqn in jaxpr.eqns:
            values = list(eqn.params.values())
            inner = [v for v in values if isinstance(v, core.Jaxpr | core.ClosedJaxpr)]
            inner += [j for v in values if isinstance(v, tuple) for j in v if isinstance(j, core.ClosedJaxpr)]
            total += sum(count_operations(open_jaxpr(j)[0], earlier) for j in inner) if inner else 1
        earlier[id(jaxpr)] = total
    return earlier[id(jaxpr)]


def calls_out(jaxpr: core.Jaxpr, plain: frozenset[str]) -> bool:
    """Whether `jaxpr` contains anything but `plain` primitives, which one machine function can't."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        call = callee(eqn)
        inner = [] if call is None else [call[0]]
        if name == "while":
            inner = [eqn.params["body_jaxpr"].jaxpr, eqn.params["cond_jaxpr"].jaxpr]
        elif name == "cond":
            inner = [b.jaxpr for b in eqn.params["branches"]]
        if any(calls_out(j, plain) for j in inner) or not (inner or name in plain):
            return True
    return False


def iterates(jaxpr: core.Jaxpr) -> bool:
    """Whether a step solves equations iteratively: unrolling would lose the rules of its derivatives."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "while":
            return True
        call = callee(eqn)
        if call is not None and iterates(call[0]):
            return True
    return False
