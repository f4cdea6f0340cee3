"""Solutions of equations in programs that are recorded, marked with the equations by which they have derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.interpreters import ad, batching, mlir

from polhode.compiler.autodiff import refined_solve

Tree = Any

SOLUTION = "solution"
"""The name of what gives solutions as they are, and holds the equation that they fulfil."""

_SOLUTION = core.Primitive(SOLUTION)
_SOLUTION.multiple_results = True


@_SOLUTION.def_abstract_eval
def _types(*avals: Any, counts: tuple[int, int], **_: Any) -> list[Any]:
    return list(avals[sum(counts) :])


@_SOLUTION.def_impl
def _same(*args: Any, counts: tuple[int, int], **_: Any) -> list[Any]:
    return list(args[sum(counts) :])


def _batching_rule(args: Any, dims: Any, counts: tuple[int, int], **_: Any) -> tuple[list[Any], list[Any]]:
    # Of batches nothing is recorded.
    return list(args[sum(counts) :]), list(dims[sum(counts) :])


def _jvp_rule(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    counts: tuple[int, int],
    equation: core.Jaxpr,
    precondition: core.Jaxpr,
    unknowns: int,
) -> tuple[list[Any], list[Any]]:
    """Of a record that JAX differentiates: that of the equation, whatever the unknowns' own is."""
    first, second, x, place = split_operands({"counts": counts, "unknowns": unknowns}, primals)
    dots = dict(enumerate(tangents[: counts[0]]))
    active = [k for k, dot in dots.items() if not isinstance(dot, ad.Zero)]
    if not active:
        return [*x, *place], [jnp.zeros_like(value) for value in (*x, *place)]
    parts = len(equation.outvars) - len(place)

    def equate(values: Sequence[Any], x: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        by_place = dict(zip(active, values, strict=True))
        outs = core.jaxpr_as_fun(core.ClosedJaxpr(equation, [by_place.get(k, c) for k, c in enumerate(first)]))(*x)
        return outs[:parts], outs[parts:]

    frozen, frozen_x = jax.lax.stop_gradient((list(second), list(x)))
    correct = core.jaxpr_as_fun(core.ClosedJaxpr(precondition, frozen))
    at = [first[k] for k in active]
    x_dot, place_dot = solution_jvp(equate, lambda b: correct(*frozen_x, *b), at, [dots[k] for k in active], list(x))
    return [*x, *place], [*x_dot, *place_dot]


ad.primitive_jvps[_SOLUTION] = _jvp_rule
batching.primitive_batchers[_SOLUTION] = _batching_rule
mlir.register_lowering(_SOLUTION, mlir.lower_fun(_same, multiple_results=True))


def mark_solution(
    equation: core.ClosedJaxpr,
    precondition: core.ClosedJaxpr,
    closed_over: tuple[Sequence[Any], Sequence[Any]],
    x: Tree,
    place: Tree,
) -> tuple[Tree, Tree]:
    """`x` and `place` as they are, with the derivatives of a solution of F(x) = 0 where the record is derived.

    `equation` gives F and the place from x, `precondition` an approximation of $F_x^{-1}b$, linear in b, from x and b;
    both take what they close over first.
    """
    flat, structure = jax.tree.flatten((x, place))
    first, second = closed_over
    outs = _SOLUTION.bind(
        *first,
        *second,
        *flat,
        counts=(len(first), len(second)),
        equation=equation.jaxpr,
        precondition=precondition.jaxpr,
        unknowns=len(jax.tree.leaves(x)),
    )
    return jax.tree.unflatten(structure, outs)


def split_operands(
    params: Any, inputs: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Of such an equation: what `equation` and `precondition` close over, the unknowns, and their place."""
    first, second = params["counts"]
    x = first + second
    place = x + params["unknowns"]
    return inputs[:first], inputs[first:x], inputs[x:place], inputs[place:]


def solution_jvp(
    equation: Callable[[Tree, Tree], tuple[Tree, Tree]],
    precondition: Callable[[Tree], Tree],
    at: Tree,
    dots: Tree,
    x: Tree,
) -> tuple[Tree, Tree]:
    r"""The derivatives of the solution and of its place, with those of what the equation depends on besides.

    `equation(at, x)` gives F and the place. With $F_x\dot x = -\dot F$, the exact derivative $F_x$ is applied and never
    formed; `precondition` is an approximation of its inverse.
    """
    residual_dot, place_dot = jax.jvp(lambda at: equation(at, x), (at,), (dots,))[1]
    # What doesn't depend on the direction is worked out once for all of them.
    _, derivative = jax.linearize(lambda x: equation(at, x), x)
    minus = jax.tree.map(jnp.negative, residual_dot)
    x_dot = refined_solve.solution(lambda d: derivative(d)[0], precondition, minus, x)
    return x_dot, jax.tree.map(jnp.add, place_dot, derivative(x_dot)[1])
