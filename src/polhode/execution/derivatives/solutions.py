"""Solutions of equations in programs that are recorded, marked with the equations by which they have derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core

Tree = Any

SOLUTION = "solution"
"""The name of what gives solutions as they are, and holds the equation that they fulfil."""

_SOLUTION = core.Primitive(SOLUTION)
_SOLUTION.multiple_results = True


@_SOLUTION.def_abstract_eval
def _types(*avals: Any, counts: tuple[int, int], **_: Any) -> list[Any]:
    return list(avals[sum(counts) :])


def marked(
    equation: Callable[[Tree], tuple[Tree, Tree]], precondition: Callable[[Tree, Tree], Tree], x: Tree, place: Tree
) -> tuple[Tree, Tree]:
    """`x` and `place` with the derivatives of a solution of F(x) = 0, in programs that are recorded to be derived.

    `equation(x)` returns (F(x), place), `precondition(x, b)` an approximation of $F_x^{-1}b$, linear in b.
    """
    flat, structure = jax.tree.flatten((x, place))
    equations, (parts, _) = jax.make_jaxpr(equation, return_shape=True)(x)
    preconditions = jax.make_jaxpr(precondition)(x, parts)
    outs = _SOLUTION.bind(
        *equations.consts,
        *preconditions.consts,
        *flat,
        counts=(len(equations.consts), len(preconditions.consts)),
        equation=equations.jaxpr,
        precondition=preconditions.jaxpr,
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
