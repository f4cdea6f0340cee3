"""Solutions of equations as a primitive, with the equations by which they are differentiated implicitly."""

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
"""The name of the primitive that returns a solution, with its equation as a parameter."""

_SOLUTION = core.Primitive(SOLUTION)
_SOLUTION.multiple_results = True


@_SOLUTION.def_abstract_eval
def _types(*avals: Any, counts: tuple[int, int], **_: Any) -> list[Any]:
    return list(avals[sum(counts) :])


@_SOLUTION.def_impl
def _same(*args: Any, counts: tuple[int, int], **_: Any) -> list[Any]:
    return list(args[sum(counts) :])


def _batching_rule(args: Any, dims: Any, counts: tuple[int, int], **_: Any) -> tuple[list[Any], list[Any]]:
    # Batches are not differentiated by the equation.
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
    """The implicit derivative by the equation, for traces that JAX differentiates."""
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
    """`x` and `place` unchanged, with the derivatives of a solution of F(x) = 0 where the trace is differentiated.

    `equation` gives F and the place from x, `precondition` an approximation of $F_x^{-1}b$, linear in b, from x and b;
    both take the values that they close over first.
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
    """The operands of such an equation: those of `equation` and of `precondition`, the unknowns, and their place."""
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
    r"""The tangents of the solution and of its place, from those of the equation's parameters.

    `equation(at, x)` gives F and the place. With $F_x\dot x = -\dot F$, the exact derivative $F_x$ is applied and never
    formed; `precondition` is an approximation of its inverse.
    """
    residual_dot, place_dot = jax.jvp(lambda at: equation(at, x), (at,), (dots,))[1]
    # The part that doesn't depend on the tangent is computed once for all of them.
    _, derivative = jax.linearize(lambda x: equation(at, x), x)
    minus = jax.tree.map(jnp.negative, residual_dot)
    x_dot = refined_solve.solution(lambda d: derivative(d)[0], precondition, minus, x)
    return x_dot, jax.tree.map(jnp.add, place_dot, derivative(x_dot)[1])
