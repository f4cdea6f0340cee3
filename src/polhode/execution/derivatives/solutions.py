"""Solutions of equations in programs that are recorded, marked with the equations by which they have derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import core
from jax.interpreters import batching, mlir

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


def _batched(args: Any, dims: Any, counts: tuple[int, int], **_: Any) -> tuple[list[Any], list[Any]]:
    # Of batches nothing is recorded.
    return list(args[sum(counts) :]), list(dims[sum(counts) :])


batching.primitive_batchers[_SOLUTION] = _batched
mlir.register_lowering(_SOLUTION, mlir.lower_fun(_same, multiple_results=True))


def marked(
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


def taken_apart(
    params: Any, inputs: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Of such an equation: what `equation` and `precondition` close over, the unknowns, and their place."""
    first, second = params["counts"]
    x = first + second
    place = x + params["unknowns"]
    return inputs[:first], inputs[first:x], inputs[x:place], inputs[place:]
