"""Functions for XLA: on scalars, cut into pieces that it compiles well, or on arrays for large ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend import core

from polhode.compiler import size_limits
from polhode.compiler.primitives.lowering import Backend
from polhode.compiler.scalars.cost import NO_LIBRARY, ONE_FUNCTION, calls_out, count_operations, iterates
from polhode.compiler.scalars.flat_lists import join, split
from polhode.compiler.scalars.traced_function import TracedFunction
from polhode.compiler.xla.fused_call import hidden_one, in_one_function
from polhode.compiler.xla.row_loop import lower_rows
from polhode.jax_context import IS_KNOWN, warn

_ON_HOST = Backend(lower_rows)


class CompileTimeWarning(UserWarning):
    """XLA compiles a long step or its derivative, which takes minutes where machine code would take seconds."""


def scalarise(fun: Callable, limit: float | None = None, one_kernel: bool = False) -> Callable:
    """`fun` with its arithmetic done on scalars, or on arrays if that takes more than `limit` operations.

    The default limit is `size_limits.XLA`.

    The count is that after removal of structural zeros and repeated expressions; the count before it decides whether
    to try. `one_kernel` is for functions that consist of a loop: see `in_one_function`. Only for functions that the
    library compiles itself, with all values as arguments, see `row_loop`.
    """

    if not IS_KNOWN:
        return fun

    def call(*args: Any) -> Any:
        program = TracedFunction(fun, *args, target=_ON_HOST)
        plain = not calls_out(program.closed_jaxpr.jaxpr, NO_LIBRARY)
        most = size_limits.XLA if limit is None else limit
        limit_here = most if plain else most / size_limits.XLA_LESS_WITH_LIBRARIES
        if program.cost > size_limits.WORTH_TRYING * limit_here:
            return program.call_on_arrays(*args)
        # All values come in as scalars, and the inputs are returned as well: XLA aborts on parameters that its own
        # simplifications leave unused.
        inputs, closed_over = split(args), program.constants()
        flat, n = [hidden_one(), *inputs, *closed_over], 1 + len(inputs)
        jaxpr = jax.make_jaxpr(jax.jit(lambda x: [*program(x[1:n], x[0], x[n:]), *x]))(flat)
        if count_operations(jaxpr.jaxpr) > limit_here:
            return program.call_on_arrays(*args)
        alone = one_kernel and plain and not calls_out(jaxpr.eqns[0].params["jaxpr"].jaxpr, ONE_FUNCTION)
        outs = in_one_function(jaxpr, flat) if alone else core.jaxpr_as_fun(jaxpr)(*flat)
        return join(outs[: -len(flat)], program.out_shape)

    return call


def carried_on_scalars(
    step: Callable, p: Any, x: Any, differentiated: bool = False
) -> tuple[Callable, Callable, Callable]:
    """A step of a scan that JAX may differentiate, with the carry as scalars where that is faster.

    Returns functions from `p` to the carry and back, and `step(p, x)` as a function of the carry and x. Warns with
    `CompileTimeWarning` where it is known to be `differentiated` and long.
    """
    if not IS_KNOWN:
        return (lambda p: p), (lambda p: p), step
    program = TracedFunction(step, p, x)
    if differentiated and program.cost > size_limits.XLA_DIFFERENTIATED:
        size = f"some {program.cost:,.0f}" if program.cost < math.inf else "very many"
        warn(
            f"XLA compiles this derivative of a run with {size} operations in a step, as all inside "
            "jit and vmap and second ones, which takes minutes or more. First ones by `jax.grad`, `jax.jacrev` or "
            "`jax.jacfwd` without jit and vmap around them are machine code, ready in seconds.",
            CompileTimeWarning,
        )
    # Implicit solutions have custom derivatives, which unrolling would lose.
    if program.cost > size_limits.XLA_DIFFERENTIATED or iterates(program.closed_jaxpr.jaxpr):
        return (lambda p: p), (lambda p: p), step
    one = hidden_one()
    return split, (lambda flat: join(flat, p)), (lambda flat, x: program([*flat, *split(x)], one))
